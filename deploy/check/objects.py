"""Looking things up among rendered objects: pods, whoever makes them, and who selects whom."""

from dataclasses import dataclass

# What Dynamo's operator calls the ports of the pods that it makes.
GRAPH_LABEL = "nvidia.com/dynamo-graph-deployment-name"
GRAPH_PORTS = {"frontend": {"http": 8000}, "worker": {"system": 9090}}
# cert-manager's pod that answers a challenge.
SOLVER = {"acme.cert-manager.io/http01-solver": "true"}
SOLVER_PORT = 8089


@dataclass(frozen=True)
class Pod:
    """A pod that will exist. `spec` is None for those that an operator makes."""

    owner: str
    namespace: str
    labels: dict
    ports: dict
    spec: dict | None = None


def name_of(thing):
    metadata = thing["metadata"]
    return f"{thing['kind']} {metadata.get('namespace', '-')}/{metadata['name']}"


def of_kind(objects, *kinds):
    return [thing for thing in objects if thing["kind"] in kinds]


def find(objects, kind, name, namespace=None):
    for thing in of_kind(objects, kind):
        metadata = thing["metadata"]
        if metadata["name"] == name and (
            namespace is None or metadata.get("namespace") == namespace
        ):
            return thing
    return None


def pods(objects):
    made = []
    for thing in of_kind(objects, "Deployment", "StatefulSet", "DaemonSet", "Job"):
        template = thing["spec"]["template"]
        ports = {
            port["name"]: port["containerPort"]
            for container in template["spec"]["containers"]
            for port in container.get("ports", [])
        }
        labels = template["metadata"]["labels"]
        made.append(
            Pod(name_of(thing), thing["metadata"]["namespace"], labels, ports, template["spec"])
        )
    for graph in of_kind(objects, "DynamoGraphDeployment"):
        for component in graph["spec"]["components"]:
            labels = {GRAPH_LABEL: graph["metadata"]["name"], "component": component["type"]}
            ports = GRAPH_PORTS[component["type"]]
            made.append(Pod(name_of(graph), graph["metadata"]["namespace"], labels, ports))
    if of_kind(objects, "Issuer"):
        made.append(Pod("cert-manager's solver", "homing", SOLVER, {"solver": SOLVER_PORT}))
    return made


def selects(selector, labels):
    """Kubernetes' label selectors, in the two forms that are used here."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for expression in selector.get("matchExpressions", []):
        if expression["operator"] != "In":
            raise ValueError(f"selectors with {expression['operator']} are not understood here")
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return True


def selected(objects, namespace, selector):
    return [
        pod for pod in pods(objects) if pod.namespace == namespace and selects(selector, pod.labels)
    ]


def behind(objects, service):
    """The pods of a Service."""
    return selected(
        objects, service["metadata"]["namespace"], {"matchLabels": service["spec"]["selector"]}
    )


def containers(pod):
    return pod.spec["containers"] + pod.spec.get("initContainers", [])
