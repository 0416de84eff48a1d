"""One turn after the other: the counts of a task, as `counters` makes them for tables of turns.

Live, turns come one at a time. Each is counted from what is held of its task: a few numbers of the
task, of each agent, and of the time since the last reset. The counts are the same as in batch, and
the tests that compare batch and live check them, too. It is long because most counts need others.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, nan
from typing import NamedTuple, TypeVar

from looptrace.analyzer.detect.counters import (
    BACK_OFF,
    CALLS_COMPARED,
    OVER_USUAL,
    RESETS,
    REST_S,
    TURN_S_MAX,
    Counting,
)
from looptrace.analyzer.detect.persons import PERSONS, SPEAKERS, speaker_of
from looptrace.analyzer.detect.phases import METRICS, own_figure
from looptrace.analyzer.detect.single_columns import SingleTurn
from looptrace.analyzer.detect.steps import Steps
from looptrace.analyzer.schema.turns import AT
from looptrace.bounded_dict import BoundedDict
from looptrace.rules.turns import KINDS, STATUSES, UNKNOWN
from looptrace.rules.vocabulary import NS_PER_S

_TOOL, _ATTEMPT, _PROGRESS, _SWITCH, _USER = (
    KINDS.index(kind) for kind in ("tool", "attempt", "progress", "switch", "user")
)
_DONE = STATUSES.index("done") + 1
# Figures of unknown calls are compared with one another, too.
_ANY_CALL = 1
# Figures of all calls; no code of a call is this.
_EVERY_CALL = UNKNOWN
_PERSON_CODES = {SPEAKERS.index(speaker) + 1 for speaker in PERSONS}
_MESSAGE = SPEAKERS.index("message") + 1
_SAME = SPEAKERS.index("same_words") + 1
_PERSON, _BY_MESSAGE, _COMPLETED, _IDLE, _RUN = (RESETS.index(name) + 1 for name in RESETS)


T = TypeVar("T")


class _Seen(NamedTuple):
    """A call of an agent, as far as later ones are compared with it."""

    call: int
    outcome: int
    end_ns: int
    gap_ns: int  # since the call before it, if that is equal; else 0
    doing: int  # calls of the agent that did more than look, up to it
    waits_seen: int
    failed: bool


class _Agent:
    """The counts of one agent in its task."""

    __slots__ = (
        *("calls", "doing", "epoch", "input_sum", "output_sum", "since_ns", "tool", "waits_ns"),
    )

    def __init__(self) -> None:
        self.input_sum = self.output_sum = 0
        self.since_ns: int | None = None  # end of its last call that did or showed something new
        self.epoch = self.doing = 0
        self.tool = UNKNOWN  # of its last call
        self.waits_ns: int | None = None  # since when it waits, if that was a poll
        self.calls: tuple[_Seen, ...] = ()  # its last calls since the reset, the newest first

    def last_equal(self, one: SingleTurn) -> _Seen | None:
        """Return the last call that equals this one, with its outcome."""
        if UNKNOWN in (one.call, one.outcome):
            return None
        equal = (s for s in self.calls if s.call == one.call and s.outcome == one.outcome)
        return next(equal, None)

    def last_went_well(self, one: SingleTurn) -> bool:
        """Return whether the last call with the same request did not fail."""
        same = (not s.failed for s in self.calls if s.call == one.call != UNKNOWN)
        return next(same, False)


class _Best:
    """The best figures of one call since all its tests passed."""

    __slots__ = ("coverage", "tests_failed")

    def __init__(self) -> None:
        self.tests_failed = self.coverage = nan

    def add(self, tests_failed: float, coverage: float) -> None:
        """Take figures that are better, or the first."""
        if tests_failed < self.tests_failed or isnan(self.tests_failed):
            self.tests_failed = tests_failed
        if coverage > self.coverage or isnan(self.coverage):
            self.coverage = coverage


class _Epoch:
    """The counts since the last reset."""

    __slots__ = (
        *("busy_ns", "steps", "errors", "errors_before", "figures", "figures_before", "tries"),
        *("tries_before", "work", "improvements", "improved", "best", "phase", "phase_text"),
        *("visits", "transitions", "own", "converging"),
    )

    def __init__(self) -> None:
        self.busy_ns = 0
        self.steps = self.errors = self.errors_before = self.figures = self.figures_before = 0
        self.tries = self.tries_before = self.work = self.improvements = 0
        self.improved: dict[str, int] = dict.fromkeys(METRICS, 0)  # by metric
        self.best: dict[int, _Best] = {}  # by what figures are of
        self.phase, self.phase_text = UNKNOWN, None  # the last that is known
        self.converging = 0  # the improvements at its last turn
        self.visits: dict[tuple[int, int], int] = {}  # by phase and its improvements
        self.transitions: dict[tuple[int, int, int, int], int] = {}  # by the phase before, too
        self.own: dict[int, tuple[int, float]] = {}  # by phase: improvements, best own figure


class SingleCounters:
    """The counts of one task up to a turn; the next turn continues them."""

    __slots__ = (
        *("agents", "attempt_trace", "calls_seen", "changes_seen", "done", "end_ns", "epoch"),
        *("how", "input_total", "messages", "output_total", "repeated", "resets", "resets_seen"),
        *("steps", "trace", "turn", "usual_ns", "waits_seen", "works_seen"),
    )

    def __init__(self, how: Counting) -> None:
        self.how = how
        self.turn = self.resets = self.resets_seen = 0
        self.waits_seen = self.changes_seen = self.calls_seen = self.works_seen = 0
        self.input_total = self.output_total = 0
        self.end_ns: int | None = None  # of the turn before, with what else is needed of it
        self.trace = self.repeated = UNKNOWN
        self.done = False
        self.steps = Steps()
        self.attempt_trace: int | None = None  # of the last attempt
        self.messages: BoundedDict[int, None] | None = None  # the words of earlier ones
        self.agents: dict[int, _Agent] = {}
        self.epoch: _Epoch | None = None
        self.usual_ns: Mapping[int, int] = {}  # the longest wait with each tool

    def copy(self) -> SingleCounters:
        """Return a copy that is counted on separately."""
        other = _copy(self)
        if self.messages is not None:
            other.messages = BoundedDict(self.messages.count_max)
            other.messages.update(self.messages)
        other.agents = {code: _copy(agent) for code, agent in self.agents.items()}
        other.steps = self.steps.copy()
        if epoch := self.epoch:
            other.epoch = epoch = _copy(epoch)
            epoch.improved = dict(epoch.improved)
            epoch.best = {call: _copy(best) for call, best in epoch.best.items()}
            epoch.visits, epoch.transitions = dict(epoch.visits), dict(epoch.transitions)
            epoch.own = dict(epoch.own)
        return other

    def count(self, one: SingleTurn) -> None:
        """Set the counts of the next turn."""
        self._speak(one)
        begins = self._reset(one) or self.epoch is None
        if begins or self.epoch is None:
            self.epoch = _Epoch()
        elif self.end_ns is not None:
            idle_ns = one.start_ns - self.end_ns
            rest_ns = idle_ns if idle_ns >= REST_S * NS_PER_S else 0
            advance_ns = one.end_ns - self.end_ns - rest_ns
            self.epoch.busy_ns += min(advance_ns, TURN_S_MAX * NS_PER_S)
        agent = self.agents.get(one.agent)
        if agent is None:
            agent = self.agents[one.agent] = _Agent()
        self._number(one, agent)
        self._wait(one, agent)
        self.steps.mark(one)
        improves = self._progress(one, self.epoch)
        self._try(one, self.epoch, improves=improves)
        self._phase(one, self.epoch, begins=begins)
        if one.kind in (_ATTEMPT, _SWITCH):
            self.attempt_trace = one.trace
        is_done = one.kind == _ATTEMPT and one.status == _DONE
        self.done = is_done and one.subtask == UNKNOWN
        self.end_ns, self.trace, self.repeated = one.end_ns, one.trace, one.repeated

    def _speak(self, one: SingleTurn) -> None:
        """Set the author of a message, as `persons.speakers_of` does."""
        one.speaker = UNKNOWN
        one.reminded = self.repeated if one.brief else UNKNOWN
        if one.kind != _USER:
            return
        persons = self.how.persons
        if self.messages is None:
            self.messages = BoundedDict(persons.messages_kept)
        attempted = self.attempt_trace is not None and self.attempt_trace == self.trace
        again = one.call in self.messages or one.repeated != UNKNOWN
        speaker = speaker_of(persons, has_id=one.has_id, again=again, attempted=attempted)
        one.speaker = SPEAKERS.index(speaker) + 1
        if not one.has_id and one.call != UNKNOWN:
            self.messages.pop(one.call, None)  # The newest message is forgotten last.
            self.messages[one.call] = None

    def _reset(self, one: SingleTurn) -> bool:
        """Set why counts start again at a turn, and return whether they do."""
        one.reset = _COMPLETED if self.done else UNKNOWN
        run_s = self.how.run_pause_s if one.speaker == _SAME else self.how.run_rest_s
        run_s = min(run_s, self.how.run_rest_s)
        if self.end_ns is not None and one.start_ns - self.end_ns >= run_s * NS_PER_S:
            one.reset = _RUN
        if self.end_ns is not None and one.end_ns - self.end_ns > self.how.idle_s * NS_PER_S:
            one.reset = _IDLE
        if one.speaker in _PERSON_CODES:
            one.reset = _PERSON
        if one.speaker == _MESSAGE and self.how.persons.resolved_by == "decision":
            one.reset = _BY_MESSAGE
        self.resets += one.reset != UNKNOWN
        self.resets_seen += one.reset not in (UNKNOWN, _COMPLETED, _RUN)
        return bool(one.reset != UNKNOWN)

    def _number(self, one: SingleTurn, agent: _Agent) -> None:
        """Count turns, calls and tokens."""
        self.turn += one.kind != _USER
        self.changes_seen += one.changes
        self.works_seen += one.works
        self.calls_seen += one.kind == _TOOL and not one.pauses and not one.failed
        self.input_total += one.input_tokens
        self.output_total += one.output_tokens
        agent.input_sum += one.input_tokens
        agent.output_sum += one.output_tokens
        one.turn, one.epoch, one.resets_seen = self.turn, self.resets, self.resets_seen
        one.changes_seen, one.works_seen = self.changes_seen, self.works_seen
        one.calls_seen = self.calls_seen
        one.input_tokens_total, one.output_tokens_total = self.input_total, self.output_total
        one.input_tokens_sum, one.output_tokens_sum = agent.input_sum, agent.output_sum

    def _wait(self, one: SingleTurn, agent: _Agent) -> None:
        """Count waits, and set whether a call is a poll, as `counters._polls` does."""
        how, wait_ns = self.how, self.how.poll_wait_s * NS_PER_S
        waits = one.pauses or (self.end_ns is not None and one.start_ns - self.end_ns >= wait_ns)
        seen: _Seen | None = None
        between_ns = 0
        if agent.epoch != self.resets:
            agent.epoch, agent.calls, agent.waits_ns = self.resets, (), None
        is_call = one.kind == _TOOL and not one.pauses
        one.relapses = is_call and one.failed and agent.last_went_well(one)
        if is_call:
            looks = one.only_reads or one.unfinished or one.watches
            seen = agent.last_equal(one)
            quiet = looks or (seen is not None and not one.failed and not one.tests_failed > 0)
            agent.doing += not quiet
            if not quiet or (seen is not None and seen.doing != agent.doing):
                seen = None
            if seen is not None:
                between_ns = one.end_ns - seen.end_ns
                pending = one.unfinished or one.watches
                waits = waits or (pending and between_ns >= how.pending_wait_s * NS_PER_S)
                grows = between_ns >= max(BACK_OFF * seen.gap_ns, NS_PER_S)
                waits = waits or (looks and grows and seen is agent.calls[0] and seen.gap_ns > 0)
            waits = waits or (quiet and one.end_ns - one.start_ns >= wait_ns)
        self.waits_seen += waits
        one.waits_seen = self.waits_seen
        one.polls = one.pauses or (seen is not None and self.waits_seen > seen.waits_seen)
        if agent.since_ns is None or (is_call and seen is None):
            agent.since_ns = one.end_ns
        since_ns = agent.since_ns
        usual_ns = OVER_USUAL * self.usual_ns.get(one.name, 0)
        one.overdue_ns = max(one.end_ns - since_ns - usual_ns, 0) if one.polls else 0
        if is_call:
            self._end_wait(one, agent)
            agent.waits_ns = since_ns if one.polls else None
            agent.tool = one.name
            # The pauses of a back-off lie between calls in a row.
            gap_ns = between_ns if agent.calls[:1] == (seen,) else 0
            ended = one.end_ns, gap_ns, agent.doing, one.waits_seen, one.failed
            agent.calls = (_Seen(one.call, one.outcome, *ended), *agent.calls[: CALLS_COMPARED - 1])

    def _end_wait(self, one: SingleTurn, agent: _Agent) -> None:
        """Keep how long a wait took that ended with this call, as `counters._usual_ns` does."""
        if one.polls or agent.waits_ns is None or agent.tool != one.name:
            return
        took_ns = max(one.end_ns - agent.waits_ns, self.usual_ns.get(one.name, 0))
        self.usual_ns = {**self.usual_ns, one.name: took_ns}

    def _progress(self, one: SingleTurn, epoch: _Epoch) -> bool:
        """Count figures and improvements; return whether there was progress."""
        failing, coverage, markers = one.tests_failed, one.coverage, one.markers > 0
        fewer = more = compares = gains = False
        one.measured = UNKNOWN
        if not (isnan(failing) and isnan(coverage)):
            one.measured = _ANY_CALL if one.call == UNKNOWN else one.call
            best = epoch.best.setdefault(one.measured, _Best())
            ever = epoch.best.setdefault(_EVERY_CALL, _Best())
            fewer = failing < best.tests_failed or failing < ever.tests_failed
            more = coverage > best.coverage or coverage > ever.coverage
            compares = not isnan(failing + best.tests_failed)
            compares = compares or not isnan(coverage + best.coverage)
            compares = compares and not failing <= 0
            passes = failing == 0
            gains = fewer or more or passes
            ever.add(failing, coverage)
            if passes:  # Later figures are compared only with figures from here on.
                epoch.best[one.measured] = _Best()
            else:
                best.add(failing, coverage)
        own = self._own_improves(one, epoch)
        improves = fewer or more or markers or own
        for metric, better in zip(METRICS, (fewer, more, markers), strict=True):
            epoch.improved[metric] += better
        epoch.improvements += improves
        epoch.figures += compares
        if gains:
            epoch.figures_before = epoch.figures
        one.improvements, one.figures_compared = epoch.improvements, epoch.figures
        one.turns_since_best = epoch.figures - epoch.figures_before
        one.turns_since_best_before = epoch.figures_before
        return improves

    def _own_improves(self, one: SingleTurn, epoch: _Epoch) -> bool:
        """Count the best own figures of a phase; return whether this is one."""
        if one.phase == UNKNOWN or not self.how.converging:
            return False
        text, metrics = one.source[AT["phase"]], one.source[AT["metrics"]]
        figure = own_figure(text, metrics, self.how.converging)
        count, best = epoch.own.get(one.phase, (0, nan))
        is_better = figure > best
        best = figure if isnan(best) or is_better else best
        epoch.own[one.phase] = count + is_better, best
        return is_better

    def _try(self, one: SingleTurn, epoch: _Epoch, *, improves: bool) -> None:
        """Count the tries since the last progress."""
        attempt = one.kind == _ATTEMPT
        own = one.own and not one.twin_signature and not one.twin
        progress = improves or one.works or (attempt and one.status == _DONE)
        if attempt and one.outcome != UNKNOWN:
            progress = progress or one.outcome != epoch.work
            epoch.work = one.outcome
        epoch.steps += one.kind not in (_USER, _SWITCH)
        epoch.errors += own
        if one.kind == _TOOL and not one.failed:
            epoch.errors_before = epoch.errors
        epoch.tries += own or attempt or one.kind == _PROGRESS
        if progress:
            epoch.tries_before = epoch.tries
        one.busy_ns, one.steps = epoch.busy_ns, epoch.steps
        one.errors, one.errors_before = epoch.errors - epoch.errors_before, epoch.errors_before
        one.tries_since_progress = epoch.tries - epoch.tries_before
        one.tries_since_progress_before = epoch.tries_before

    def _phase(self, one: SingleTurn, epoch: _Epoch, *, begins: bool) -> None:
        """Count visits and transitions, as `phases.count_phases` does."""
        phase, before = one.phase, epoch.phase
        one.phase_before, one.phase_before_text = before, epoch.phase_text
        one.enters, one.visits, one.transitions_seen, one.converging = False, 0, 0, 0
        if phase == UNKNOWN:
            return
        text = one.source[AT["phase"]]
        epoch.phase, epoch.phase_text = phase, text
        if convergence := self.how.converging.get(text):
            one.converging = epoch.improved.get(convergence.metric, 0)
            if convergence.better:
                one.converging, _ = epoch.own[phase]
        left, epoch.converging = epoch.converging, one.converging
        declared = not begins and self.end_ns is not None and one.phase_start_ns >= self.end_ns
        one.enters = one.kind != _USER and (phase != before or declared)
        visit, way = (phase, one.converging), (phase, one.converging, before, left)
        one.visits = epoch.visits[visit] = epoch.visits.get(visit, 0) + one.enters
        is_known = one.enters and before != UNKNOWN
        one.transitions_seen = epoch.transitions.get(way, 0) + is_known
        epoch.transitions[way] = one.transitions_seen


def _copy(counts: T) -> T:
    """Return a copy of an object with slots; `copy.copy` takes three times as long."""
    kind = type(counts)
    other = kind.__new__(kind)
    for name in kind.__slots__:  # type: ignore[attr-defined]
        setattr(other, name, getattr(counts, name))
    return other
