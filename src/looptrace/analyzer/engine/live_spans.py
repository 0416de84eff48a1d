"""Spans as they arrive in, findings and events out: turns made of them, and judged at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from looptrace.analyzer.engine.live import Fed, LiveEngine
from looptrace.analyzer.engine.live_task import key_of
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.engine.turn_block import AT
from looptrace.analyzer.fingerprint.single_turns import Turn
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.normalize.call_matches import TurnKey
from looptrace.analyzer.normalize.trace_buffer import Move, TraceBuffer, TurnNews, always


class LiveSpans:
    """Finds loops in spans as they arrive, in any order; what it tells is what batch tells.

    A name that comes late may move turns from one task to another. What was told of them is then
    told as moved, and not as new.
    """

    def __init__(
        self,
        policy: DetectionPolicy = DEFAULT,
        recall: Callable[[str], TaskState] = TaskState,
        tasks_max: int | None = None,
    ) -> None:
        """Judge by these rules; `recall` and `tasks_max` are as in `LiveEngine`."""
        self.engine = LiveEngine(policy, recall, tasks_max)
        self.traces = TraceBuffer(policy.sameness, may_move=self._may_move)
        self._replays = False

    def take(
        self, spans: pl.DataFrame, above: pl.DataFrame | None = None
    ) -> tuple[Sequence[Turn], Fed]:
        """Take spans (`SPAN_SCHEMA`) that ended; returns turns with news, and what they brought.

        Those `above` are still open, and only tell what the others inherit.
        """
        return self._fed(self.traces.take(spans, above))

    def rest(self) -> tuple[Sequence[Turn], Fed]:
        """Take the turns that waited for spans which do not come any more."""
        return self._fed(self.traces.rest())

    def replay(self, parts: Iterable[pl.DataFrame]) -> list[Turn]:
        """Take all spans of tasks that the engine has not seen; returns the turns of them all.

        The turns are for whoever feeds them, with what else is known of their tasks.
        """
        self._replays = True
        try:
            turns: dict[tuple[str, TurnKey], Turn] = {}
            for part in parts:
                news = self.traces.take(part)
                for lost in news.gone:
                    turns.pop(lost, None)
                turns |= {(turn[AT["task"]], key_of(turn)): turn for turn in news.turns}
            return list(turns.values())
        finally:
            self._replays = False

    def _may_move(self, moves: Sequence[Move]) -> Sequence[bool]:
        return always(moves) if self._replays else self.engine.may_move(moves)

    def feed(self, turns: pl.DataFrame) -> Fed:
        """Take turns that no span tells of."""
        return self.engine.feed(turns)

    def _fed(self, news: TurnNews) -> tuple[Sequence[Turn], Fed]:
        return news.turns, self.engine.take(*news)
