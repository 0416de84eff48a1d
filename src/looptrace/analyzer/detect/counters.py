"""Coded turns to counted ones: turns, resets, tokens, visits to phases, transitions, progress.

These counts have no bound. Rules look back on a bounded number of turns, so everything that counts
from the start of a task is counted here. Batch counts whole tasks with this module. Live,
`single_counters` counts one turn after the other. It is long because most counts need others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from looptrace.analyzer.detect.columns import task_numbers
from looptrace.analyzer.detect.parts import Columns, Parts, changes
from looptrace.analyzer.detect.persons import (
    PERSONS,
    SPEAKERS,
    Persons,
    reminders_of,
    speakers_of,
)
from looptrace.analyzer.detect.phases import (
    Converging,
    count_own_improvements,
    count_phases,
    own_figures,
)
from looptrace.analyzer.detect.steps import mark_twins
from looptrace.analyzer.schema.columns import COUNTED
from looptrace.rules.contract import check_bounds, numbers, setting
from looptrace.rules.turns import KINDS, STATUSES, UNKNOWN, Codes, Figures, Flags
from looptrace.rules.vocabulary import NS_PER_S

TOKENS = ("input_tokens", "output_tokens")
DAY_S = 86_400
# Why counts start again. A completion resets the counts for the turns after it. "message" stands in
# place of "person" if messages may not resolve a gate. A run is begun by the same prompt after a
# pause (a heartbeat, a schedule, a restart), or by anything after a rest.
RESETS = ("person", "message", "completed", "idle", "run")
# Those that leave a lane of whole tasks alone: the task goes on in another run.
_WITHIN_TASK = tuple(RESETS.index(name) + 1 for name in ("completed", "run"))

# The codes, marks and columns of a turn that are used for counting.
_CODED_USED = (
    *("trace_code", "has_id", "repeated_code", "brief", "agent_code", "name_code"),
    *("subtask_code", "phase_code", "call_code", "outcome_code", "status_code"),
    *("own", "changes", "works", "pauses", "only_reads", "unfinished", "watches"),
    *("signature_code", "error_code", "mendable_code", "search_result_code", "external"),
    *("step_code", "start_ns", "end_ns", "order_ns"),
)
_SUMMED = (*TOKENS, "markers")
_FIGURES = ("tests_failed", "coverage")

_TOOL, _MODEL, _ATTEMPT, _PROGRESS, _SWITCH, _USER = (
    KINDS.index(kind) for kind in ("tool", "model", "attempt", "progress", "switch", "user")
)
_DONE = STATUSES.index("done") + 1
# Figures of unknown calls are compared with one another, too.
_ANY_CALL = 1
# An agent may look at so many things in turn while it waits: as many as a round may have.
CALLS_COMPARED = 40
# Back-offs usually double the pause; the time of the calls themselves makes it look less.
BACK_OFF = 1.5
# A wait is overdue after so many times the longest one before it with the same tool.
OVER_USUAL = 2
# A pause of the task from which on it is at rest: nobody works while a person or a machine sleeps.
REST_S = 300
# A turn is at work for so long: a call may wait for an approval, and a machine sleep within it.
TURN_S_MAX = 3_600
# Before all times: no span around the turn declares its phase.
NEVER_NS = -1


@dataclass(frozen=True, slots=True)
class Counting:
    """How to count: the pauses that mean something, and the metric of iterative phases.

    If a phase converges on a metric, its visits and the transitions to it are counted again from
    zero whenever that metric gets better.
    """

    idle_s: int = setting(
        DAY_S, ge=60, le=2_592_000, doc="Seconds of silence after which counts are reset."
    )
    converging: Converging = field(default_factory=dict)
    poll_wait_s: int = setting(
        30,
        ge=1,
        le=86_400,
        doc="Seconds of idle time after which a call that only looks again is a poll; "
        "the time of the call itself counts, too.",
    )
    pending_wait_s: int = setting(
        3,
        ge=1,
        le=86_400,
        doc="Seconds between two looks after which the second is a poll if its result says that "
        "something is running, pending or queued, or if its call waits for something.",
    )
    run_pause_s: int = setting(
        60,
        ge=1,
        le=86_400,
        doc="Seconds of idle time after which the same prompt begins a new run of the task, as "
        "schedules and heartbeats do; counts begin anew with it.",
    )
    run_rest_s: int = setting(
        3_600,
        ge=60,
        le=2_592_000,
        doc="Seconds of idle time after which a new run of the task begins, whatever comes.",
    )
    persons: Persons = field(default_factory=Persons)

    def __post_init__(self) -> None:
        check_bounds("recovery", numbers(self))  # The section of the settings with these fields.


def add_counters(turns: pl.DataFrame, how: Counting) -> pl.DataFrame:
    """Add `COUNTED` to ordered, coded turns of whole tasks, counted from the start of each task."""
    rows = counted_columns(turns)
    phases, metrics = turns["phase"], turns["metrics"]
    rows["own_figure"] = own_figures(turns.height, phases, metrics, how.converging)
    before = continue_counters(rows, how)
    phase_before: pl.Expr = pl.lit(None, pl.String)
    if (before >= 0).any():
        last = pl.Series(np.where(before < 0, 0, before))
        known = pl.Series(before >= 0)
        phase_before = pl.when(known).then(turns["phase"].gather(last))
    texts = {
        "phase_before": phase_before,
        "reset": _names(RESETS, rows["reset_code"]),
        "speaker": _names(SPEAKERS, rows["speaker_code"]),
    }
    return turns.with_columns(
        texts[column.name].alias(column.name)
        if column.name in texts
        else pl.Series(column.name, rows[column.name], column.dtype)
        for column in COUNTED
    )


def _names(names: tuple[str, ...], codes: Codes) -> pl.Expr:
    """Return the names by codes that count from 1; null for 0."""
    return pl.lit(pl.Series((None, *names)).gather(pl.Series(codes)))


def counted_columns(turns: pl.DataFrame) -> Columns:
    """Return the columns of coded turns that counters use."""
    rows: Columns = {name: turns[name].to_numpy() for name in _CODED_USED}
    rows |= {name: _filled(turns[name], 0) for name in _SUMMED}
    rows |= {name: _filled(turns[name].cast(pl.Float64), nan) for name in _FIGURES}
    rows["phase_start_ns"] = _filled(turns["phase_start_ns"], NEVER_NS)
    rows["kind"] = turns["kind"].to_physical().cast(pl.Int64).to_numpy()
    rows["failed"] = _filled(turns["failed"], fill=False)
    rows["task"] = task_numbers(turns["task"])
    return rows


def _filled(values: pl.Series, fill: float) -> Any:
    """Return values with `fill` for null; some columns are null throughout in most traces."""
    if values.null_count() == len(values):
        return np.full(len(values), fill)
    return values.fill_null(fill).to_numpy()


def continue_counters(rows: Columns, how: Counting) -> Codes:
    """Add `turn` and `COUNTED` to ordered, coded turns of whole tasks.

    For each turn, return the row of the last turn before it that gives a phase; -1 without one.
    """
    tasks = Parts(rows, changes(rows["task"]))
    rows["speaker_code"] = speakers_of(rows, tasks, how.persons)
    rows["reminded_code"] = reminders_of(rows, tasks)
    rows["reset_code"] = _reset(rows, tasks, how)
    resets = rows["reset_code"]
    tasks.count(turn=rows["kind"] != _USER, epoch=resets != 0)
    epochs = Parts(rows, changes(rows["task"], rows["epoch"]))
    _polls(rows, tasks, how)
    tasks.count(
        changes_seen=rows["changes"],
        calls_seen=(rows["kind"] == _TOOL) & ~rows["pauses"] & ~rows["failed"],
        works_seen=rows["works"],
        resets_seen=(resets != 0) & ~np.isin(resets, _WITHIN_TASK),
        **{f"{name}_total": rows[name] for name in TOKENS},
    )
    agents = Parts(rows, by=(rows["task"], rows["agent_code"]))
    agents.count(**{f"{name}_sum": rows[name] for name in TOKENS})
    _busy(rows, epochs)
    mark_twins(rows, tasks)
    marks = _progress(rows, epochs)
    _tries(rows, epochs, marks)
    return count_phases(rows, epochs, how.converging)


def _reset(rows: Columns, tasks: Parts, how: Counting) -> Codes:
    """Return why counts start again at a turn, as `RESETS` counts from 1; 0 where they do not."""
    end_ns, goes_on = rows["end_ns"], ~tasks.starts
    done = (rows["kind"] == _ATTEMPT) & (rows["status_code"] == _DONE)
    done &= rows["subtask_code"] == UNKNOWN
    reasons = np.zeros(len(end_ns), dtype=np.int64)
    reasons[1:][goes_on[1:] & done[:-1]] = RESETS.index("completed") + 1
    speaker = rows["speaker_code"]
    idle_ns = rows["start_ns"][1:] - end_ns[:-1]
    again = (speaker[1:] == SPEAKERS.index("same_words") + 1) & (
        idle_ns >= how.run_pause_s * NS_PER_S
    )
    again |= idle_ns >= how.run_rest_s * NS_PER_S
    reasons[1:][goes_on[1:] & again] = RESETS.index("run") + 1
    paused = goes_on[1:] & (end_ns[1:] - end_ns[:-1] > how.idle_s * NS_PER_S)
    reasons[1:][paused] = RESETS.index("idle") + 1
    for name in PERSONS:
        reasons[speaker == SPEAKERS.index(name) + 1] = RESETS.index("person") + 1
    if how.persons.resolved_by == "decision":
        reasons[speaker == SPEAKERS.index("message") + 1] = RESETS.index("message") + 1
    return reasons


def _polls(rows: Columns, tasks: Parts, how: Counting) -> None:
    """Add `waits_seen`, `polls`, `overdue_ns` and `relapses`.

    A call is quiet if it only looks at something or shows what goes on, or if it does not fail and
    equals a call shortly before. A quiet call that equals an earlier one, with only quiet calls
    since, is a poll if its task waited in between: the task stood still, a call waited, a look took
    long, what goes on was looked at again after a moment, or the time between looks grows.
    """
    agents = Parts(rows, by=(rows["task"], rows["agent_code"]))
    pauses, looks = rows["pauses"], rows["only_reads"] | rows["unfinished"] | rows["watches"]
    calls = (rows["kind"] == _TOOL) & ~pauses
    nearest = _nearest_equal(rows, agents, calls, ("call_code", "outcome_code"))
    asked = _nearest_equal(rows, agents, calls, ("call_code",))
    failed = agents.sorted(rows["failed"])
    rows["relapses"] = agents.by_row(failed & (asked >= 0) & ~failed[asked])
    fine = calls & ~rows["failed"] & ~(rows["tests_failed"] > 0)
    quiet = looks | (fine & agents.by_row(nearest >= 0))
    agents.count(calls_doing=calls & ~quiet)
    doing = agents.sorted(rows["calls_doing"])
    seen = agents.sorted(quiet) & (nearest >= 0)
    seen[seen] = doing[seen] == doing[nearest[seen]]
    ends_ns, starts_ns = agents.sorted(rows["end_ns"]), agents.sorted(rows["start_ns"])
    between_ns = np.where(seen, ends_ns - ends_ns[nearest], 0)
    waits = agents.sorted(quiet) & (ends_ns - starts_ns >= how.poll_wait_s * NS_PER_S)
    pending = seen & agents.sorted(rows["unfinished"] | rows["watches"])
    waits |= pending & (between_ns >= how.pending_wait_s * NS_PER_S)
    # The pauses of a back-off lie between calls in a row.
    in_order = np.cumsum(agents.sorted(calls))
    gap_ns = np.where(seen & (in_order - in_order[nearest] == 1), between_ns, 0)
    grows = (gap_ns >= BACK_OFF * gap_ns[nearest]) & (gap_ns[nearest] > 0) & (gap_ns >= NS_PER_S)
    waits |= agents.sorted(looks) & grows
    tasks.count(waits_seen=pauses | _stands_still(rows, tasks, how) | agents.by_row(waits))
    waited = agents.sorted(rows["waits_seen"])
    polls = seen & (waited > waited[nearest])
    begins = agents.last(agents.sorted(calls) & ~seen)
    since_ns = ends_ns[np.where(begins < 0, agents.first, begins)]
    polls |= agents.sorted(pauses)
    rows["polls"] = agents.by_row(polls)
    waited_ns = np.where(polls, ends_ns - since_ns, 0)
    usual_ns = _usual_ns(rows, agents, (agents.sorted(calls), polls, since_ns))
    rows["overdue_ns"] = np.maximum(agents.by_row(waited_ns) - OVER_USUAL * usual_ns, 0)


def _usual_ns(rows: Columns, agents: Parts, waits: tuple[Flags, Flags, Codes]) -> Codes:
    """Return the longest wait with the same tool that ended before, in the task; 0 without one.

    `waits` are the agents' calls, their polls, and since when each waits.
    """
    calls, polls, since_ns = waits
    places = calls.nonzero()[0]
    was, now = places[:-1], places[1:]
    ended = polls[was] & ~polls[now] & (agents.number[was] == agents.number[now])
    for name in ("epoch", "name_code"):
        values = agents.sorted(rows[name])
        ended &= values[was] == values[now]
    if not ended.any():
        return np.zeros(len(calls), dtype=np.int64)
    took_ns = np.full(len(calls), nan)
    took_ns[now[ended]] = agents.sorted(rows["end_ns"])[now[ended]] - since_ns[was[ended]]
    rows["took_ns"] = agents.by_row(took_ns)
    tools = Parts(rows, by=(rows["task"], rows["name_code"]), only=np.arange(len(calls)))
    return np.nan_to_num(tools.best("took_ns", 1)).astype(np.int64)


def _stands_still(rows: Columns, tasks: Parts, how: Counting) -> Flags:
    """Mark turns that start after a wait of the task."""
    still = np.zeros(len(rows["task"]), dtype=np.bool_)
    idle_ns = rows["start_ns"][1:] - rows["end_ns"][:-1]
    still[1:] = (idle_ns >= how.poll_wait_s * NS_PER_S) & ~tasks.starts[1:]
    return still


def _nearest_equal(rows: Columns, agents: Parts, calls: Flags, names: Sequence[str]) -> Codes:
    """Return for each turn of the agents' parts the place of the last equal call; -1 without one.

    Calls are equal if they have the same codes of these names, and none is unknown. Only the last
    `CALLS_COMPARED` calls of the agent since the last reset are searched.
    """
    nearest = np.full(len(calls), -1)
    places = agents.sorted(calls).nonzero()[0]
    epoch = agents.sorted(rows["epoch"])[places]
    codes = [agents.sorted(rows[name])[places] for name in names]
    part = agents.number[places]
    asked = np.logical_and.reduce([code != UNKNOWN for code in codes]).nonzero()[0]
    for back in range(1, CALLS_COMPARED + 1):
        asked = asked[asked >= back]
        was = asked - back
        near = (part[asked] == part[was]) & (epoch[asked] == epoch[was])
        asked, was = asked[near], was[near]
        same = np.logical_and.reduce([code[asked] == code[was] for code in codes])
        nearest[places[asked[same]]] = places[was[same]]
        asked = asked[~same]
    return nearest


def _busy(rows: Columns, epochs: Parts) -> None:
    """Add `busy_ns`: the time at work since the first turn of the epoch."""
    advance = np.zeros(len(rows["task"]), dtype=np.int64)
    ends_ns = rows["end_ns"]
    idle_ns = rows["start_ns"][1:] - ends_ns[:-1]
    advance[1:] = ends_ns[1:] - ends_ns[:-1] - np.where(idle_ns >= REST_S * NS_PER_S, idle_ns, 0)
    advance[epochs.starts] = 0
    epochs.count(busy_ns=np.minimum(advance, TURN_S_MAX * NS_PER_S))


class _Marks(NamedTuple):
    """Turns that have figures to compare, that are the best so far, and that bring progress."""

    compares: Flags
    gains: Flags
    improves: Flags


def _progress(rows: Columns, epochs: Parts) -> _Marks:
    """Count the turns that brought progress.

    Figures are progress if they are better than all earlier ones of the same call, or of all calls.
    """
    failing, coverage, markers = rows["tests_failed"], rows["coverage"], rows["markers"] > 0
    figures = ~(np.isnan(failing) & np.isnan(coverage))
    rows["measured_code"] = np.zeros(len(figures), dtype=np.int64)
    if figures.any():
        call = rows["call_code"]
        named = np.where(call == UNKNOWN, _ANY_CALL, call)
        rows["measured_code"] = np.where(figures, named, UNKNOWN)
    passes = failing == 0
    places = figures.nonzero()[0]
    best, ever = _best_before(rows, places, passes), _best_ever(rows, places)
    compares = ~np.isnan(failing + best["tests_failed"]) | ~np.isnan(coverage + best["coverage"])
    improves = {
        "tests_failed": (failing < best["tests_failed"]) | (failing < ever["tests_failed"]),
        "coverage": (coverage > best["coverage"]) | (coverage > ever["coverage"]),
        "markers": markers,
    }
    better = improves["tests_failed"] | improves["coverage"]
    own = count_own_improvements(rows)
    marks = _Marks(compares & ~(failing <= 0), better | passes, better | markers | own)
    epochs.count(
        figures_compared=marks.compares,
        improvements=marks.improves,
        **{f"{name}_improvements": holds for name, holds in improves.items()},
    )
    return marks


def _best_before(rows: Columns, places: Codes, passes: Flags) -> dict[str, Figures]:
    """Return the best figures of each call before each turn.

    After all tests passed, figures are compared only with figures from then on.
    """
    if not len(places):  # True of most traces.
        return dict.fromkeys(_FIGURES, np.full(len(passes), nan))
    calls = Parts(rows, by=(rows["task"], rows["epoch"], rows["measured_code"]), only=places)
    calls.count(passed=passes)
    by = (rows["task"], rows["epoch"], rows["measured_code"], rows["passed"] - passes)
    return _best_in(Parts(rows, by=by, only=places))


def _best_ever(rows: Columns, places: Codes) -> dict[str, Figures]:
    """Return the best figures of all calls of the epoch before each turn."""
    if not len(places):
        return dict.fromkeys(_FIGURES, np.full(len(rows["task"]), nan))
    return _best_in(Parts(rows, by=(rows["task"], rows["epoch"]), only=places))


def _best_in(parts: Parts) -> dict[str, Figures]:
    return {name: parts.best(name, sign) for name, sign in (("tests_failed", -1), ("coverage", 1))}


def _tries(rows: Columns, epochs: Parts, marks: _Marks) -> None:
    """Count the tries since the last progress; equal calls of one step are one try."""
    kind = rows["kind"]
    attempt = kind == _ATTEMPT
    own = rows["own"] & ~rows["twin_signature"] & ~rows["twin"]
    done = attempt & (rows["status_code"] == _DONE)
    progress = marks.improves | rows["works"] | _new_work(rows, epochs, attempt) | done
    fine = (kind == _TOOL) & ~rows["failed"]
    steps = (kind != _USER) & (kind != _SWITCH)
    epochs.count(steps=steps)
    epochs.since(
        errors=(own, fine),
        turns_since_best=(marks.compares, marks.gains),
        tries_since_progress=(own | attempt | (kind == _PROGRESS), progress),
    )


def _new_work(rows: Columns, epochs: Parts, attempt: Flags) -> Flags:
    """Return which turns report other completed work than the last report before them."""
    reported = np.where(attempt, rows["outcome_code"], UNKNOWN)
    if not reported.any():
        return np.zeros(len(reported), dtype=np.bool_)
    before = epochs.before(epochs.last(reported != UNKNOWN))
    known_before = np.where(before < 0, UNKNOWN, reported[before])
    other: Flags = (reported != UNKNOWN) & (reported != known_before)
    return other
