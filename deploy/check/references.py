"""Whether what an object names is there: pods, ports, secrets, claims, accounts, metrics."""

import re

from objects import behind, containers, find, name_of, of_kind, pods, selected, selects
from render import DEPLOY, ROOT

# Of servers that are there already (docs/epp.md): yours to name.
FOREIGN_CLAIMS = {"vllm-models"}

NAMESPACES = ("homing", "monitoring", "homing-gpu-metrics")

# Installed by others (deploy/digitalocean/README.md): Grafana, with the port of its Service.
FOREIGN_SERVICES = {("monitoring", "kube-prometheus-stack-grafana"): 80}

# What deploy/kubernetes/observability.sh prints, for whoever applies it; a test compares the two.
PRINTED_MAPS = {"homing-baseline"}


def documented_secrets():
    """Secrets that people make themselves: rows of the table in deploy/README.md, name and keys."""
    rows = re.findall(
        r"^\| `(homing-[a-z-]+)` \| ((?:`[a-z-]+`(?:, )?)+) \|",
        (DEPLOY / "README.md").read_text(),
        re.M,
    )
    return {name: set(re.findall(r"`([a-z-]+)`", keys)) for name, keys in rows}


def documented_metrics():
    return set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/metrics.md").read_text(), re.M))


def problems(objects):
    found = []
    for check in [names, services, monitors, routes, workloads, accounts, volumes, scaling]:
        found += check(objects)
    return found


def names(objects):
    seen = set()
    for thing in objects:
        name = name_of(thing)
        if name in seen:
            yield f"{name}: there twice"
        seen.add(name)
        cluster_wide = thing["kind"] in ("Namespace", "PersistentVolume")
        if not cluster_wide and thing["metadata"].get("namespace") not in NAMESPACES:
            yield f"{name}: in no namespace of ours"


def services(objects):
    for service in of_kind(objects, "Service"):
        chosen = behind(objects, service)
        if not chosen:
            yield f"{name_of(service)}: selects no pod"
        for port in service["spec"]["ports"]:
            for pod in chosen:
                yield from missing_port(name_of(service), port.get("targetPort", port["port"]), pod)
    for budget in of_kind(objects, "PodDisruptionBudget"):
        if not selected(objects, budget["metadata"]["namespace"], budget["spec"]["selector"]):
            yield f"{name_of(budget)}: selects no pod"


def missing_port(who, port, pod):
    known = pod.ports if isinstance(port, str) else pod.ports.values()
    if port not in known:
        yield f"{who}: {pod.owner} has no port {port}"


def monitors(objects):
    for monitor in of_kind(objects, "ServiceMonitor"):
        selector, namespace = monitor["spec"]["selector"], monitor["metadata"]["namespace"]
        chosen = [
            service
            for service in of_kind(objects, "Service")
            if service["metadata"]["namespace"] == namespace
            and selects(selector, service["metadata"].get("labels", {}))
        ]
        if not chosen:
            yield f"{name_of(monitor)}: selects no Service"
        for service in chosen:
            ports = {port["name"] for port in service["spec"]["ports"]}
            for endpoint in monitor["spec"]["endpoints"]:
                if endpoint["port"] not in ports:
                    yield f"{name_of(monitor)}: {name_of(service)} has no port {endpoint['port']}"
    for monitor in of_kind(objects, "PodMonitor"):
        chosen = selected(objects, monitor["metadata"]["namespace"], monitor["spec"]["selector"])
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            # One of them suffices: a pod without the port is not scraped by this line.
            if not any(endpoint["port"] in pod.ports for pod in chosen):
                yield f"{name_of(monitor)}: no pod with port {endpoint['port']}"


def routes(objects):
    certified = {
        certificate["spec"]["secretName"] for certificate in of_kind(objects, "Certificate")
    }
    for gateway in of_kind(objects, "Gateway"):
        for listener in gateway["spec"]["listeners"]:
            for reference in listener.get("tls", {}).get("certificateRefs", []):
                if reference["name"] not in certified:
                    yield f"{name_of(gateway)}: nobody issues {reference['name']}"
    for certificate in of_kind(objects, "Certificate"):
        issuer = certificate["spec"]["issuerRef"]
        if not find(objects, issuer["kind"], issuer["name"]):
            yield f"{name_of(certificate)}: no {issuer['kind']} {issuer['name']}"
    for route in of_kind(objects, "HTTPRoute"):
        yield from route_problems(objects, route)


