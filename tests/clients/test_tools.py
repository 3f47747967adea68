"""Tool calls by the official `openai` client, with a real model and a simulated one."""

import json

import openai
import pytest

from conftest import MODEL

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["C", "F"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
STOP = {"type": "function", "function": {"name": "stop"}}
QUESTION = [{"role": "user", "content": "What is the weather in Bern? Call the function."}]


@pytest.fixture(params=["smollm2", MODEL])
def model(request):
    return request.param


@pytest.fixture
def asked(model, smol, server):
    return (smol if model == "smollm2" else server).client()


def check_call(call):
    assert call.id and call.type == "function"
    assert call.function.name == "get_weather"
    arguments = json.loads(call.function.arguments)
    assert set(arguments) == {"city", "unit"} and arguments["unit"] in ("C", "F")


def test_a_required_call_and_its_result(asked, model):
    options = {"model": model, "tools": [WEATHER], "max_tokens": 200, "seed": 1}
    first = asked.chat.completions.create(
        messages=QUESTION, tool_choice="required", parallel_tool_calls=False, **options
    )
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls" and message.content is None
    [call] = message.tool_calls
    check_call(call)
    history = [*QUESTION, message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "21 C, sunny"}]
    second = asked.chat.completions.create(messages=history, tool_choice="none", **options)
    assert second.choices[0].message.content and not second.choices[0].message.tool_calls
    # The second prompt goes on where the first ended.
    assert second.usage.prompt_tokens > first.usage.prompt_tokens + first.usage.completion_tokens
    if model == "smollm2":  # one worker, so it is the one that has the prefix
        assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens - 32


def test_a_named_call(asked, model):
    answer = asked.chat.completions.create(
        model=model,
        messages=QUESTION,
        tools=[STOP, WEATHER],
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
        max_tokens=200,
    )
    [call] = answer.choices[0].message.tool_calls
    check_call(call)


def test_auto_leaves_it_to_the_model(asked, model):
    answer = asked.chat.completions.create(model=model, messages=QUESTION, tools=[WEATHER, STOP], max_tokens=60, seed=2)
    choice = answer.choices[0]
    if choice.message.tool_calls:
        assert {call.function.name for call in choice.message.tool_calls} <= {"get_weather", "stop"}
    else:
        assert choice.message.content


def test_a_streamed_call_is_the_same_call(asked, model):
    options = {
        "model": model,
        "messages": QUESTION,
        "tools": [WEATHER],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 200,
        "seed": 5,
    }
    whole = asked.chat.completions.create(**options).choices[0].message.tool_calls[0]
    name, arguments, ids, finish = "", "", set(), None
    for chunk in asked.chat.completions.create(stream=True, **options):
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            for call in choice.delta.tool_calls or []:
                assert call.index == 0
                ids |= {call.id} - {None}
                name += call.function.name or ""
                arguments += call.function.arguments or ""
    assert (name, arguments, finish) == (whole.function.name, whole.function.arguments, "tool_calls")
    assert len(ids) == 1


def test_several_answers_share_one_prompt(smol):
    answer = smol.client().chat.completions.create(
        model="smollm2", messages=QUESTION, n=4, max_tokens=12, temperature=1, seed=1
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert len({choice.message.content for choice in answer.choices}) > 1
    assert answer.usage.completion_tokens <= 48
    again = smol.client().chat.completions.create(
        model="smollm2", messages=QUESTION, n=1, max_tokens=12, temperature=1, seed=1
    )
    assert again.choices[0].message.content == answer.choices[0].message.content
    assert again.usage.prompt_tokens == answer.usage.prompt_tokens


def test_a_template_without_tools_says_so(smol):
    from conftest import Server

    server = Server("--engine", "llama", "--model", "smollm2", "--workers", "1")
    try:
        with pytest.raises(openai.BadRequestError) as caught:
            server.client().chat.completions.create(model="smollm2", messages=QUESTION, tools=[WEATHER])
        assert caught.value.param == "tools" and "template" in caught.value.message
    finally:
        assert server.stop() == 0
