"""The moments of a task in their order, as input for the state machine."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import polars as pl

from looptrace.analyzer.detect.stretches import Growth
from looptrace.analyzer.gates.events import Failure, GateEvent
from looptrace.analyzer.gates.state_machine import Moment, Reset
from looptrace.analyzer.schema.turns import IS_USER
from looptrace.analyzer.text.display import label

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
    """Add to each gate the last failures before it in its task, since the last reset.

    `rows` are counted turns, those of a task in their order.
    """
    gates = [event for event in events if event.type == "gate_opened"]
    if not gates:
        return list(events)
    turns = rows.filter(~IS_USER & pl.col("task").is_in({gate.task for gate in gates}))
    failures = turns.filter("failed").with_row_index("row")
    since_reset = failures.group_by("task", "epoch").agg("turn", "row").iter_rows()
    by_epoch = {(task, epoch): (turn, row) for task, epoch, turn, row in since_reset}
    chosen: list[list[int]] = []
    for gate, epoch in zip(gates, _epochs(gates, turns), strict=True):
        turn, row = by_epoch.get((gate.task, epoch), ((), ()))
        before = bisect_right(turn, gate.turn)
        chosen.append(list(row[max(0, before - count) : before]))
    shown = map(_failure, failures[[*chain.from_iterable(chosen)]].iter_rows(named=True))
    history = {
        gate.id: tuple(islice(shown, len(of_gate)))
        for gate, of_gate in zip(gates, chosen, strict=True)
    }
    return [
        replace(event, history=history[event.id]) if event.id in history else event
        for event in events
    ]


def _epochs(gates: Sequence[GateEvent], turns: pl.DataFrame) -> list[int | None]:
    """Return in which epoch of its task each gate opened."""
    at = pl.DataFrame(
        {"task": [gate.task for gate in gates], "turn": [gate.turn for gate in gates]},
        {name: turns.schema[name] for name in ("task", "turn")},
    )
    first = turns.select("task", "turn", "epoch").unique(["task", "turn"], keep="first")
    return at.join(first, on=["task", "turn"], how="left", maintain_order="left")["epoch"].to_list()


def _failure(row: dict[str, Any]) -> Failure:
    own = {name: row[name] for name in Failure.__slots__ if name in row}
    return Failure(**own, at_ns=row["end_ns"], label=label(row))
