"""Rows of the span table from OTLP log records: coding agents' work, and GenAI events of spans.

`decode_json` and `decode_proto` take an ExportLogsServiceRequest, the body of a POST to `/v1/logs`
or a line of a file, and raise nothing. A request that cannot be decoded is one problem, and so is a
record with an impossible time or id. All other records are ignored.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import msgspec
import polars as pl

from looptrace import _core
from looptrace.collector.coding_agents.genai_events import EventRows
from looptrace.collector.coding_agents.log_events import LogRecord, event_row
from looptrace.collector.otlp.json import DATA_ERRORS, MEND, words
from looptrace.collector.otlp.span_rows import BadSpanError, DecodedSpans, DecodingBounds, Problem

REQUEST = "the request"
_UNBOUNDED = DecodingBounds()

_decode = msgspec.json.decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def decode_document(data: bytes, where: str) -> DecodedSpans:
    """Return the rows of the logs in a document: one request, or an array of requests."""
    if not data.startswith(b"["):
        return decode_json(data, where)
    try:
        requests = _decode_array(_core.with_whole_escapes(data))
    except DATA_ERRORS as error:
        return DecodedSpans(problems=[Problem(where, f"{words(error)}; {MEND}")])
    parts = (decode_json(bytes(each), f"{where}[{i}]") for i, each in enumerate(requests))
    return reduce(DecodedSpans.with_more, parts, DecodedSpans())


def decode_json(
    data: bytes, where: str = REQUEST, bounds: DecodingBounds = _UNBOUNDED
) -> DecodedSpans:
    """Return the rows of a request in OTLP/JSON, and what is wrong with it.

    Raises OverBoundsError.
    """
    try:
        read = _core.decode_json_logs(data, limits=bounds.limits)
    except _core.UndecodableError as error:
        return DecodedSpans(problems=[Problem(where, f"{error}; {MEND}")])
    return _decoded(_records(read), where, bounds)


def decode_proto(
    data: bytes, where: str = REQUEST, bounds: DecodingBounds = _UNBOUNDED
) -> DecodedSpans:
    """Return the rows of a request in OTLP/protobuf, and what is wrong with it.

    Raises OverBoundsError.
    """
    read = _core.decode_protobuf_logs(data, limits=bounds.limits)
    if read is None:
        why = f"it is not a protobuf of logs, not UTF-8, or nested too deep; {MEND}"
        return DecodedSpans(problems=[Problem(where, why)])
    return _decoded(_records(read), where, bounds)


def _decoded(
    records: Iterable[Callable[[], LogRecord]], where: str, bounds: DecodingBounds
) -> DecodedSpans:
    out = DecodedSpans(bounds=bounds)
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


def _records(read: _core.LogRecords) -> Iterator[Callable[[], LogRecord]]:
    if not len(read):
        return
    resources = list(map(_decode, read.resources))
    sources = [(resources[place], scope) for place, scope in read.sources]
    for *record, source in pl.DataFrame(read).iter_rows():
        yield partial(_record, record, *sources[source])


def _record(record: Sequence[Any], resource: Mapping[str, Any], scope: str | None) -> LogRecord:
    time_ns, observed_ns, event_name, body, attributes, trace_id, span_id, fault = record
    if fault is not None:
        raise BadSpanError(fault)
    return LogRecord(
        time_ns=int(time_ns),
        observed_ns=int(observed_ns),
        event_name=event_name,
        body=_decode(body),
        attributes=_decode(attributes),
        resource=resource,
        span=(trace_id, span_id),
        scope=scope,
    )
