"""Reads the JSON documents of a source: OTLP, an export of a tracing system, or an agent's log.

The fields of its first record decide the form of a source, never its name. A bad record costs only
itself. Unknown kinds of log lines are ignored, because every version of an agent adds some; a line
that is not JSON is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from looptrace._core import with_whole_escapes
from looptrace.collector.importers.records import (
    ENVELOPES,
    LEVELS_MAX,
    RECORD_ERRORS,
    Reader,
    UnreadList,
    records_in,
    wrong,
)
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json import DATA_ERRORS, MEND, decode_document
from looptrace.collector.otlp.span_rows import DecodedSpans, Problem

if TYPE_CHECKING:
    from looptrace.collector.importers.forms import RecordForm


# An export request begins like this; it has a reader of its own.
_REQUESTS = (b'{"resourceSpans"', b'{"resource_spans"')

_UNREAD = "{:,} records here were not read: no form of them is known; export them as a list"
_EMPTY_EXPORT = re.compile(
    rb'\{\s*"(?P<name>' + "|".join(ENVELOPES).encode() + rb')"\s*:\s*(?:\[\s*\]|\{\s*\})\s*[,}]'
)
_NO_NUMBER = re.compile(rb'("(?:[^"\\]|\\.)*+"?)|-?(?:NaN|Infinity)\b', re.DOTALL)

_EMPTY_VALUES = {b"[]": "an empty list", b"{}": "an empty object"}
# The first field of an export request says what it holds.
_LOGS = re.compile(rb'"resource(?:L|_l)ogs"\s*:')
_SPANS = re.compile(rb'"resource(?:S|_s)pans"\s*:')
_SIGNAL = re.compile(rb'\{\s*"resource_?([a-z]+)"', re.IGNORECASE)
_OTHER_SIGNALS = {
    b"metrics": "metrics without spans",
    b"logs": "log records without spans, none of a coding agent or of a GenAI span",
    b"profiles": "profiles without spans",
}

_decode = msgspec.json.Decoder().decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode


def decoded_documents(name: str, documents: Iterable[Frame]) -> Iterator[DecodedSpans]:
    """Decode the JSON documents of a source, each of which may hold many records.

    Documents of no known form are reported; the first of a known form decides for the source.
    """
    form: RecordForm | None = None
    reader: Reader | None = None
    is_otlp = False
    for document in documents:
        if form is None and not is_otlp and (form := _form_of_document(document)):
            reader = form.reader()
        if form is not None and reader is not None:
            yield from _decoded_records(name, document, form, reader)
            continue
        is_first = not is_otlp
        for decoded in _decoded_request(name, document, is_first=is_first):
            is_otlp = is_otlp or decoded.is_any
            yield decoded
    if reader is not None:
        yield DecodedSpans(reader.rest())


def empty_text(head: bytes) -> str:
    """Return what a source without spans is, by its first bytes."""
    text = head.strip()
    if text in _EMPTY_VALUES:
        return _EMPTY_VALUES[text]
    signal = _SIGNAL.match(text)
    return _OTHER_SIGNALS.get(signal[1].lower() if signal else b"", "an export without spans")


def _decoded_request(name: str, document: Frame, *, is_first: bool) -> Iterator[DecodedSpans]:
    where = f"{name}:{document.number}"
    if document.problem is None and _LOGS.search(document.data):
        # Most sources hold spans alone.
        from looptrace.collector.coding_agents import otlp_logs  # noqa: PLC0415

        yield otlp_logs.decode_document(document.data, where)
        if not _SPANS.search(document.data):
            return
    elif is_first and (held := _EMPTY_EXPORT.match(document.data)) is not None:
        why = f"the export is empty: `{held['name'].decode()}` holds nothing; export again"
        yield DecodedSpans(problems=[Problem(where, why)])
        return
    yield decode_document(name, document)


def _form_of_document(document: Frame) -> RecordForm | None:
    """Return the form of the first record of a document; None where it is unknown."""
    if document.data.startswith(_REQUESTS):
        return None
    try:
        return _form_within(readable(document.data), LEVELS_MAX)
    except DATA_ERRORS:  # The decoder reports what is wrong with the document.
        return None


def _form_within(data: bytes | Raw, levels: int, *, is_inner: bool = False) -> RecordForm | None:
    first = bytes(memoryview(data)[:1])
    if first == b"[" and levels:
        items = _decode_items(data)
        return _form_within(items[0], levels - 1, is_inner=is_inner) if items else None
    if first != b"{":
        return None
    fields = _decode_fields(data)
    # A plain export request is read by columns; one that another system wraps is not.
    is_request = not is_inner and not {"resourceSpans", "resource_spans"}.isdisjoint(fields)
    if not is_request:
        # The modules of the forms are many, and OTLP needs none.
        from looptrace.collector.importers.forms import form_of  # noqa: PLC0415

        if form := form_of(fields):
            return form
    held = next((fields[name] for name in ENVELOPES if name in fields), None)
    return None if held is None or not levels else _form_within(held, levels - 1, is_inner=True)


def readable(document: bytes) -> bytes:
    """Return a document as JSON that readers accept: without half surrogates, NaN and Infinity.

    Python writes them; they become null.
    """
    document = with_whole_escapes(document)
    if b"NaN" not in document and b"Infinity" not in document:
        return document
    return _NO_NUMBER.sub(lambda match: match[1] or b"null", document)


def _decoded_records(
    name: str, document: Frame, form: RecordForm, reader: Reader
) -> Iterator[DecodedSpans]:
    where = f"{name}:{document.number}"
    try:
        value = _decode(readable(document.data))
    except DATA_ERRORS as error:
        why = document.problem or f"this {form.name} was left out: {wrong(error)}; {MEND}"
        is_text = not document.data.startswith((b"{", b"["))
        yield DecodedSpans(problems=[Problem(where, why, foreign=is_text)])
        return
    for place, record in records_in(value, where, form.is_record, form.nesting):
        yield decoded_record(place, record, form, reader)
    if document.problem is not None:
        yield DecodedSpans(problems=[Problem(where, document.problem)])


def decoded_record(where: str, record: Any, form: RecordForm, reader: Reader) -> DecodedSpans:
    """Return the spans of a record, and what is wrong with it."""
    if isinstance(record, UnreadList):
        return DecodedSpans(problems=[Problem(where, _UNREAD.format(record.count))])
    try:
        if not isinstance(record, dict):
            raise TypeError(record)
        return reader.read(record, where)
    except RECORD_ERRORS as error:
        why = f"this {form.name} was left out: {wrong(error)}; {MEND}"
        return DecodedSpans(problems=[Problem(where, why)])
