"""`homing epp` behind a genuine Envoy, in both styles of clusters."""

import hashlib
import json
import random
import socket
import threading

import httpx
import pytest

import recorder
from conftest import Envoy, Picker, Simulated, until

STYLES = ["original_dst", "override_host"]
CHAT = "/v1/chat/completions"
STREAM = {"model": "recorded", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
WHOLE = b"".join(recorder.EVENTS)


def words(seed, count):
    source = random.Random(seed)
    return " ".join(str(source.randrange(10**6)) for _ in range(count))


def chat(messages, **fields):
    return {"model": "any", "messages": messages, "max_tokens": 16, **fields}


@pytest.mark.parametrize("style", STYLES)
def test_conversations_go_home(start, style):
    servers = [start(Simulated) for _ in range(3)]
    picker = start(Picker, servers)
    gateway = start(Envoy, picker.grpc, servers, style)
    model = httpx.get(f"http://{servers[0].address}/v1/models").json()["data"][0]["id"]
    conversations = [[{"role": "user", "content": words(seed, 150)}] for seed in range(12)]
    homes, at_home, later, cached = [None] * 12, 0, 0, 0
    for turn in range(4):
        for number, messages in enumerate(conversations):
            stream = (turn + number) % 2 == 0
            body = chat(messages, model=model, stream=stream)
            if stream:
                body["stream_options"] = {"include_usage": True}
            answer = gateway.http.post(CHAT, json=body)
            assert answer.status_code == 200, answer.text
            server = answer.headers["x-upstream"]
            if turn:
                later += 1
                at_home += server == homes[number]
            homes[number] = server
            if stream:
                events = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
                events = [json.loads(event) for event in events if "[DONE]" not in event]
                usage = events[-1]["usage"]
                said = "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"])
            else:
                usage, said = answer.json()["usage"], answer.json()["choices"][0]["message"]["content"]
            cached += bool(turn) and usage["prompt_tokens_details"]["cached_tokens"] > 0
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": words(-number, 30)}]
        picker.idle()
    assert at_home >= 0.95 * later, f"{at_home} of {later} later turns at home"
    assert cached >= 0.95 * later, f"{cached} of {later} later turns found something cached"
    decisions = picker.decisions()
    assert len(decisions) == 48
    assert all(decision["outcome"]["state"] == "ended" for decision in decisions)


