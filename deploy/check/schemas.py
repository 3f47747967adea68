"""Every object against its schema: Kubernetes' own, and operators' by packages that carry them."""

import json
import subprocess

import jsonschema
import kubernetes_validate
from kubernetes_validate.utils import SchemaNotFoundError

from objects import name_of
from render import CHECK, KUBERNETES

# Nobody publishes this one as a package. It says what we use of it, not all that there is.
OURS = {"DynamoGraphDeployment": CHECK / "schemas/dynamographdeployment.json"}


def problems(objects):
    found, custom = [], []
    for thing in objects + pods_of_graphs(objects):
        try:
            kubernetes_validate.validate(thing, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as error:
            place = "/".join(map(str, error.path))
            found.append(f"{name_of(thing)}: {place}: {error.message}")
        except SchemaNotFoundError:
            custom.append(thing)
    for thing in [thing for thing in custom if thing["kind"] in OURS]:
        schema = json.loads(OURS[thing["kind"]].read_text())
        for error in jsonschema.Draft202012Validator(schema).iter_errors(thing):
            found.append(f"{name_of(thing)}: {'/'.join(map(str, error.path))}: {error.message}")
    others = [thing for thing in custom if thing["kind"] not in OURS]
    return found + of_operators(others)


def pods_of_graphs(objects):
    """What Dynamo's operator is given to make pods of is a pod's specification."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{thing['metadata']['name']}-{component.get('name')}"},
            "spec": component.get("podTemplate", {}).get("spec", {}),
        }
        for thing in objects
        if thing["kind"] == "DynamoGraphDeployment"
        for component in thing["spec"]["components"]
    ]


def of_operators(objects):
    """By Node: as values for patterns and what is required, as types for unknown fields."""
    if not objects:
        return []
    done = subprocess.run(
        ["node", CHECK / "operators.js"],
        input=json.dumps(objects),
        capture_output=True,
        text=True,
        cwd=CHECK,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return json.loads(done.stdout)
