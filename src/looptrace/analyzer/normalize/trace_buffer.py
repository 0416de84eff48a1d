"""Spans in as they arrive; turns out that are new, changed or gone.

A span makes turns only together with the other spans of its trace. The buffer holds these, as they
were read, while the trace is at work. A new span makes only the turns that it can change. If it is
not certain which these are, all turns of the trace are made again. The turns of another trace are
made again if the span changes them: by a result, a session, or the parent of a task. Fingerprints
are made only for turns with news. It is long because one span may change turns of many traces.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec

from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.fields.span_fields import span_fields_of_rows
from looptrace.analyzer.fingerprint.equivalence import NOTHING, Sameness
from looptrace.analyzer.fingerprint.fingerprints import fingerprinted
from looptrace.analyzer.normalize.call_matches import TurnKey, key_of
from looptrace.analyzer.normalize.growing_trace import GrowingTrace, in_order, unanswered_ids
from looptrace.analyzer.normalize.session_history import (
    SESSION_NAME,
    SESSIONS_MAX,
    SessionHistory,
    WaitingTraces,
)
from looptrace.analyzer.normalize.span_tree import span_tree_of
from looptrace.analyzer.normalize.steps import settled
from looptrace.analyzer.normalize.trace_groups import TraceGroups
from looptrace.analyzer.normalize.turn_builder import TurnRow, adopted_in, turn_rows_of
from looptrace.analyzer.normalize.twin_spans import merge_twins
from looptrace.analyzer.normalize.understanding import RunningSum, Understood, understood_of
from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.analyzer.schema.spans import SpanRow, chars_held
from looptrace.analyzer.schema.turns import Turn
from looptrace.analyzer.text.session_names import Session

# Spans of a trace that are held. A longer trace loses its oldest spans; their turns are known by
# then. `SPANS_CUT` spans go at once, because the rest must be gone through again.
SPANS_PER_TRACE_MAX = 2_000
SPANS_CUT = SPANS_PER_TRACE_MAX // 4
# Spans of traces whose turns are all made again at once, because turns of them came too late.
AGAIN_SPANS_MAX = 5_000
# The content of a turn of which nothing is known; a hash is hardly ever this.
UNTOLD = 0
# Characters of spans that are held for all traces. Beyond this, the traces touched longest ago go.
# An agent's trace has about 50,000.
CHARS_MAX = 64 << 20


class Move(NamedTuple):
    """Turns of a trace that turn out to belong to another task."""

    trace_id: str
    before: str
    after: str
    keys: frozenset[TurnKey]
    first_ns: int  # the first of their ends
    is_whole: bool  # whether these are all turns that the trace ever had in the task `before`


class TurnNews(NamedTuple):
    """What spans brought: turns with news, and turns that a task no longer has."""

    turns: Sequence[Turn]  # neither ordered nor numbered
    gone: Sequence[tuple[str, TurnKey]]  # each with its task
    moves: Sequence[Move]  # their turns are in `turns` and in `gone`


# Decides for each move whether it may be made. If not, its turns stay where they are.
Consent = Callable[[Sequence[Move]], Sequence[bool]]


def always(moves: Sequence[Move]) -> list[bool]:
    """Allow every move."""
    return [True] * len(moves)


class _Turn(msgspec.Struct, frozen=True, gc=False):
    """A known turn: its task, a hash of all else, and whether it stays in that task."""

    task: str
    content: int
    stays: bool = False


class _Span(msgspec.Struct, frozen=True, gc=False):
    """A span as it was read, and the number of characters that it is held for."""

    fields: SpanFields
    chars: int

    @property
    def place(self) -> tuple[int, int]:
        """The order of copies: the greater of two is kept (`distinct_spans`)."""
        return self.fields.end_ns, self.chars


class _News(NamedTuple):
    """A turn with news, before it is compared with other turns."""

    row: TurnRow
    key: TurnKey
    before: _Turn | None


@dataclass(slots=True)
class _Trace:
    """The spans of one trace so far, and its known turns."""

    spans: dict[str, _Span] = field(default_factory=dict)  # by id
    above: dict[str, SpanFields] = field(default_factory=dict)  # open spans, by id
    known: dict[TurnKey, _Turn] = field(default_factory=dict)
    session: Session | None = None  # as its turns know it
    sessions: set[str] = field(default_factory=set)  # the names of its turns' sessions
    replays: bool = False  # whether its turns have what the first response was given
    chars: int = 0
    is_cut: bool = False  # whether it has lost spans
    unanswered: set[str] = field(default_factory=set)  # ids of calls without a result
    arrived: dict[str, SpanFields] = field(default_factory=dict)  # not yet in its turns, by id
    opened: dict[str, SpanFields] = field(default_factory=dict)  # open spans not yet in `above`
    opened_rows: dict[SpanRow, SpanFields] = field(default_factory=dict)  # as they came last
    growing: GrowingTrace | None = None  # set while new spans change only some turns
    is_tangled: bool = False  # whether each span may change any turn
    has_changed: bool = False  # whether more than new spans changes its turns

    def hold(self, span: _Span) -> None:
        """Take a span; if it comes again, the copy stays that batch would keep."""
        span_id = span.fields.span_id
        self.above.pop(span_id, None)
        if known := self.spans.get(span_id):
            if span.place < known.place:
                return
            self._drop(span_id)
        else:
            self.arrived[span_id] = span.fields
        self.spans[span_id] = span
        self.chars += span.chars
        if len(self.spans) > SPANS_PER_TRACE_MAX:
            oldest = set(islice(self.spans, SPANS_CUT))
            for each in oldest:
                self._drop(each)
            self.is_cut = True
            # The turns of these spans stay as they are.
            self.known = {key: turn for key, turn in self.known.items() if key[1] not in oldest}

    def _drop(self, span_id: str) -> None:
        self.chars -= self.spans.pop(span_id).chars
        self.has_changed = True

    def open(
        self, rows: Sequence[SpanRow], read: Callable[[list[SpanRow]], list[SpanFields]]
    ) -> None:
        """Take open spans, which come again and again; only those that changed are read."""
        known = self.opened_rows
        if not (rows or known):
            return
        new = [row for row in rows if row not in known]
        known |= zip(new, read(new), strict=True)
        self.opened_rows = {row: known[row] for row in rows}
        every = self.opened_rows.values()
        self.opened = {span.span_id: span for span in every if span.span_id not in self.spans}

    def grow(self, groups: TraceGroups, sessions: SessionHistory) -> GrowingTrace | None:
        """Add the new spans to the turns; returns None if all turns must be made again."""
        grown, arrived = self.growing, self.arrived
        self.growing = None
        is_enough = 2 * len(arrived) > len(self.spans)  # to make all turns again
        if not arrived or is_enough or self.has_changed or self.is_tangled:
            return None
        if self.session != groups.session(next(iter(arrived.values())).trace_id):
            return None
        if grown is None:
            spans = (span.fields for span in self.spans.values())
            before = [span for span in spans if span.span_id not in arrived]
            above = self.above.values()
            unanswered = self.unanswered
            grown = GrowingTrace(
                in_order(before), above, groups, sessions, self.known.keys(), unanswered
            )
            self.is_tangled = grown.is_tangled
            if grown.replays != self.replays:
                return None
        if grown.grow(arrived.values(), self.opened.values()):
            self.growing = grown
        return self.growing

    def news(self, rows: Iterable[TurnRow]) -> tuple[list[_News], list[tuple[str, TurnKey]]]:
        """Learn the turns as they are now; returns the turns with news, and those that are gone."""
        before, self.known = self.known, {}
        news = self._learn(rows, before)
        gone = [(turn.task, key) for key, turn in before.items() if key not in self.known]
        return news, gone

    def news_of(self, grown: GrowingTrace) -> tuple[list[_News], list[tuple[str, TurnKey]]]:
        """Learn the turns that spans have changed; returns the same as `news`."""
        gone = [(self.known.pop(key).task, key) for key in grown.gone if key in self.known]
        return self._learn(grown.rows.values(), self.known), gone

    def _learn(self, rows: Iterable[TurnRow], known: Mapping[TurnKey, _Turn]) -> list[_News]:
        news: list[_News] = []
        for row in rows:
            key = key_of(row)
            before = known.get(key)
            if before and before.stays:
                row["task"] = before.task
            turn = _Turn(row["task"], _content(row), bool(before and before.stays))
            self.known[key] = turn
            if turn != before:
                news.append(_News(row, key, before))
        return news

    def moves(self, news: Iterable[_News]) -> Iterator[Move]:
        """Yield the moves among turns with news."""
        moved: dict[tuple[str, str], list[_News]] = {}
        for each in news:
            if each.before and each.before.task != each.row["task"]:
                moved.setdefault((each.before.task, each.row["task"]), []).append(each)
        left = {turn.task for turn in self.known.values()} if moved else set()
        for (before, after), members in moved.items():
            yield Move(
                members[0].row["trace_id"],
                before,
                after,
                frozenset(each.key for each in members),
                min(each.row["end_ns"] for each in members),
                is_whole=before not in left and not self.is_cut,
            )

    def stay(self, news: Iterable[_News], move: Move) -> None:
        """Keep the turns of a move in the task that they have been in."""
        for row, key, _ in news:
            if key in move.keys:
                row["task"] = move.before
                self.known[key] = _Turn(move.before, _content(row), stays=True)


def _content(row: TurnRow) -> int:
    """Return a hash of a turn without its task."""
    return hash(tuple(item for item in row.items() if item[0] != "task"))


class TraceBuffer:
    """The traces at work and their known turns."""

    def __init__(
        self,
        sameness: Sameness = NOTHING,
        chars_max: int = CHARS_MAX,
        may_move: Consent = always,
        dialects: DialectTable = SHIPPED,
    ) -> None:
        """Compare turns by `sameness`; `may_move` says which of them may change their task."""
        self._read = partial(span_fields_of_rows, dialects=dialects)
        self.dropped = 0  # traces that went to make room for others
        # How often the turns of a trace were continued, and how often all were made again.
        self.continued = self.remade = 0
        self._sameness = sameness
        self._chars_max = chars_max
        self._may_move = may_move
        self._chars = 0
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._naming = sameness.sessions
        self.groups = TraceGroups(SESSIONS_MAX, self._naming)
        self._sessions = SessionHistory.bounded()
        self._waiting = WaitingTraces()
        self._understood = RunningSum()
        self._grown_since: set[str] = set()  # traces that were not noted since

    def __len__(self) -> int:
        return len(self._traces)

    def take(self, spans: Sequence[SpanRow], above: Iterable[SpanRow] = ()) -> TurnNews:
        """Take spans that ended; returns the news of turns.

        The spans `above` are still open. They only give what the others inherit.
        """
        taken = list(map(_Span, self._read(spans), map(chars_held, spans)))
        for span in taken:
            self._hold(span)
        touched: dict[str, list[SpanRow]] = {span.fields.trace_id: [] for span in taken}
        for row in above:
            if row[0] in touched:
                touched[row[0]].append(row)
        for name, opened in touched.items():
            self._traces[name].open(opened, self._read)
        told = [span.fields for span in taken]
        told += [span for name in touched for span in self._traces[name].opened.values()]
        changed = self.groups.learn(told)
        for name in touched.keys() & changed:
            self._traces[name].has_changed = True
        others = changed - touched.keys()
        self._grown_since |= touched.keys()
        news = self._news([*touched, *sorted(others & self._traces.keys())])
        self._make_room()
        return news

    def rest(self) -> TurnNews:
        """Return the turns that waited for spans that will no longer come."""
        return self._news(list(self._traces), ended=True)

    def understood(self) -> Understood:
        """Return how much of the spans was understood, of those so far."""
        for name in self._grown_since:
            self._understood.note(name, self._understood_in(self._traces[name]))
        self._grown_since.clear()
        return self._understood.total()

    def _understood_in(self, trace: _Trace) -> Understood:
        held = (span.fields for span in trace.spans.values())
        every = settled([*held, *trace.above.values()])
        tree, _ = span_tree_of(every, self.groups, self._naming)
        fields = every[: len(trace.spans)]
        merged = merge_twins(fields, tree)
        kept = {(span.trace_id, span.span_id) for span in merged}
        return understood_of(fields, kept, tree, adopted_in(merged, tree, self._sessions))

    def holds(self, names: Collection[str]) -> bool:
        """Return whether all spans of these traces are held, and are few enough to read again."""
        traces = [self._traces.get(name) for name in names]
        whole = [trace for trace in traces if trace and not trace.is_cut]
        return len(whole) == len(traces) and sum(len(t.spans) for t in whole) <= AGAIN_SPANS_MAX

    def again(self, names: Iterable[str]) -> TurnNews:
        """Return the turns of held traces as if all of them were news."""
        names = list(names)
        for name in names:
            trace = self._traces[name]
            told = trace.known.items()
            trace.known = {key: _Turn(turn.task, UNTOLD, turn.stays) for key, turn in told}
            trace.has_changed = True
        return self._news(names)

    def _hold(self, span: _Span) -> None:
        name = span.fields.trace_id
        trace = self._traces.setdefault(name, _Trace())
        self._traces.move_to_end(name)
        self._chars -= trace.chars
        trace.hold(span)
        self._chars += trace.chars

    def _news(self, names: Sequence[str], *, ended: bool = False) -> TurnNews:
        """Return the news of these traces' turns, and of other traces that learn from them."""
        news: dict[str, list[_News]] = {}
        gone: list[tuple[str, TurnKey]] = []
        waiting = list(names)
        while waiting:
            self._sessions.told.clear()
            grown = {} if ended else self._grown(waiting)
            anew = [name for name in waiting if name not in grown]
            rows = self._rows(anew, ended=ended)
            for name in waiting:
                trace = self._traces[name]
                parts = trace.news_of(grown[name]) if name in grown else trace.news(rows[name])
                news[name] = _latest([*news.get(name, ()), *parts[0]], parts[1])
                gone += parts[1]
            # A trace that grew knows the results that it showed itself.
            told = waiting if len(waiting) == 1 else anew
            answered = [name for name in self._waiting.of(self._sessions.told) if name not in told]
            # Traces that are no longer the first of their session show nothing of the past.
            again = sorted(self._sessions.displaced & self._traces.keys())
            self._sessions.displaced.clear()
            waiting = list(dict.fromkeys([*again, *answered]))
        moves = self._moved(news)
        gone += [(move.before, key) for move in moves for key in move.keys]
        rows_with_news = [each.row for found in news.values() for each in found]
        return TurnNews(fingerprinted(rows_with_news, self._sameness), gone, moves)

    def _moved(self, news: dict[str, list[_News]]) -> list[Move]:
        """Return the moves that may be made; the turns of all others stay in their tasks."""
        moves = [move for name, found in news.items() for move in self._traces[name].moves(found)]
        made: list[Move] = []
        for move, may in zip(moves, self._may_move(moves) if moves else (), strict=True):
            if may:
                made.append(move)
            else:
                self._traces[move.trace_id].stay(news[move.trace_id], move)
        return made

    def _grown(self, names: Iterable[str]) -> dict[str, GrowingTrace]:
        """Add the new spans to the turns of the traces for which that is enough."""
        grown: dict[str, GrowingTrace] = {}
        for name in names:
            trace = self._traces[name]
            if more := trace.grow(self.groups, self._sessions):
                grown[name] = more
                self._note_waiting(name, more.rows.values())
            trace.above |= trace.opened
            trace.arrived, trace.opened, trace.has_changed = {}, {}, False
        self.continued += len(grown)
        return grown

    def _rows(self, names: Collection[str], *, ended: bool) -> dict[str, list[TurnRow]]:
        """Make the turns of traces again, and note which traces wait for results."""
        self.remade += len(names)
        traces = [self._traces[name] for name in names]
        rows, _ = turn_rows_of(
            (span.fields for trace in traces for span in trace.spans.values()),
            self._sessions,
            above=[span for trace in traces for span in trace.above.values()],
            known=self.groups,
            naming=self._naming,
            ended=ended,
        )
        by_trace: dict[str, list[TurnRow]] = {name: [] for name in names}
        for row in rows:
            by_trace[row["trace_id"]].append(row)
        for name, trace in zip(names, traces, strict=True):
            trace.growing = None
            spans = (span.fields for span in trace.spans.values())
            trace.unanswered = unanswered_ids(spans, by_trace[name])
            trace.replays = self._sessions.is_first(name)
            self._waiting.leave(name, trace.sessions)
            trace.session, trace.sessions = self.groups.session(name), set()
            self._note_waiting(name, by_trace[name])
        return by_trace

    def _note_waiting(self, name: str, rows: Iterable[TurnRow]) -> None:
        """Note whether a trace with these new turns has calls without a result."""
        trace = self._traces[name]
        trace.sessions.update(row[SESSION_NAME] for row in rows)
        note = self._waiting.join if trace.unanswered else self._waiting.leave
        note(name, trace.sessions)

    def _make_room(self) -> None:
        """Drop the traces that were touched longest ago; the last one stays."""
        while self._chars > self._chars_max and len(self._traces) > 1:
            name, trace = self._traces.popitem(last=False)
            if name in self._grown_since:
                self._grown_since.discard(name)
                self._understood.note(name, self._understood_in(trace))
            self._understood.end(name)
            self._waiting.leave(name, trace.sessions)
            self._chars -= trace.chars
            self.dropped += 1
            self._sessions.forget_trace(name)


def _latest(news: Iterable[_News], gone: Iterable[tuple[str, TurnKey]]) -> list[_News]:
    """Return the last news of each turn that is not gone, with what was known before all news."""
    latest: dict[TurnKey, _News] = {}
    for each in news:
        earlier = latest.get(each.key)
        latest[each.key] = each._replace(before=earlier.before) if earlier else each
    for _, key in gone:
        latest.pop(key, None)
    return list(latest.values())
