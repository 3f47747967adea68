"""Least privilege, and nothing that moves: users, capabilities, tokens, images, secrets."""

import re

from objects import containers, name_of, of_kind, pods

POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
SECRET_NAMES = re.compile(r"TOKEN|KEY|SECRET|PASSWORD")
PUBLIC_NAMES = {"PYTHONHASHSEED"}
# What only an exporter of GPU figures may do, in a namespace of its own: be root, without a privilege,
# and read the kubelet's socket that belongs to root.
GPU_METRICS = {"app.kubernetes.io/component": "gpu-metrics"}
KUBELET_SOCKET = "/var/lib/kubelet/pod-resources"
# kinds of pods that serve nobody
BATCH = ("Job",)


def problems(objects):
    for secret in of_kind(objects, "Secret"):
        yield f"{name_of(secret)}: secrets are named here, never written down"
    for pod in pods(objects):
        if pod.spec is not None:
            yield from pod_problems(pod)
    for role in of_kind(objects, "Role", "ClusterRole"):
        yield from role_problems(role)
    for graph in of_kind(objects, "DynamoGraphDeployment"):
        for component in graph["spec"]["components"]:
            for container in component["podTemplate"]["spec"]["containers"]:
                yield from image_problems(name_of(graph), container["image"])


def reads_gpus(pod):
    return pod.namespace == "homing-gpu-metrics" and GPU_METRICS.items() <= pod.labels.items()


def pod_problems(pod):
    spec = pod.spec
    for key, value in POD.items():
        exempt = key == "runAsNonRoot" and reads_gpus(pod)
        if spec.get("securityContext", {}).get(key) != value and not exempt:
            yield f"{pod.owner}: {key} is not {value}"
    if spec.get("securityContext", {}).get("runAsUser", 0) == 0 and not reads_gpus(pod):
        yield f"{pod.owner}: runs as root"
    for volume in spec.get("volumes", []):
        path = volume.get("hostPath", {}).get("path")
        if path and not (reads_gpus(pod) and path == KUBELET_SOCKET):
            yield f"{pod.owner}: mounts {path} of the node"
    if "automountServiceAccountToken" not in spec:
        yield f"{pod.owner}: says nothing of the service account's token"
    elif spec["automountServiceAccountToken"] and "serviceAccountName" not in spec:
        yield f"{pod.owner}: mounts the token of the default account"
    for key in ["hostNetwork", "hostPID", "hostIPC"]:
        if spec.get(key):
            yield f"{pod.owner}: {key}"
    for container in containers(pod):
        yield from container_problems(pod, container)


def container_problems(pod, container):
    for key, value in CONTAINER.items():
        if key == "readOnlyRootFilesystem" and reads_gpus(pod):
            continue
        if container.get("securityContext", {}).get(key) != value:
            yield f"{pod.owner}: {key} is not {value}"
    requests = container.get("resources", {}).get("requests", {})
    limits = container.get("resources", {}).get("limits", {})
    if not {"cpu", "memory"} <= requests.keys() or "memory" not in limits:
        yield f"{pod.owner}: does not say what it needs"
    if (
        not pod.owner.startswith(BATCH)
        and not {"livenessProbe", "readinessProbe"} <= container.keys()
    ):
        yield f"{pod.owner}: nobody asks whether it lives"
    yield from image_problems(pod.owner, container["image"])
    for variable in container.get("env", []):
        name = variable["name"]
        if SECRET_NAMES.search(name) and name not in PUBLIC_NAMES and "value" in variable:
            yield f"{pod.owner}: {name} has its value written down"


def image_problems(owner, image):
    tag = re.fullmatch(r"[^@]+:([^/:@]+)(@sha256:[0-9a-f]{64})?", image)
    if not tag or not re.search(r"\d+\.\d+", tag.group(1)):
        yield f"{owner}: image {image} is not pinned to a version"


def role_problems(role):
    permitted = {
        ("", "pods"),
        ("discovery.k8s.io", "endpointslices"),
        ("inference.networking.k8s.io", "inferencepools"),
        ("llm-d.ai", "inferenceobjectives"),
        ("nvidia.com", "dynamoworkermetadatas"),
    }
    for rule in role["rules"]:
        wanted = {
            (group, resource) for group in rule["apiGroups"] for resource in rule["resources"]
        }
        if not wanted <= permitted or not set(rule["verbs"]) <= {"get", "list", "watch"}:
            yield f"{name_of(role)}: may do more than look at {sorted(permitted)}"
