"""The official `anthropic` client against the real server."""

import anthropic
import httpx
import pytest

from conftest import MODEL

TOOL = {
    "name": "get_weather",
    "description": "The weather in a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
QUESTION = [{"role": "user", "content": "What is the weather in Bern?"}]
LONG = [{"role": "user", "content": "Write a long story about a mountain."}]
# The client has no parameter for it any more; the API has. A sampled answer could end at any token.
GREEDY = {"temperature": 0}


@pytest.fixture(params=["smollm2", MODEL])
def model(request):
    return request.param


@pytest.fixture
def asked(model, smol, server):
    url = (smol if model == "smollm2" else server).url
    return anthropic.Anthropic(base_url=url, api_key="unused", max_retries=0, timeout=60)


def test_a_message_and_its_usage(asked, model):
    options = {"model": model, "system": "You tell stories. " * 20, "messages": LONG}
    answer = asked.messages.create(max_tokens=12, extra_body=GREEDY, **options)
    assert answer.role == "assistant" and answer.content[0].type == "text" and answer.content[0].text
    assert answer.stop_reason == "max_tokens" and answer.usage.output_tokens == 12
    counted = asked.messages.count_tokens(**options).input_tokens
    again = asked.messages.create(max_tokens=12, extra_body=GREEDY, **options).usage
    assert again.input_tokens + again.cache_read_input_tokens == counted
    if model == "smollm2":  # one worker, so it is the one that has the prefix
        assert again.cache_read_input_tokens >= 32


def test_events_add_up(asked, model):
    with asked.messages.stream(model=model, max_tokens=16, messages=LONG, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text and text == final.content[0].text
    assert final.stop_reason == "max_tokens" and final.usage.output_tokens == 16


def test_a_tool_is_used_and_its_result_read(asked, model):
    options = {"model": model, "max_tokens": 160, "tools": [TOOL], "extra_body": GREEDY}
    choice = {"type": "any", "disable_parallel_tool_use": True}
    first = asked.messages.create(messages=QUESTION, tool_choice=choice, **options)
    assert first.stop_reason == "tool_use"
    [use] = [block for block in first.content if block.type == "tool_use"]
    assert use.name == "get_weather" and set(use.input) == {"city"}
    history = [
        *QUESTION,
        {"role": "assistant", "content": [block.model_dump() for block in first.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "21 C"}]},
    ]
    second = asked.messages.create(messages=history, tool_choice={"type": "none"}, **options)
    assert second.content[0].type == "text"
    if model == "smollm2":
        assert second.usage.cache_read_input_tokens >= 32
    with asked.messages.stream(messages=QUESTION, tool_choice=choice, **options) as stream:
        final = stream.get_final_message()
    assert [block.type for block in final.content] == ["tool_use"] and set(final.content[0].input) == {"city"}


def test_stop_sequences_are_named(asked, model):
    options = {"model": model, "max_tokens": 24, "messages": LONG, "extra_body": GREEDY}
    stop = asked.messages.create(**options).content[0].text[5:9]
    answer = asked.messages.create(stop_sequences=[stop], **options)
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", stop)


def test_errors_are_of_the_kind_that_the_client_knows(asked, model):
    with pytest.raises(anthropic.NotFoundError):
        asked.messages.create(model="nobody", max_tokens=4, messages=QUESTION)
    with pytest.raises(anthropic.BadRequestError) as caught:
        asked.messages.create(
            model=model, max_tokens=4, messages=QUESTION, tools=[{"type": "web_search_20250305", "name": "web_search"}]
        )
    assert "web_search" in str(caught.value)


def test_a_changing_billing_line_keeps_the_prefix(server):
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=%s;"},
        {"type": "text", "text": "You are an agent. " * 60},
    ]

    def cached(server, number):
        blocks = [dict(system[0], text=system[0]["text"] % number), system[1]]
        body = {"model": MODEL, "max_tokens": 2, "system": blocks, "messages": QUESTION}
        answer = httpx.post(f"{server.url}/v1/messages", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()["usage"]["cache_read_input_tokens"], answer.headers.get("x-homing-normalized")

    assert cached(server, 0)[1] == "system"
    # The router hears of cached blocks a little later. With the line, no prefix would ever be found.
    numbers = iter(range(1, 1000))
    server.until("the prefix is found", lambda: cached(server, next(numbers))[0] >= 128)
