"""What forwarding costs the frontend, beside sending token ids: CPU time per token of the answer.

Not a test: run by hand with the environment that the tests use, `HOMING_BIN` a release build.
A genuine vLLM answers; two frontends are asked in turn, one that forwards everything and one that
forwards nothing.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

import httpx
from conftest import HERE, HOMING, TEMPLATE, Engine, Homing, end, until

ROUNDS, STREAMS, TOKENS = 8, 8, 120
PROMPT = "Once upon a time there was a router that sent every turn home. " * 30


def cpu_seconds(pid):
    """Of all threads, by the scheduler's own account."""
    threads = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def stream(url, number):
    body = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": PROMPT + str(number % 4)}],
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
    }
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=300)
    assert answer.status_code == 200 and answer.text.endswith("data: [DONE]\n\n"), answer.text


def measure(frontends):
    spent = {mode: [] for mode in frontends}
    for _ in range(ROUNDS):
        for mode, frontend in frontends.items():
            before = cpu_seconds(frontend.process.pid)
            streams = [threading.Thread(target=stream, args=(frontend.url, number)) for number in range(STREAMS)]
            for one in streams:
                one.start()
            for one in streams:
                one.join()
            spent[mode].append(cpu_seconds(frontend.process.pid) - before)
    for mode, seconds in spent.items():
        micros = [1e6 * one / (STREAMS * TOKENS) for one in seconds]
        print(f"--forward {mode}: median {statistics.median(micros):.1f} us of CPU per token, rounds", end=" ")
        print(" ".join(f"{one:.1f}" for one in micros))


def main():
    pulled = subprocess.run([HOMING, "model", "path", "smollm2"], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        model, adapter = os.path.join(folder, "smollm2"), os.path.join(folder, "sql")
        script = os.path.join(HERE, "model.py")
        subprocess.run([sys.executable, script, pulled.stdout.strip(), model, adapter], check=True)
        engine, frontends = Engine("v1", model, adapter, os.path.join(folder, "log")), {}
        try:
            engine.serves()
            words = ["--model-path", model, "--model-name", "smollm2", "--chat-template", TEMPLATE]
            words += ["--kv-cache-block-size", "32", "--max-context-tokens", "4096", "--upstream", engine.spec()]
            for mode in ("never", "always"):
                frontends[mode] = Homing("frontend", "--http-port", "0", "--forward", mode, *words)
            for frontend in frontends.values():
                until("vLLM has joined", lambda: frontend.workers("smollm2"), 60)
                stream(frontend.url, 0)
            measure(frontends)
        finally:
            for frontend in frontends.values():
                end(frontend.process)
            end(engine.process)


if __name__ == "__main__":
    main()
