"""The batch driver: whole tasks in, findings out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import polars as pl

from looptrace.analyzer.detect.budgets.ledger import SPENDING_COLUMNS, SPENDING_KINDS, Ledger
from looptrace.analyzer.detect.budgets.stretches import budget_stretches, crossings_at
from looptrace.analyzer.detect.columns import columns
from looptrace.analyzer.detect.counters import counted_where_asked
from looptrace.analyzer.detect.evaluate import find_stretches
from looptrace.analyzer.detect.findings import Cost, Finding, LoopTurn
from looptrace.analyzer.detect.loop_rows import LoopRow, TableReader
from looptrace.analyzer.detect.spared_tasks import action_in
from looptrace.analyzer.detect.stretches import Growth, Stretch
from looptrace.analyzer.engine.analysis import Analysis, Summary, Unknown
from looptrace.analyzer.engine.outages import IS_CALL
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.gates.state_machine import TaskState, advance
from looptrace.analyzer.gates.timeline import (
    GateTurns,
    gate_turns,
    moments_of,
    resets_of,
    with_history,
)
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.normalize.understanding import summed
from looptrace.analyzer.schema.distinct_spans import alone_text, whole_spans
from looptrace.analyzer.schema.spans import Skipped
from looptrace.analyzer.schema.turns import IS_STEP, TOKEN_COLUMNS, TURN_SCHEMA, TurnTuple
from looptrace.analyzer.text.times import is_known

# Tasks are evaluated in parts of about this many turns, so memory does not grow with the input.
PART_TURNS = 200_000


def analyse(
    spans: pl.DataFrame,
    skipped: Sequence[Skipped] = (),
    policy: DetectionPolicy = DEFAULT,
    threads: int = 1,
) -> Analysis:
    """Find the loops in spans (`SPAN_SCHEMA`), by the default policy unless another is given.

    `threads` share the making of turns; the analysis is the same.
    """
    records, spans = spans.height, whole_spans(spans)
    turns, noted = turns_of(spans, policy.sameness, policy.dialects, threads)
    alone = alone_text(records - spans.height)
    analysis = analysis_of(turns, spans.height, (*skipped, *noted.skipped, *alone), policy)
    return replace(analysis, understood=noted.understood)


def analysis_of(
    turns: pl.DataFrame,
    spans: int,
    skipped: Sequence[Skipped] = (),
    policy: DetectionPolicy = DEFAULT,
    ledger: Ledger | None = None,
) -> Analysis:
    """Find the loops in turns (`TURN_SCHEMA`, numbered) and count what was evaluated.

    `ledger` is as for `detect`.
    """
    detection, counts = detect(turns, policy, ledger), counts_of(turns.lazy())
    return Analysis(
        summary=summary_of(counts, spans),
        skipped=tuple(skipped),
        findings=detection.findings,
        events=detection.events,
        turns=turns,
        tasks=tuple(counts["task"].unique().sort()),
    )


def joined(parts: Sequence[Analysis], sessions: int, spans: int) -> Analysis:
    """Join the analyses of parts that share no task, with the turns that they keep."""
    turns = [part.turns for part in parts]
    counts = [part.summary for part in parts]
    return Analysis(
        summary=Summary(
            sessions=sessions,
            tasks=sum(c.tasks for c in counts),
            turns=sum(c.turns for c in counts),
            spans=spans,
            **{name: sum(getattr(c, name) for c in counts) for name in TOKEN_COLUMNS},
            unknown=Unknown(
                sum(c.unknown.arguments for c in counts),
                sum(c.unknown.results for c in counts),
                sum(c.unknown.calls for c in counts),
            ),
        ),
        skipped=tuple(skipped for part in parts for skipped in part.skipped),
        findings=tuple(in_order([f for part in parts for f in part.findings])),
        events=tuple(
            sorted((e for part in parts for e in part.events), key=lambda event: event.task)
        ),
        turns=pl.concat(turns) if turns else pl.DataFrame(schema=TURN_SCHEMA),
        tasks=tuple(sorted(task for part in parts for task in part.tasks)),
        understood=summed(part.understood for part in parts),
    )


def of_loops(turns: pl.DataFrame, findings: Iterable[Finding]) -> pl.DataFrame:
    """Return the turns of tasks with a finding."""
    return turns.filter(pl.col("task").is_in({finding.task for finding in findings}))


@dataclass(frozen=True, slots=True)
class Detection:
    """The results of rules and gates: findings by task and turn, events by task, states."""

    findings: tuple[Finding, ...]
    events: tuple[GateEvent, ...]
    states: tuple[TaskState, ...]  # of the tasks that have a finding
    openings: Mapping[str, Finding]  # by gate: its finding as it was when the gate opened


def detect(
    turns: pl.DataFrame, policy: DetectionPolicy = DEFAULT, ledger: Ledger | None = None
) -> Detection:
    """Find the loops in turns (`TURN_SCHEMA`, numbered) and decide what follows from them.

    The `ledger` has what these and other tasks have spent; without one only these are counted.
    """
    ledger = ledger or ledger_of(turns, policy)
    findings: list[Finding] = []
    events: list[GateEvent] = []
    states: list[TaskState] = []
    openings: dict[str, Finding] = {}
    rules, needs = policy.rule_set, policy.rule_set.needs
    for part in _parts(turns):
        rows, asked = counted_where_asked(part, rules.counting, needs, set(ledger.tasks))
        if rows.is_empty():
            continue
        stretches = find_stretches(rows, rules, asked)
        stretches += _budget_stretches(rows, ledger)
        findings += map(finding_of, stretches)
        part_states, part_events = decide_tasks(rows, stretches, policy.recovery)
        states += part_states
        events += part_events
        openings |= openings_of(part_events, _growths(stretches), gate_turns(part_events, rows))
    return Detection(tuple(in_order(findings)), tuple(events), tuple(states), openings)


def ledger_of(turns: pl.DataFrame, policy: DetectionPolicy) -> Ledger:
    """Return what turns (`TURN_SCHEMA`, of any tasks) have spent of the budgets."""
    ledger = Ledger(policy.budgets, policy.rule_set.counting.prices)
    if policy.budgets.limits:
        ledger.take(spending_rows(turns))
    return ledger


def spending_rows(turns: pl.DataFrame) -> Iterator[TurnTuple]:
    """Return the turns that a ledger reads, with the columns of all turns."""
    spending = turns.filter(pl.col("kind").is_in(SPENDING_KINDS)).select(SPENDING_COLUMNS)
    yield from pl.concat([TURN_SCHEMA.to_frame(), spending], how="diagonal").iter_rows()


def _budget_stretches(rows: pl.DataFrame, ledger: Ledger) -> list[Stretch]:
    """Return the stretches of budgets in counted turns."""
    if not (tasks := ledger.tasks):
        return []
    mine = rows.filter(pl.col("task").is_in(tasks))
    reader = TableReader(mine)
    responses = np.flatnonzero((mine["kind"] == "model").to_numpy())
    crossings = crossings_at(ledger, responses, reader)
    return budget_stretches(columns(mine), reader, crossings)


def decide_tasks(
    rows: pl.DataFrame, stretches: Sequence[Stretch], recovery: Recovery
) -> tuple[list[TaskState], list[GateEvent]]:
    """Advance the state of each task with a loop through the events in its counted turns."""
    resets = resets_of(rows, {loop.task for loop in stretches})
    states: list[TaskState] = []
    events: list[GateEvent] = []
    for task, moments in sorted(moments_of(resets, _growths(stretches)).items()):
        state, task_events = advance(TaskState(task), moments, recovery)
        states.append(state)
        events += task_events
    return states, with_history(events, gate_turns(events, rows), recovery.history_max)


def _growths(stretches: Iterable[Stretch]) -> Iterator[Growth]:
    return (Growth(stretch, fired) for stretch in stretches for fired in stretch.fired)


def in_order(findings: list[Finding]) -> list[Finding]:
    """Sort findings by task, first turn, last turn and rule."""
    return sorted(findings, key=lambda f: (f.task, f.turn_first, f.turn_last, f.rule, f.id))


def finding_of(stretch: Stretch) -> Finding:
    """Return the finding of a stretch; its id stays the same however long the stretch grows."""
    return _finding_at(Growth(stretch, stretch.fired[-1]), stretch.last)


def openings_of(
    events: Iterable[GateEvent], grown: Iterable[Growth], seen: GateTurns
) -> dict[str, Finding]:
    """Return by gate, for gates that opened, the finding as it was at that turn.

    `grown` has the growths that the events come from, and `seen` their turns.
    """
    gates = {(e.task, e.turn, e.rule, e.finding): e.gate for e in events if e.type == "gate_opened"}
    if not gates:
        return {}
    places = {key[:3] for key in gates}
    opened: dict[str, Growth] = {}
    for growth in grown:
        place = (growth.loop.task, growth.fired.turn, growth.loop.rule.name)
        if place in places and (gate := gates.get((*place, growth.loop.id))):
            opened[gate] = growth
    at = seen.places
    lasts = seen.read([at[each.loop.task, each.fired.turn] for each in opened.values()])
    return {
        gate: _finding_at(growth, last)
        for (gate, growth), last in zip(opened.items(), lasts, strict=True)
    }


def _finding_at(growth: Growth, last: LoopRow) -> Finding:
    """Return the finding of a loop as it was at a growth; `last` is the turn of the growth."""
    stretch, fired = growth
    first, attempts = stretch.first[0], growth.attempts
    cost = _cost(growth, last)
    count = stretch.index_of(fired) + 1
    ids = islice(zip(stretch.trace_id, stretch.span_id, stretch.turn, strict=True), count)
    return Finding(
        id=stretch.id,
        rule=fired.rule.name,
        task=stretch.task,
        session=first.session,
        trace_id=first.trace_id,
        agent=stretch.agent_at(fired),
        turn_first=first.turn,
        turn_last=last.turn,
        attempts=attempts,
        loop_count=attempts - 1,
        period=stretch.period,
        signature=stretch.signature,
        reason=stretch.reason_at(fired),
        action=action_in(stretch.task, fired.rule, attempts, stretch.seconds_at(fired)),
        turns=tuple(
            LoopTurn(*turn, "first" if i < stretch.period else "repeat")
            for i, turn in enumerate(ids)
        ),
        cost=cost,
        exact=stretch.exact_at(stretch.fired[-1]),
    )


def _cost(growth: Growth, last: LoopRow) -> Cost:
    """Add up what the loop's agent, or all agents of its task, spent from the first turn on.

    A stream without times took no seconds.
    """
    stretch, fired = growth
    first = stretch.first[0]
    given = last.input_tokens_total - first.input_tokens_total
    said = last.output_tokens_total - first.output_tokens_total
    if fired.rule.lane.by == "agent":
        given = last.input_tokens_sum - first.input_tokens_sum
        said = last.output_tokens_sum - first.output_tokens_sum
    return Cost(
        seconds=stretch.seconds_at(fired) if is_known(fired.end_ns) else 0.0,
        input_tokens=given + (first.input_tokens or 0),
        output_tokens=said + (first.output_tokens or 0),
    )


def _parts(turns: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Split sorted turns between tasks."""
    tasks = turns["task"]
    starts = (tasks != tasks.shift(1)).fill_null(value=True).arg_true().to_list()
    begin = 0
    for start in [*starts[1:], turns.height]:
        if start - begin >= PART_TURNS or start == turns.height:
            yield turns[begin:start]
            begin = start


def counts_of(turns: pl.LazyFrame) -> pl.DataFrame:
    """Add up the counts of a summary for each `task` and `session`, with the first turn."""
    return (
        turns.group_by("task", "session")
        .agg(
            turns=IS_STEP.sum(),
            turn_first=pl.col("turn").filter(IS_STEP).min(),
            calls=IS_CALL.sum(),
            arguments=(IS_CALL & pl.col("arguments").is_null()).sum(),
            results=(IS_CALL & pl.col("outcome").is_null()).sum(),
            **{name: pl.col(name).sum() for name in TOKEN_COLUMNS},
        )
        .collect()
    )


def summary_of(counts: pl.DataFrame, spans: int) -> Summary:
    """Return the summary of counted turns (`counts_of`)."""
    names = ("turns", "arguments", "results", "calls")
    turns, arguments, results, calls = (int(counts[name].sum()) for name in names)
    return Summary(
        sessions=counts["session"].n_unique(),
        tasks=counts["task"].n_unique(),
        turns=turns,
        spans=spans,
        unknown=Unknown(arguments, results, calls),
        **{name: int(counts[name].sum()) for name in TOKEN_COLUMNS},
    )
