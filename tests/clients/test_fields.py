"""Every parameter that the official client has is acted on, accepted as documented, or refused by name."""

import inspect
import pathlib
import re

import anthropic
import httpx
import pytest

from conftest import MODEL

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGES = {"/v1/responses": "responses-fields.md", "/v1/messages": "messages-fields.md"}

# Of the client itself, not of the body.
NOT_SENT = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}

# Values that ask for something, where a text would be of the wrong type.
ASKING = {
    "functions": [{"name": "f", "parameters": {}}],
    "function_call": {"name": "f"},
    "modalities": ["text", "audio"],
    "store": True,
}


def documented(endpoint):
    """The fields with an effect, and those that are accepted with any value."""
    text = (DOCS / PAGES.get(endpoint, "request-fields.md")).read_text()
    line = re.search(rf"^- `POST {endpoint}`: (.*)$", text, re.M)[1]
    accepted = re.findall(r"^\| `(\w+)` \| any \|", text, re.M)
    return set(re.findall(r"`(\w+)`", line)), set(accepted)


def creator(server, resource):
    """The official client's function for an endpoint."""
    if resource == "messages":
        return anthropic.Anthropic(base_url=server.url, api_key="unused").messages.create
    client = server.client()
    return {"chat": client.chat.completions, "completions": client.completions, "responses": client.responses}[
        resource
    ].create


@pytest.mark.parametrize(
    "endpoint, resource, needed",
    [
        ("/v1/chat/completions", "chat", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}),
        ("/v1/completions", "completions", {"prompt": "hi", "max_tokens": 2}),
        ("/v1/responses", "responses", {"input": "hi", "max_output_tokens": 2}),
        ("/v1/messages", "messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}),
    ],
)
def test_no_parameter_of_the_official_client_is_ignored(server, endpoint, resource, needed):
    parameters = set(inspect.signature(creator(server, resource)).parameters) - NOT_SENT
    assert len(parameters) > 12, parameters
    acting, accepted = documented(endpoint)
    for name in sorted(parameters - acting):
        body = {"model": MODEL, **needed, name: ASKING.get(name, "x")}
        response = httpx.post(f"{server.url}{endpoint}", json=body, timeout=60)
        if name in accepted:
            assert response.status_code == 200, (name, response.text)
        else:
            assert response.status_code == 400, (name, response.text)
            error = response.json()["error"]
            assert name in (error.get("param") or error["message"]), (name, error)
