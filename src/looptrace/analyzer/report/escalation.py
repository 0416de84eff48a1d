"""The escalation of a gate: the facts that a person or a debugging agent needs to decide.

It has the facts at the opening of the gate, and is bounded however long the task is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, Self

import polars as pl

from looptrace.analyzer.detect.budgets.rules import rule_named
from looptrace.analyzer.detect.findings import Cost, Finding
from looptrace.analyzer.gates.events import Failure, GateEvent
from looptrace.analyzer.gates.notes import Likeness, ResolutionNote
from looptrace.analyzer.llm_judge import GOAL_LENGTH_MAX, NAME_LENGTH_MAX, NoOpinion, Opinion
from looptrace.analyzer.schema.turns import IS_USER
from looptrace.analyzer.text.display import label, plain
from looptrace.analyzer.text.times import is_known, utc_day
from looptrace.rules.docs import summary
from looptrace.rules.vocabulary import NS_PER_S

# Turns of the loop: its start, its end at the gate, and some in between.
_HEAD_MAX = 12
_MIDDLE_MAX = 6
_TAIL_MAX = 12

# The most earlier events; the last ones are shown.
BEFORE_MAX = 20

NOTES_MAX = 10

# An error needs more text than the line of a report if somebody must understand it.
TEXT_LENGTH_MAX = 500
DONE_LENGTH_MAX = 300

TurnRole = Literal["first", "repeat", "between"]


@dataclass(frozen=True, slots=True)
class Iteration:
    """A turn between the first of the loop and the gate.

    `first` marks turns that the others repeat, and `between` turns that are not in the loop. A
    message to the agent is not a turn, and has no number.
    """

    left_out: int  # turns before this one that are left out
    turn: int | None
    role: TurnRole
    agent: str
    kind: str
    label: str
    failed: bool
    outcome: str | None  # the error or the result; None if the trace has none
    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class Option:
    """A possible decision of a person, and its meaning."""

    name: str
    title: str
    meaning: str


@dataclass(frozen=True, slots=True)
class PastNote:
    """A person's note on an earlier, similar loop: text, day, likeness, and distance of words."""

    text: str
    date: str
    likeness: Likeness = "same"
    distance: float | None = None

    @classmethod
    def of(cls, note: ResolutionNote) -> Self:
        """Return a stored note in the form for reports."""
        return cls(note.note, utc_day(note.resolved_ns), note.likeness, note.distance)


@dataclass(frozen=True, slots=True)
class Escalation:
    """A gate and its history. Each text is on one line, and of bounded length."""

    gate: GateEvent  # its history are the last failures before it
    rule_says: str  # what the rule finds
    is_exact: bool  # whether the turns are an exact match
    period: int
    goal: str | None  # the last message to the agent before the gate
    iterations: tuple[Iteration, ...]
    before: tuple[GateEvent, ...]  # events of the task before the gate
    before_left_out: int
    cost: Cost  # from the first turn of the loop to the gate
    options: tuple[Option, ...]
    opinion: Opinion | NoOpinion | None  # None if no judge was asked
    notes: tuple[PastNote, ...]


OPTIONS = (
    Option(
        "different_approach",
        "Continue with a different approach",
        "Tell the agent what to do differently, and what to avoid. That resolves the gate and "
        "resets the counts; the same loop again leads to a new gate.",
    ),
    Option(
        "review",
        "Review and debug",
        "Leave the gate open and look for the cause, by hand or with a debugging agent that "
        "gets this report. Resolve the gate when the cause is gone.",
    ),
    Option(
        "cancel",
        "Cancel",
        "End the task as it is. Finished work stays; the rest is not done.",
    ),
)


def escalation_of(
    gate: GateEvent,
    finding: Finding,
    turns: pl.DataFrame,
    events: Sequence[GateEvent] = (),
    opinion: Opinion | NoOpinion | None = None,
    notes: Iterable[PastNote] = (),
) -> Escalation:
    """Return the escalation of a gate.

    `finding` is that of the gate, however far it has grown since; `turns` (`TURN_SCHEMA`, numbered)
    and `events` may be those of many tasks; `notes` are people's notes on similar loops.
    """
    mine = turns.filter((pl.col("task") == gate.task) & (pl.col("turn") <= gate.turn))
    mine = mine.filter(~IS_USER | (pl.col("turn") < gate.turn))
    mine = mine.sort("turn", IS_USER, "order_ns", maintain_order=True)
    loop = mine.filter(pl.col("turn") >= gate.turn_first)
    rule = rule_named(gate.rule)
    before = [e for e in events if e.task == gate.task and e.turn <= gate.turn]
    before = before[: before.index(gate)] if gate in before else before
    goals = mine.filter(IS_USER)["text"].drop_nulls().tail(1).to_list()
    return Escalation(
        gate=_bounded(gate),
        rule_says=summary(rule) if rule else "",
        is_exact=gate.exact,
        period=finding.period,
        goal=plain(goals[0], GOAL_LENGTH_MAX) if goals else None,
        iterations=_iterations(loop, {turn.turn: turn.role for turn in finding.turns}),
        before=tuple(map(_bounded, before[-BEFORE_MAX:])),
        before_left_out=max(0, len(before) - BEFORE_MAX),
        cost=_cost(loop, gate),
        options=OPTIONS,
        opinion=opinion,
        notes=tuple(map(_bounded_note, notes))[:NOTES_MAX],
    )