def route_problems(objects, route):
    own = route["metadata"]["namespace"]
    for parent in route["spec"]["parentRefs"]:
        gateway = find(objects, "Gateway", parent["name"], parent.get("namespace", own))
        listeners = (
            {listener["name"]: listener for listener in gateway["spec"]["listeners"]}
            if gateway
            else {}
        )
        listener = listeners.get(parent["sectionName"])
        if listener is None:
            yield f"{name_of(route)}: no listener {parent['name']}/{parent['sectionName']}"
            continue
        allowed = listener["allowedRoutes"]["namespaces"]
        admitted = allowed["from"] == "Same" and own == gateway["metadata"]["namespace"]
        if allowed["from"] == "Selector":
            admitted = selects(allowed["selector"], {"kubernetes.io/metadata.name": own})
        if not admitted:
            yield f"{name_of(route)}: the listener admits no routes of {own}"
        if listener["hostname"] not in route["spec"]["hostnames"]:
            yield f"{name_of(route)}: not for the listener's host {listener['hostname']}"
    for rule in route["spec"]["rules"]:
        for backend in rule.get("backendRefs", []):
            yield from backend_problems(objects, route, backend)


def backend_problems(objects, route, backend):
    namespace = route["metadata"]["namespace"]
    if FOREIGN_SERVICES.get((namespace, backend["name"])) == backend["port"]:
        return
    service = find(objects, "Service", backend["name"], namespace)
    if not service:
        yield f"{name_of(route)}: no Service {backend['name']}"
    elif backend["port"] not in [port["port"] for port in service["spec"]["ports"]]:
        yield f"{name_of(route)}: {name_of(service)} has no port {backend['port']}"


def workloads(objects):
    secrets = documented_secrets()
    maps = {thing["metadata"]["name"]: thing for thing in of_kind(objects, "ConfigMap")}
    for pod in pods(objects):
        if pod.spec is None:
            continue
        for container in containers(pod):
            yield from probes(pod, container)
            yield from environment(pod, container, secrets, maps)
        for volume in pod.spec.get("volumes", []):
            yield from volume_source(objects, pod, volume, secrets, maps)
        mounted = {
            mount["name"]
            for container in containers(pod)
            for mount in container.get("volumeMounts", [])
        }
        there = {volume["name"] for volume in pod.spec.get("volumes", [])}
        for name in mounted ^ there:
            yield f"{pod.owner}: volume {name} is not both there and mounted"
    for workload in of_kind(objects, "Deployment", "StatefulSet", "DaemonSet"):
        if not selects(
            workload["spec"]["selector"], workload["spec"]["template"]["metadata"]["labels"]
        ):
            yield f"{name_of(workload)}: does not select its own pods"
    for workload in of_kind(objects, "StatefulSet"):
        if not find(
            objects, "Service", workload["spec"]["serviceName"], workload["metadata"]["namespace"]
        ):
            yield f"{name_of(workload)}: no Service {workload['spec']['serviceName']}"


def probes(pod, container):
    own = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
    for kind in ["startupProbe", "livenessProbe", "readinessProbe"]:
        if kind in container:
            asked = container[kind].get("httpGet") or container[kind]["grpc"]
            port = asked["port"]
            if port not in own and port not in own.values():
                yield f"{pod.owner}: {kind} asks port {port}, which is not there"


def environment(pod, container, secrets, maps):
    names = [variable["name"] for variable in container.get("env", [])]
    for name in names:
        if names.count(name) > 1:
            yield f"{pod.owner}: {name} is set twice"
    for word in container.get("args", []) + container.get("command", []):
        for name in re.findall(r"\$\((\w+)\)", word):
            if name not in names:
                yield f"{pod.owner}: {word} uses {name}, which is not set"
    for variable in container.get("env", []):
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        if reference and reference["key"] not in secrets.get(reference["name"], ()):
            secret = f"{reference['name']}/{reference['key']}"
            yield f"{pod.owner}: secret {secret} is not in deploy/README.md"
        reference = variable.get("valueFrom", {}).get("configMapKeyRef")
        if reference and reference["name"] not in maps:
            yield f"{pod.owner}: no ConfigMap {reference['name']}"


