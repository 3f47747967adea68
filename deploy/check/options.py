"""Whether `homing` has the options that manifests and compose file give it.

options.json is the one list of what we rely on. It is compared with what there is: the load
generator's part with its definition in Rust, all of it with `--help` where a built program is
given.
"""

import json
import re
import subprocess

from objects import pods
from render import CHECK, ROOT

RELIED_ON = json.loads((CHECK / "options.json").read_text())
# Of the specification; docs/config.md lists them beside ours.
FOREIGN = {"DYN_ROUTER_MODE": "router-mode", "DYN_KV_CACHE_BLOCK_SIZE": "kv-cache-block-size"}
# Read by `homing loadgen` beside its options.
VARIABLES = {
    "loadgen": {
        "HOMING_CONTROL_TOKEN",
        "HOMING_USER_MODEL_API_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_REGION",
        "AWS_ENDPOINT_URL",
    }
}
# Options that are there or not, without a value.
FLAGS = {"no-load", "paused"}
# What the console can be told of its platform (`--part KIND=NAME[,DETAIL]`).
PARTS = {
    *("platform", "gateway", "nodes", "frontend", "discovery", "events", "requests", "workers"),
    *("load", "user-model", "corpus", "storage", "metrics", "dashboards"),
}
LISTS = {
    "discovery": {"static", "kubernetes", "etcd", "dynamo-kubernetes"},
    "events": {"grpc", "nats", "zmq"},
}


def problems(objects):
    for pod in pods(objects):
        for container in (pod.spec or {"containers": []})["containers"]:
            if container["name"] == "homing":
                variables = {
                    variable["name"]: variable.get("value") for variable in container.get("env", [])
                }
                yield from of_command(pod.owner, container["args"], variables)


def of_command(owner, words, variables):
    command, *words = words
    if command not in RELIED_ON:
        yield f"{owner}: `homing {command}` is no command"
        return
    for word in words:
        if word.removeprefix("--") in FLAGS:
            yield from of_option(owner, command, word.removeprefix("--"), "")
            continue
        match = re.fullmatch(r"--([a-z0-9-]+)=(.*)", word)
        if not match:
            yield f"{owner}: {word} is not --option=value"
            continue
        yield from of_option(owner, command, *match.groups())
    # What an option says to read from the environment.
    read = {word.partition("=")[2] for word in words if re.match("--[a-z-]+-env=", word)}
    yield from (f"{owner}: nobody sets {name}" for name in sorted(read - variables.keys()))
    for name, value in variables.items():
        option = FOREIGN.get(name) or name.removeprefix("HOMING_").lower().replace("_", "-")
        if name in FOREIGN or (
            name.startswith("HOMING_") and name not in VARIABLES.get(command, ())
        ):
            yield from of_option(owner, command, option, value)
        elif name not in read | VARIABLES.get(command, set()) and not used(name, words):
            yield f"{owner}: nobody reads {name}"


def used(name, words):
    return any(f"$({name})" in word for word in words)


def of_option(owner, command, option, value):
    if option not in RELIED_ON[command]:
        yield f"{owner}: `homing {command}` has no --{option}"
    elif option in LISTS and value not in LISTS[option]:
        yield f"{owner}: --{option} takes no {value}"
    elif option == "advertise" and "/" in value:
        yield f"{owner}: --advertise takes a host, not {value}"
    elif option == "profile" and not (ROOT / f"crates/engines/engine/profiles/{value}.toml").is_file():
        yield f"{owner}: there is no profile {value}"
    elif option == "part" and not re.fullmatch(rf"({'|'.join(PARTS)})=[^,]+(,.+)?", value):
        yield f"{owner}: --part takes no {value}"
    elif option == "router-mode" and value and "$" not in value and value not in router_modes():
        yield f"{owner}: there is no router mode {value}"


def router_modes():
    line = re.search(
        r"^\| `--router-mode` .*chosen: ([^|]+) \|$", (ROOT / "docs/config.md").read_text(), re.M
    )
    return line.group(1).split(", ")


def of_sources():
    """The list itself, as far as it can be compared."""
    # Those that it shares with others are in files of their own.
    files = ("loadgen.rs", "console.rs", "texts.rs")
    text = "".join((ROOT / "crates/homing/src/args" / name).read_text() for name in files)
    defined = {
        name.replace("_", "-") for name in re.findall(r"^    pub\(crate\) (\w+):", text, re.M)
    }
    for option in sorted(set(RELIED_ON["loadgen"]) - defined):
        yield f"options.json: crates/homing/src/args/loadgen.rs has no --{option}"


def of_program(program):
    """Problems, and the commands that this build does not have."""
    found, absent = [], []
    for command, options in RELIED_ON.items():
        done = subprocess.run([program, command, "--help"], capture_output=True, text=True)
        if done.returncode != 0:
            absent.append(command)
            continue
        known = set(re.findall(r"--([a-z0-9-]+)", done.stdout))
        found += [
            f"options.json: `homing {command}` has no --{option}"
            for option in options
            if option not in known
        ]
    return found, absent
