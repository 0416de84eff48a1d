"""Reads the JSON documents of a source: export requests, or a log that a coding agent keeps.

The lines of such a log are read with what came before them.

A log is told by its content. Kinds of lines that are not known are passed over, because every
version of an agent adds some; a line that is no JSON is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import msgspec

from looptrace.analyzer.text.escapes import with_whole_escapes
from looptrace.collector.coding_agents import claude_code, codex, otlp_logs
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json import DATA_ERRORS, MEND, decode_document, words
from looptrace.collector.otlp.span_rows import DecodedSpans, Problem, SpanRow


class Log(Protocol):
    """One log while it is read."""

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that a line completes. Raises BadSpanError."""

    def rest(self) -> list[SpanRow]:
        """Return the rows of what is over at the end of the log."""


_decode_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_line = msgspec.json.Decoder(dict[str, Any]).decode


def decoded_documents(name: str, documents: Iterable[Frame]) -> Iterator[DecodedSpans]:
    """Decode the JSON documents of a source: export requests, or the lines of a session log.

    Documents that are neither are reported; the first that is either decides for the source.
    """
    log, decided = None, False
    for document in documents:
        log = log or (None if decided else _log_of(document))
        if log is not None:
            yield _decoded_line(name, document, log)
            continue
        decoded = _decoded_request(name, document)
        decided = decided or bool(decoded.rows)
        yield decoded
    if log is not None:
        yield DecodedSpans(log.rest())


def _decoded_request(name: str, document: Frame) -> DecodedSpans:
    if document.problem is None and otlp_logs.begins_request(document.data):
        return otlp_logs.decode_json(document.data, f"{name}:{document.number}")
    return decode_document(name, document)


def _log_of(document: Frame) -> Log | None:
    """Return the reader of the log that a document is the first line of; None where of none."""
    try:
        names = _decode_names(with_whole_escapes(document.data))
    except DATA_ERRORS:  # Whoever decodes the document says what is wrong with it.
        return None
    if claude_code.is_line(names):
        return claude_code.ClaudeCodeLog()
    return codex.CodexLog() if codex.is_line(names) else None


def _decoded_line(name: str, line: Frame, log: Log) -> DecodedSpans:
    try:
        return DecodedSpans(log.read(_decode_line(with_whole_escapes(line.data))))
    except DATA_ERRORS as error:
        why = line.problem or f"this line of a session log was left out: {words(error)}; {MEND}"
        return DecodedSpans(problems=[Problem(f"{name}:{line.number}", why)])
