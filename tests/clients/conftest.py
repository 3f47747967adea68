"""Starts the real `homing demo` once and hands out clients that talk to it."""

import os
import re
import signal
import subprocess
import time

import httpx
import openai
import pytest

MODEL = "Llama-3.1-70B-Instruct-FP8"


class Server:
    """A running `homing demo` on a free port."""

    def __init__(self, *options, verify=True, stderr=None):
        command = [os.environ["HOMING_BIN"], "demo", "--no-load", "--http-port", "0", "--console-port", "0"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.url = None
        for line in self.process.stdout:
            if match := re.match(r"\s+api\s+(https?://\S+)/v1", line):
                self.url = match[1]
            if "Ctrl-C" in line:
                break
        assert self.url, "the server printed no address"
        self.http = httpx.Client(base_url=self.url, timeout=30, verify=verify)

    def client(self, **options):
        options = {"max_retries": 0, "timeout": 60, **options}
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="unused", **options)

    def workers(self):
        return self.http.get("/workers").json()["workers"]

    def set_mode(self, mode, **weights):
        response = self.http.put("/router", json={"mode": mode, **weights})
        assert response.status_code == 200, response.text

    def until(self, what, condition, seconds=60):
        """Waits on a level, not on an edge."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"waited {seconds} s until {what}"
            time.sleep(0.02)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


@pytest.fixture(scope="session")
def server():
    server = Server()
    yield server
    assert server.stop() == 0


@pytest.fixture
def client(server):
    return server.client()


@pytest.fixture
def async_client(server):
    return openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0, timeout=60)


def smollm2(*options):
    """SmolLM2 on this machine's processor, with a chat template that has a place for tools."""
    path = subprocess.run([os.environ["HOMING_BIN"], "model", "pull", "smollm2"], capture_output=True, text=True)
    assert path.returncode == 0, path.stderr
    template = os.path.join(os.path.dirname(__file__), "tools.jinja")
    engine = ["--engine", "llama", "--model", "smollm2", "--workers", "1", "--chat-template", template]
    return Server(*engine, *options)


@pytest.fixture(scope="session")
def smol():
    server = smollm2()
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="session")
def speculating_smol():
    server = smollm2("--speculation", "ngram")
    yield server
    assert server.stop() == 0
