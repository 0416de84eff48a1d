"""Rows of the span table from OTLP log records: those in which a coding agent reports its work.

`decode_json` and `decode_proto` take an ExportLogsServiceRequest, the body of a POST to `/v1/logs`
or a line of a file, and raise nothing. A request that cannot be decoded is one problem, and so is a
record with an impossible time. All other records are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from msgspec import Struct
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as ProtoRecord
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

from looptrace.analyzer.text.escapes import with_whole_escapes
from looptrace.collector.coding_agents.log_events import LogRecord, event_row
from looptrace.collector.otlp import json as otlp_json
from looptrace.collector.otlp import protobuf as otlp_proto
from looptrace.collector.otlp.json import DATA_ERRORS, MEND
from looptrace.collector.otlp.json_messages import (
    AnyValue,
    KeyValue,
    Resource,
    integer,
    plain,
    plain_map,
)
from looptrace.collector.otlp.span_rows import BadSpanError, DecodedSpans, Problem

REQUEST = "the request"

_UNDERSCORED = b'"resource_logs"'
_BEGIN = re.compile(rb'\s*\{\s*"resource(?:L|_l)ogs"')


class OtlpLogRecord(Struct, rename="camel", gc=False):
    """A log record as it is sent: times in nanoseconds since 1970."""

    time_unix_nano: int | str | None = None
    observed_time_unix_nano: int | str | None = None
    event_name: str | None = None
    body: AnyValue | None = None
    attributes: list[KeyValue] | None = None


class ScopeLogs(Struct, rename="camel"):
    """The records of one instrumentation."""

    log_records: list[OtlpLogRecord] | None = None


class ResourceLogs(Struct, rename="camel"):
    """The records of one resource."""

    resource: Resource | None = None
    scope_logs: list[ScopeLogs] | None = None


class LogsRequest(Struct, rename="camel"):
    """An export request."""

    resource_logs: list[ResourceLogs] | None = None


_decode_request = msgspec.json.Decoder(LogsRequest).decode


def begins_request(text: bytes) -> bool:
    """Return whether a JSON document is a request of logs."""
    return _BEGIN.match(text) is not None


def decode_json(data: bytes, where: str = REQUEST) -> DecodedSpans:
    """Return the rows of a request in OTLP/JSON, and what is wrong with it."""
    if _UNDERSCORED in data:
        data = otlp_json.camel_case(data)
    try:
        request = _whole_request(data)
    except DATA_ERRORS as error:
        return DecodedSpans(problems=[Problem(where, f"{otlp_json.words(error)}; {MEND}")])
    return _decoded(_records_of_json(request), where)


def _whole_request(data: bytes) -> LogsRequest:
    try:
        return _decode_request(data)
    except DATA_ERRORS:  # Few requests get here.
        return _decode_request(with_whole_escapes(data))


def decode_proto(data: bytes, where: str = REQUEST) -> DecodedSpans:
    """Return the rows of a request in OTLP/protobuf, and what is wrong with it."""
    try:
        request = LogsData.FromString(data)
    except DecodeError as error:
        return DecodedSpans(
            problems=[Problem(where, f"it is not a protobuf of logs: {error}; {MEND}")]
        )
    return _decoded(_records_of_proto(request), where)


def _decoded(records: Iterable[Callable[[], LogRecord]], where: str) -> DecodedSpans:
    out = DecodedSpans()
    for number, read in enumerate(records, 1):
        try:
            row = event_row(read())
        except BadSpanError as error:
            why = f"log record {number} was left out: {error}; correct what wrote it"
            out.problems.append(Problem(where, why, is_span=True))
            continue
        if row is not None:
            out.rows.append(row)
    return out


def _records_of_json(request: LogsRequest) -> Iterator[Callable[[], LogRecord]]:
    for of_resource in request.resource_logs or ():
        made_by = of_resource.resource.attributes if of_resource.resource else None
        resource = plain_map(made_by)
        for of_scope in of_resource.scope_logs or ():
            for record in of_scope.log_records or ():
                yield partial(_of_json, record, resource)


def _of_json(record: OtlpLogRecord, resource: Mapping[str, Any]) -> LogRecord:
    return LogRecord(
        time_ns=integer(record.time_unix_nano),
        observed_ns=integer(record.observed_time_unix_nano),
        event_name=record.event_name or "",
        body=plain(record.body),
        attributes=plain_map(record.attributes),
        resource=resource,
    )


def _records_of_proto(request: LogsData) -> Iterator[Callable[[], LogRecord]]:
    for of_resource in request.resource_logs:
        resource = otlp_proto.plain_map(of_resource.resource.attributes)
        for of_scope in of_resource.scope_logs:
            for record in of_scope.log_records:
                yield partial(_of_proto, record, resource)


def _of_proto(record: ProtoRecord, resource: Mapping[str, Any]) -> LogRecord:
    return LogRecord(
        time_ns=record.time_unix_nano,
        observed_ns=record.observed_time_unix_nano,
        event_name=record.event_name,
        body=otlp_proto.plain(record.body),
        attributes=otlp_proto.plain_map(record.attributes),
        resource=resource,
    )
