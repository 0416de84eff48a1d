"""OTLP/JSON export requests to rows of the span table.

Everything down to the span is decoded piece by piece, so that a bad span costs only itself. Unknown
fields are ignored, as the protocol requires, and a null field is a missing one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw

from looptrace._core import OverBoundsError
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.escapes import with_whole_escapes
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json_documents import (
    CUT_OFF,
    DEPTH_MAX,
    begins_document,
    readable_prefix,
    request_starts,
)
from looptrace.collector.otlp.json_messages import (
    SHOWN_CHARACTERS_MAX,
    Resource,
    ResourceSpans,
    Scope,
    ScopeSpans,
    Span,
    SpanStatus,
    TracesRequest,
    integer,
    plain_map,
    status_code,
)
from looptrace.collector.otlp.span_rows import (
    BadSpanError,
    Bounds,
    DecodedSpans,
    Problem,
    service_name,
    span_row,
)
from looptrace.errors import InputError

Piece = TypeVar("Piece")

# Longer JSON documents are not searched for all names.
NAMED_BYTES_MAX = 4096

# A hundred attributes have two hundred. Each is an object in memory while a request is decoded, so
# that a small request of nothing but `{}` would take a gigabyte.
OBJECTS_A_SPAN = 200

_GIVE_OTLP = "give OTLP, or an export that looptrace reads (docs/inputs.md)"
_NO_JSON = f"neither OTLP/JSON nor OTLP/protobuf; {_GIVE_OTLP}"
_JUNK_BEFORE = "the text before the export request is not JSON; remove it"
MEND = "correct it or export it again"

DATA_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadSpanError)
_OTHER_SIGNAL = re.compile(r"resource_?(?:[lL]ogs|[mM]etrics|[pP]rofiles)")
_UNDERSCORED = re.compile(rb'"[a-z]++(?:_[a-z0-9]++)++(?="\s*+:)')
_NAME = re.compile(rb'"([^"\\]*)"\s*+:')
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # Never bare in JSON.
_BLANK = b" \t\r\n"

# msgspec's messages, and its names of types.
_WRONG_TYPE = re.compile(
    r"Expected `(?P<expected>[^`]*)`, got `(?P<found>[^`]*)`(?: - at `\$\.?(?P<at>[^`]*)`)?"
)
_MALFORMED = re.compile(r"JSON is malformed: (?P<why>.*) \(byte (?P<byte>\d+)\)")
_TRUNCATED = "Input data was truncated"
_TYPE_WORDS = {
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
}
_DUE_WORDS = _TYPE_WORDS | {"int": "a whole number"}


_decode_request = msgspec.json.Decoder(TracesRequest).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_resource_spans = msgspec.json.Decoder(ResourceSpans).decode
_decode_resource = msgspec.json.Decoder(Resource | None).decode
_decode_scope_spans = msgspec.json.Decoder(ScopeSpans).decode
_decode_scope = msgspec.json.Decoder(Scope | None).decode
_decode_span = msgspec.json.Decoder(Span).decode


class UndecodableError(InputError):
    """The request is not an export request; the text says why."""


def decode_request(data: bytes, bounds: Bounds) -> DecodedSpans:
    """Return the spans of a complete request, and its problems.

    Raises UndecodableError and OverBoundsError.
    """
    check_request(data, bounds)
    out = DecodedSpans.within(bounds)
    try:
        _read_whole(data, out)
    except DATA_ERRORS as error:
        raise UndecodableError(words(error)) from error
    return out


def check_request(data: bytes, bounds: Bounds) -> None:
    """Check that a request of any signal has not too many objects. Raises OverBoundsError."""
    if data.count(b"{") > OBJECTS_A_SPAN * bounds.spans_max:
        raise OverBoundsError("the request has more JSON objects than allowed")


def _read_whole(data: bytes, out: DecodedSpans) -> None:
    try:
        _read_request(data, "the request", out)
    except DATA_ERRORS:  # No span was read yet, and few requests get here.
        _read_request(with_whole_escapes(data), "the request", out)


def decode_document(name: str, document: Frame) -> DecodedSpans:
    """Return the spans of a document, one request or an array of requests, and its problems.

    `name` is the source's. Raises nothing for bad data, of which it reads the readable parts.
    """
    out = DecodedSpans()
    where = f"{name}:{document.number}"
    try:
        _read_document(document.data, where, out)
    except DATA_ERRORS as error:
        _recover(name, document, error, out)
    else:
        if document.problem is not None:
            out.problems.append(Problem(where, document.problem))
    return out


def _read_document(data: bytes, where: str, out: DecodedSpans) -> None:
    if not data.startswith(b"["):
        _read_request(data, where, out)
        return
    for index, raw in enumerate(_decode_array(data)):
        try:
            _read_request(raw, f"{where}[{index}]", out)
        except DATA_ERRORS as error:
            why = f"not an OTLP export request: {words(error)}; {_GIVE_OTLP}"
            out.problems.append(Problem(f"{where}[{index}]", why, foreign=True))


def _read_request(data: bytes | Raw, where: str, out: DecodedSpans) -> None:
    request = _decode_request(data)
    if request.underscored is not UNSET:
        request = _decode_request(camel_case(bytes(data)))
    if request.resource_spans is UNSET:
        _note_foreign(_names(bytes(data)), where, out)
        return
    for index, raw in enumerate(request.resource_spans or ()):
        _read_resource_spans(raw, f"resourceSpans[{index}]", where, out)


def camel_case(request: bytes) -> bytes:
    """Return a request with field names in lower camel case instead of underscores."""

    def camel(name: re.Match[bytes]) -> bytes:
        first, *others = name[0].split(b"_")
        return first + b"".join(word.capitalize() for word in others)

    return _UNDERSCORED.sub(camel, request)


def _names(document: bytes) -> list[str]:
    """Return the names of the fields of a JSON object; of a long one, some at its start.

    A million names would be a hundred megabytes.
    """
    if len(document) <= NAMED_BYTES_MAX:
        return list(_decode_object(document))
    return [name.decode(errors="replace") for name in _NAME.findall(document[:NAMED_BYTES_MAX])]


def _note_foreign(names: list[str], where: str, out: DecodedSpans) -> None:
    """Report a JSON object that is an export request of no signal; an empty one is of any."""
    if names and not any(_OTHER_SIGNAL.fullmatch(name) for name in names):
        shown = ", ".join(names)[:SHOWN_CHARACTERS_MAX]
        why = f"JSON, but not OTLP: it has no resourceSpans but {shown}; {_GIVE_OTLP}"
        out.problems.append(Problem(where, why, foreign=True))


def _read_resource_spans(data: Raw, at: str, where: str, out: DecodedSpans) -> None:
    resource_spans = _piece(data, _decode_resource_spans, at, where, out)
    if resource_spans is None:
        return
    service = _piece(resource_spans.resource, _service, f"{at}.resource", where, out)
    for index, raw in enumerate(resource_spans.scope_spans or ()):
        _read_scope_spans(raw, service, f"{at}.scopeSpans[{index}]", where, out)


def _read_scope_spans(
    data: Raw, service: str | None, at: str, where: str, out: DecodedSpans
) -> None:
    scope_spans = _piece(data, _decode_scope_spans, at, where, out)
    if scope_spans is None:
        return
    scope = _piece(scope_spans.scope, _scope_name, f"{at}.scope", where, out)
    read_row = partial(_row, out, service, scope)
    for index, raw in enumerate(scope_spans.spans or ()):
        row = _piece(raw, read_row, f"{at}.spans[{index}]", where, out, is_span=True)
        if row is not None:
            out.rows.append(row)


def _piece(
    data: Raw,
    read: Callable[[Raw], Piece],
    at: str,
    where: str,
    out: DecodedSpans,
    *,
    is_span: bool = False,
) -> Piece | None:
    """Read one piece of a request; report a bad one alone and return None."""
    out.count_piece()
    try:
        return read(data)
    except DATA_ERRORS as error:
        why = f"{at} was left out: {words(error)}; correct what wrote it"
        out.problems.append(Problem(where, why, is_span=is_span))
        return None


def _service(data: Raw) -> str | None:
    resource = _decode_resource(data)
    return service_name(plain_map(resource.attributes)) if resource is not None else None


def _scope_name(data: Raw) -> str | None:
    scope = _decode_scope(data)
    return scope.name or None if scope is not None else None


def _row(out: DecodedSpans, service: str | None, scope: str | None, data: Raw) -> SpanRow:
    out.check_size(memoryview(data).nbytes)
    span = _decode_span(data)
    status = span.status or SpanStatus()
    row = span_row(
        trace_id=span.trace_id or "",
        span_id=span.span_id or "",
        parent_span_id=span.parent_span_id or "",
        name=span.name or "",
        start_ns=integer(span.start_time_unix_nano),
        end_ns=integer(span.end_time_unix_nano),
        status=status_code(status.code),
        status_message=status.message or "",
        service=service,
        scope=scope,
        attributes=plain_map(span.attributes),
        events=[
            (event.name or "", integer(event.time_unix_nano), plain_map(event.attributes))
            for event in span.events or ()
        ],
        links=[(link.trace_id or "", link.span_id or "") for link in span.links or ()],
    )
    if lost := integer(span.dropped_attributes_count):
        out.cut.append(lost)
    return row


def _recover(name: str, document: Frame, error: Exception, out: DecodedSpans) -> None:
    """Read the readable parts of a document that is not JSON as a whole, and report the rest."""
    data, line = document.data, document.number
    starts = request_starts(data)
    if not starts:
        _note_unreadable(f"{name}:{line}", document, error, out)
        return
    around = _BLANK + b"[,]" if data.startswith(b"[") else _BLANK + b","
    if data[: starts[0]].strip(around):
        out.problems.append(Problem(f"{name}:{line}", _JUNK_BEFORE))
    line += data.count(b"\n", 0, starts[0])
    for start, stop in pairwise([*starts, len(data)]):
        request = data[start:stop].rstrip(around)
        problem = document.problem if stop == len(data) else None
        _recover_request(request, problem, f"{name}:{line}", out)
        line += data.count(b"\n", start, stop)


def _note_unreadable(where: str, document: Frame, error: Exception, out: DecodedSpans) -> None:
    """Report a document in which no export request begins."""
    is_damaged = document.problem not in (None, CUT_OFF)
    is_json = begins_document(document.data) and not _CONTROL.search(document.data)
    if is_damaged or is_json:
        why = document.problem or f"{words(error)}; {MEND}"
        out.problems.append(Problem(where, why))
    else:
        out.problems.append(Problem(where, _NO_JSON, foreign=True))


def _recover_request(request: bytes, problem: str | None, where: str, out: DecodedSpans) -> None:
    """Read a request up to where it is broken; `problem` is the reason, where it is known."""
    request = with_whole_escapes(request)
    try:
        _read_request(request, where, out)
    except DATA_ERRORS as error:
        problem = problem or f"{words(error)}; {MEND}"
        spans_before = len(out.rows)
        _read_prefix(request, error, where, out)
        if len(out.rows) > spans_before:
            problem += f"; complete spans read from it: {len(out.rows) - spans_before}"
    if problem is not None:
        out.problems.append(Problem(where, problem))


def _read_prefix(request: bytes, error: Exception, where: str, out: DecodedSpans) -> None:
    malformed = _MALFORMED.fullmatch(str(error))
    prefix = readable_prefix(request, int(malformed["byte"]) if malformed else len(request))
    try:
        _read_request(prefix, where, out)
    except DATA_ERRORS:  # The caller reports what is wrong with the request.
        return


def words(error: Exception) -> str:
    """Return in plain words what msgspec, or `span_row`, refused."""
    if isinstance(error, RecursionError):
        return f"nested too deep, nothing below level {DEPTH_MAX} is read"
    if isinstance(error, UnicodeDecodeError):
        return "its text is not valid UTF-8"
    text = str(error)
    if wrong := _WRONG_TYPE.fullmatch(text):
        at = f" at {wrong['at']}" if wrong["at"] else ""
        expected = [kind for kind in wrong["expected"].split(" | ") if kind != "null"]
        due = " or ".join(_DUE_WORDS.get(kind, kind) for kind in expected)
        return f"expected {due}, found {_TYPE_WORDS.get(wrong['found'], wrong['found'])}{at}"
    if malformed := _MALFORMED.fullmatch(text):
        return f"not valid JSON at byte {malformed['byte']}: {malformed['why']}"
    return "the JSON is cut off" if text == _TRUNCATED else text
