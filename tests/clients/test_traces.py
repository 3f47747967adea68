"""Traces: the spans of conversations with the official client, as a collector gets them.

The collector is a stand-in of our own on OpenTelemetry's published protocol (`opentelemetry-proto`), over gRPC
and over HTTP.
"""

import http.server
import secrets
import threading
import time
from concurrent import futures

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2

from conftest import MODEL, Server

ROOT = "POST /v1/chat/completions"
STAGES = {"admission", "read", "prepare", "route", "worker"}
PARTS = {"dispatch", "first_token", "stream"}


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes spans over one of the protocols."""

    def __init__(self, protocol):
        self.protocol = protocol
        self.requests, self.headers = [], []
        # How many batches to turn away first.
        self.refusals = 0
        if protocol == "grpc":
            self.server = grpc.server(futures.ThreadPoolExecutor(2))
            trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self.server)
            port = self.server.add_insecure_port("127.0.0.1:0")
            self.server.start()
        else:
            self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
            port = self.server.server_port
            threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{port}"

    def options(self):
        return ["--otlp-endpoint", self.url, "--otlp-protocol", self.protocol]

    def refuses(self):
        self.refusals -= 1
        return self.refusals >= 0

    def Export(self, request, context):  # noqa: N802, the protocol's name
        self.headers.append(dict(context.invocation_metadata()))
        if self.refuses():
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    def handler(collector):  # noqa: N805, `self` is the handler's
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # noqa: N802, the library's name
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                status = 503 if collector.refuses() else 200
                if status == 200:
                    assert self.path == "/v1/traces", self.path
                    assert self.headers["content-type"] == "application/x-protobuf"
                    collector.requests.append(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
                answer = trace_service_pb2.ExportTraceServiceResponse().SerializeToString()
                self.send_response(status)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        return Handler

    def resource(self):
        attributes = self.requests[0].resource_spans[0].resource.attributes
        return {pair.key: pair.value.string_value for pair in attributes}

    def spans(self, trace_id):
        """All that came of a trace so far."""
        found = []
        for request in list(self.requests):
            for of_process in request.resource_spans:
                for of_library in of_process.scope_spans:
                    found += [span for span in of_library.spans if span.trace_id.hex() == trace_id]
        return found

    def trace(self, trace_id, seconds=20):
        """The spans of a request: they come together."""
        deadline = time.monotonic() + seconds
        while not (spans := self.spans(trace_id)):
            assert time.monotonic() < deadline, f"no spans of {trace_id} within {seconds} s"
            time.sleep(0.05)
        return spans

    def stop(self):
        if self.protocol == "grpc":
            self.server.stop(None)
        else:
            self.server.shutdown()
            self.server.server_close()


@pytest.fixture(params=["grpc", "http/protobuf"])
def collector(request):
    collector = Collector(request.param)
    yield collector
    collector.stop()


def context(sampled=True):
    """A client's own span: the ids of trace and span, and the header."""
    trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
    return trace_id, span_id, {"traceparent": f"00-{trace_id}-{span_id}-{'01' if sampled else '00'}"}


