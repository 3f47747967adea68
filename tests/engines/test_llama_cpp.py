"""Two of llama.cpp's own servers behind one frontend: an engine that has OpenAI's API, and no events."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import threading

import httpx
import pytest
from conftest import HERE, HOMING, Homing, end, free_port, until
from test_fleet import CHAT, SUBJECTS, Conversation, cached, names, sound, streamed

SLOTS, CONTEXT = 4, 2048


class Server:
    def __init__(self, name, gguf, log):
        self.port, self.name = free_port(), name
        self.url = f"http://127.0.0.1:{self.port}"
        self.spec = f"openai={self.url},name={name},slots={SLOTS},blocks={SLOTS * CONTEXT // 32}"
        words = [gguf, self.port, SLOTS, SLOTS * CONTEXT]
        script = [sys.executable, os.path.join(HERE, "llama_server.py"), *map(str, words)]
        self.process = subprocess.Popen(script, stdout=log, stderr=log, start_new_session=True)

    def healthy(self):
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="module")
def servers(gguf, tmp_path_factory):
    started = []
    with open(tmp_path_factory.mktemp("llama-cpp") / "log", "w+") as log:
        try:
            started += [Server(name, gguf, log) for name in ("l1", "l2")]
            for server in started:
                until("llama.cpp serves", server.healthy, 120, lambda: server.process.poll() is None)
            yield started
        finally:
            for server in started:
                end(server.process)


@pytest.fixture(scope="module")
def frontend(servers, model):
    words = ["--model-path", model[0], "--model-name", "smollm2"]
    words += [word for server in servers for word in ("--upstream", server.spec)]
    frontend = Homing("frontend", "--http-port", "0", *words)
    try:
        until("both have joined", lambda: len(sound(frontend)) == 2, 60)
        yield frontend
    finally:
        end(frontend.process)


def test_the_doctor_knows_what_it_lacks(servers, model):
    words = [HOMING, "doctor", "--upstream", servers[0].spec, "--model-path", model[0]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    assert "events" in done.stdout


@pytest.mark.parametrize("stream", [False, True])
def test_it_answers_as_llama_cpp_alone(frontend, servers, stream):
    body = {"model": "smollm2", "prompt": "The capital of France is", "max_tokens": 20, "temperature": 0, "stream": stream}
    texts = []
    for url in (servers[0].url, frontend.url):
        answer = httpx.post(f"{url}/v1/completions", json=body, timeout=120)
        assert answer.status_code == 200, answer.text
        texts.append(said(answer.text) if stream else answer.json()["choices"][0]["text"])
    assert texts[0] == texts[1] != ""


def said(events):
    chunks = [line[6:] for line in events.splitlines() if line.startswith("data: {")]
    return "".join(choice["text"] for chunk in chunks for choice in json.loads(chunk)["choices"])


def test_what_is_forwarded_works_as_it_does_there(frontend):
    schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "Paris"]}}, "required": ["city"]}
    body = {"model": "smollm2", "messages": [{"role": "user", "content": "A city?"}], "max_tokens": 40}
    body["response_format"] = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    answer = frontend.http.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-homing-forwarded"].startswith("response_format")
    assert json.loads(answer.json()["choices"][0]["message"]["content"])["city"] in ("Rome", "Paris")


def test_conversations_go_home(frontend):
    """What it holds is estimated, by blocks; llama.cpp counts what it found in tokens."""
    held = [Conversation(subject) for subject in SUBJECTS[:SLOTS]]
    for question in ("How does it begin?", "And then?", "How does it end?"):
        for one in held:
            one.ask(frontend, question)
    assert all(worker["status"]["cache_estimated"] for worker in frontend.workers("smollm2"))
    later = [(before, turn) for one in held for before, turn in zip(one.turns, one.turns[1:])]
    home = sum(before["winner"] == turn["winner"] for before, turn in later)
    print(f"later turns {len(later)}, at home {home}; predicted and reported: {[cached(turn) for _, turn in later]}")
    for before, turn in later:
        assert turn["winner"] == before["winner"] or turn["reason"].startswith("faster elsewhere"), turn
        if turn["winner"] == before["winner"]:
            assert turn["predicted_cached_tokens"] > 0 and turn["actual_cached_tokens"] > 0, turn


def test_a_prompt_that_is_too_long_is_refused_and_blames_nobody(frontend):
    answer = frontend.http.post("/v1/completions", json={"model": "smollm2", "prompt": [504] * (CONTEXT + 1)})
    assert answer.status_code == 400, answer.text
    assert len(sound(frontend)) == 2


def test_a_killed_server_loses_no_answer(frontend, servers):
    """Runs last."""
    tokens, begun = 120, threading.Semaphore(0)
    moved = frontend.metric("dynamo_frontend_model_migration_total")
    with concurrent.futures.ThreadPoolExecutor() as clients:
        answers = [clients.submit(streamed, frontend.url, subject, tokens, begun) for subject in SUBJECTS]
        for _ in SUBJECTS:
            assert begun.acquire(timeout=120)
        os.killpg(servers[1].process.pid, signal.SIGKILL)
        results = [answer.result() for answer in answers]
    assert [finish for finish, _, _ in results] == ["length"] * len(SUBJECTS), results
    assert [errors for _, _, errors in results] == [[]] * len(SUBJECTS)
    assert frontend.metric("dynamo_frontend_model_migration_total") > moved
    until("it is gone", lambda: names(frontend) == ["l1"], 60)
