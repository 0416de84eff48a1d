"""The moments of a task in their order, as input for the state machine."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import polars as pl

from looptrace.analyzer.detect.loop_rows import LoopRow, TableReader
from looptrace.analyzer.detect.stretches import Growth
from looptrace.analyzer.gates.events import Failure, GateEvent
from looptrace.analyzer.gates.state_machine import Moment, Reset
from looptrace.analyzer.schema.turns import IS_USER

# A task, the kind of its turn, and the reset there.
TaskReset = tuple[str, str, Reset]

# At one turn resets come before growths; a person's message has the number of the turn before it,
# and comes after it.
_RESET_BEFORE, _GROWTH, _RESET_AFTER = range(3)


def moments_of(resets: Iterable[TaskReset], grown: Iterable[Growth]) -> dict[str, list[Moment]]:
    """Return the resets and the growths by task, in their order."""
    by_task: dict[str, list[tuple[tuple[int, int, str, str], Growth | Reset]]] = defaultdict(list)
    for growth in grown:
        place = (growth.fired.turn, _GROWTH, growth.loop.rule.name, growth.loop.id)
        by_task[growth.loop.task].append((place, growth))
    for task, kind, reset in resets:
        rank = _RESET_AFTER if kind == "user" else _RESET_BEFORE
        by_task[task].append(((reset.turn, rank, str(reset.at_ns), reset.span_id), reset))
    return {
        task: _by_turn(moment for _, moment in sorted(placed, key=lambda pair: pair[0]))
        for task, placed in by_task.items()
    }


def _by_turn(ordered: Iterable[Growth | Reset]) -> list[Moment]:
    """Join the growths of each turn to one moment."""
    moments: list[Moment] = []
    for each in ordered:
        before = moments[-1] if moments else None
        if isinstance(each, Reset):
            moments.append(each)
        elif isinstance(before, tuple) and before[0].fired.turn == each.fired.turn:
            moments[-1] = (*before, each)
        else:
            moments.append((each,))
    return moments


def resets_of(rows: pl.DataFrame, tasks: Collection[str]) -> Iterator[TaskReset]:
    """Yield the resets of some tasks in counted turns."""
    resets = rows.select(RESET_COLUMNS).filter(pl.col("reset").is_not_null())
    for row in resets.filter(pl.col("task").is_in(tasks)).iter_rows():
        yield reset_of(*row)


RESET_COLUMNS = (
    *("task", "turn", "end_ns", "reset", "trace_id", "span_id", "call_id", "kind", "name", "text"),
)


def reset_of(
    task: str,
    turn: int,
    end_ns: int,
    reason: str,
    trace_id: str,
    span_id: str,
    call_id: str | None,
    kind: str,
    name: str | None,
    text: str | None,
) -> TaskReset:
    """Return the reset of a turn that has one (`RESET_COLUMNS`)."""
    spoken = reason in ("person", "message")
    return (
        task,
        kind,
        Reset(
            turn=turn,
            at_ns=end_ns,
            reason=reason,
            trace_id=trace_id,
            span_id=span_id,
            call_id=call_id or "",
            decision=name if spoken else None,
            note=text if spoken else None,
        ),
    )


class GateTurns(NamedTuple):
    """Turns of tasks: at least those that failed and those at which gates opened, in their order.

    Each has its task, number and epoch, and whether it failed. No turn is a person's. `read` gives
    what a loop keeps of the turns at these places.
    """

    turns: Sequence[tuple[str, int, int, bool | None]]
    read: Callable[[Sequence[int]], Iterable[LoopRow]]

    @property
    def places(self) -> dict[tuple[str, int], int]:
        """The place of each turn, by its task and its number."""
        return {turn[:2]: place for place, turn in enumerate(self.turns)}


def gate_turns(events: Iterable[GateEvent], rows: pl.DataFrame) -> GateTurns:
    """Return the turns of tasks with gates from counted turns."""
    gates = [event for event in events if event.type == "gate_opened"]
    of_gates = pl.col("task").is_in({gate.task for gate in gates})
    is_shown = pl.col("failed") | pl.col("turn").is_in({gate.turn for gate in gates})
    turns = rows.select(LoopRow.__struct_fields__).filter(~IS_USER & of_gates & is_shown)
    read = TableReader(turns).turns
    return GateTurns(
        turns.select("task", "turn", "epoch", "failed").rows(),
        lambda places: read(np.array(places, dtype=np.int64)),
    )


def with_history(events: Sequence[GateEvent], seen: GateTurns, count: int) -> list[GateEvent]:
    """Add to each gate the last failures before it in its task, since the last reset."""
    gates = [event for event in events if event.type == "gate_opened"]
    if not gates:
        return list(events)
    places = seen.places
    failures: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for place, (task, turn, epoch, failed) in enumerate(seen.turns):
        if failed:
            failures[task, epoch].append((turn, place))
    chosen: dict[str, list[int]] = {}
    for gate in gates:
        at = places.get((gate.task, gate.turn))
        mine = [] if at is None else failures[gate.task, seen.turns[at][2]]
        end = bisect_right(mine, gate.turn, key=itemgetter(0))
        chosen[gate.id] = [place for _, place in mine[max(0, end - count) : end]]
    shown = map(_failure, seen.read([*chain.from_iterable(chosen.values())]))
    history = {gate: tuple(islice(shown, len(of_gate))) for gate, of_gate in chosen.items()}
    return [
        replace(event, history=history[event.id]) if event.id in history else event
        for event in events
    ]


def _failure(row: LoopRow) -> Failure:
    own = {name: getattr(row, name) for name in Failure.__slots__ if name != "at_ns"}
    return Failure(**own, at_ns=row.end_ns)