def volume_source(objects, pod, volume, secrets, maps):
    if "secret" in volume:
        name = volume["secret"]["secretName"]
        for item in volume["secret"].get("items", [{"key": None}]):
            if item["key"] not in secrets.get(name, ()):
                yield f"{pod.owner}: secret {name}/{item['key']} is not in deploy/README.md"
    elif "configMap" in volume:
        if volume["configMap"]["name"] not in maps.keys() | PRINTED_MAPS:
            yield f"{pod.owner}: no ConfigMap {volume['configMap']['name']}"
    elif "persistentVolumeClaim" in volume:
        name = volume["persistentVolumeClaim"]["claimName"]
        there = find(objects, "PersistentVolumeClaim", name, pod.namespace)
        if not there and name not in FOREIGN_CLAIMS:
            yield f"{pod.owner}: no PersistentVolumeClaim {name}"
    elif not {"emptyDir", "hostPath"} & volume.keys():
        yield f"{pod.owner}: volume {volume['name']} is of a kind that is not used here"


def accounts(objects):
    for pod in pods(objects):
        account = pod.spec and pod.spec.get("serviceAccountName")
        if account and not find(objects, "ServiceAccount", account, pod.namespace):
            yield f"{pod.owner}: no ServiceAccount {account}"
    for binding in of_kind(objects, "RoleBinding"):
        namespace = binding["metadata"]["namespace"]
        if not find(objects, "Role", binding["roleRef"]["name"], namespace):
            yield f"{name_of(binding)}: no Role {binding['roleRef']['name']}"
        for subject in binding["subjects"]:
            if not find(objects, subject["kind"], subject["name"], subject["namespace"]):
                yield f"{name_of(binding)}: no {subject['kind']} {subject['name']}"


def volumes(objects):
    for claim in of_kind(objects, "PersistentVolumeClaim"):
        volume = find(objects, "PersistentVolume", claim["spec"]["volumeName"])
        if not volume:
            yield f"{name_of(claim)}: no PersistentVolume {claim['spec']['volumeName']}"
        elif (
            volume["spec"]["capacity"]["storage"]
            != claim["spec"]["resources"]["requests"]["storage"]
        ):
            yield f"{name_of(claim)}: asks for another size than {name_of(volume)} has"
    for graph in of_kind(objects, "DynamoGraphDeployment"):
        for component in graph["spec"]["components"]:
            spec = component["podTemplate"]["spec"]
            there = {volume["name"]: volume for volume in spec.get("volumes", [])}
            for volume in there.values():
                name = volume["persistentVolumeClaim"]["claimName"]
                if not find(objects, "PersistentVolumeClaim", name, graph["metadata"]["namespace"]):
                    yield f"{name_of(graph)}: no PersistentVolumeClaim {name}"
            for container in spec["containers"]:
                for mount in container.get("volumeMounts", []):
                    if mount["name"] not in there:
                        yield f"{name_of(graph)}: mounts {mount['name']}, which it does not list"


def scaling(objects):
    metrics = documented_metrics()
    for scaled in of_kind(objects, "ScaledObject"):
        target = scaled["spec"]["scaleTargetRef"]
        workload = find(objects, target["kind"], target["name"], scaled["metadata"]["namespace"])
        if not workload:
            yield f"{name_of(scaled)}: no {target['kind']} {target['name']}"
        elif "replicas" in workload["spec"]:
            yield f"{name_of(scaled)}: {name_of(workload)} sets its replicas too"
        for trigger in scaled["spec"]["triggers"]:
            for metric in re.findall(r"(\w+)\{", trigger["metadata"]["query"]):
                if metric not in metrics:
                    yield f"{name_of(scaled)}: docs/metrics.md knows no {metric}"
