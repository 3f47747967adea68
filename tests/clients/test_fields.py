"""Every parameter that the official client has is acted on, accepted as documented, or refused by name."""

import inspect
import pathlib
import re

import httpx
import pytest

from conftest import MODEL

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "request-fields.md"

# Of the client itself, not of the body.
NOT_SENT = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}

# Values that ask for something, where a text would be of the wrong type.
ASKING = {
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "tool_choice": "required",
    "functions": [{"name": "f", "parameters": {}}],
    "function_call": {"name": "f"},
    "response_format": {"type": "json_object"},
    "logit_bias": {"50": 100},
    "modalities": ["text", "audio"],
    "store": True,
}


def documented(endpoint):
    """The fields with an effect, and those that are accepted with any value."""
    text = DOCS.read_text()
    line = re.search(rf"^- `POST {endpoint}`: (.*)$", text, re.M)[1]
    accepted = re.findall(r"^\| `(\w+)` \| any \|", text, re.M)
    return set(re.findall(r"`(\w+)`", line)), set(accepted)


@pytest.mark.parametrize(
    "endpoint, resource, needed",
    [
        ("/v1/chat/completions", "chat", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/completions", "completions", {"prompt": "hi"}),
    ],
)
def test_no_parameter_of_the_official_client_is_ignored(server, client, endpoint, resource, needed):
    create = client.chat.completions.create if resource == "chat" else client.completions.create
    parameters = set(inspect.signature(create).parameters) - NOT_SENT
    assert len(parameters) > 15, parameters
    acting, accepted = documented(endpoint)
    for name in sorted(parameters - acting):
        body = {"model": MODEL, "max_tokens": 2, **needed, name: ASKING.get(name, "x")}
        response = httpx.post(f"{server.url}{endpoint}", json=body, timeout=60)
        if name in accepted:
            assert response.status_code == 200, (name, response.text)
        else:
            assert response.status_code == 400, (name, response.text)
            assert response.json()["error"]["param"] == name
