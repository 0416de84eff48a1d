"""Rows of the span table from OTLP log records: coding agents' work, and GenAI events of spans.

`decode_json` and `decode_proto` take an ExportLogsServiceRequest, the body of a POST to `/v1/logs`
or a line of a file, and raise nothing. A request that cannot be decoded is one problem, and so is a
record with an impossible time or id. All other records are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import msgspec
import polars as pl
from msgspec import Struct

from looptrace import _core
from looptrace.analyzer.text.escapes import with_whole_escapes
from looptrace.collector.coding_agents.genai_events import EventRows
from looptrace.collector.coding_agents.log_events import LogRecord, event_row
from looptrace.collector.otlp import json as otlp_json
from looptrace.collector.otlp import protobuf as otlp_proto
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json import DATA_ERRORS, MEND, words
from looptrace.collector.otlp.json_messages import (
    AnyValue,
    KeyValue,
    Resource,
    Scope,
    integer,
    plain,
    plain_map,
)
from looptrace.collector.otlp.span_rows import BadSpanError, Bounds, DecodedSpans, Problem

REQUEST = "the request"
_UNBOUNDED = Bounds()

_UNDERSCORED = b'"resource_logs"'
_LOGS = re.compile(rb'"resource(?:L|_l)ogs"\s*:')


class OtlpLogRecord(Struct, rename="camel", gc=False):
    """A log record as it is sent: times in nanoseconds since 1970."""

    time_unix_nano: int | str | None = None
    observed_time_unix_nano: int | str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    event_name: str | None = None
    body: AnyValue | None = None
    attributes: list[KeyValue] | None = None


class ScopeLogs(Struct, rename="camel"):
    """The records of one instrumentation."""

    scope: Scope | None = None
    log_records: list[OtlpLogRecord] | None = None


class ResourceLogs(Struct, rename="camel"):
    """The records of one resource."""

    resource: Resource | None = None
    scope_logs: list[ScopeLogs] | None = None


class LogsRequest(Struct, rename="camel"):
    """An export request."""

    resource_logs: list[ResourceLogs] | None = None


_decode_request = msgspec.json.Decoder(LogsRequest).decode
_decode = msgspec.json.decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def holds_logs(document: bytes) -> bool:
    """Return whether a JSON document is a request of logs, or holds some."""
    return _LOGS.search(document) is not None


def decode_document(data: bytes, where: str) -> DecodedSpans:
    """Return the rows of the logs in a document: one request, or an array of requests."""
    if not data.startswith(b"["):
        return decode_json(data, where)
    try:
        requests = _decode_array(with_whole_escapes(data))
    except DATA_ERRORS as error:
        return DecodedSpans(problems=[Problem(where, f"{words(error)}; {MEND}")])
    parts = (decode_json(bytes(each), f"{where}[{i}]") for i, each in enumerate(requests))
    return reduce(DecodedSpans.with_more, parts, DecodedSpans())


def decode_json(data: bytes, where: str = REQUEST, bounds: Bounds = _UNBOUNDED) -> DecodedSpans:
    """Return the rows of a request in OTLP/JSON, and what is wrong with it.

    Raises OverBoundsError.
    """
    otlp_json.check_request(data, bounds)
    if _UNDERSCORED in data:
        data = otlp_json.camel_case(data)
    try:
        request = _whole_request(data)
    except DATA_ERRORS as error:
        return DecodedSpans(problems=[Problem(where, f"{words(error)}; {MEND}")])
    return _decoded(_records_of_json(request), where, bounds)


def _whole_request(data: bytes) -> LogsRequest:
    try:
        return _decode_request(data)
    except DATA_ERRORS:  # Few requests get here.
        return _decode_request(with_whole_escapes(data))


def decode_proto(data: bytes, where: str = REQUEST, bounds: Bounds = _UNBOUNDED) -> DecodedSpans:
    """Return the rows of a request in OTLP/protobuf, and what is wrong with it.

    Raises OverBoundsError.
    """
    read = _core.decode_protobuf_logs(data, limits=bounds.limits)
    if read is None:
        why = f"it is not a protobuf of logs, not UTF-8, or nested too deep; {MEND}"
        return DecodedSpans(problems=[Problem(where, why)])
    return _decoded(_records_of_proto(read), where, bounds)


def decode_spans_or_logs(
    name: str, message: Frame, piece: tuple[int, int, int] | None = None
) -> DecodedSpans:
    """Return the rows of a protobuf message of spans or of logs, which differ in their records."""
    decoded = otlp_proto.decode_message(name, message, piece)
    if decoded.spans is not None or not decoded.problems:
        return decoded
    data = message.data[piece[0] : piece[1]] if piece else message.data
    logged = decode_proto(data, name)
    return logged if logged.rows or logged.placeless else decoded


def _decoded(
    records: Iterable[Callable[[], LogRecord]], where: str, bounds: Bounds
) -> DecodedSpans:
    out = DecodedSpans.within(bounds)
    events = EventRows()
    for number, read in enumerate(records, 1):
        try:
            record = read()
            row = event_row(record) or events.row_of(record, out)
        except (BadSpanError, RecursionError) as error:
            why = f"log record {number} was left out: {words(error)}; correct what wrote it"
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
            scope = of_scope.scope.name if of_scope.scope else None
            for record in of_scope.log_records or ():
                yield partial(_of_json, record, resource, scope)


def _of_json(record: OtlpLogRecord, resource: Mapping[str, Any], scope: str | None) -> LogRecord:
    return LogRecord(
        time_ns=integer(record.time_unix_nano),
        observed_ns=integer(record.observed_time_unix_nano),
        event_name=record.event_name or "",
        body=plain(record.body),
        attributes=plain_map(record.attributes),
        resource=resource,
        span=(record.trace_id or "", record.span_id or ""),
        scope=scope,
    )


def _records_of_proto(read: _core.LogRecords) -> Iterator[Callable[[], LogRecord]]:
    if not len(read):
        return
    resources = list(map(_decode, read.resources))
    sources = [(resources[place], scope) for place, scope in read.sources]
    for *record, source in pl.DataFrame(read).iter_rows():
        yield partial(_of_core, record, *sources[source])


def _of_core(record: Sequence[str], resource: Mapping[str, Any], scope: str | None) -> LogRecord:
    time_ns, observed_ns, event_name, body, attributes, *span = record
    return LogRecord(
        time_ns=int(time_ns),
        observed_ns=int(observed_ns),
        event_name=event_name,
        body=_decode(body),
        attributes=_decode(attributes),
        resource=resource,
        span=(span[0], span[1]),
        scope=scope,
    )
