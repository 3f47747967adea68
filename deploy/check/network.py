"""Whether the NetworkPolicies let through what has to talk, and nothing that must not.

Decides as Kubernetes does: a pod that some policy selects for a direction may do there only what
one of them allows, and a connection needs both its ends' leave.
"""

import re
from dataclasses import dataclass

from objects import Pod, behind, find, of_kind, pods, selected, selects

ANYWHERE = "anywhere"


@dataclass(frozen=True)
class End:
    """A pod, a pod of another namespace, or an address outside (`pod` is None)."""

    namespace: str
    labels: tuple
    pod: Pod | None = None


OUTSIDE = End(ANYWHERE, ())
PROMETHEUS = End("monitoring", (("app.kubernetes.io/name", "prometheus"),))
# Servers of other namespaces, by the names under which they are asked.
FOREIGN = {"kube-prometheus-stack-prometheus.monitoring.svc": PROMETHEUS}
DNS = End("kube-system", (("k8s-app", "kube-dns"),))


def end(pod):
    return End(pod.namespace, tuple(sorted(pod.labels.items())), pod)


def allowed(objects, source, target, port, protocol="TCP"):
    return one_way(objects, "Egress", source, target, port, protocol, target) and one_way(
        objects, "Ingress", target, source, port, protocol, target
    )


def one_way(objects, direction, own, other, port, protocol, listener):
    policies = [
        policy
        for policy in of_kind(objects, "NetworkPolicy")
        if policy["metadata"]["namespace"] == own.namespace
        and direction in policy["spec"]["policyTypes"]
        and selects(policy["spec"]["podSelector"], dict(own.labels))
    ]
    if not policies:
        return True
    rules = [rule for policy in policies for rule in policy["spec"].get(direction.lower(), [])]
    peers = "to" if direction == "Egress" else "from"
    return any(
        is_peer(rule.get(peers), own, other)
        and is_port(rule.get("ports"), port, protocol, listener)
        for rule in rules
    )


def is_peer(peers, own, other):
    if peers is None:
        return True
    return any(matches(peer, own, other) for peer in peers)


def matches(peer, own, other):
    if other is OUTSIDE:
        return False
    if "namespaceSelector" in peer:
        if not selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": other.namespace}):
            return False
    elif other.namespace != own.namespace:
        return False
    return selects(peer.get("podSelector", {}), dict(other.labels))


def is_port(ports, port, protocol, listener):
    if ports is None:
        return True
    for entry in ports:
        number = entry["port"]
        if isinstance(number, str):
            number = listener.pod.ports.get(number) if listener.pod else None
        if number == port and entry.get("protocol", "TCP") == protocol:
            return True
    return False


def problems(objects):
    for source, target, port, protocol, why in needed(objects):
        if not allowed(objects, source, target, port, protocol):
            yield f"{why}: not allowed on port {port}"
    for source, target, port, why in forbidden(objects):
        if allowed(objects, source, target, port):
            yield f"{why}: allowed on port {port}, and should not be"


def needed(objects):
    for pod in pods(objects):
        # The exporter of GPU metrics asks nobody, so it needs no names.
        if pod.labels.get("app.kubernetes.io/component") != "gpu-metrics":
            yield end(pod), DNS, 53, "UDP", f"{pod.owner} asks for names"
        yield from addressed(objects, pod)
        if pod.spec and pod.spec.get("automountServiceAccountToken"):
            yield end(pod), OUTSIDE, 443, "TCP", f"{pod.owner} asks Kubernetes"
        if pod.labels.get("app.kubernetes.io/component") in ("loadgen", "model-loader"):
            yield end(pod), OUTSIDE, 443, "TCP", f"{pod.owner} asks servers on the internet"
    yield from scrapes(objects)
    for route in of_kind(objects, "HTTPRoute"):
        for rule in route["spec"]["rules"]:
            for backend in rule.get("backendRefs", []):
                service = find(objects, "Service", backend["name"], route["metadata"]["namespace"])
                for pod in behind(objects, service) if service else []:
                    yield (
                        OUTSIDE,
                        end(pod),
                        backend["port"],
                        "TCP",
                        f"the gateway sends to {pod.owner}",
                    )
    solvers = [pod for pod in pods(objects) if "solver" in pod.ports]
    for pod in solvers:
        yield OUTSIDE, end(pod), pod.ports["solver"], "TCP", f"the issuer asks {pod.owner}"
    yield from among_dynamo(objects)