@pytest.mark.parametrize("style", STYLES)
def test_bodies_pass_unchanged(start, recorders, style):
    picker = start(Picker, recorders)
    gateway = start(Envoy, picker.grpc, recorders, style)
    long = json.dumps(chat([{"role": "user", "content": words(1, 90_000)}])).encode()
    assert len(long) > 600_000
    for path, body in [(CHAT, long), (CHAT, b"not json"), ("/v1/completions", b""), ("/anything", b"\x00\xff" * 70_000)]:
        answer = gateway.http.post(path, content=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["sha256"] == hashlib.sha256(body).hexdigest(), path
    # In parts, without a length.
    parts = [long[place : place + 50_001] for place in range(0, len(long), 50_001)]
    answer = gateway.http.post(CHAT, content=iter(parts))
    assert answer.json()["sha256"] == hashlib.sha256(long).hexdigest()
    assert gateway.http.get("/v1/models").json()["data"][0]["id"] == "recorded"
    picker.idle()


@pytest.mark.parametrize("style", STYLES)
def test_a_stream_passes_byte_for_byte_and_is_read(start, recorders, style):
    picker = start(Picker, recorders)
    gateway = start(Envoy, picker.grpc, recorders, style)
    for pause in ["0", "0.01"]:
        with gateway.http.stream("POST", CHAT, json=STREAM, headers={"x-pause": pause}) as answer:
            assert answer.read() == WHOLE
            assert answer.headers["content-type"] == "text/event-stream"
    picker.idle()
    decisions = picker.decisions()
    assert [decision["actual_cached_tokens"] for decision in decisions] == [64, 64]
    assert all(decision["outcome"]["state"] == "ended" for decision in decisions)
    metrics = picker.http.get("/metrics").text
    assert 'dynamo_frontend_output_tokens_total{model=' in metrics


def test_a_hundred_at_once(start, recorders):
    picker = start(Picker, recorders)
    gateway = start(Envoy, picker.grpc, recorders, "override_host")
    answers = [None] * 100

    def ask(number):
        body = {**STREAM, "messages": [{"role": "user", "content": words(number, 100)}]}
        url = gateway.http.base_url.join(CHAT)
        answers[number] = httpx.post(url, json=body, headers={"x-pause": "0.01"}, timeout=120).content

    threads = [threading.Thread(target=ask, args=[number]) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [WHOLE] * 100
    picker.idle()
    winners = {decision["winner"] for decision in picker.decisions()}
    assert len(winners) == 3


def test_too_many_are_shed(start, recorders):
    picker = start(Picker, recorders, "--max-queue-wait", "0.2", of_each=",slots=1")
    gateway = start(Envoy, picker.grpc, recorders, "override_host")
    url = gateway.http.base_url.join(CHAT)
    running = [httpx.Client(timeout=120) for _ in range(3)]
    streams = []
    for number, client in enumerate(running):
        body = {**STREAM, "messages": [{"role": "user", "content": words(number, 100)}]}
        request = client.build_request("POST", url, json=body, headers={"x-pause": "1"})
        streams.append(client.send(request, stream=True))
    until("all slots are taken", lambda: picker.in_flight() == 3)
    refused = gateway.http.post(CHAT, json=STREAM)
    assert refused.status_code == 429, refused.text
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert refused.headers["x-llm-d-request-dropped-reason"] in ("queue_timeout", "workers_full")
    assert int(refused.headers["retry-after"]) >= 1
    # Who goes away gives the place back.
    for stream in streams:
        stream.close()
    picker.idle()
    assert gateway.http.post(CHAT, json=STREAM).content == WHOLE


@pytest.mark.parametrize("style", STYLES)
def test_only_the_subset_is_used(start, recorders, style):
    picker = start(Picker, recorders)
    only = recorders[1].address
    gateway = start(Envoy, picker.grpc, recorders, style, subset=[only])
    for number in range(6):
        answer = gateway.http.post(CHAT, json=chat([{"role": "user", "content": words(number, 50)}]))
        assert answer.headers["x-upstream"] == only
    nobody = start(Envoy, picker.grpc, recorders, style, subset=[])
    refused = nobody.http.post(CHAT, json=STREAM)
    assert refused.status_code == 503
    assert refused.headers["x-llm-d-request-dropped-reason"] == "no_endpoint"


def test_the_second_serves_if_the_first_is_dead(start, recorders):
    picker = start(Picker, recorders, "--fallbacks", "2")
    gateway = start(Envoy, picker.grpc, recorders, "override_host")
    body = {**STREAM, "messages": [{"role": "user", "content": words(0, 400)}]}
    home = gateway.http.post(CHAT, json=body).headers["x-upstream"]
    picker.idle()
    dead = next(server for server in recorders if server.address == home)
    dead.kill()
    for _ in range(5):
        answer = gateway.http.post(CHAT, json=body)
        assert answer.content == WHOLE
        assert answer.headers["x-upstream"] != home
    picker.idle()


def test_an_answer_never_ends_early_as_if_it_were_whole(start, recorders):
    """Envoy hands answers over and has no copy: if the picker is killed, it breaks them off."""
    picker = start(Picker, recorders)
    gateway = start(Envoy, picker.grpc, recorders, "override_host", fail_open=True)
    with pytest.raises(httpx.RemoteProtocolError):
        with gateway.http.stream("POST", CHAT, json=STREAM, headers={"x-pause": "0.1"}) as answer:
            parts = answer.iter_raw()
            next(parts)
            picker.kill()
            list(parts)


def test_a_body_that_drips_is_refused_and_holds_nothing(start, recorders):
    picker = start(Picker, recorders, "--read-timeout", "5")
    gateway = start(Envoy, picker.grpc, recorders, "override_host")
    with socket.create_connection(("127.0.0.1", gateway.http.base_url.port), timeout=60) as client:
        client.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{".encode())
        until("its place is taken", lambda: picker.http.get("/health").json()["in_flight"] == 1)
        answer = b""
        while b"too slowly" not in answer:
            more = client.recv(65536)
            assert more, answer
            answer += more
    assert answer.startswith(b"HTTP/1.1 408 "), answer
    assert b"x-llm-d-request-dropped-reason: request_timeout" in answer
    picker.idle()


def test_answers_that_run_finish_while_the_picker_stops(start, recorders):
    picker = start(Picker, recorders)
    gateway = start(Envoy, picker.grpc, recorders, "override_host")
    with gateway.http.stream("POST", CHAT, json=STREAM, headers={"x-pause": "0.1"}) as answer:
        parts = answer.iter_raw()
        received = next(parts) + next(parts)
        picker.process.terminate()
        received += b"".join(parts)
    assert received == WHOLE
    assert picker.stop() == 0


@pytest.mark.parametrize("fail_open", [True, False])
def test_without_a_picker_requests_pass_or_fail_as_configured(start, recorders, fail_open):
    picker = start(Picker, recorders)
    gateway = start(Envoy, picker.grpc, recorders, "override_host", fail_open=fail_open)
    assert gateway.http.post(CHAT, json=STREAM).content == WHOLE
    picker.kill()
    if fail_open:
        # Not before Envoy's health check has noticed: a body that was handed over to nobody is lost.
        passes = lambda: gateway.http.post(CHAT, json=STREAM).content == WHOLE
        until("requests pass, one after another", lambda: all(passes() for _ in range(10)))
    else:
        for _ in range(5):
            assert gateway.http.post(CHAT, json=STREAM).status_code >= 500
    # One that comes again is used again.
    port = int(picker.grpc.split(":")[1])
    start(Picker, recorders, port=port)
    until("it is served again", lambda: gateway.http.post(CHAT, json=STREAM).content == WHOLE)


@pytest.mark.parametrize("options, tls", [([], True), (["--plaintext"], False)])
def test_tls_is_the_default_and_can_be_left_out(start, recorders, options, tls):
    picker = start(Picker, recorders, *options)
    gateway = start(Envoy, picker.grpc, recorders, "original_dst", tls=tls)
    assert gateway.http.post(CHAT, json=STREAM).content == WHOLE


def test_a_list_in_a_file_is_followed(start, recorders, tmp_path):
    listed = tmp_path / "endpoints"
    line = lambda server: f"openai=http://{server.address}\n"
    listed.write_text("# one\n" + line(recorders[0]))
    picker = start(Picker, [], "--endpoints-file", str(listed))
    gateway = start(Envoy, picker.grpc, recorders, "original_dst")
    ports = lambda: {worker["card"]["name"].rsplit(":", 1)[1] for worker in picker.workers()}
    port = lambda server: server.address.rsplit(":", 1)[1]
    until("the first has joined", lambda: ports() == {port(recorders[0])})
    assert gateway.http.post(CHAT, json=STREAM).headers["x-upstream"] == recorders[0].address
    listed.write_text(line(recorders[1]))
    until("the second is in its place", lambda: ports() == {port(recorders[1])})
    assert gateway.http.post(CHAT, json=STREAM).headers["x-upstream"] == recorders[1].address
    listed.write_text("nonsense\n")
    assert gateway.http.post(CHAT, json=STREAM).headers["x-upstream"] == recorders[1].address
