"""The model loader against servers that behave as real ones do on bad days."""

import contextlib
import hashlib
import http.server
import importlib.util
import io
import json
import pathlib
import tempfile
import threading
import unittest
import urllib.parse

from render import DEPLOY

PATH = DEPLOY / "kubernetes/components/model-loader/load_model.py"
SPEC = importlib.util.spec_from_file_location("load_model", PATH)
load_model = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(load_model)

WEIGHTS = bytes(range(256)) * 4096
CONFIG = b'{"architectures": []}'
SHA = hashlib.sha256(WEIGHTS).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """A hub, a bucket and a host that the hub redirects to. A test sets what it does wrong."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []
        self.breaks = 0
        self.ranges = True
        self.sha = SHA
        self.size = len(WEIGHTS)
        self.elsewhere = None

    def address(self, host="127.0.0.1"):
        return f"http://{host}:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server, path = self.server, urllib.parse.urlsplit(self.path).path
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        server.asked.append(
            (self.path, self.headers.get("Range"), self.headers.get("Authorization"))
        )
        if path == "/api/models/owner/name/revision/main":
            self.answer(json.dumps({"sha": "abc"}).encode())
        elif path == "/api/models/owner/name/tree/abc" and "cursor" not in query:
            entries = [
                {"type": "directory", "path": "deep", "size": 0, "oid": "d"},
                {"type": "file", "path": "config.json", "size": len(CONFIG), "oid": "c" * 40},
            ]
            following = f'<{server.address()}{path}?recursive=true&cursor=2>; rel="next"'
            self.answer(json.dumps(entries).encode(), {"Link": following})
        elif path == "/api/models/owner/name/tree/abc":
            weights = {"oid": server.sha, "size": server.size}
            entry = {
                "type": "file",
                "path": "deep/weights",
                "size": server.size,
                "oid": "w" * 40,
                "lfs": weights,
            }
            self.answer(json.dumps([entry]).encode())
        elif path == "/owner/name/resolve/abc/deep/weights" and server.elsewhere:
            self.send_response(302)
            self.send_header("Location", f"{server.elsewhere}/large")
            self.end_headers()
        elif path in ("/owner/name/resolve/abc/deep/weights", "/large", "/bucket/models/m/weights"):
            self.content(WEIGHTS)
        elif path == "/owner/name/resolve/abc/config.json":
            self.content(CONFIG)
        elif path == "/bucket":
            more = (
                ""
                if "continuation-token" in query
                else "<NextContinuationToken>t</NextContinuationToken>"
            )
            listed = (
                "<Contents><Key>models/m/</Key><Size>0</Size></Contents>"
                if more
                else (
                    f'<Contents><Key>models/m/weights</Key><Size>{server.size}</Size><ETag>"e"</ETag></Contents>'
                )
            )
            namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
            self.answer(
                f'<ListBucketResult xmlns="{namespace}">{listed}{more}</ListBucketResult>'.encode()
            )
        else:
            self.send_error(404)

    def answer(self, body, headers=()):
        self.send_response(200)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def content(self, body):
        start = (
            int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if self.server.ranges
            else 0
        )
        self.send_response(206 if self.server.ranges else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        body = body[start:]
        if self.server.breaks and len(body) > 1000:
            self.server.breaks -= 1
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(body)


class Loading(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "m"
        # Waiting is not what is tested.
        load_model.time = type("Clock", (), {"sleep": staticmethod(lambda _: None)})

    def load(self, source="hf://owner/name", **environment):
        said = io.StringIO()
        places = {"HF_ENDPOINT": self.server.address(), "AWS_ENDPOINT_URL": self.server.address()}
        with contextlib.redirect_stdout(said):
            load_model.main(
                places | {"SOURCE": source, "DESTINATION": str(self.folder)} | environment
            )
        return said.getvalue()

    def files(self):
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }

    def ranges(self):
        return [asked[1] for asked in self.server.asked if asked[0].endswith("weights")]

    def test_everything_of_one_commit_is_loaded_and_then_kept(self):
        self.load()
        self.assertEqual(self.files(), {"config.json": CONFIG, "deep/weights": WEIGHTS})
        self.server.asked.clear()
        self.assertIn("0 to load", self.load())
        self.assertEqual(self.ranges(), [])

    def test_a_connection_that_breaks_is_gone_on_with(self):
        self.server.breaks = 2
        self.load()
        self.assertEqual(self.files()["deep/weights"], WEIGHTS)
        half, quarter = len(WEIGHTS) // 2, len(WEIGHTS) * 3 // 4
        self.assertEqual(self.ranges(), ["bytes=0-", f"bytes={half}-", f"bytes={quarter}-"])

    def test_a_part_of_an_earlier_run_is_gone_on_with(self):
        part = self.folder / f"deep/weights.{SHA[:12]}.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(WEIGHTS[:1000])
        self.assertIn(f"{len(WEIGHTS) + len(CONFIG) - 1000:,} bytes", self.load())
        self.assertEqual(self.ranges(), ["bytes=1000-"])
        self.assertEqual(self.files(), {"config.json": CONFIG, "deep/weights": WEIGHTS})

    def test_a_part_of_other_content_is_not_continued(self):
        part = self.folder / "deep/weights.otherotherot.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(b"other")
        self.load()
        self.assertEqual(self.ranges(), ["bytes=0-"])

    def test_a_server_without_ranges_sends_all_again(self):
        self.server.breaks, self.server.ranges = 1, False
        self.load()
        self.assertEqual(self.files()["deep/weights"], WEIGHTS)

    def test_a_file_of_the_wrong_size_is_loaded_again(self):
        self.load()
        (self.folder / "deep/weights").write_bytes(WEIGHTS[:-1])
        self.assertIn("1 to load", self.load())
        self.assertEqual(self.files()["deep/weights"], WEIGHTS)

    def test_content_that_is_not_what_was_announced_gets_no_name(self):
        self.server.sha = "0" * 64
        with self.assertRaisesRegex(EOFError, "not what was announced"):
            self.load()
        self.assertEqual(self.files(), {"config.json": CONFIG})

    def test_a_file_that_is_shorter_than_announced_gets_no_name(self):
        self.server.size += 1
        with self.assertRaises((EOFError, OSError)):
            self.load()
        self.assertNotIn("deep/weights", self.files())

    def test_the_token_stays_with_the_hub(self):
        other = Server()
        threading.Thread(target=other.serve_forever, daemon=True).start()
        self.addCleanup(other.server_close)
        self.addCleanup(other.shutdown)
        self.server.elsewhere = other.address("localhost")
        self.load(HF_TOKEN="secret")
        self.assertEqual(self.files()["deep/weights"], WEIGHTS)
        self.assertEqual({asked[2] for asked in self.server.asked}, {"Bearer secret"})
        self.assertEqual([asked[2] for asked in other.asked], [None])

    def test_a_bucket(self):
        self.server.breaks = 1
        self.load(
            "s3://bucket/models/m",
            AWS_ACCESS_KEY_ID="k",
            AWS_SECRET_ACCESS_KEY="s",
            AWS_REGION="nyc3",
        )
        self.assertEqual(self.files(), {"weights": WEIGHTS})
        self.assertTrue(
            all(
                asked[2].startswith("AWS4-HMAC-SHA256 Credential=k/") for asked in self.server.asked
            )
        )

    def test_several_models_go_to_a_folder_each(self):
        both = f"{self.folder} {self.folder.parent / 'draft'}"
        self.load("hf://owner/name hf://owner/name", DESTINATION=both)
        draft = (self.folder.parent / "draft/config.json").read_bytes()
        self.assertEqual((self.files()["config.json"], draft), (CONFIG, CONFIG))
        with self.assertRaisesRegex(load_model.Unusable, "2 sources in SOURCE, 1 folders"):
            self.load("hf://owner/name hf://owner/name")

    def test_what_does_not_help_to_repeat_is_said(self):
        for source in ["hf://owner/other", "ftp://x", "s3://", "hf://", ""]:
            with self.assertRaises(load_model.Unusable):
                self.load(source)
        with self.assertRaisesRegex(load_model.Unusable, "leads out"):
            load_model.inside(self.folder, "../../etc/passwd")

    def test_the_signature_is_that_of_the_published_example(self):
        bucket = load_model.Bucket(
            "examplebucket",
            {
                "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
                "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            },
        )
        host = "examplebucket.s3.amazonaws.com"
        headers = bucket.signed(host, "/test.txt", "", {"Range": "bytes=0-9"}, "20130524T000000Z")
        expected = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        self.assertTrue(
            headers["Authorization"].endswith(f"Signature={expected}"), headers["Authorization"]
        )


if __name__ == "__main__":
    unittest.main()
