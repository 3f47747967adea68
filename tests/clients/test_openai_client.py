"""The official `openai` client against the real server, as a user would write it."""

import asyncio
import json
import socket

import httpx
import openai
import pytest

from conftest import MODEL, Server

QUESTION = [{"role": "user", "content": "How does a TLB make virtual memory fast?"}]
LONG = " ".join(f"word{number}" for number in range(900))


def chat(client, messages=QUESTION, **options):
    return client.chat.completions.create(model=MODEL, messages=messages, **{"max_tokens": 24, **options})


# --- chat ---------------------------------------------------------------------------------


def test_chat_answers_with_text_and_true_usage(client):
    answer = chat(client)
    assert answer.object == "chat.completion"
    assert answer.model == MODEL
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content.startswith("[simulated]")
    assert answer.choices[0].finish_reason == "length"
    usage = answer.usage
    assert usage.completion_tokens == 24
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens >= 0


def test_text_parts_are_the_same_prompt_as_a_string(client):
    parts = [{"role": "user", "content": [{"type": "text", "text": QUESTION[0]["content"]}]}]
    assert chat(client, parts).usage.prompt_tokens == chat(client).usage.prompt_tokens


def test_the_same_seed_gives_the_same_answer(client):
    answers = {chat(client, seed=7).choices[0].message.content for _ in range(3)}
    assert len(answers) == 1


def test_answers_speak_of_what_was_asked(client):
    answer = chat(client, max_tokens=200).choices[0].message.content.lower()
    assert "tlb" in answer or "translation" in answer or "page" in answer


def test_max_completion_tokens_wins_over_max_tokens(client):
    assert chat(client, max_tokens=50, max_completion_tokens=5).usage.completion_tokens == 5


def test_min_tokens_and_ignore_eos_are_accepted(client):
    answer = chat(client, max_tokens=40, extra_body={"min_tokens": 40, "ignore_eos": True, "top_k": 20})
    assert answer.usage.completion_tokens == 40


def test_fields_that_nobody_knows_are_refused_by_name(client):
    assert chat(client, user="someone", extra_body={"conversation_id": "c-1"}).choices
    for extra, param in [
        ({"made_up": {"a": [1]}}, "made_up"),
        ({"nvext": {"annotations": ["x"]}}, "nvext.annotations"),
    ]:
        with pytest.raises(openai.BadRequestError) as refused:
            chat(client, extra_body=extra)
        assert refused.value.code == "unknown_parameter"
        assert refused.value.param == param


def test_worker_timing_and_routing_come_on_request(client):
    extra = {"nvext": {"extra_fields": ["worker_id", "timing", "routing"]}}
    nvext = chat(client, extra_body=extra).model_extra["nvext"]
    assert nvext["worker_id"]["decode_worker_id"] in (0, 1, 2)
    assert nvext["timing"]["ttft_ms"] > 0
    assert nvext["routing"]["mode"] and nvext["routing"]["reason"]
    assert {one["worker"] for one in nvext["routing"]["candidates"]} == {"0", "1", "2"}
    assert "nvext" not in (chat(client).model_extra or {})


def test_headers_are_accepted_and_the_request_id_comes_back(client):
    headers = {"X-Request-ID": "my-id-1", "X-Session-ID": "s", "X-Correlation-ID": "c"}
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=QUESTION, max_tokens=2, extra_headers=headers
    )
    assert raw.headers["x-request-id"] == "my-id-1"
    assert raw.headers["x-homing-simulated"] == "true"


# --- streaming ----------------------------------------------------------------------------


def test_the_first_event_carries_role_and_text_together(client):
    events = list(chat(client, stream=True))
    first = events[0].choices[0].delta
    assert first.role == "assistant" and first.content
    assert all(event.choices[0].delta.role is None for event in events[1:])
    assert events[-1].choices[0].finish_reason == "length"


def test_usage_comes_last_without_choices_and_only_when_asked_for(client):
    events = list(chat(client, stream=True, stream_options={"include_usage": True}))
    assert events[-1].choices == []
    assert events[-1].usage.completion_tokens == 24
    assert all(event.usage is None for event in events[:-1])
    assert all(event.usage is None and event.choices for event in chat(client, stream=True))


def test_continuous_usage_counts_up(client):
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = list(chat(client, stream=True, stream_options=options))
    counts = [event.usage.completion_tokens for event in events]
    assert counts == sorted(counts) and counts[-1] == 24


