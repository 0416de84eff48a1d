"""The columns that rules see: the turns of many tasks, as integer codes.

Rows are sorted by task and, within a task, by the order in which the turns became known. Equal
codes mean the same thing; `UNKNOWN` means that the trace does not say, and equals nothing.

It is long because it has every column that a rule may see.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from looptrace.errors import InstallError

__all__ = [
    "CUTS",
    "KINDS",
    "STATUSES",
    "UNKNOWN",
    "Codes",
    "Figures",
    "Flags",
    "Kind",
    "Lane",
    "LaneSpec",
    "Meanings",
    "TurnTimes",
    "Turns",
    "Twin",
]

Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Figures = npt.NDArray[np.float64]  # NaN where the trace does not say

UNKNOWN = 0

# An attempt is a try at a task that an agent's author recorded, and progress are figures recorded
# alone. A switch is an attempt once more, as a turn of its session, in which it is one of several
# tasks. A user turn is a message to the agent, which is in no lane; a person's resets what was
# counted.
KINDS = ("tool", "model", "handoff", "attempt", "progress", "switch", "user")
# How an attempt at a task ended, as its author recorded it.
STATUSES = ("pending", "in_progress", "blocked", "done")
# Why a response was cut off.
CUTS = ("length", "content_filter")
# In which sense two calls of one response are the same.
Twin = Literal["twin", "twin_signature", "twin_failure", "twin_external", "twin_search"]
# Turns around a long one that are looked at; the known frameworks nest at most some twenty.
AROUND_MAX = 100
Kind = Literal["tool", "model", "handoff", "attempt", "progress", "switch", "user"]


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """The turns that a rule looks at: those of each agent of a task, of the task, or of a sub-task.

    `failures` keeps only known failures, `checks` only checks without a good answer, `entering`
    only turns that enter a phase, and `measured` only turns with figures. Of the calls of one
    response that are the same in the sense of `once` only the first is in the lane: they are one
    try, because the model could not react in between. `between_thoughts` leaves out new thoughts:
    they stand between two calls as words do.

    A lane ends where the counts of its task are reset: at a person's message, after a long pause,
    and, unless it is a lane of attempts or of `runs`, where the task was completed or a new run of
    it began.
    """

    by: Literal["agent", "task", "subtask"]
    kinds: tuple[Kind, ...]
    failures: bool = False
    checks: bool = False
    entering: bool = False
    measured: bool = False
    once: Twin = "twin"
    between_thoughts: bool = False
    runs: bool = False

    @property
    def outlasts_completion(self) -> bool:
        """Whether the lane goes on after a run of the task, or an attempt that completes it."""
        return self.runs or all(kind in ("attempt", "switch") for kind in self.kinds)

    @property
    def required(self) -> tuple[str, ...]:
        """The marks and codes that each turn of the lane has."""
        asked = {
            "failed": self.failures,
            "check": self.checks,
            "enters": self.entering,
            "measured": self.measured,
        }
        return tuple(column for column, is_asked in asked.items() if is_asked)


@dataclass(frozen=True, slots=True)
class Meanings:
    """The meaning of requests; two with the same subject mean the same if their sketches are alike.

    `subject` and `place` have one element for each turn. A subject must be equal; it is unknown if
    a turn is compared by its codes only.
    """

    subject: Codes
    place: Codes  # index into `sketches`, of turns with a subject
    sketches: npt.NDArray[np.int32]  # one row a text
    product_min: int  # least inner product of two that are alike


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """How long turns took, for rules that read it."""

    took_ns: Codes
    quiet_ns: Codes  # the part of it after the last turn that began within it had ended
    idle_ns: Codes  # the time between the end of the turn before and its start; 0 of the first
    goes_on: Flags  # the turn before is of the same trace
    asks_person: Flags  # a call whose name says that a person answers it
    silent: Flags  # no request to a model, but the time in which an open agent does nothing


@dataclass(frozen=True, slots=True)
class Turns:
    """Columns of one length, with one element for each turn."""

    task: Codes
    agent: Codes
    name: Codes  # of the tool, the model or the asked agent
    subtask: Codes  # the declared task, if its counters are those of another
    epoch: Codes  # counts the resets up to the turn, within the task: `counters.RESETS`
    resets_seen: Codes  # counts those of them that are neither completions nor runs of the task
    kind: Codes  # index into KINDS
    end_ns: Codes
    failed: Flags  # known to have failed
    external: Flags  # known to be an external failure, not the agent's own
    status: Codes  # of an attempt: index into STATUSES, counted from 1; 0 for other turns
    task_kind: Codes
    untested: Flags  # the kind of its task is one that tests cannot measure
    phase: Codes
    phase_before: Codes  # the last known phase before the turn
    enters: Flags  # the turn's phase differs from the one before it, or is declared again
    converging: Codes  # counts the improvements of the metric that its phase converges on
    iteration: Codes  # of the orchestrator, as declared by its author
    visits: Codes  # how often the phase was entered in the epoch
    transitions_seen: Codes  # how often from `phase_before`
    twin: Flags  # the same call and outcome as one of its response, or a request made at once
    twin_signature: Flags  # the same signature as one before it, of the same response
    twin_failure: Flags  # the same message of a failure, also of another agent at work
    twin_external: Flags  # an external failure, like one before it
    twin_search: Flags  # a search that found the same
    steps: Codes  # counts the turns of the epoch, up to this one
    busy_ns: Codes  # time of the epoch up to this turn, without the time at rest
    tokens_spent: Codes  # tokens of the epoch that came from no cache, up to this turn
    tokens_spent_agent: Codes  # those of its agent
    tokens_spent_minute: Codes  # those of the last minute
    money_spent: Codes  # what the epoch cost up to this turn, in billionths of the currency
    money_spent_agent: Codes  # what its agent cost
    money_spent_minute: Codes  # what the last minute cost
    errors: Codes  # own failures of calls in a row, up to this turn
    errors_before: Codes  # those of the epoch before the row began
    tests_failed: Figures
    tests_total: Figures
    coverage: Figures  # percent
    polls: Flags  # a call that waits, or looks again after a wait at something unchanged
    overdue_ns: Codes  # at a poll, the time waited beyond what is usual for the tool; else 0
    relapses: Flags  # a call that failed, and did not fail the last time, or one of many
    waits_seen: Codes  # counts the times that the task was idle or waited, up to this turn
    changes_seen: Codes  # counts the calls of the task that changed something, up to this turn
    calls_seen: Codes  # counts the task's calls that did not fail, wait or hand over, up to it
    works: Flags  # a call that did more than look, think or wait, and did not fail
    shows: Flags  # a call that only looked by its command, or thought, and did not fail
    shown_before: Flags  # a read of a file whose lines were all shown since the last change
    unfinished: Flags  # its result says that something goes on, or is awaited
    new_thought: Flags  # a thought after another call, and not the last thought again
    works_seen: Codes  # counts the calls of the task that worked, up to it
    improvements: Codes  # counts the turns of the epoch that brought progress, up to this one
    figures_compared: Codes  # counts the figures of the epoch that have earlier ones
    turns_since_best: Codes  # counts those since the last that were the best so far
    turns_since_best_before: Codes  # those before
    tries_since_progress: Codes  # attempts, recorded figures, own failures since progress
    tries_since_progress_before: Codes  # those before
    measured: Codes  # what the figures are of: the call that tests; unknown without figures
    call: Codes  # tool and arguments; what a model was given; request handed on; blockers
    outcome: Codes  # result or error of a tool; answer to a request; work of an attempt
    look_chars: Codes  # length of a result; 0 of changes, -1 on a way, -2 not shown, -3 done
    check: Codes  # a check and its answer, unless that is that all is well
    search_result: Codes  # what a search found, and for what if the answer is short
    error: Codes  # message of a failure that is the agent's own; of a look with its target
    mendable: Codes  # message of an external failure that its edits may fix
    signature: Codes
    response: Codes  # text and calls of a model
    reminded: Codes  # the message that a brief response answers, if it came before
    silent: Flags  # a response without text and calls
    only_calls: Flags  # a response without a text
    cut: Codes  # why a response was cut off: index into CUTS, counted from 1; 0 for other turns
    compacted: Codes  # text and calls of a response after a compaction; unknown for other turns
    chant_times: Codes  # how often a model's text repeats its last words in a row
    chant_chars: Codes  # and the number of characters of these repeats
    texts: tuple[str | None, ...]  # outputs and requests; none if no rule reads them
    talks_on: Codes  # the response that a model continues, if neither asks for calls
    meanings: Meanings | None = None  # if the settings ask for it
    timed: TurnTimes | None = None  # if a rule reads it

    @property
    def times(self) -> TurnTimes:
        """How long each turn took."""
        if self.timed is None:
            raise InstallError("A rule asks for times without saying `reads_times = True`.")
        return self.timed

    def among(self, spec: LaneSpec) -> Flags:
        """Return which turns are in `spec`."""
        seen = _chosen(spec.kinds)[self.kind]
        twins: Flags = getattr(self, spec.once)
        if twins.any():
            seen = seen & ~twins
        if spec.between_thoughts and self.new_thought.any():
            seen = seen & ~self.new_thought
        for column in spec.required:
            seen = seen & (getattr(self, column) != UNKNOWN)
        return seen

    def lane(self, spec: LaneSpec) -> Lane:
        """Return the turns of `spec`, lane by lane, each in its order."""
        rows = self.among(spec).nonzero()[0]
        by = self.task[rows]
        if spec.by != "task":
            part = (self.agent if spec.by == "agent" else self.subtask)[rows]
            mixed = (by[1:] == by[:-1]) & (part[1:] != part[:-1])
            if mixed.any():  # Most tasks have one agent, and are in order already.
                order = np.lexsort((part, by))
                rows, by, part = rows[order], by[order], part[order]
        epoch = (self.resets_seen if spec.outlasts_completion else self.epoch)[rows]
        starts = np.ones(len(rows), dtype=np.bool_)
        starts[1:] = (by[1:] != by[:-1]) | (epoch[1:] != epoch[:-1])
        if spec.by != "task":
            starts[1:] |= part[1:] != part[:-1]
        first = starts.nonzero()[0]
        return Lane(self, rows, np.arange(len(rows)) - first.repeat(_lengths(first, len(rows))))


@lru_cache
def _chosen(kinds: tuple[Kind, ...]) -> Flags:
    """Return for each kind whether it is one of these."""
    return np.array([kind in kinds for kind in KINDS])


def _lengths(first: Codes, count: int) -> Codes:
    """Return the lengths of parts that begin at these places; `np.diff` takes thrice as long."""
    lengths = np.empty_like(first)
    lengths[:-1] = first[1:] - first[:-1]
    lengths[-1:] = count - first[-1:]
    return lengths


@dataclass(frozen=True, slots=True)
class Lane:
    """The rows of one lane after the other; a position counts from 0 within its own lane."""

    turns: Turns
    rows: Codes  # index into the columns of `turns`
    position: Codes
    # Cached results of words, by their name and arguments.
    kept: dict[tuple[str, bytes], object] = field(default_factory=dict, repr=False, compare=False)

    @property
    def following(self) -> Codes:
        """The number of turns of its lane after each turn."""
        lengths = _lengths((self.position == 0).nonzero()[0], len(self.position))
        after: Codes = lengths.repeat(lengths) - 1 - self.position
        return after

    @property
    def subtask(self) -> Codes:
        """The declared task of each turn of the lane."""
        declared = self.turns.subtask[self.rows]
        return np.where(declared == UNKNOWN, 1, declared)

    @property
    def end_ns(self) -> Codes:
        """When each turn of the lane ended."""
        return self.turns.end_ns[self.rows]

    @property
    def external(self) -> Flags:
        """Which turns of the lane are known to be external failures."""
        return self.turns.external[self.rows]

    @property
    def polls(self) -> Flags:
        """Which turns of the lane wait, or look again after a wait at something unchanged."""
        return self.turns.polls[self.rows]

    @property
    def waits_seen(self) -> Codes:
        """How often the task was idle, or paused, up to each turn of the lane."""
        return self.turns.waits_seen[self.rows]

    @property
    def improvements(self) -> Codes:
        """The number of turns with progress up to each turn of the lane."""
        return self.turns.improvements[self.rows]

    @property
    def status(self) -> Codes:
        """How each attempt of the lane ended, as STATUSES counts from 1."""
        return self.turns.status[self.rows]

    @property
    def call(self) -> Codes:
        """The request of each turn of the lane: call, new input, request, or blockers."""
        return self.turns.call[self.rows]

    @property
    def outcome(self) -> Codes:
        """Result or error of each turn of the lane."""
        return self.turns.outcome[self.rows]

    @property
    def check(self) -> Codes:
        """Call and answer of each check of the lane that is not all well."""
        return self.turns.check[self.rows]

    @property
    def search_result(self) -> Codes:
        """What each turn of the lane found that is a search: nothing, or its tool and answer."""
        return self.turns.search_result[self.rows]

    @property
    def phase(self) -> Codes:
        """The declared phase of each turn of the lane."""
        return self.turns.phase[self.rows]

    @property
    def agent(self) -> Codes:
        """The agent of each turn of the lane."""
        return self.turns.agent[self.rows]

    @property
    def measured(self) -> Codes:
        """The subject of the figures of each turn of the lane."""
        return self.turns.measured[self.rows]

    @property
    def error(self) -> Codes:
        """Message of each failure of the lane; unknown where it is an external one."""
        return self.turns.error[self.rows]

    @property
    def mendable(self) -> Codes:
        """Message of each external failure that edits may fix; unknown for all others."""
        return self.turns.mendable[self.rows]

    @property
    def changes_seen(self) -> Codes:
        """The number of the task's calls that changed something, up to each turn of the lane."""
        return self.turns.changes_seen[self.rows]

    @property
    def works_seen(self) -> Codes:
        """The number of the task's calls that worked, up to each turn of the lane."""
        return self.turns.works_seen[self.rows]

    @property
    def other_works_seen(self) -> Codes:
        """The number of the task's calls that worked and are not in the lane, up to each turn."""
        others: Codes = self.works_seen - np.cumsum(self.turns.works[self.rows])
        return others

    @property
    def signature(self) -> Codes:
        """Short canonical form of what each turn of the lane did or how it failed."""
        return self.turns.signature[self.rows]

    @property
    def texts(self) -> list[str | None]:
        """The output of each turn of the lane: a tool's result, a model's words, a request."""
        if len(self.rows) and not self.turns.texts:
            raise InstallError("A rule asks for texts without saying `reads_texts = True`.")
        return [self.turns.texts[row] for row in self.rows.tolist()]

    @property
    def response(self) -> Codes:
        """The text and calls of each model turn of the lane."""
        return self.turns.response[self.rows]

    @property
    def only_calls(self) -> Flags:
        """Which model turns of the lane have no text and only ask for calls."""
        return self.turns.only_calls[self.rows]

    @property
    def reminded(self) -> Codes:
        """The message that each brief response of the lane answers once more."""
        return self.turns.reminded[self.rows]

    @property
    def talks_on(self) -> Codes:
        """The response that each model turn of the lane continues without asking for calls."""
        return self.turns.talks_on[self.rows]
