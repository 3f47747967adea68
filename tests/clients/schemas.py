"""Random JSON schemas with bounded documents, and the check that a document fits one."""

import random

import jsonschema


def schema(seed):
    """An object of a few members; every document that fits has an end."""
    return make_object(random.Random(seed), depth=2)


def make_object(draw, depth):
    names = draw.sample(["name", "size", "tags", "kind", "open", "note", "at", "next"], draw.randint(1, 3))
    return {
        "type": "object",
        "properties": {name: make_value(draw, depth - 1) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def make_value(draw, depth):
    kinds = ["string", "integer", "boolean", "enum", "const", "pattern"] + (["object", "array"] if depth > 0 else [])
    match draw.choice(kinds):
        case "string":
            return {"type": "string", "maxLength": draw.randint(1, 24)}
        case "integer":
            low = draw.randint(-50, 50)
            return {"type": "integer", "minimum": low, "maximum": low + draw.randint(0, 1000)}
        case "boolean":
            return {"type": "boolean"}
        case "enum":
            return {"enum": draw.sample(["red", "green", 3, True, None, "blü\"e"], 3)}
        case "const":
            return {"const": draw.choice(["fixed", 42, [1, "two"], {"a": None}])}
        case "pattern":
            return {"type": "string", "pattern": draw.choice(["^[A-Z]{2}[0-9]{3}$", "^(yes|no)$", "^v[0-9]\\.[0-9]$"])}
        case "array":
            low = draw.randint(0, 2)
            return {"type": "array", "items": make_value(draw, 0), "minItems": low, "maxItems": low + 2}
        case "object":
            return make_object(draw, depth)


def check(document, schema):
    jsonschema.validate(document, schema)