def test_streamed_text_equals_the_whole_answer(client):
    whole = chat(client, seed=3, max_tokens=80).choices[0].message.content
    pieces = [event.choices[0].delta.content or "" for event in chat(client, seed=3, max_tokens=80, stream=True)]
    assert "".join(pieces) == whole


def test_the_streaming_helper_works(client):
    with client.chat.completions.stream(model=MODEL, messages=QUESTION, stop=".") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "content.delta" in kinds and "content.done" in kinds
    assert final.choices[0].message.content.startswith("[simulated]")


def test_the_wire_ends_with_done(server):
    body = {"model": MODEL, "messages": QUESTION, "max_tokens": 3, "stream": True}
    response = server.http.post("/v1/chat/completions", json=body)
    assert response.headers["content-type"] == "text/event-stream"
    events = [event for event in response.text.split("\n\n") if event]
    assert events[-1] == "data: [DONE]"
    for event in events[:-1]:
        json.loads(event.removeprefix("data: "))


def test_many_streams_at_once(async_client):
    async def one(number):
        messages = [{"role": "user", "content": f"Question {number}: what is a page table?"}]
        stream = await async_client.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=20, stream=True, stream_options={"include_usage": True}
        )
        return [event async for event in stream][-1].usage.completion_tokens

    async def all_of_them():
        return await asyncio.gather(*(one(number) for number in range(32)))

    assert asyncio.run(all_of_them()) == [20] * 32


# --- completions --------------------------------------------------------------------------


def test_completions_take_every_kind_of_prompt(client):
    for prompt, choices in [("Once", 1), (["Once", "Twice"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2)]:
        answer = client.completions.create(model=MODEL, prompt=prompt, max_tokens=4)
        assert [choice.index for choice in answer.choices] == list(range(choices))
        assert answer.usage.completion_tokens == 4 * choices


def test_completions_stream_several_prompts(client):
    stream = client.completions.create(model=MODEL, prompt=["a b", "c d"], max_tokens=6, stream=True)
    texts = {0: "", 1: ""}
    finished = set()
    for event in stream:
        for choice in event.choices:
            texts[choice.index] += choice.text
            if choice.finish_reason:
                finished.add(choice.index)
    assert all(texts.values()) and finished == {0, 1}


def test_echo_repeats_the_prompt(client):
    answer = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=3, echo=True)
    assert answer.choices[0].text.startswith("Once upon a time")


# --- stop strings -------------------------------------------------------------------------


def test_stop_strings_end_the_answer_before_them(client):
    whole = chat(client, seed=5, max_tokens=60).choices[0].message.content
    # Cut inside words, so that the stop string spans tokens.
    stop = whole[41:49]
    answer = chat(client, seed=5, max_tokens=60, stop=stop).choices[0]
    assert answer.finish_reason == "stop"
    assert answer.message.content == whole[: whole.index(stop)]
    streamed = "".join(
        event.choices[0].delta.content or ""
        for event in chat(client, seed=5, max_tokens=60, stop=["never there", stop], stream=True)
    )
    assert streamed == whole[: whole.index(stop)]


# --- models -------------------------------------------------------------------------------


def test_models(client):
    models = client.models.list().data
    assert [model.id for model in models] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


# --- errors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": 99}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"stop": [""]}, "stop[0]"),
        ({"messages": [{"role": "user", "content": LONG * 20}]}, "messages"),
    ],
)
def test_bad_input_names_the_field(client, change, param):
    request = {"model": MODEL, "messages": QUESTION, **change}
    with pytest.raises(openai.BadRequestError) as error:
        client.post("/chat/completions", body=request, cast_to=object)
    assert error.value.param == param
    assert error.value.type == "invalid_request_error"
    assert error.value.message


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="gpt-none", messages=QUESTION)
    assert error.value.code == "model_not_found"


def test_malformed_oversized_and_foreign_bodies(server):
    post = lambda content, kind="application/json": server.http.post(  # noqa: E731
        "/v1/chat/completions", content=content, headers={"content-type": kind}
    )
    for response, status in [
        (post(b"{not json"), 400),
        (post(b"[]"), 400),
        (post(b""), 400),
        (post(b"x" * (17 << 20)), 413),
        (post(b"a=b", "application/x-www-form-urlencoded"), 415),
        (server.http.get("/v1/nothing"), 404),
        (server.http.get("/decisions?limit=many"), 400),
        (server.http.put("/router", content=b"{"), 400),
        (server.http.get("/v1/chat/completions"), 405),
    ]:
        assert response.status_code == status
        assert response.json()["error"]["message"]


