"""Image, compose file and scripts: linters, and what the files say of each other."""

import os
import re
import subprocess
import tomllib

import options
import security
from render import DEPLOY, ROOT, TOOLS, documents

DOCKER = DEPLOY / "docker"


def said(*command, **environment):
    """What a linter finds, line by line."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
    )
    lines = (done.stdout + done.stderr).strip().splitlines()
    return [] if done.returncode == 0 else lines or [f"{command[0]} ended with {done.returncode}"]


def problems():
    yield from said(TOOLS / "hadolint", "--no-color", DOCKER / "Dockerfile")
    yield from said(TOOLS / "shellcheck", "-x", "--source-path=SCRIPTDIR", *scripts())
    yield from said("promtool", "check", "config", "--syntax-only", DOCKER / "prometheus.yml")
    yield from compose_problems()
    yield from image_problems()


def scripts():
    found = [*DEPLOY.rglob("*.sh"), *(ROOT / "docs/examples").rglob("*.sh")]
    return [path for path in found if "node_modules" not in path.parts]


def compose_problems():
    """By the genuine program, which needs no Docker engine for it; then by our own rules."""
    file = DOCKER / "compose.yml"
    yield from said(
        TOOLS / "docker-compose", "--file", file, "config", "--quiet", HOMING_CONTROL_TOKEN="token"
    )
    composed = documents(file.read_text())[0]
    for name, service in composed["services"].items():
        owner = f"compose.yml {name}"
        yield from security.image_problems(owner, service["image"])
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith(".") and not (DOCKER / source).exists():
                yield f"{owner}: {source} does not exist"
        for port in service.get("ports", []):
            if not port.startswith("127.0.0.1:"):
                yield f"{owner}: port {port} is open to the world"
        if service["image"].startswith("homing:"):
            yield from options.of_command(owner, service["command"], service.get("environment", {}))
            # The dashboards' address is for browsers, which are no service.
            words = [word for word in service["command"] if not word.startswith("--grafana-url=")]
            for host in re.findall(r"(?:http|nats)://([a-z0-9.-]+):", " ".join(words)):
                if host not in composed["services"]:
                    yield f"{owner}: no service {host}"
    targets = re.findall(r'"([a-z0-9-]+):\d+"', (DOCKER / "prometheus.yml").read_text())
    for host in targets:
        if host not in composed["services"]:
            yield f"prometheus.yml: no service {host}"


def image_problems():
    """Versions said twice, and files that the build reads and the image's context leaves out."""
    dockerfile = (DOCKER / "Dockerfile").read_text()
    toolchain = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
    if f"rust:{toolchain}-" not in dockerfile:
        yield f"Dockerfile: the compiler is not that of rust-toolchain.toml, {toolchain}"
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    for path, form in [
        (DOCKER / "compose.yml", f"image: homing:{version}\n"),
        (DEPLOY / "kubernetes/base/kustomization.yaml", f"newTag: {version}\n"),
        (DEPLOY / "kubernetes/overlays/sim/kustomization.yaml", f"newTag: {version}\n"),
        (DEPLOY / "kubernetes/overlays/epp/kustomization.yaml", f"newTag: {version}\n"),
        (DEPLOY / "helm/homing/Chart.yaml", f"appVersion: {version}\n"),
        (DEPLOY / "helm/homing-epp/Chart.yaml", f"appVersion: {version}\n"),
    ]:
        if form not in path.read_text():
            yield f"{path.relative_to(ROOT)}: not of version {version}"
    ignored = [
        line
        for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
        if line and line[0] != "#"
    ]
    folders = [line for line in ignored if "*" not in line]
    for source in sorted((ROOT / "crates").rglob("*.rs")):
        for path in re.findall(
            r'include_(?:str|bytes)!\(\s*(?:concat!\()?"([^"]+)"', source.read_text()
        ):
            read = (source.parent / path).resolve()
            if not read.is_relative_to(ROOT):
                continue
            for folder in folders:
                if read.relative_to(ROOT).is_relative_to(folder):
                    reader = source.relative_to(ROOT)
                    yield f"Dockerfile.dockerignore: leaves out {folder}; {reader} reads {path}"
