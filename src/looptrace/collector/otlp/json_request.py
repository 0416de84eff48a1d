"""Rows of the span table as an OTLP/JSON export request, which decodes to the same rows."""

from collections import defaultdict
from typing import Any

import msgspec
import polars as pl

from looptrace.collector.otlp.span_rows import SERVICE_NAME

_SCALARS = {str: "stringValue", bool: "boolValue", float: "doubleValue"}


def json_request(spans: pl.DataFrame) -> bytes:
    """Return spans (`SPAN_SCHEMA`) as one request."""
    sources: dict[tuple[str | None, str | None], list[dict[str, Any]]] = defaultdict(list)
    for row in spans.iter_rows(named=True):
        sources[row["service"], row["scope"]].append(_span(row))
    return msgspec.json.encode(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": attribute_list({SERVICE_NAME: service})},
                    "scopeSpans": [{"scope": {"name": scope}, "spans": of_source}],
                }
                for (service, scope), of_source in sources.items()
            ]
        }
    )


def _span(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "traceId": row["trace_id"],
        "spanId": row["span_id"],
        "parentSpanId": row["parent_span_id"] or "",
        "name": row["name"],
        "startTimeUnixNano": str(row["start_ns"]),
        "endTimeUnixNano": str(row["end_ns"]),
        "attributes": attribute_list(msgspec.json.decode(row["attributes"])),
        "events": [
            {
                "name": event["name"],
                "timeUnixNano": str(event["time_ns"]),
                "attributes": attribute_list(event["attributes"]),
            }
            for event in msgspec.json.decode(row["events"])
        ],
        "links": [
            {"traceId": link["trace_id"], "spanId": link["span_id"]}
            for link in msgspec.json.decode(row["links"])
        ],
        "status": {"code": row["status"], "message": row["status_message"]},
    }


def attribute_list(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return plain attributes as the protocol writes them."""
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    """Return a plain value as an any-value; None is the empty one."""
    if value is None:
        return {}
    if kind := _SCALARS.get(type(value)):
        return {kind: value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": attribute_list(value)}}
    return {"arrayValue": {"values": [_value(item) for item in value]}}
