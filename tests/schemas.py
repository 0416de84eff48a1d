"""Holds JSON against the documented schemas, with all fields and no others."""

import json
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.paths import ROOT

DOCS = ROOT / "docs"
Schema = dict[str, Any]


def conflicts(value: Any, name: str) -> list[str]:
    """Name what a value breaks of the schema in a file of this name.

    Every field that is described must be there, and no other.
    """
    errors = Draft202012Validator({"$ref": name}, registry=_REGISTRY).iter_errors(value)
    return [f"{error.json_path}: {error.message}" for error in errors]


def undescribed(name: str) -> list[str]:
    """List the fields of a schema that have no sentence."""
    return list(_undescribed(_read(name), ""))


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


def _resource(name: str) -> Resource[Any]:
    """Return a schema under the name of its file, by which others refer to it."""
    described = _read(name)
    described.pop("$id", None)
    return DRAFT202012.create_resource(_closed(described))


def _closed(described: Any) -> Any:
    """Return a schema that needs each field of an object, and allows no others."""
    if isinstance(described, list):
        return [_closed(item) for item in described]
    if not isinstance(described, dict):
        return described
    closed = {key: _closed(item) for key, item in described.items()}
    if isinstance(properties := closed.get("properties"), dict) and "type" in closed:
        assert set(closed["required"]) == set(properties)
        closed["additionalProperties"] = False
    return closed


_REGISTRY: Registry[Any] = Registry(retrieve=_resource)  # type: ignore[call-arg]


def _undescribed(described: Any, place: str) -> Iterator[str]:
    if isinstance(described, dict):
        properties = described.get("properties", {})
        for key, field in properties.items():
            if not field.get("description", "").endswith("."):
                yield f"{place}.{key}"
        for key, inner in described.items():
            yield from _undescribed(inner, f"{place}.{key}")
