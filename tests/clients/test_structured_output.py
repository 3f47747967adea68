"""Answers that fit what the request says they must look like, from a real model and a simulated one."""

import concurrent.futures
import json
import re

import openai
import pytest

import schemas
from conftest import MODEL

QUESTION = [{"role": "user", "content": "Describe the thing as JSON."}]


def ask(client, model, schema, seed):
    name = {"name": "thing", "schema": schema, "strict": True}
    return client.chat.completions.create(
        model=model,
        messages=QUESTION,
        response_format={"type": "json_schema", "json_schema": name},
        seed=seed,
        temperature=1.0,
        max_tokens=400,
    )


def all_fit(server, model, seeds):
    client = server.client()

    def one(seed):
        schema = schemas.schema(seed)
        choice = ask(client, model, schema, seed).choices[0]
        assert choice.finish_reason == "stop", (schema, choice.message.content)
        schemas.check(json.loads(choice.message.content), schema)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(one, seeds))


def test_fifty_random_schemas_on_a_real_model(smol):
    all_fit(smol, "smollm2", range(50))


def test_fifty_random_schemas_with_speculation(speculating_smol):
    # How much is drafted depends on what pays; the engine's own tests draft in every step.
    all_fit(speculating_smol, "smollm2", range(50))


def test_speculation_changes_no_constrained_answer(smol, speculating_smol):
    for seed in range(5):
        answers = {
            ask(server.client(), "smollm2", schemas.schema(seed), seed).choices[0].message.content
            for server in (smol, speculating_smol)
        }
        assert len(answers) == 1


def test_fifty_random_schemas_on_the_simulator(server):
    all_fit(server, MODEL, range(50))


@pytest.mark.parametrize(
    "constraint, fits",
    [
        ({"guided_regex": "[ab]{3}-[0-9]{2}"}, lambda text: re.fullmatch("[ab]{3}-[0-9]{2}", text)),
        ({"guided_choice": ["left", "right at once"]}, lambda text: text in ("left", "right at once")),
        ({"guided_grammar": 'start: "<" /[a-c]{1,4}/ ">"'}, lambda text: re.fullmatch("<[a-c]{1,4}>", text)),
        ({"structured_outputs": {"regex": "x{2,5}"}}, lambda text: re.fullmatch("x{2,5}", text)),
        ({"guided_json": {"type": "array", "items": {"const": 1}, "maxItems": 3}}, lambda text: set(json.loads(text)) <= {1}),
    ],
)
def test_other_ways_to_ask(smol, server, constraint, fits):
    for client, model in [(smol.client(), "smollm2"), (server.client(), MODEL)]:
        chat = client.chat.completions.create(
            model=model, messages=QUESTION, max_tokens=60, extra_body=constraint
        )
        assert fits(chat.choices[0].message.content), chat
        text = client.completions.create(model=model, prompt="Say: ", max_tokens=60, extra_body=constraint)
        assert fits(text.choices[0].text), text


def test_json_object_is_an_object(smol):
    answer = smol.client().chat.completions.create(
        model="smollm2", messages=QUESTION, response_format={"type": "json_object"}, max_tokens=300, seed=3
    )
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)
    else:
        assert answer.choices[0].message.content.startswith("{")


def test_what_is_no_schema_is_refused_with_its_place(client):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, MODEL, {"type": "object", "properties": {"a": {"type": "strange"}}}, 0)
    assert caught.value.param == "response_format.json_schema.schema"
    assert "strange" in caught.value.message


def test_logit_bias_and_stop_token_ids(smol):
    client = smol.client()

    def answer(**options):
        chat = client.chat.completions.create(
            model="smollm2", messages=QUESTION, max_tokens=8, temperature=0, logprobs=True, **options
        )
        return chat.choices[0]

    plain = answer()
    first = plain.logprobs.content[0].token
    ids = client.completions.create(model="smollm2", prompt=first, max_tokens=1, temperature=0)
    assert ids.usage.prompt_tokens >= 1
    # Every token that the answer has is made impossible, one after the other.
    banned = {}
    for _ in range(3):
        chat = answer(logit_bias=banned) if banned else plain
        assert chat.message.content
        banned[str(token_id(smol, chat.logprobs.content[0].token))] = -100
    assert answer(logit_bias=banned).logprobs.content[0].token not in (first,)
    stop = token_id(smol, plain.logprobs.content[2].token)
    stopped = answer(extra_body={"stop_token_ids": [stop]})
    assert stopped.finish_reason == "stop"
    assert plain.message.content.startswith(stopped.message.content)


def token_id(server, text):
    """The id of a token by its text: found by asking for each token of the vocabulary is too slow,
    so the vocabulary's own file is read."""
    import subprocess
    import os

    path = subprocess.run([os.environ["HOMING_BIN"], "model", "path", "smollm2"], capture_output=True, text=True)
    return vocabulary(path.stdout.strip())[text]


_VOCABULARY = {}


def vocabulary(path):
    """Token texts by id out of a GGUF file's table of tokens."""
    if _VOCABULARY:
        return _VOCABULARY
    import struct

    data = open(path, "rb").read(16 << 20)
    at = data.index(b"tokenizer.ggml.tokens") + len(b"tokenizer.ggml.tokens")
    kind, element, count = struct.unpack_from("<IIQ", data, at)
    assert (kind, element) == (9, 8), "a list of texts"
    at += 16
    for number in range(count):
        (length,) = struct.unpack_from("<Q", data, at)
        text = data[at + 8 : at + 8 + length].decode()
        _VOCABULARY.setdefault(text.replace("Ġ", " ").replace("Ċ", "\n"), number)
        at += 8 + length
    return _VOCABULARY