def test_a_body_that_nobody_read_ends_its_connection(server):
    # Many times over one client: whether the next request meets a closed connection is no matter of luck.
    for _ in range(5):
        response = server.http.post("/v1/chat/completions", content=b"x" * (17 << 20))
        assert response.status_code == 413
        assert response.headers["connection"] == "close"
        assert server.http.get("/live").status_code == 200


def test_a_body_without_an_end_is_refused_early(server):
    def pieces():
        while True:
            yield b" " * (1 << 20)

    response = server.http.post("/v1/chat/completions", content=pieces())
    assert response.status_code == 413
    assert response.headers["connection"] == "close"


def test_only_names_of_loopback_are_answered(server):
    evil = {"host": "evil.example"}
    assert server.http.get("/workers", headers=evil).status_code == 421
    assert server.http.put("/router", json={}, headers=evil).status_code == 421
    assert server.http.get("/health", headers=evil).status_code == 200
    assert server.http.get("/workers", headers={"host": "localhost:1"}).status_code == 200
    page = {"origin": "http://evil.example"}
    body = {"model": MODEL, "messages": QUESTION, "max_tokens": 2}
    assert server.http.post("/v1/chat/completions", json=body, headers=page).status_code == 403
    assert server.http.post("/v1/chat/completions", json=body).status_code == 200


def test_special_tokens_in_a_message_are_text(client):
    def prompt_tokens(content):
        messages = [{"role": "user", "content": content}]
        return client.chat.completions.create(model=MODEL, messages=messages, max_tokens=1).usage.prompt_tokens

    # As a token it would be one more, as text it is several.
    assert prompt_tokens("a<|eot_id|>") > prompt_tokens("a") + 1


def test_half_sent_requests_do_not_hold_up_the_end():
    server = Server("--shutdown-grace", "600")
    address = (httpx.URL(server.url).host, httpx.URL(server.url).port)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
    sockets = [socket.create_connection(address) for _ in range(3)]
    for half, sent in zip(sockets, [b"", head, head + b"Content-Length: 100\r\n\r\n{"]):
        half.sendall(sent)
    server.until("the body is awaited", lambda: server.http.get("/health").json()["in_flight"] == 1)
    # `stop` gives up long before the grace is over.
    assert server.stop() == 0
    for half in sockets:
        half.close()


def test_full_workers_refuse_with_retry_after():
    # Slots of one worker and no queue: the 65th request is one too many.
    server = Server("--workers", "1", "--queue-limit", "0")
    try:

        async def fill():
            client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0)
            streams = [
                await client.chat.completions.create(
                    model=MODEL, messages=QUESTION, max_tokens=20_000, stream=True, extra_body={"ignore_eos": True}
                )
                for _ in range(64)
            ]
            with pytest.raises(openai.RateLimitError) as error:
                await client.chat.completions.create(model=MODEL, messages=QUESTION)
            assert int(error.value.response.headers["retry-after"]) >= 1
            assert error.value.code == "workers_full"
            for stream in streams:
                await stream.close()
            server.until("slots are free", lambda: server.workers()[0]["in_flight"] == 0)
            await client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=2)

        asyncio.run(fill())
    finally:
        assert server.stop() == 0


def test_no_worker_is_unavailable_and_workers_can_be_added_and_removed():
    server = Server("--workers", "1")
    try:
        client = server.client()
        assert server.http.delete("/workers/0").status_code == 202
        server.until("the worker has left", lambda: server.workers() == [])
        with pytest.raises(openai.InternalServerError) as error:
            chat(client)
        assert error.value.status_code == 503
        assert server.http.get("/ready").status_code == 503
        assert server.http.post("/workers").json()["name"] == "worker-1"
        server.until("the worker has joined", lambda: len(server.workers()) == 1)
        assert chat(client).choices
        assert server.http.delete("/workers/77").status_code == 404
    finally:
        assert server.stop() == 0


# --- timeouts and cancellation --------------------------------------------------------------


def idle(server):
    return lambda: all(
        worker["in_flight"] == 0 and worker["status"]["running"] == 0 and worker["status"]["active_blocks"] == 0
        for worker in server.workers()
    )


