"""The OpenAPI document of a server, from its routes, their types and their docstrings.

The decorator `operation` describes the answers of a handler. Handlers without it, such as OTLP's
own paths, are left out.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from starlette.routing import BaseRoute, Route

from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.collector.api_bodies import ApiError, DecisionBody, SilenceBody, WordBody
from looptrace.collector.server.tokens.roles import OPEN_PATHS

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])

JSON, TEXT = "application/json", "text/plain"
_SCHEMAS = "#/components/schemas/"
_ABOUT = {
    "title": "looptrace",
    "version": "1",
    "description": "Gates of a looptrace server. Spans go to /v1/traces and /v1/logs by OTLP, "
    "which is not described here. If access is refused, the answer is a google.rpc.Status, "
    "with 401 or 403.",
}
_BODIES = {body.__name__ for body in (DecisionBody, WordBody, SilenceBody)}
_TOKEN = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}


@dataclass(frozen=True, slots=True)
class Parameter:
    """An optional parameter of the query, or a header."""

    name: str
    place: str
    doc: str
    type: Any = str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer with one status: a sentence, and the type of the body by media type."""

    doc: str
    contents: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """The answers of one handler."""

    name: str
    answers: Mapping[HTTPStatus, Answer]
    parameters: tuple[Parameter, ...]
    body: type | None


def operation(
    name: str,
    answer: Answer,
    errors: Mapping[HTTPStatus, str | Answer] = MappingProxyType({}),
    parameters: tuple[Parameter, ...] = (),
    body: type | None = None,
) -> Callable[[HandlerT], HandlerT]:
    """Return a decorator that describes the answers of a handler; its docstring is the summary.

    `answer` is the one with status 200, and `errors` describe the others.
    """
    answers = {
        status: Answer(doc, {JSON: ApiError}) if isinstance(doc, str) else doc
        for status, doc in errors.items()
    }
    about = Operation(name, {HTTPStatus.OK: answer, **answers}, parameters, body)

    def describe(handler: HandlerT) -> HandlerT:
        handler.__dict__["operation"] = about
        return handler

    return describe


def document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Return the document of the routes whose handlers are described."""
    described = [
        (route, about)
        for route in routes
        if isinstance(route, Route) and (about := getattr(route.endpoint, "operation", None))
    ]
    schemas, components = _schemas(about for _, about in described)
    paths: dict[str, Any] = {}
    for route, about in described:
        path = paths.setdefault(route.path_format, {})
        if route.param_convertors:
            path["parameters"] = [_path_parameter(name) for name in route.param_convertors]
        for method in (route.methods or set()) - {"HEAD"}:
            path[method.lower()] = _operation(route, about, schemas)
    return {
        "openapi": "3.1.0",
        "info": _ABOUT,
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {"schemas": components, **_TOKEN},
    }


def _schemas(operations: Iterable[Operation]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return the schemas of these types, and of those to which they refer."""
    types: dict[Any, None] = {GateEvent: None}
    for about in operations:
        contents = [answer.contents.values() for answer in about.answers.values()]
        types |= dict.fromkeys(kind for kinds in contents for kind in kinds)
        types |= dict.fromkeys(parameter.type for parameter in about.parameters)
        types |= {about.body: None} if about.body else {}
    schemas, components = msgspec.json.schema_components(types, ref_template=_SCHEMAS + "{name}")
    for name, component in components.items():
        component["description"] = inspect.cleandoc(component["description"])
        for key, field in component["properties"].items():
            if key.endswith("_ns"):
                field["description"] = "Nanoseconds since 1970, UTC."
        if name not in _BODIES:  # Answers have all fields.
            component["required"] = list(component["properties"])
            for field in component["properties"].values():
                field.pop("default", None)
    # The types are not installed in an agent's process.
    if notice := components.get(GateNotice.__name__):
        event = components[GateEvent.__name__]["properties"]
        notice["properties"] |= {key: event[key] for key in ("type", "action")}
    return dict(zip(types, schemas, strict=True)), components


def _operation(route: Route, about: Operation, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    summary, _, description = (inspect.getdoc(route.endpoint) or "").partition("\n\n")
    result: dict[str, Any] = {"operationId": about.name, "summary": summary.rstrip(".")}
    if description:
        result["description"] = description
    if about.parameters:
        result["parameters"] = [
            {"name": p.name, "in": p.place, "description": p.doc, "schema": schemas[p.type]}
            for p in about.parameters
        ]
    if about.body:
        content = {JSON: {"schema": schemas[about.body]}}
        result["requestBody"] = {"required": True, "content": content}
    result["responses"] = {
        str(status.value): {
            "description": answer.doc,
            "content": {kind: {"schema": schemas[of]} for kind, of in answer.contents.items()},
        }
        for status, answer in about.answers.items()
    }
    return result | ({"security": []} if route.path in OPEN_PATHS else {})


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
