"""Builds OTLP/JSON export requests in few words, for tests and for the examples."""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

import polars as pl
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from looptrace.analyzer.schema.spans import SpanRow, span_rows
from looptrace.collector.otlp.json import decode_request
from looptrace.collector.otlp.span_rows import DecodedSpans, DecodingBounds
from looptrace.collector.otlp.span_table import joined_table, span_table

Value: TypeAlias = "str | bool | int | float | Sequence[Value] | Mapping[str, Value] | None"
Attributes: TypeAlias = Mapping[str, Value]
Event: TypeAlias = tuple[str, Attributes]

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = 1, 2, 3, 4, 5
SCALAR_KEYS = {str: "stringValue", bool: "boolValue", float: "doubleValue"}
STATUS_CODES = {"ok": 1, "error": 2}
TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8
NANOSECONDS = 1_000_000_000
ID_FIELDS = {"traceId", "spanId", "parentSpanId"}
CLOSING_S = 0.001  # How much later than its last child a parent ends.

# The SDKs' name of a service without one; its sessions are named by their ids alone.
UNNAMED = "unknown_service:agent"


def any_value(value: Value) -> dict[str, Any]:
    """Return the OTLP any-value of a Python value; None is the empty value, which OTLP allows."""
    if value is None:
        return {}
    if isinstance(value, str | bool | float):  # Bool before int: True is an int to Python.
        return {SCALAR_KEYS[type(value)]: value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": key_values(value)}}
    return {"arrayValue": {"values": [any_value(item) for item in value]}}


def key_values(attributes: Attributes) -> list[dict[str, Any]]:
    """Return the OTLP list of keys and any-values of a mapping, in its order."""
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def tool_call(
    name: str,
    arguments: str | None = None,
    *,
    result: str | None = None,
    error: str | None = None,
    call_id: str | None = None,
) -> dict[str, Any]:
    """Return the attributes of a call of a tool; what is not given is not recorded."""
    known = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.call.arguments": arguments,
        "gen_ai.tool.call.result": result,
        "error.type": error,
    }
    return {key: value for key, value in known.items() if value is not None}


def exception(kind: str, message: str) -> Event:
    """Return the event that the SDK's `record_exception` writes."""
    return "exception", {"exception.type": kind, "exception.message": message}


def as_json(request: ExportTraceServiceRequest) -> bytes:
    """Return a request as OTLP/JSON, which is protobuf's JSON but for the ids, which are hex."""

    def mend(value: Any) -> Any:
        if isinstance(value, list):
            return [mend(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: base64.b64decode(item).hex() if key in ID_FIELDS else mend(item)
            for key, item in value.items()
        }

    return json.dumps(mend(MessageToDict(request))).encode()


class Trace:
    """One trace under construction. Building it twice gives the same ids and times.

    Every span carries `session` under `session_key`, unless that is None.
    """

    def __init__(
        self,
        session: str = "s1",
        *,
        name: str = "",
        session_key: str | None = "gen_ai.conversation.id",
        service: str = UNNAMED,
        version: str | None = None,
        scope: str = "tests",
        at: str = "2026-03-02T09:00:00+00:00",
    ) -> None:
        self.trace_id = _hex(f"{session}/{name}", TRACE_ID_BYTES)
        self.now_s = 0.0  # End of the latest span, in seconds since `at`.
        self._shared: Attributes = {session_key: session} if session_key else {}
        named = {"service.name": service} | ({"service.version": version} if version else {})
        self._resource = {"attributes": key_values(named)}
        self._scope = scope
        self._at_ns = int(datetime.fromisoformat(at).timestamp()) * NANOSECONDS
        self._spans: dict[str, dict[str, Any]] = {}  # In the order in which they were added.
        self._scopes: dict[str, str] = {}

    def span(
        self,
        name: str,
        parent: str | None = None,
        attributes: Attributes | None = None,
        events: Sequence[Event] = (),
        *,
        links: Sequence[tuple[str, str]] = (),
        kind: int = INTERNAL,
        status: Literal["ok", "error"] | None = None,
        message: str = "",
        seconds: float = 1.0,
        start_s: float | None = None,
        end_s: float | None = None,
        scope: str | None = None,
    ) -> str:
        """Add a span and return its id. `links` are pairs of a trace id and a span id.

        It starts where the latest span ended and takes `seconds`, unless `start_s` or `end_s`
        (seconds since the trace's `at`) say otherwise. Its ancestors end after it.
        """
        start_s = self.now_s if start_s is None else start_s
        end_s = start_s + seconds if end_s is None else end_s
        span_id = _hex(f"{self.trace_id}/{len(self._spans)}", SPAN_ID_BYTES)
        end_ns = self._ns(end_s)
        self._spans[span_id] = {
            "traceId": self.trace_id,
            "spanId": span_id,
            "parentSpanId": parent or "",
            "name": name,
            "kind": kind,
            "startTimeUnixNano": self._ns(start_s),
            "endTimeUnixNano": end_ns,
            "attributes": key_values({**self._shared, **(attributes or {})}),
            "events": [
                {"timeUnixNano": end_ns, "name": event, "attributes": key_values(details)}
                for event, details in events
            ],
            "links": [{"traceId": trace, "spanId": linked} for trace, linked in links],
            "status": {"code": STATUS_CODES[status], "message": message} if status else {},
        }
        self._scopes[span_id] = scope or self._scope
        while parent in self._spans:
            end_s += CLOSING_S
            ancestor = self._spans[parent]
            ancestor["endTimeUnixNano"] = max(ancestor["endTimeUnixNano"], self._ns(end_s))
            parent = ancestor["parentSpanId"]
        self.now_s = max(self.now_s, end_s)
        return span_id

    def request(self) -> dict[str, Any]:
        """Return one export request with all spans, in the order in which they were added."""
        return self._request(list(self._spans.values()))

    def requests(self, *, parents_first: bool = False) -> list[dict[str, Any]]:
        """Return one export request a span, by their ends: children come before their parents."""
        spans = list(self._spans.values())
        if not parents_first:
            spans.sort(key=lambda span: str(span["endTimeUnixNano"]))
        return [self._request([span]) for span in spans]

    def lines(self, *, parents_first: bool = False) -> str:
        """Return `requests` as JSON lines."""
        return "".join(json.dumps(r) + "\n" for r in self.requests(parents_first=parents_first))

    def _request(self, spans: Sequence[dict[str, Any]]) -> dict[str, Any]:
        scopes: dict[str, list[dict[str, Any]]] = {}
        for span in spans:
            scopes.setdefault(self._scopes[span["spanId"]], []).append(span)
        found = [{"scope": {"name": name}, "spans": inside} for name, inside in scopes.items()]
        return {"resourceSpans": [{"resource": self._resource, "scopeSpans": found}]}

    def _ns(self, seconds: float) -> str:
        """Return nanoseconds since 1970; all have 19 digits, so that their texts sort like them."""
        return str(self._at_ns + round(seconds * NANOSECONDS))


def _hex(text: str, size: int) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()


def decoded_rows(decoded: DecodedSpans) -> list[SpanRow]:
    """Return all rows that were decoded."""
    return span_rows(joined_table([decoded.spans or (), decoded.rows]))


def spans_in(*requests: Mapping[str, Any]) -> pl.DataFrame:
    """Return the span table of export requests, as a server reads them."""
    bodies = [json.dumps(each).encode() for each in requests]
    return pl.concat(
        [span_table(decoded_rows(decode_request(body, DecodingBounds()))) for body in bodies]
    )
