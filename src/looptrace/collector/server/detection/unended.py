"""Traces of which no more spans come, although the spans above theirs have not ended.

A process that exports its spans in the usual way shows no open span. What it named as a parent and
did not send is open, or was lost. Nobody knows which, so a server only looks for it where its
settings say after how long.
"""

import logging
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import polars as pl

from looptrace import semconv
from looptrace.analyzer.fields.dialect_table import DialectTable
from looptrace.analyzer.schema.spans import LOGGED, NO_ITEMS, SPAN_SCHEMA, SpanRow, span_rows
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.rules.vocabulary import NS_PER_S

_logger = logging.getLogger(__name__)

# Traces that may go on; of more, those touched longest ago are forgotten.
TRACES_MAX = 20_000
# What says to which task a span belongs.
_TIES = ("session", "task", "task_parent")
# The name of the span of such a silence, and what makes its id from that of the last call.
_NAME = "(unended)"
_OF_SILENCE = 0x5117_0000_0000_0002

_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True)
class _Trace:
    seen_s: float = 0.0  # when its last span came
    last_ns: int = 0  # the last end of its spans
    call: SpanRow | None = None  # its last call, with nothing but ties among the attributes
    above_ns: int = 0  # the last end of its root and its agents
    is_reported: bool = False  # whether its process reports open spans
    told: SpanRow | None = None  # the span of its silence


class UnendedTraces:
    """Notes the spans that come, and says which traces have stopped in the middle."""

    def __init__(self, dialects: DialectTable, after_s: int) -> None:
        """Take traces as stopped of which nothing came for `after_s` seconds; 0 is never."""
        self._dialects, self._after_s = dialects, after_s
        self._ties = {key for name in _TIES for key in dialects.keys_of(name)}
        self._traces: BoundedDict[str, _Trace] = BoundedDict(TRACES_MAX)  # the last touched last
        self._told: BoundedDict[str, _Trace] = BoundedDict(TRACES_MAX)
        self._rows: list[SpanRow] = []

    def note(self, spans: pl.DataFrame, now_s: float) -> None:
        """Note spans (`SPAN_SCHEMA`) that came."""
        if not self._after_s:
            return
        for row in span_rows(spans):
            if row[6] != LOGGED and row[3] != _NAME:
                trace = self._traces.pop(row[0], None) or self._going_on(row[0])
                self._add(trace, row)
                trace.seen_s = now_s
                self._traces[row[0]] = trace

    def put_due(self, log: IngestLog, now_s: float) -> None:
        """Put the spans that are due into `log`."""
        silences = self.due(now_s)
        if silences.height:
            log.put(silences, _note_put)

    def due(self, now_s: float) -> pl.DataFrame:
        """Return spans of the silences that began or ended since the last call."""
        rows, self._rows = self._rows, []
        while self._traces:
            trace_id, trace = next(iter(self._traces.items()))
            if trace.seen_s > now_s - self._after_s:
                break
            del self._traces[trace_id]
            if trace.call and trace.call[5] > trace.above_ns and not trace.is_reported:
                trace.told = _silence(trace.call, trace.last_ns, now_s - trace.seen_s)
                self._told[trace_id] = trace
                rows.append(trace.told)
        return pl.DataFrame(rows, SPAN_SCHEMA, orient="row")

    def _going_on(self, trace_id: str) -> _Trace:
        """Return what is known of a trace that is not at work; a silence in it is over."""
        trace = self._told.pop(trace_id, None)
        if trace is None or trace.told is None:
            return _Trace()
        row = list(trace.told)
        row[5], row[10] = trace.told[5] + 1, "{}"
        self._rows.append(cast("SpanRow", tuple(row)))
        return trace

    def _add(self, trace: _Trace, row: SpanRow) -> None:
        attributes = _decode(row[10])
        kind, _ = self._dialects.kind_of(attributes, row[3], row[9])
        trace.is_reported |= semconv.OPEN in attributes
        if row[2] is None or kind == "agent":
            trace.above_ns = max(trace.above_ns, row[5])
        elif kind in ("tool", "model") and row[5] >= (trace.call[5] if trace.call else 0):
            ties = {key: value for key, value in attributes.items() if key in self._ties}
            trace.call = (*row[:10], msgspec.json.encode(ties).decode(), NO_ITEMS, NO_ITEMS)
        trace.last_ns = max(trace.last_ns, row[5])


def _note_put(error: Exception | None) -> None:
    if error is not None:
        _logger.warning("silences of runs without an end were not noted: %s", error)


def _silence(call: SpanRow, since_ns: int, seconds: float) -> SpanRow:
    """Return the span of a silence after a call, beside it, as the process would report it."""
    trace_id, span_id, parent, *_, service, _, ties, events, links = call
    attributes = _decode(ties) | {
        semconv.GEN_AI_OPERATION_NAME: "chat",
        semconv.GEN_AI_REQUEST_MODEL: semconv.SILENT,
        semconv.GEN_AI_RESPONSE_FINISH_REASONS: [semconv.OPEN_REASON],
        semconv.OPEN: True,
    }
    return (
        trace_id,
        f"{int(span_id, 16) ^ _OF_SILENCE:016x}",
        parent,
        _NAME,
        since_ns,
        since_ns + int(seconds * NS_PER_S),
        0,
        None,
        service,
        semconv.SCOPE,
        msgspec.json.encode(attributes).decode(),
        events,
        links,
    )
