"""The Responses API by the official `openai` client."""

import json

import openai
import pytest

from conftest import MODEL

TOOL = {
    "type": "function",
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
        "additionalProperties": False,
    },
}

# Asked with temperature 0: a sampled answer could end at any token.
LONG = "Write a long story about a mountain."


@pytest.fixture(params=["smollm2", MODEL])
def model(request):
    return request.param


@pytest.fixture
def asked(model, smol, server):
    return (smol if model == "smollm2" else server).client()


def test_a_conversation_by_previous_response_id(asked, model):
    first = asked.responses.create(
        model=model, input=LONG, instructions="You tell stories.", max_output_tokens=24, temperature=0
    )
    assert first.status == "incomplete" and first.incomplete_details.reason == "max_output_tokens"
    assert first.output_text and first.usage.output_tokens == 24
    second = asked.responses.create(
        model=model, input="And a page table?", previous_response_id=first.id, max_output_tokens=8
    )
    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > first.usage.input_tokens
    with pytest.raises(openai.BadRequestError) as caught:
        asked.responses.create(model=model, input="?", previous_response_id="resp_nobody", max_output_tokens=8)
    assert caught.value.code == "previous_response_not_found"
    unstored = asked.responses.create(model=model, input="hi", store=False, max_output_tokens=8)
    with pytest.raises(openai.BadRequestError):
        asked.responses.create(model=model, input="?", previous_response_id=unstored.id, max_output_tokens=8)


def test_events_come_in_order_and_add_up(asked, model):
    options = {"model": model, "input": LONG, "max_output_tokens": 16, "temperature": 0}
    events = list(asked.responses.create(stream=True, **options))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text and text == events[-1].response.output_text


def test_a_call_and_its_output(asked, model):
    options = {"model": model, "tools": [TOOL], "max_output_tokens": 120, "temperature": 0}
    first = asked.responses.create(
        input="Weather in Bern?", tool_choice="required", parallel_tool_calls=False, **options
    )
    [call] = [item for item in first.output if item.type == "function_call"]
    assert call.name == "get_weather" and "city" in json.loads(call.arguments)
    second = asked.responses.create(
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "21 C"}],
        previous_response_id=first.id,
        tool_choice="none",
        **options,
    )
    assert second.output_text
    streamed = asked.responses.create(
        input="Weather in Bern?", tool_choice="required", parallel_tool_calls=False, stream=True, **options
    )
    events = list(streamed)
    deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    done = [event for event in events if event.type == "response.function_call_arguments.done"]
    assert len(done) == 1 and "".join(deltas) == done[0].arguments


def test_structured_text(asked, model):
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}},
        "required": ["kind"],
        "additionalProperties": False,
    }
    options = {
        "model": model,
        "input": "Which?",
        "text": {"format": {"type": "json_schema", "name": "k", "schema": schema}},
        "max_output_tokens": 60,
    }
    answer = asked.responses.create(**options)
    assert answer.status == "completed"
    assert json.loads(answer.output_text)["kind"] in ("a", "b")
    with asked.responses.stream(**options) as stream:
        final = stream.get_final_response()
    assert json.loads(final.output_text)["kind"] in ("a", "b")


def test_what_is_not_supported_is_refused_by_name(asked, model):
    for options, param in [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
    ]:
        with pytest.raises(openai.BadRequestError) as caught:
            asked.responses.create(model=model, input="hi", **options)
        assert caught.value.param == param
