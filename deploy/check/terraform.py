"""Terraform files: syntax, names that exist, and arguments that DigitalOcean's provider has.

The provider itself is in no registry of packages, so `terraform validate` cannot run. Its arguments
are read out of the package that Pulumi generates from it: the same names, in Python. The package is
parsed, never run.
"""

import ast
import importlib.util
import pathlib
import re

import hcl2

from render import DEPLOY

FOLDER = DEPLOY / "digitalocean/terraform"
# Terraform's own, in every resource.
META = {"count", "for_each", "depends_on", "lifecycle", "provider"}
# Where the package has what Terraform calls so.
CLASSES = {
    "digitalocean_vpc": ("vpc.py", "VpcArgs", "_VpcState"),
    "digitalocean_kubernetes_cluster": (
        "kubernetes_cluster.py",
        "KubernetesClusterArgs",
        "_KubernetesClusterState",
    ),
    "digitalocean_kubernetes_node_pool": (
        "kubernetes_node_pool.py",
        "KubernetesNodePoolArgs",
        "_KubernetesNodePoolState",
    ),
    "digitalocean_nfs": ("nfs.py", "NfsArgs", "_NfsState"),
}
BLOCKS = {
    ("digitalocean_kubernetes_cluster", "node_pool"): "KubernetesClusterNodePoolArgs",
    (
        "digitalocean_kubernetes_cluster",
        "maintenance_policy",
    ): "KubernetesClusterMaintenancePolicyArgs",
}


def problems(texts=None):
    if texts is None:
        texts = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.tf"))}
    files = {}
    for name, text in texts.items():
        try:
            files[name] = hcl2.loads(text)
        except Exception as error:  # the parser raises whatever its grammar does
            yield f"{name}: {str(error).splitlines()[0]}"
            return
    code = "\n".join(without_comments(text) for text in texts.values())
    yield from names(code)
    for kind, name, body in resources(files):
        yield from arguments(f"{kind}.{name}", kind, body)


def without_comments(text):
    return re.sub(r"^\s*#.*$", "", text, flags=re.M)


def names(code):
    """Every variable and resource that is used is declared, and every variable used."""
    declared = set(re.findall(r'^variable "(\w+)"', code, re.M))
    used = set(re.findall(r"\bvar\.(\w+)", code))
    yield from (f"var.{name}: not declared" for name in sorted(used - declared))
    yield from (f"variable {name}: not used" for name in sorted(declared - used))
    made = {f"{kind}.{name}" for kind, name in re.findall(r'^resource "(\w+)" "(\w+)"', code, re.M)}
    read = {
        f"data.{kind}.{name}" for kind, name in re.findall(r'^data "(\w+)" "(\w+)"', code, re.M)
    }
    for use, attribute in re.findall(r"((?:data\.)?digitalocean_\w+\.\w+)\.(\w+)", code):
        if use not in made | read:
            yield f"{use}: not declared"
        kind = use.split(".")[0]
        if kind in CLASSES and attribute != "id" and attribute not in attributes_of(kind):
            yield f"{use}.{attribute}: the provider has no such attribute"


def resources(files):
    for file in files.values():
        for entry in file.get("resource", []):
            for kind, named in entry.items():
                for name, body in named.items():
                    yield unquoted(kind), unquoted(name), body


def unquoted(text):
    """The parser keeps quotation marks."""
    return text.strip('"')


def arguments(where, kind, body):
    if kind not in CLASSES:
        yield f"{where}: no description of {kind}"
        return
    file, inputs, _ = CLASSES[kind]
    yield from fitting(where, body, *parameters(file, inputs))
    for key, value in body.items():
        inner = BLOCKS.get((kind, key))
        for block in (value if isinstance(value, list) else [value]) if inner else []:
            yield from fitting(f"{where}.{key}", block, *parameters("_inputs.py", inner))


def fitting(where, body, required, optional):
    given = {key for key in body if not key.startswith("__")} - META
    yield from (
        f"{where}: the provider has no {name}" for name in sorted(given - required - optional)
    )
    yield from (f"{where}: {name} is missing" for name in sorted(required - given))


def attributes_of(kind):
    file, _, state = CLASSES[kind]
    required, optional = parameters(file, state)
    return required | optional


def parameters(file, name):
    """Required and optional parameters of a class of the package."""
    for node in ast.parse((package() / file).read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            make = next(part for part in node.body if getattr(part, "name", None) == "__init__")
            pairs = list(zip(make.args.kwonlyargs, make.args.kw_defaults))
            required = {parameter.arg for parameter, default in pairs if default is None}
            return required, {parameter.arg for parameter, _ in pairs} - required
    raise LookupError(f"{file} has no {name}")


def package():
    spec = importlib.util.find_spec("pulumi_digitalocean")
    return pathlib.Path(spec.origin).parent
