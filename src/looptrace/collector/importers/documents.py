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
    TRIED_MAX,
    Reader,
    UnreadList,
    envelopes,
    records_in,
    wrong,
)
from looptrace.collector.importers.rows.answer_tables import is_table, rows_of
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

_ERRORS = re.compile(rb'\{\s*"(?:errors?|data|message|status|code)"\s*:')
_REFUSED = "the answer is an error, {!r:.80}; ask again for it"

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

_OPENING = (b"{", b"[")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode


def decoded_documents(name: str, documents: Iterable[Frame]) -> Iterator[DecodedSpans]:
    """Decode the JSON documents of a source, each of which may hold many records.

    Documents of no known form are reported; the first of a known form decides for the source.
    """
    readers: _SourceReaders | None = None
    is_otlp = False
    for document in documents:
        if readers is None and not is_otlp and (form := _form_of_document(document)):
            readers = _SourceReaders(form)
        if readers is not None:
            yield from _decoded_records(name, document, readers)
            continue
        is_first = not is_otlp
        for decoded in _decoded_request(name, document, is_first=is_first):
            is_otlp = is_otlp or decoded.is_any
            yield decoded
    if readers is not None:
        yield from readers.rest(name)


class _SourceReaders:
    """The readers of the records of one source, of which most have one form.

    Records of another form have a reader of their own where the fields of both forms are exact.
    """

    def __init__(self, form: RecordForm) -> None:
        self.form = form
        self._readers = {form.name: form.reader()}

    def of(self, record: Any) -> tuple[RecordForm, Reader]:
        """Return the form of a record, and its reader."""
        form = self.form
        if form.is_exact and isinstance(record, dict) and not form.is_record(record):
            from looptrace.collector.importers.forms import form_of  # noqa: PLC0415 - as below

            other = form_of(record)
            form = other if other is not None and other.is_exact else form
        if form.name not in self._readers:
            self._readers[form.name] = form.reader()
        return form, self._readers[form.name]

    def rest(self, name: str) -> list[DecodedSpans]:
        """Return what the end of the source completes, by form."""
        return [decoded_end(name, *each) for each in self._readers.items()]


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
    elif is_first and (refusal := _refusal_of(document.data)) is not None:
        yield DecodedSpans(problems=[Problem(where, _REFUSED.format(refusal))])
        return
    yield decode_document(name, document)


def _refusal_of(data: bytes) -> str | None:
    """Return the message of an API's answer that is an error; None for anything else."""
    if not _ERRORS.match(data):
        return None
    try:
        told = _decode(data)
    except DATA_ERRORS:
        return None
    errors = told.get("errors") or told.get("error")
    first = errors[0] if isinstance(errors, list) and errors else errors
    message = first.get("message") if isinstance(first, dict) else first
    return None if any(told.get(name) for name in ENVELOPES) or not message else str(message)


def _form_of_document(document: Frame) -> RecordForm | None:
    """Return the form of the first record of a document; None where it is unknown."""
    if document.data.startswith(_REQUESTS):
        return None
    try:
        return _form_within(readable(document.data), LEVELS_MAX)
    except DATA_ERRORS:  # The decoder reports what is wrong with the document.
        return None


def _form_within(
    data: bytes | Raw, levels: int, *, is_inner: bool = False, is_guess: bool = False
) -> RecordForm | None:
    """Return the form of the first record within a document.

    With `is_guess` the record is under a name that may mean anything: then messages that stand
    alone there need not belong together.
    """
    first = bytes(memoryview(data)[:1])
    if first == b"[" and levels:
        items = _decode_items(data)[:TRIED_MAX]
        return _form_of_any(items, levels, is_inner=is_inner, is_guess=is_guess)
    if first != b"{":
        return None
    fields = _decode_fields(data)
    # A plain export request is read by columns; one that another system wraps is not.
    is_request = not is_inner and not {"resourceSpans", "resource_spans"}.isdisjoint(fields)
    if not is_request:
        # The modules of the forms are many, and OTLP needs none.
        from looptrace.collector.importers.forms import form_of  # noqa: PLC0415

        if form := form_of(fields):
            return None if is_guess and form.is_fragment(fields) else form
    if not levels or is_request:
        return None
    if is_table(fields) and (rows := rows_of(_decode(data))) is not None:
        return _form_of_any([Raw(_encode(row)) for row in rows[:1]], levels, is_inner=True)
    containers = [name for name, raw in fields.items() if bytes(memoryview(raw)[:1]) in _OPENING]
    names = envelopes(fields, containers)
    is_guess = is_guess or set(ENVELOPES).isdisjoint(names)
    held = [fields[name] for name in names]
    return _form_of_any(held, levels, is_inner=True, is_guess=is_guess)


def _form_of_any(
    held: list[Raw], levels: int, *, is_inner: bool, is_guess: bool = False
) -> RecordForm | None:
    """Return the form of the first of some records that has one."""
    forms = (_form_within(each, levels - 1, is_inner=is_inner, is_guess=is_guess) for each in held)
    return next((form for form in forms if form is not None), None)


def readable(document: bytes) -> bytes:
    """Return a document as JSON that readers accept: without half surrogates, NaN and Infinity.

    Python writes them; they become null.
    """
    document = with_whole_escapes(document)
    if b"NaN" not in document and b"Infinity" not in document:
        return document
    return _NO_NUMBER.sub(lambda match: match[1] or b"null", document)


def _decoded_records(name: str, document: Frame, readers: _SourceReaders) -> Iterator[DecodedSpans]:
    where, form = f"{name}:{document.number}", readers.form
    try:
        value = _decode(readable(document.data))
    except DATA_ERRORS as error:
        why = document.problem or f"this {form.name} was left out: {wrong(error)}; {MEND}"
        is_text = not document.data.startswith((b"{", b"["))
        yield DecodedSpans(problems=[Problem(where, why, foreign=is_text)])
        return
    for place, record in records_in(value, where, form.is_record, form.nesting):
        yield decoded_record(place, record, *readers.of(record))
    if document.problem is not None:
        yield DecodedSpans(problems=[Problem(where, document.problem)])


def decoded_end(name: str, form: str, reader: Reader) -> DecodedSpans:
    """Return the spans that the end of a source completes, and what is wrong with them."""
    try:
        return DecodedSpans(reader.rest())
    except RECORD_ERRORS as error:
        why = f"the end of this {form} was left out: {wrong(error)}; {MEND}"
        return DecodedSpans(problems=[Problem(name, why)])


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