def _iterations(loop: pl.DataFrame, roles: dict[int, TurnRole]) -> tuple[Iteration, ...]:
    """Return the first turns, the last, and some of the middle, preferring those of the loop."""
    in_loop = loop["turn"].is_in(list(roles)) & loop.select(~IS_USER).to_series()
    chosen = _chosen(loop.height, in_loop.arg_true().to_list())
    gaps = [later - earlier - 1 for earlier, later in pairwise([-1, *chosen])]
    rows = loop[chosen].iter_rows(named=True)
    return tuple(_iteration(row, roles, left_out) for row, left_out in zip(rows, gaps, strict=True))


def _chosen(height: int, in_loop: Sequence[int]) -> list[int]:
    if height <= _HEAD_MAX + _MIDDLE_MAX + _TAIL_MAX:
        return list(range(height))
    tail = height - _TAIL_MAX
    middle = [row for row in in_loop if _HEAD_MAX <= row < tail] or range(_HEAD_MAX, tail)
    spread = {middle[i * len(middle) // _MIDDLE_MAX] for i in range(_MIDDLE_MAX)}
    return [*range(_HEAD_MAX), *sorted(spread), *range(tail, height)]


def _iteration(row: dict[str, Any], roles: dict[int, TurnRole], left_out: int) -> Iteration:
    is_user = row["kind"] == "user"
    outcome = (row["error"] if row["failed"] else None) or row["result"]
    return Iteration(
        left_out=left_out,
        turn=None if is_user else row["turn"],
        role="between" if is_user else roles.get(row["turn"], "between"),
        agent=plain(row["agent"] or "", NAME_LENGTH_MAX),
        kind=row["kind"],
        label=label(row, DONE_LENGTH_MAX),
        failed=bool(row["failed"]),
        outcome=_short(outcome),
        trace_id=row["trace_id"],
        span_id=row["span_id"],
    )


def _cost(loop: pl.DataFrame, gate: GateEvent) -> Cost:
    """Add up the cost of the loop's agent, or of all agents of its task, up to the gate."""
    spent = loop.filter(pl.col("agent") == gate.agent) if gate.agent else loop
    start_ns = loop.filter(~IS_USER)["start_ns"].first()
    lasted_ns = gate.at_ns - start_ns if isinstance(start_ns, int) else 0
    return Cost(
        seconds=lasted_ns / NS_PER_S if is_known(gate.at_ns) else 0.0,
        input_tokens=int(spent["input_tokens"].sum()),
        output_tokens=int(spent["output_tokens"].sum()),
    )


def _bounded(event: GateEvent) -> GateEvent:
    """Return an event with each of its texts on one line."""
    return replace(
        event,
        task=plain(event.task, NAME_LENGTH_MAX),
        session=plain(event.session, NAME_LENGTH_MAX),
        agent=plain(event.agent, NAME_LENGTH_MAX),
        signature=plain(event.signature, TEXT_LENGTH_MAX),
        reason=plain(event.reason, TEXT_LENGTH_MAX),
        blockers=tuple(plain(name, TEXT_LENGTH_MAX) for name in event.blockers[:NOTES_MAX]),
        decision=_short(event.decision),
        note=_short(event.note),
        history=tuple(map(_failure, event.history)),
    )


def _failure(failure: Failure) -> Failure:
    return replace(
        failure,
        agent=plain(failure.agent, NAME_LENGTH_MAX),
        label=plain(failure.label, DONE_LENGTH_MAX),
        signature=_short(failure.signature),
        error_type=_short(failure.error_type),
        error=_short(failure.error),
    )


def _short(text: str | None) -> str | None:
    return None if text is None else plain(text, TEXT_LENGTH_MAX)


def _bounded_note(note: PastNote) -> PastNote:
    return replace(
        note, text=plain(note.text, TEXT_LENGTH_MAX), date=plain(note.date, NAME_LENGTH_MAX)
    )
