"""Spans in as they arrive, findings and events out; their turns are evaluated at once."""

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from looptrace.analyzer.engine.live import Fed, LiveEngine
from looptrace.analyzer.engine.live_log_events import LogEvents
from looptrace.analyzer.engine.live_task import key_of
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.normalize.trace_buffer import Move, TraceBuffer, TurnNews, always
from looptrace.analyzer.schema.spans import SpanRow, span_rows
from looptrace.analyzer.schema.turns import AT, TurnKey, TurnTuple


class LiveSpans:
    """Finds loops in spans as they arrive, in any order; the results are the same as in batch.

    A name that comes late may move turns from one task to another. Their earlier events are then
    sent as moved, not as new.
    """

    def __init__(
        self,
        policy: DetectionPolicy = DEFAULT,
        recall: Callable[[str], TaskState] = TaskState,
        tasks_max: int | None = None,
    ) -> None:
        """Evaluate by this policy; `recall` and `tasks_max` are as in `LiveEngine`."""
        self.engine = LiveEngine(policy, recall, tasks_max)
        self.traces = TraceBuffer(
            policy.sameness, may_move=self._may_move, dialects=policy.dialects
        )
        self.log_events = LogEvents()
        self._replays = False

    def take(self, spans: pl.DataFrame) -> tuple[Sequence[TurnTuple], Fed]:
        """Take spans (`SPAN_SCHEMA`) that ended; return turns with news, and their results."""
        return self.take_rows(span_rows(spans))

    def take_rows(
        self, spans: Sequence[SpanRow], above: Iterable[SpanRow] = ()
    ) -> tuple[Sequence[TurnTuple], Fed]:
        """Take spans as `take` does; no table is made of them, which takes longer for a few.

        Spans `above` are still open; they only give values that the other spans inherit.
        """
        return self._fed(self.traces.take(self.log_events.joined(spans), above))

    def rest(self) -> tuple[Sequence[TurnTuple], Fed]:
        """Take the turns that waited for spans that will no longer come."""
        return self._fed(self.traces.rest())

    def mend(self) -> Fed:
        """Evaluate anew the tasks of turns that came too late, if all of their spans are held."""
        late, self.engine.late_tasks = self.engine.late_tasks, {}
        traces = {name: self.engine.traces_of(name) for name in late}
        held = {name: of for name, of in traces.items() if of and self.traces.holds(of)}
        if not held:
            return Fed([], [], [])
        asked = dict.fromkeys(trace_id for of in held.values() for trace_id in of)
        news = self.traces.again(asked)
        decisions = self.engine.renew(held)
        turns = [
            turn
            for turn in news.turns
            if turn[AT["task"]] in held or turn[AT["trace_id"]] not in asked
        ]
        gone = [each for each in news.gone if each[0] not in held]
        return self.engine.take([*decisions, *turns], gone, news.moves)

    def replay(self, parts: Iterable[pl.DataFrame]) -> list[TurnTuple]:
        """Take all spans of tasks that the engine has not seen; return the turns of them all.

        The caller feeds the turns, with what else it knows about their tasks.
        """
        self._replays = True
        try:
            turns: dict[tuple[str, TurnKey], TurnTuple] = {}
            for part in parts:
                news = self.know(part)
                for lost in news.gone:
                    turns.pop(lost, None)
                turns |= {(turn[AT["task"]], key_of(turn)): turn for turn in news.turns}
            return list(turns.values())
        finally:
            self._replays = False

    def know(self, spans: pl.DataFrame) -> TurnNews:
        """Take spans whose turns the caller feeds; return the news of their turns."""
        return self.traces.take(self.log_events.joined(span_rows(spans)))

    def _may_move(self, moves: Sequence[Move]) -> Sequence[bool]:
        return always(moves) if self._replays else self.engine.may_move(moves)

    def forget(self, now_ns: int) -> None:
        """Drop idle tasks, and log records whose spans did not come since the last call."""
        self.engine.forget(now_ns)
        self.log_events.forget()

    def feed(self, turns: pl.DataFrame) -> Fed:
        """Take turns that do not come from spans."""
        return self.engine.feed(turns)

    def _fed(self, news: TurnNews) -> tuple[Sequence[TurnTuple], Fed]:
        return news.turns, self.engine.take(*news)
