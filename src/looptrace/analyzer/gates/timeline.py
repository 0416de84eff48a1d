"""What happened to a task, in its order: the moments that `gates` decides upon."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from looptrace.analyzer.detect.stretches import Growth
from looptrace.analyzer.gates.events import Failure, GateEvent
from looptrace.analyzer.gates.state_machine import Moment, Reset
from looptrace.analyzer.schema.turns import IS_USER
from looptrace.analyzer.text.display import label

# A task, the kind of its turn, and the reset there.
TaskReset = tuple[str, str, Reset]

# At one turn what begins anew comes before what grows; a person's message has the number of the
# turn before it, and comes after it.
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


def resets_of(rows: pl.DataFrame) -> Iterator[TaskReset]:
    """Yield the resets in counted turns."""
    resets = rows.filter(pl.col("reset").is_not_null())
    for row in resets.select(RESET_COLUMNS).iter_rows():
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


def with_history(events: Sequence[GateEvent], rows: pl.DataFrame, count: int) -> list[GateEvent]:
    """Add to each gate the last failures before it in its task (rows of counted turns)."""
    tasks = {event.task for event in events if event.type == "gate_opened"}
    if not tasks:
        return list(events)
    gated = rows.filter(pl.col("task").is_in(tasks) & ~IS_USER)
    by_task = gated.partition_by("task", as_dict=True)
    return [
        replace(event, history=_history(event, by_task[event.task,], count))
        if event.type == "gate_opened"
        else event
        for event in events
    ]


def _history(event: GateEvent, rows: pl.DataFrame, count: int) -> tuple[Failure, ...]:
    """Return the last failures of a task since its last reset up to a gate."""
    before = rows.filter(pl.col("turn") <= event.turn)
    epoch = before.filter(pl.col("turn") == event.turn)["epoch"].first()
    failed = before.filter(pl.col("failed") & (pl.col("epoch") == epoch))
    return tuple(_failure(row) for row in failed.tail(count).iter_rows(named=True))


def _failure(row: dict[str, Any]) -> Failure:
    own = {name: row[name] for name in Failure.__slots__ if name in row}
    return Failure(**own, at_ns=row["end_ns"], label=label(row))