def test_a_client_that_times_out_frees_its_worker(server):
    with pytest.raises(openai.APITimeoutError):
        chat(server.client(timeout=0.3), max_tokens=2000, extra_body={"ignore_eos": True})
    server.until("slot and blocks are free", idle(server))


def test_a_client_that_hangs_up_frees_its_worker(server, client):
    stream = chat(client, max_tokens=20_000, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    assert any(worker["in_flight"] for worker in server.workers())
    stream.close()
    server.until("slot and blocks are free", idle(server))


def test_running_streams_finish_after_sigterm():
    server = Server()
    stream = chat(server.client(), max_tokens=60, stream=True, extra_body={"ignore_eos": True})
    events = iter(stream)
    next(events)
    server.process.terminate()
    assert list(events)[-1].choices[0].finish_reason == "length"
    assert server.process.wait(timeout=30) == 0


# --- routing --------------------------------------------------------------------------------


def turns(client, count, starter):
    """One conversation; yields (worker, usage) of each turn."""
    messages = [{"role": "user", "content": starter}]
    for _ in range(count):
        answer = chat(client, messages, max_tokens=70, extra_body={"nvext": {"extra_fields": ["worker_id"]}})
        yield answer.model_extra["nvext"]["worker_id"]["decode_worker_id"], answer.usage
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        messages.append({"role": "user", "content": "Please say more about the second point."})


def test_under_kv_blocks_the_second_turn_goes_home(server, client):
    server.set_mode("kv-blocks")
    (first_worker, first), (second_worker, second), (third_worker, third) = turns(client, 3, f"kv {LONG}")
    assert first_worker == second_worker == third_worker
    for before, after in [(first, second), (second, third)]:
        held = before.prompt_tokens + before.completion_tokens
        cached = after.prompt_tokens_details.cached_tokens
        # Every full block of the turn before; cutting an answer in the middle of a word may
        # tokenise its last word differently, and so cost the block that word is in.
        assert held // 32 * 32 - 32 <= cached <= held // 32 * 32
        assert cached % 32 == 0


def test_under_round_robin_turns_cycle(server, client):
    server.set_mode("round-robin")
    try:
        workers = [worker for worker, _ in turns(client, 4, f"rr {LONG}")]
        assert [(worker - workers[0]) % 3 for worker in workers] == [0, 1, 2, 0]
    finally:
        server.set_mode("kv-blocks")


def test_decisions_explain_themselves(server, client):
    server.set_mode("kv-blocks", overlap_score_weight=2.0)
    chat(client)
    decision = server.http.get("/decisions?limit=1").json()["decisions"][0]
    assert decision["mode"] == "kv-blocks" and decision["reason"]
    for candidate in decision["candidates"]:
        cost = 2.0 * candidate["prefill_blocks"] + candidate["decode_blocks"]
        assert candidate["cost"] == pytest.approx(cost)
    cheapest = min(candidate["cost"] for candidate in decision["candidates"])
    winner = next(c for c in decision["candidates"] if c["worker"] == decision["winner"])
    assert winner["cost"] == cheapest
    server.set_mode("kv-blocks", overlap_score_weight=1.0)


def test_resetting_the_cache_forgets_prefixes(server, client):
    messages = [{"role": "user", "content": f"reset {LONG}"}]
    chat(client, messages)
    assert chat(client, messages).usage.prompt_tokens_details.cached_tokens > 500
    assert server.http.post("/reset_prefix_cache").json()["failed"] == []
    assert chat(client, messages).usage.prompt_tokens_details.cached_tokens == 0


def test_a_bad_router_mode_lists_the_good_ones(server):
    response = server.http.put("/router", json={"mode": "best"})
    assert response.status_code == 400
    assert "round-robin" in response.json()["error"]["message"]


# --- the small endpoints ----------------------------------------------------------------------


def test_health_metrics_and_description(server):
    assert server.http.get("/health").json()["status"] == "healthy"
    assert server.http.get("/live").status_code == 200
    assert server.http.get("/ready").status_code == 200
    assert "dynamo_frontend_requests_total" in server.http.get("/metrics").text
    paths = server.http.get("/openapi.json").json()["paths"]
    assert "/v1/chat/completions" in paths and "/decisions" in paths
    workers = server.http.get("/workers").json()
    assert workers["simulated"] is True
    assert all(worker["card"]["simulated"] for worker in workers["workers"])
