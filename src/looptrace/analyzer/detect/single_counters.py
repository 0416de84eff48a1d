"""One turn after the other: the counts of a task, as `counters` makes them for tables of turns.

Live, turns come one at a time. Each is counted from what is held of its task: a few numbers of the
task, of each agent, and of the time since the last reset. The counts are the same as in batch, and
the tests that compare batch and live check them, too. It is long because most counts need others.
"""

from __future__ import annotations

from math import isnan, nan
from typing import NamedTuple, TypeVar

from looptrace.analyzer.detect.counters import (
    BACK_OFF,
    CALLS_COMPARED,
    RESETS,
    REST_S,
    STEP_CALLS_MAX,
    Counting,
)
from looptrace.analyzer.detect.persons import PERSONS, SPEAKERS, speaker_of
from looptrace.analyzer.detect.phases import METRICS, own_figure
from looptrace.analyzer.detect.single_columns import NEVER_NS, SingleTurn
from looptrace.analyzer.schema.turns import AT
from looptrace.bounded_dict import BoundedDict
from looptrace.rules.turns import KINDS, STATUSES, TWINS, UNKNOWN, Twin
from looptrace.rules.vocabulary import NS_PER_S

_TOOL, _MODEL, _ATTEMPT, _PROGRESS, _SWITCH, _USER = (
    KINDS.index(kind) for kind in ("tool", "model", "attempt", "progress", "switch", "user")
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
    between_ns: int  # since the equal call before it, if nothing was done in between; else 0
    doing: int  # calls of the agent that did more than look, up to it
    waits_seen: int
    failed: bool


class _Agent:
    """The counts of one agent in its task."""

    __slots__ = ("calls", "doing", "epoch", "input_sum", "output_sum", "since_ns")

    def __init__(self) -> None:
        self.input_sum = self.output_sum = 0
        self.since_ns: int | None = None  # end of its last call that did or showed something new
        self.epoch = self.doing = 0
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
        *("agents", "alone", "attempt_trace", "calls_seen", "changes_seen", "done", "end_ns"),
        *(
            "epoch",
            "how",
            "asked_in",
            "parallel",
            "step",
            "step_calls",
            "input_total",
            "messages",
            "output_total",
            "resets",
            "resets_seen",
        ),
        *("steps", "trace", "turn", "waits_seen", "works_seen"),
    )

    def __init__(self, how: Counting) -> None:
        self.how = how
        self.turn = self.resets = self.resets_seen = 0
        self.waits_seen = self.changes_seen = self.calls_seen = self.works_seen = 0
        self.input_total = self.output_total = 0
        self.end_ns: int | None = None  # of the turn before, with what else is needed of it
        self.trace = UNKNOWN
        self.done = False
        # The calls of the last parallel step and of the last response, in each sense of `TWINS`.
        self.parallel: frozenset[tuple[Twin, int, object]] = frozenset()
        self.alone: frozenset[tuple[Twin, int, object]] = frozenset()
        self.asked_in: int | None = None  # trace of the response before the calls
        self.step, self.step_calls = UNKNOWN, 0
        self.attempt_trace: int | None = None  # of the last attempt
        self.messages: BoundedDict[int, None] | None = None  # the words of earlier ones
        self.agents: dict[int, _Agent] = {}
        self.epoch: _Epoch | None = None
        self.steps: dict[int, int] = {}  # place of each parallel step among turns that may move

    def copy(self) -> SingleCounters:
        """Return a copy that is counted on separately."""
        other = _copy(self)
        if self.messages is not None:
            other.messages = BoundedDict(self.messages.count_max)
            other.messages.update(self.messages)
        other.agents = {code: _copy(agent) for code, agent in self.agents.items()}
        other.steps = dict(self.steps)
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
            self.epoch.busy_ns += one.end_ns - self.end_ns - rest_ns
        agent = self.agents.get(one.agent)
        if agent is None:
            agent = self.agents[one.agent] = _Agent()
        self._number(one, agent)
        self._wait(one, agent)
        self._pair_up(one)
        improves = self._progress(one, self.epoch)
        self._try(one, self.epoch, improves=improves)
        self._phase(one, self.epoch, begins=begins)
        if one.kind in (_ATTEMPT, _SWITCH):
            self.attempt_trace = one.trace
        is_done = one.kind == _ATTEMPT and one.status == _DONE
        self.done = is_done and one.subtask == UNKNOWN
        self.end_ns, self.trace = one.end_ns, one.trace

    def _speak(self, one: SingleTurn) -> None:
        """Set the author of a message, as `persons.speakers_of` does."""
        one.speaker = UNKNOWN
        if one.kind != _USER:
            return
        persons = self.how.persons
        if self.messages is None:
            self.messages = BoundedDict(persons.messages_kept)
        attempted = self.attempt_trace is not None and self.attempt_trace == self.trace
        again = one.call in self.messages
        speaker = speaker_of(persons, has_id=one.has_id, again=again, attempted=attempted)
        one.speaker = SPEAKERS.index(speaker) + 1
        if not one.has_id and one.call != UNKNOWN:
            self.messages.pop(one.call, None)  # The newest message is forgotten last.
            self.messages[one.call] = None

    def _reset(self, one: SingleTurn) -> bool:
        """Set why counts start again at a turn, and return whether they do."""
        one.reset = _COMPLETED if self.done else UNKNOWN
        pause_ns = self.how.run_pause_s * NS_PER_S
        if one.speaker == _SAME and self.end_ns is not None:
            one.reset = _RUN if one.start_ns - self.end_ns >= pause_ns else one.reset
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
            agent.epoch, agent.calls = self.resets, ()
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
                grows = between_ns >= max(BACK_OFF * seen.between_ns, NS_PER_S)
                waits = waits or (looks and grows and seen.between_ns > 0)
            waits = waits or (quiet and one.end_ns - one.start_ns >= wait_ns)
        self.waits_seen += waits
        one.waits_seen = self.waits_seen
        one.polls = one.pauses or (seen is not None and self.waits_seen > seen.waits_seen)
        if agent.since_ns is None or (is_call and seen is None):
            agent.since_ns = one.end_ns
        one.waited_ns = one.end_ns - agent.since_ns if one.polls else 0
        if is_call:
            ended = one.end_ns, between_ns, agent.doing, one.waits_seen, one.failed
            agent.calls = (_Seen(one.call, one.outcome, *ended), *agent.calls[: CALLS_COMPARED - 1])

    def _pair_up(self, one: SingleTurn) -> None:
        """Set `TWINS`, as `counters._twins` does."""
        one.twin = one.twin_signature = one.twin_failure = one.twin_external = False
        if one.kind != _TOOL:
            self.asked_in = one.trace if one.kind == _MODEL else None
            self.alone, self.step_calls = frozenset(), 0
        if one.step != self.step:
            self.step, self.parallel = one.step, frozenset()
        first_ns = self.steps.setdefault(one.step, one.order_ns) if one.step else NEVER_NS
        if one.kind != _TOOL:
            return
        is_parallel = one.step != UNKNOWN and one.order_ns == first_ns
        if not is_parallel:
            if self.asked_in != one.trace:
                return
            self.step_calls += 1
            if self.step_calls > STEP_CALLS_MAX:
                return
        call = (one.call, one.outcome) if one.call and one.outcome else UNKNOWN
        failure = one.mendable if one.error == UNKNOWN else one.error
        codes = zip(TWINS, (call, one.signature, failure, int(one.external)), strict=True)
        mine = {(name, one.agent, code) for name, code in codes if code != UNKNOWN}
        seen = self.parallel if is_parallel else self.alone
        for name, _, _ in mine & seen:
            setattr(one, name, True)
        if is_parallel:
            self.parallel = seen | mine
        else:
            self.alone = seen | mine

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