def addressed(objects, pod):
    """Every server that a pod's arguments name has to be there, and reachable."""
    if pod.spec is None:
        return
    words = [word for container in pod.spec["containers"] for word in container.get("args", [])]
    for word in words:
        # Workers that Kubernetes names: the port of the Service that is called grpc.
        for name in re.findall(r"--kubernetes-service=(.+)", word):
            for target in resolve(objects, name):
                yield (
                    end(pod),
                    end(target),
                    target.ports.get("grpc"),
                    "TCP",
                    f"{pod.owner} asks {target.owner}",
                )
        for host, port in re.findall(r"(?:http|nats|tcp)://([a-z0-9.-]+):(\d+)", word):
            if host in FOREIGN:
                yield end(pod), FOREIGN[host], int(port), "TCP", f"{pod.owner} asks {host}"
                continue
            targets = resolve(objects, host)
            if host != "0.0.0.0" and not targets:
                yield (
                    end(pod),
                    End("nowhere", ()),
                    int(port),
                    "TCP",
                    f"{pod.owner} names {host}, which is not there;",
                )
            for target in targets:
                yield end(pod), end(target), int(port), "TCP", f"{pod.owner} asks {host}"


def resolve(objects, host):
    """Pods behind a name: a Service, or one pod of a StatefulSet (`pod-0.service`)."""
    first, _, rest = host.partition(".")
    if not rest:
        service = find(objects, "Service", first, "homing")
        return behind(objects, service) if service else []
    number = int(first.rpartition("-")[2])
    workload = find(objects, "StatefulSet", first.rpartition("-")[0], "homing")
    service = find(objects, "Service", rest, "homing")
    if not workload or not service or number >= workload["spec"]["replicas"]:
        return []
    return behind(objects, service) if workload["spec"]["serviceName"] == rest else []


def scrapes(objects):
    for monitor in of_kind(objects, "ServiceMonitor", "PodMonitor"):
        endpoints = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
        for pod in selected(objects, monitor["metadata"]["namespace"], monitor["spec"]["selector"]):
            for endpoint in endpoints:
                if endpoint["port"] in pod.ports:
                    yield (
                        PROMETHEUS,
                        end(pod),
                        pod.ports[endpoint["port"]],
                        "TCP",
                        f"Prometheus reads {pod.owner}",
                    )


def among_dynamo(objects):
    """Request and answer go over ports that are picked at start; 34567 stands for any."""
    graph = [pod for pod in pods(objects) if pod.owner.startswith("DynamoGraphDeployment")]
    if not graph:
        return
    ours = selected(objects, "homing", {"matchLabels": {"app.kubernetes.io/component": "frontend"}})
    for worker in [pod for pod in graph if "system" in pod.ports]:
        for frontend in ours + [pod for pod in graph if "http" in pod.ports]:
            yield end(frontend), end(worker), 34567, "TCP", f"{frontend.owner} asks {worker.owner}"
            yield (
                end(worker),
                end(frontend),
                34567,
                "TCP",
                f"{worker.owner} answers {frontend.owner}",
            )
        yield end(worker), OUTSIDE, 443, "TCP", f"{worker.owner} announces itself"


def forbidden(objects):
    if not of_kind(objects, "NetworkPolicy"):
        return
    by_component = {pod.labels.get("app.kubernetes.io/component"): pod for pod in pods(objects)}
    for component, port in [("worker", 7000), ("engine", 8000), ("events", 4222)]:
        if component in by_component:
            target = by_component[component]
            yield OUTSIDE, end(target), port, f"the internet asks {target.owner}"
            if "loadgen" in by_component:
                yield (
                    end(by_component["loadgen"]),
                    end(target),
                    port,
                    f"the load generator asks {target.owner}",
                )
    for component in ["worker", "engine", "events"]:
        if component in by_component:
            yield (
                end(by_component[component]),
                OUTSIDE,
                443,
                f"{by_component[component].owner} asks the internet",
            )
    if "loadgen" in by_component:
        for port, what in [(9090, "reads the load generator's metrics"), (3000, "drives the load")]:
            yield OUTSIDE, end(by_component["loadgen"]), port, f"the internet {what}"
    if "gpu-metrics" in by_component:
        exporter = end(by_component["gpu-metrics"])
        yield OUTSIDE, exporter, 9400, "the internet reads GPU metrics"
        yield exporter, OUTSIDE, 443, "the exporter of GPU metrics asks the internet"
