"""Whether Helm and kustomize would make the same objects: two ways to the same cluster."""

import re

from objects import name_of

# Whose an object is, which only Helm says.
LABELS = {"app.kubernetes.io/managed-by", "helm.sh/chart"}
ANNOTATIONS = {"helm.sh/resource-policy", "checksum/settings"}


def problems(kustomized, helmed):
    one, other = by_name(kustomized), by_name(helmed)
    # `helm install --create-namespace` makes it.
    one.pop("Namespace -/homing", None)
    for name in sorted(one.keys() | other.keys()):
        if name not in one:
            yield f"{name}: only Helm has it"
        elif name not in other:
            yield f"{name}: only kustomize has it"
        else:
            yield from differences(name, one[name], other[name])


def by_name(objects):
    return {without_hash(name_of(thing)): plain(thing) for thing in objects}


def without_hash(text):
    """kustomize ends the name of a generated ConfigMap in a hash of its content."""
    return re.sub(r"(homing-(?:model-loader|engine))-[a-z0-9]{10}$", r"\1", text)


def plain(thing):
    if isinstance(thing, dict):
        kept = {}
        for key, value in thing.items():
            if key == "labels":
                value = {label: said for label, said in value.items() if label not in LABELS}
            if key == "annotations":
                value = {label: said for label, said in value.items() if label not in ANNOTATIONS}
            if key == "env":
                # A patch moves what it changes to the front; no variable here refers to another.
                value = sorted(value, key=lambda variable: variable["name"])
            if value != {} or key not in ("labels", "annotations"):
                kept[key] = plain(value)
        return kept
    if isinstance(thing, list):
        return [plain(item) for item in thing]
    return without_hash(thing) if isinstance(thing, str) else thing


def differences(place, one, other):
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from differences(f"{place}/{key}", one.get(key), other.get(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other)):
            yield from differences(f"{place}/{index}", left, right)
    elif one != other:
        yield f"{place}: kustomize has {one!r:.100}, Helm {other!r:.100}"
