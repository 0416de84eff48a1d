"""Spans as they arrive in, turns out that are new, or of which more is known.

A span tells of a turn only together with the others of its trace, so that those are held while the
trace is at work, as they were read, and the turns of a trace that got a span are made anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from looptrace.analyzer.fingerprint.equivalence import NOTHING, Sameness
from looptrace.analyzer.normalize.session_history import SESSIONS_MAX, SessionHistory
from looptrace.analyzer.normalize.span_fields import SpanFields, span_fields_of
from looptrace.analyzer.normalize.turn_builder import turns_of_fields
from looptrace.analyzer.schema.turns import TURN_KEY
from looptrace.bounded_dict import BoundedDict

# Spans of a trace that are held; of a longer one the oldest go, whose turns are known by then.
SPANS_PER_TRACE_MAX = 2_000
# Characters of spans that are held of all traces; beyond, the traces go that were touched longest
# ago. An agent's trace has some 50,000.
CHARS_MAX = 64 << 20
# What a span takes beside its texts.
_CHARS_PER_SPAN = 1_000
# Traces of a session that wait for results, which its later traces show.
TRACES_WAITING_MAX = 100

# What turns of a trace may still change of: their place is decided among all turns of the task.
_PLACED = ("turn", "order_ns")
# No trace: what the history of a session's first response shows was seen before.
_BEFORE = ""


class _Turn(NamedTuple):
    """What tells a turn from others, and from what was known of it before."""

    key: tuple[str, ...]
    task: str
    content: int  # hash


class _Span(NamedTuple):
    """A span as it was read, and the characters that it was read from."""

    fields: SpanFields
    chars: int


@dataclass(slots=True)
class _Trace:
    """The spans of one trace so far, and the turns that are known of them."""

    spans: dict[str, _Span] = field(default_factory=dict)  # by id
    known: dict[tuple[str, ...], _Turn] = field(default_factory=dict)
    session: str = ""
    chars: int = 0

    def hold(self, span: _Span) -> None:
        """Take a span; one that comes again takes the place of the first."""
        span_id = span.fields.span_id
        self._drop(span_id)
        self.spans[span_id] = span
        self.chars += span.chars
        if len(self.spans) > SPANS_PER_TRACE_MAX:
            self._drop(next(iter(self.spans)))

    def _drop(self, span_id: str) -> None:
        if span := self.spans.pop(span_id, None):
            self.chars -= span.chars

    def calls(self) -> Iterator[str]:
        """Yield the id of each call that a model of the trace asked for."""
        for span, _ in self.spans.values():
            if span.kind == "model":
                yield from (call.call_id for call in span.calls if call.call_id)

    def learn(self, turn: _Turn) -> bool:
        """Note a turn; says whether there is news of it.

        A turn stays with the task to which it first belonged, whatever is learned of that later.
        """
        before = self.known.setdefault(turn.key, turn)
        if before is turn:
            return True
        if before.task != turn.task or before.content == turn.content:
            return False
        self.known[turn.key] = turn
        return True


class TraceBuffer:
    """The traces at work, and what is known of their turns."""

    def __init__(self, sameness: Sameness = NOTHING, chars_max: int = CHARS_MAX) -> None:
        self.dropped = 0  # traces that had to go to make room for others
        self._sameness = sameness
        self._chars_max = chars_max
        self._chars = 0
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._sessions = SessionHistory.bounded()
        # The traces of each session with calls whose results are not known yet.
        self._waiting: BoundedDict[str, BoundedDict[str, None]] = BoundedDict(SESSIONS_MAX)

    def __len__(self) -> int:
        return len(self._traces)

    def take(self, spans: pl.DataFrame, above: pl.DataFrame | None = None) -> pl.DataFrame:
        """Take spans (`SPAN_SCHEMA`) that ended; returns the turns (`TURN_SCHEMA`) with news.

        Those `above` are still open, and only tell what the others inherit.
        """
        for span in map(_Span, list(span_fields_of(spans)), _chars(spans)):
            self._hold(span)
        traces = spans["trace_id"].unique(maintain_order=True)
        opened = spans.clear() if above is None else above
        inherited = span_fields_of(opened.filter(pl.col("trace_id").is_in(traces.implode())))
        results_seen = self._sessions.results_seen
        news = self._turns(traces, inherited)
        if self._sessions.results_seen > results_seen and (answered := self._answered(traces)):
            news = pl.concat([news, self._turns(answered)])
        self._make_room()
        return news

    def rest(self) -> pl.DataFrame:
        """Return the turns that waited for spans which do not come any more."""
        return self._turns(self._traces, ended=True)

    def _hold(self, span: _Span) -> None:
        name = span.fields.trace_id
        trace = self._traces.setdefault(name, _Trace())
        self._traces.move_to_end(name)
        self._chars -= trace.chars
        trace.hold(span)
        self._chars += trace.chars

    def _turns(
        self, names: Iterable[str], above: Iterable[SpanFields] = (), *, ended: bool = False
    ) -> pl.DataFrame:
        names = list(names)
        spans = (span.fields for name in names for span in self._traces[name].spans.values())
        turns, _ = turns_of_fields(
            spans, self._sameness, above=above, sessions=self._sessions, ended=ended
        )
        self._note_waiting(names, turns)
        news = [self._traces[turn.key[0]].learn(turn) for turn in _identified(turns)]
        return turns.filter(pl.Series(news, dtype=pl.Boolean))

    def _note_waiting(self, names: Iterable[str], turns: pl.DataFrame) -> None:
        """Note which of these traces have calls without a result."""
        results = turns.filter(pl.col("result").is_not_null()).select("trace_id", "call_id")
        answered = set(results.iter_rows())
        for name in names:
            trace = self._traces[name]
            trace.session = self._sessions.of_trace.get(name, name)
            asked = {(name, call) for call in trace.calls()}
            if asked - answered:
                waiting = self._waiting.setdefault(trace.session, BoundedDict(TRACES_WAITING_MAX))
                waiting[name] = None
            else:
                self._stop_waiting(name, trace.session)

    def _stop_waiting(self, name: str, session: str) -> None:
        if waiting := self._waiting.get(session):
            waiting.pop(name, None)
            if not waiting:
                del self._waiting[session]

    def _answered(self, names: Iterable[str]) -> list[str]:
        """Return the other traces of the same sessions that wait for results."""
        names = set(names)
        sessions = {self._traces[name].session for name in names}
        waiting = [name for session in sessions for name in self._waiting.get(session, ())]
        return [name for name in waiting if name not in names and name in self._traces]

    def _make_room(self) -> None:
        """Let the traces go that were touched longest ago; the last one stays."""
        while self._chars > self._chars_max and len(self._traces) > 1:
            name, trace = self._traces.popitem(last=False)
            self._chars -= trace.chars
            self._stop_waiting(name, trace.session)
            self.dropped += 1
            if trace.session in self._sessions.began:
                self._sessions.began[trace.session] = _BEFORE


def _chars(spans: pl.DataFrame) -> pl.Series:
    texts = pl.sum_horizontal(pl.col(pl.String).str.len_chars())
    return spans.select(_CHARS_PER_SPAN + texts).to_series()


def _identified(turns: pl.DataFrame) -> Iterator[_Turn]:
    keys = turns.select(TURN_KEY).iter_rows()
    contents = turns.drop(_PLACED).hash_rows()
    return (_Turn(*turn) for turn in zip(keys, turns["task"], contents, strict=True))
