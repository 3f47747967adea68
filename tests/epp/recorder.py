"""A server with OpenAI's paths whose answers are known to the byte. Prints its address, then serves.

    POST …/completions   a stream of EVENTS if the body asks for one, or else JSON with the body's digest
    GET /health, /v1/models, anything else: small JSON

The header `x-pause` makes a stream wait so many seconds before each part.
"""

import hashlib
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Odd on purpose: comments, both line ends, an event across parts, text that is not ASCII, usage at the end.
EVENTS = [
    b": a comment\r\n\r\ndata: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assist",
    b"ant\",\"content\":\"\"}}]}\r\n\r\n",
    b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"caf\xc3",
    b"\xa9\"}}]}\n\n",
    *[b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word%d\"}}]}\n\n" % i for i in range(20)],
    b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":21,"
    b"\"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\n",
    b"data: [DONE]\n\n",
]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def json(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/v1/models":
            return self.json({"object": "list", "data": [{"id": "recorded", "object": "model"}]})
        return self.json({"path": self.path})

    def body(self):
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        whole = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def do_POST(self):
        body = self.body()
        try:
            stream = json.loads(body).get("stream", False)
        except (ValueError, AttributeError):
            stream = False
        if not stream:
            usage = {"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 32}}
            digest = hashlib.sha256(body).hexdigest()
            return self.json({"bytes": len(body), "sha256": digest, "choices": [], "usage": usage})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        pause = float(self.headers.get("x-pause", 0))
        for part in EVENTS:
            time.sleep(pause)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    print(f"127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdout.close()
    server.serve_forever()
