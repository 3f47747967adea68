"""`homing doctor` before a genuine vLLM: what is right is said to be right, and what is wrong is named with its remedy."""

import os
import re
import subprocess

from conftest import HOMING, TEMPLATE, Homing, end, free_port


def examine(spec, model, *words, environment=None):
    """Its exit status, and the verdict and the text of each point."""
    command = [HOMING, "doctor", "--upstream", spec, "--model-path", model, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    print(done.stdout, done.stderr)
    lines = re.findall(r"^  (ok|warning|-|FAILED) +(\S+(?: \S+)*?)  +(.*)$", done.stdout, re.M)
    return done.returncode, {point: (verdict, text) for verdict, point, text in lines}, done.stdout


def test_a_good_one(engine, model):
    status, points, _ = examine(engine.spec(), model[0])
    assert status == 0
    verdicts = {point: verdict for point, (verdict, _) in points.items()}
    good = {"health", "version", "model", "tokenizer", "block size", "events", "block hashes", "replay", "cached tokens"}
    assert {point for point in good if verdicts.get(point) != "ok"} == set()
    assert "context of 4096 tokens" in points["model"][1]


def test_one_without_events(engine, model):
    status, points, output = examine(f"vllm={engine.url}", model[0])
    assert status == 0
    assert points["events"][0] == "warning"
    assert "--kv-events-config" in output
    nobody = f"vllm={engine.url},events=tcp://127.0.0.1:{free_port()}"
    status, points, _ = examine(nobody, model[0])
    assert status == 1
    assert points["events"][0] == "FAILED"


def test_another_block_size(engine, model):
    status, points, output = examine(engine.spec(), model[0], "--kv-cache-block-size", "16")
    assert status == 1
    assert points["block size"] == ("FAILED", "32 tokens, and 16 here")
    assert "--kv-cache-block-size 32" in output


def test_a_name_that_it_does_not_serve(engine, model):
    status, points, _ = examine(f"{engine.spec()},model=unknown", model[0])
    assert status == 1
    assert points["model"][0] == "FAILED"


def test_a_wrong_key(engine, model, tmp_path):
    """The key is asked for by a Homing in front of vLLM, which is an OpenAI server like others."""
    keys = tmp_path / "keys.toml"
    keys.write_text('[[keys]]\nname = "tests"\nkey = "right-and-long-enough"\n')
    words = ["--upstream", engine.spec(), "--model-path", model[0], "--model-name", "smollm2", "--chat-template", TEMPLATE]
    gate = Homing("frontend", "--http-port", "0", "--api-key-file", str(keys), *words)
    try:
        spec = f"openai={gate.url}"
        status, points, output = examine(spec, model[0])
        assert (status, points["API key"][0]) == (1, "FAILED")
        assert "--upstream-api-key-env" in output
        wrong = os.environ | {"ENGINE_KEY": "wrong"}
        status, points, _ = examine(spec, model[0], "--upstream-api-key-env", "ENGINE_KEY", environment=wrong)
        assert (status, points["API key"]) == (1, ("FAILED", "it refuses the API key"))
    finally:
        end(gate.process)
