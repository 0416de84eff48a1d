"""Spans in as they arrive; turns out that are new, changed or gone.

A span makes turns only together with the other spans of its trace. The core holds these while the
trace is at work, makes the turns of the trace again, and returns those that have changed
(`core/src/trace/buffer.rs`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from looptrace import _core
from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.fields.span_fields import reader_by
from looptrace.analyzer.fingerprint.equivalence import NOTHING, Sameness
from looptrace.analyzer.fingerprint.fingerprints import policy_of
from looptrace.analyzer.normalize.understanding import Understood, understood_of
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.schema.turns import TURN_SCHEMA, TurnKey, TurnTuple

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

    turns: Sequence[TurnTuple]  # neither ordered nor numbered
    gone: Sequence[tuple[str, TurnKey]]  # each with its task
    moves: Sequence[Move]  # their turns are in `turns` and in `gone`


# Decides for each move whether it may be made. If not, its turns stay where they are.
Consent = Callable[[Sequence[Move]], Sequence[bool]]


def always(moves: Sequence[Move]) -> list[bool]:
    """Allow every move."""
    return [True] * len(moves)


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
        self._held = _core.Buffer(
            reader_by(dialects),
            policy_of(sameness),
            sameness.sessions.join_services,
            list(TURN_SCHEMA),
            chars_max,
        )
        self._may_move = may_move

    def __len__(self) -> int:
        return len(self._held)

    @property
    def dropped(self) -> int:
        """The number of traces that went to make room for others."""
        return self._held.dropped

    @property
    def joined(self) -> Mapping[str, str]:
        """The names of sessions that several services share, by their other names."""
        return dict(self._held.joined())

    def join(self, names: Mapping[str, str]) -> None:
        """Learn the names of sessions that several services share, by their other names."""
        self._held.join(names)

    def joined_anew(self) -> Mapping[str, str]:
        """Return what `joined` got since the last call."""
        return self._held.take_joined_anew()

    def take(self, spans: Sequence[SpanRow], above: Iterable[SpanRow] = ()) -> TurnNews:
        """Take spans that ended; returns the news of turns.

        The spans `above` are still open. They only give what the others inherit.
        """
        return _news(self._held.take(spans, list(above), self._allowed))

    def rest(self) -> TurnNews:
        """Return the turns that waited for spans that will no longer come."""
        return _news(self._held.rest(self._allowed))

    def again(self, names: Iterable[str]) -> TurnNews:
        """Return the turns of held traces as if all of them were news."""
        return _news(self._held.again(list(names), self._allowed))

    def holds(self, names: Collection[str]) -> bool:
        """Return whether all spans of these traces are held, and are few enough to read again."""
        return self._held.holds(list(names))

    def understood(self) -> Understood:
        """Return how much of the spans was understood, of those so far."""
        return understood_of(self._held.understood())

    def _allowed(self, moves: Sequence[tuple[Any, ...]]) -> list[bool]:
        return list(self._may_move(_moves(moves)))


def _moves(moves: Iterable[tuple[Any, ...]]) -> list[Move]:
    return [
        Move(trace_id, before, after, frozenset(keys), first_ns, is_whole)
        for trace_id, before, after, keys, first_ns, is_whole in moves
    ]


def _news(news: _core.News) -> TurnNews:
    turns, gone, moves = news
    return TurnNews(turns, gone, _moves(moves))