def ask(client, messages, headers):
    """One streamed turn; the text of its answer."""
    stream = client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=12, stream=True, extra_headers=headers
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def values(span):
    """The attributes of a span, as Python has them."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}


def check_tree(spans, parent):
    """Every stage once, under the right parent; returns the spans by name."""
    named = {span.name: span for span in spans}
    assert len(named) == len(spans), [span.name for span in spans]
    assert set(named) == {ROOT} | STAGES | PARTS
    root = named[ROOT]
    assert root.parent_span_id.hex() == parent
    assert root.kind == trace_pb2.Span.SPAN_KIND_SERVER
    assert named["worker"].kind == trace_pb2.Span.SPAN_KIND_CLIENT
    for name in STAGES:
        assert named[name].parent_span_id == root.span_id, name
    for name in PARTS:
        assert named[name].parent_span_id == named["worker"].span_id, name
    assert len({span.span_id for span in spans}) == len(spans)
    for span in spans:
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano, span.name
        assert abs(span.start_time_unix_nano / 1e9 - time.time()) < 600, "by the clock of the wall"
        assert span.status.code == trace_pb2.Status.STATUS_CODE_UNSET
    return named


def test_a_conversation_is_traced_under_the_client_s_own_spans(collector):
    options = ["--trace-sample", "0", "--trace-service-name", "router", "--trace-resource", "zone=north"]
    server = Server(*collector.options(), *options)
    client, messages, traces = server.client(), [], []
    for question in ["What is a TLB?", "And what is a page?"]:
        messages.append({"role": "user", "content": question})
        trace_id, span_id, headers = context()
        messages.append({"role": "assistant", "content": ask(client, messages, headers)})
        traces.append((trace_id, span_id))
    unsampled, _, headers = context(sampled=False)
    ask(client, messages, headers)
    for trace_id, span_id in traces:
        named = check_tree(collector.trace(trace_id), span_id)
        said = values(named[ROOT])
        assert said["gen_ai.request.model"] == MODEL
        assert said["gen_ai.operation.name"] == "chat"
        assert said["gen_ai.usage.output_tokens"] == 12
        assert said["gen_ai.usage.input_tokens"] > 10
        assert said["http.response.status_code"] == 200
        route = values(named["route"])
        assert route["homing.router.mode"] == "kv"
        assert route["homing.router.reason"]
        assert route["homing.worker.id"] == values(named["worker"])["homing.worker.id"]
    resource = collector.resource()
    assert (resource["service.name"], resource["zone"]) == ("router", "north")
    assert resource["service.version"] and resource["service.instance.id"]
    assert server.stop() == 0
    assert not collector.spans(unsampled), "who asked did not want it recorded"


def test_what_is_left_is_sent_when_the_server_stops(collector):
    server = Server(*collector.options(), "--trace-sample", "0")
    trace_id, span_id, headers = context()
    ask(server.client(), [{"role": "user", "content": "What is a TLB?"}], headers)
    assert server.stop() == 0
    check_tree(collector.spans(trace_id), span_id)


def test_a_batch_that_is_turned_away_is_sent_again(collector):
    collector.refusals = 2
    server = Server(*collector.options(), "--trace-sample", "1")
    trace_id, span_id, headers = context()
    ask(server.client(), [{"role": "user", "content": "What is a TLB?"}], headers)
    check_tree(collector.trace(trace_id), span_id)
    server.until("it is counted", lambda: "homing_trace_exported_spans_total 9" in server.http.get("/metrics").text)
    assert "homing_trace_export_retries_total 2" in server.http.get("/metrics").text
    assert server.stop() == 0


def test_the_names_of_opentelemetry_s_own_variables_are_known(collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", collector.protocol)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=a%20b")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-the-environment")
    server = Server("--trace-sample", "1")
    ask(server.client(), [{"role": "user", "content": "What is a TLB?"}], {})
    assert server.stop() == 0
    assert collector.resource()["service.name"] == "from-the-environment"
    assert collector.headers[0]["x-team"] == "a b"
    [root] = [span for span in collector.requests[0].resource_spans[0].scope_spans[0].spans if span.name == ROOT]
    assert root.parent_span_id == b"", "a trace of its own"


def test_a_failure_is_an_error_of_the_span_unless_it_is_the_client_s(collector):
    server = Server(*collector.options(), "--trace-sample", "0")
    trace_id, _, headers = context()
    refused = server.http.post("/v1/chat/completions", json={"model": MODEL, "messages": []}, headers=headers)
    assert refused.status_code == 400
    [root] = [span for span in collector.trace(trace_id) if span.name == ROOT]
    said = values(root)
    assert (said["http.response.status_code"], said["error.type"]) == (400, "validation")
    assert root.status.code == trace_pb2.Status.STATUS_CODE_UNSET
    assert server.stop() == 0


def test_lines_of_the_log_about_a_request_name_its_trace(tmp_path):
    """Also without a collector: the client knows the trace."""
    log = tmp_path / "log"
    with log.open("w") as stderr:
        server = Server("--log", "frontend=debug", stderr=stderr)
        trace_id, _, headers = context()
        server.http.post("/v1/chat/completions", json={"model": MODEL, "messages": []}, headers=headers)
        server.http.post("/v1/chat/completions", json={"model": MODEL, "messages": []})
        assert server.stop() == 0
    [traced, other] = [line for line in log.read_text().splitlines() if "request refused" in line]
    assert f"trace_id={trace_id}" in traced
    assert "trace_id" not in other


def test_a_collector_that_is_not_there_costs_no_request():
    server = Server("--otlp-endpoint", "http://127.0.0.1:9", "--trace-sample", "1")
    client = server.client()
    for _ in range(3):
        assert ask(client, [{"role": "user", "content": "What is a TLB?"}], {})
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 30, "not beyond the grace"


@pytest.mark.parametrize("header", ["ff-" + "a" * 32 + "-" + "b" * 16 + "-01", "00-" + "0" * 55, "a" * 4000, "00-x"])
def test_a_header_that_makes_no_sense_is_ignored(server, header):
    body = {"model": MODEL, "messages": [{"role": "user", "content": "What is a TLB?"}], "max_tokens": 2}
    response = server.http.post("/v1/chat/completions", json=body, headers={"traceparent": header})
    assert response.status_code == httpx.codes.OK, response.text
