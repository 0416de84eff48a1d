"""Holds JSON against the documented schemas: the part of JSON Schema that they use."""

from __future__ import annotations

import json
from typing import Any

from tests.paths import ROOT

DOCS = ROOT / "docs"
Schema = dict[str, Any]


def conflicts(value: Any, name: str, path: str = "") -> list[str]:
    """Name what a value breaks of the schema in a file of this name, or at a path in it."""
    return _conflicts(value, _at(_read(name), path), name, "$")


def fields(name: str, definition: str = "") -> list[str]:
    """List the fields of an object of a schema, as the table of a page names them.

    A finding and an event have tables of their own.
    """
    described = _read(name)
    return list(_fields(described["$defs"][definition] if definition else described, name, ""))


def _read(name: str) -> Schema:
    parsed: Schema = json.loads((DOCS / name).read_text("utf-8"))
    return parsed


def _at(parsed: Schema, path: str) -> Schema:
    for key in filter(None, path.split("/")):
        parsed = parsed[key]
    return parsed


def _resolved(schema: Schema, name: str) -> tuple[Schema, str]:
    """Follow a reference within the file, or into another; what stands beside it wins."""
    if "$ref" not in schema:
        return schema, name
    file, _, path = schema["$ref"].partition("#/")
    return {**_at(_read(file or name), path), **schema}, file or name


def _conflicts(value: Any, schema: Schema, name: str, at: str) -> list[str]:
    schema, name = _resolved(schema, name)
    found = [] if _is_of_type(value, schema.get("type")) else [f"{at} is no {schema['type']}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at} is none of {schema['enum']}")
    if "const" in schema and value != schema["const"]:
        found.append(f"{at} is not {schema['const']}")
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        found.append(f"{at} is below {schema['minimum']}")
    if isinstance(value, dict) and "properties" in schema:
        properties = schema["properties"]
        differing = value.keys() ^ properties.keys() | value.keys() ^ set(schema["required"])
        found += [f"{at}.{key} is missing or not described" for key in sorted(differing)]
        for key in value.keys() & properties.keys():
            found += _conflicts(value[key], properties[key], name, f"{at}.{key}")
    if isinstance(value, list):
        for item in value:
            found += _conflicts(item, schema["items"], name, f"{at}[]")
    return found


def _is_of_type(value: Any, names: str | list[str] | None) -> bool:
    """Tell whether a value has a type of these names; JSON has no numbers that are booleans."""
    types: Schema = {"object": dict, "array": list, "string": str, "integer": int}
    types |= {"number": (int, float), "null": type(None), "boolean": bool}
    wanted = [names] if isinstance(names, str) else names
    return wanted is None or any(
        isinstance(value, types[one]) and (one == "boolean" or not isinstance(value, bool))
        for one in wanted
    )


def _fields(described: Schema, name: str, prefix: str) -> list[str]:
    names = []
    for key, field in described["properties"].items():
        names.append(f"{prefix}{key}")
        inner, suffix = (field["items"], "[].") if "items" in field else (field, ".")
        inner, file = _resolved(inner, name)
        if "properties" in inner and key not in ("findings", "events"):
            names += _fields(inner, file, f"{prefix}{key}{suffix}")
    return names
