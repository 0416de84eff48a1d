"""Gates: the events of each loop, which are the same in batch, live and after a restart."""

import random
from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looptrace.analyzer.detect.counters import DAY_S
from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.engine.batch import Detection, detect
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.attempts.blocked_task_spin import BlockedTaskSpin
from looptrace.rules.attempts.degradation import Degradation
from looptrace.rules.attempts.no_measurable_progress import NoMeasurableProgress
from looptrace.rules.attempts.no_progress_repeat import NoProgressRepeat
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.calls.repeated_failure import RepeatedFailure
from looptrace.rules.calls.signature_repeat import SignatureRepeat
from looptrace.rules.contract import Rule, Rung
from looptrace.rules.guards.consecutive_errors import ConsecutiveErrors
from looptrace.rules.guards.max_iterations import MaxIterations
from looptrace.rules.guards.max_runtime import MaxRuntime
from looptrace.rules.responses.response_repeat import ResponseRepeat
from looptrace.rules.vocabulary import NS_PER_S
from tests.analyzer.engine.test_live import overrides, step, table
from tests.drivers import resting, ruleset
from tests.seeds import seed_count

requirement = pytest.mark.requirement
EVENTS_MAX = 10  # of one loop, however long

SAME_RESPONSE = 'say("No way.", given=error)'


def told(text: str, *rules: Rule, recovery: Recovery | None = None) -> list[GateEvent]:
    """Return the events of turns in the notation; batch and live must agree."""
    judging = ruleset(rules or None)
    recovery = recovery or Recovery()
    turns = turns_in(text)
    judged = detect(turns, DetectionPolicy(judging, recovery))
    for seed in (None, 1, 2):
        assert in_turn(turns, judging, recovery, seed) == judged.events
    return list(judged.events)


def in_turn(
    turns: pl.DataFrame, judging: RuleSet, recovery: Recovery, seed: int | None
) -> tuple[GateEvent, ...]:
    """Feed a live engine in order, one at a time or in sizes that a seed chooses."""
    turns = turns.sort("order_ns", maintain_order=True)
    sizes = random.Random(seed)
    engine, start, events = LiveEngine(DetectionPolicy(judging, recovery)), 0, list[GateEvent]()
    while start < turns.height:
        size = 1 if seed is None else sizes.randint(1, 12)
        with resting(at_once=seed == 1):
            events += engine.feed(turns[start : start + size]).events
        start += size
    return tuple(sorted(events, key=lambda event: event.task))


def brief(events: list[GateEvent]) -> list[str]:
    """Return the events in short form: type and turn."""
    return [f"{event.action or event.type} {event.turn}" for event in events]


@requirement("A3")
def test_a_loop_warns_and_then_opens_a_gate() -> None:
    """The ladder of the rule decides when, and no event follows the gate."""
    events = told("run(a)->same x9", RepeatedCall())

    assert brief(events) == ["warn 3", "gate 4"]
    assert [event.loop_count for event in events] == [2, 3]
    assert events[1].status == "paused_for_intervention"
    assert events[1].reason == "run(a) gave the same result 4 times, turns 1–4"


@requirement("D4")
@requirement("A5")
def test_a_person_resolves_a_gate() -> None:
    """A message resolves the gate and resets the counter; the next loop has its own events."""
    events = told('run(a)->same x6 user("Use b.") run(a)->same x3', RepeatedCall())

    assert brief(events) == ["warn 3", "gate 4", "gate_resolved 6", "counter_reset 6", "warn 9"]
    assert events[2].gate == events[1].gate
    assert events[2].note == "Use b."
    assert events[3].loop_count == 3
    assert events[3].status == "active"


@requirement("A5")
def test_completion_resets_and_says_so() -> None:
    """A completed task begins a new count, and the event has the count before."""
    events = told('test()->!"boom" x2 attempt(done) test()->!"boom" x2')
    assert events == []

    events = told("run(a)->same x3 attempt(done) run(a)->same x3", RepeatedCall())
    assert brief(events) == ["warn 3", "counter_reset 5", "warn 7"]
    assert (events[1].reason, events[1].loop_count) == ("completed", 2)


@requirement("A6")
def test_a_task_idle_for_a_day_begins_anew() -> None:
    """What was counted before the pause is dropped; a gate waits for a person however long."""
    call = "run(a)->same"

    assert brief(told(f"{call} x3 ~90000 {call} {call} x2", RepeatedCall())) == [
        "warn 3",
        "counter_reset 4",
        "warn 6",
    ]
    assert told(f"{call} x2 ~90000 {call} {call}", RepeatedCall()) == []
    gated = told(f"{call} x5 ~90000 {call} {call} x4", RepeatedCall())
    assert brief(gated) == ["warn 3", "gate 4"]


@requirement("E2")
@requirement("E3")
@requirement("E4")
def test_two_pivots_and_then_a_gate() -> None:
    """After a pivot counts begin again, and the one beyond max_pivots is a gate."""
    events = told(f"{SAME_RESPONSE} x12", ResponseRepeat())

    assert brief(events) == ["pivot 3", "pivot 6", "gate 9"]
    assert [event.pivots for event in events] == [1, 2, 2]
    assert events[2].why == "MAX_PIVOTS_EXCEEDED"
    assert events[2].status == "paused_for_intervention"


@requirement("A5")
@requirement("E3")
def test_a_reset_tells_the_pivots_before_it() -> None:
    """Also where the loop has come no further since the last pivot."""
    events = told(f'{SAME_RESPONSE} x3 user("Go on.") {SAME_RESPONSE} x3', ResponseRepeat())

    assert brief(events) == ["pivot 3", "counter_reset 3", "pivot 6"]
    assert [event.pivots for event in events] == [1, 1, 1]


@requirement("E4")
def test_without_pivots_the_first_loop_is_a_gate() -> None:
    """With max_pivots 0 there is nothing to try before a person decides."""
    events = told(f"{SAME_RESPONSE} x12", ResponseRepeat(), recovery=Recovery(max_pivots=0))

    assert brief(events) == ["gate 3"]


@requirement("E5")
def test_success_ends_the_entropy_and_a_pause_all_directives() -> None:
    """Other news in between begins a new count; a paused task gets no events."""
    twice = f"{SAME_RESPONSE} x2"
    assert told(f'{twice} say("Fixed.", given=ok) {twice}', ResponseRepeat()) == []

    both = (ResponseRepeat(), RepeatedCall())
    events = told(f"run(a)->same x5 {SAME_RESPONSE} x9", *both)
    assert brief(events) == ["warn 3", "gate 4"]


@requirement("B3")
@requirement("B5")
def test_authority_is_granted_once_and_then_a_person_decides() -> None:
    """The loop goes on after the authority, so that the task is blocked."""
    events = told("attempt(blocked, no key) x6")

    assert brief(events) == ["unblock_authority 3", "gate 4"]
    assert events[0].blockers == ("no key",)
    assert (events[1].why, events[1].status) == ("UNBLOCKING_FAILED", "blocked")


@requirement("B5")
def test_without_unblocking_the_first_block_is_a_gate() -> None:
    """A conservative team decides itself."""
    events = told("attempt(blocked, no key) x6", recovery=Recovery(unblock=False))

    assert brief(events) == ["gate 3"]
    assert events[0].why == "UNBLOCKING_OFF"


@requirement("B2")
def test_a_done_task_is_left_behind() -> None:
    """The history is cleared; an agent that comes back again and again is stopped."""
    events = told("attempt(done) x12")

    assert brief(events) == ["force_next 3", "force_next 6", "gate 9"]
    assert events[2].why == "MAX_FORCED_EXCEEDED"


@requirement("F2")
def test_a_loop_goes_on_over_completions() -> None:
    """Attempts at a task that is done are one loop, also where the first of them are settled."""
    events = told("(~100 attempt(done)) x8", recovery=Recovery(max_forced=9))

    assert brief(events) == ["force_next 3", "force_next 6"]


@requirement("A10")
def test_failures_of_the_outside_wait_longer_each_time() -> None:
    """The advice is repeated when the wait is over; after half an hour there is a gate."""
    events = told('(~59 fetch(a)->!"429 Too Many Requests") x40')

    assert [e.retry_after_s for e in events if e.action == "retry_later"] == [
        60,
        120,
        240,
        480,
        960,
    ]
    assert brief(events)[-1] == "gate 31"


@requirement("A4")
def test_subtasks_share_the_counters_of_their_root() -> None:
    """A fails twice in one sub-task, B once in another: that is 3."""
    events = told('@A $one test()->!"boom" x2 @B $two test()->!"boom"')

    assert brief(events) == ["gate 3"]


@requirement("A1")
def test_a_gate_shows_the_last_failures() -> None:
    """Ten at the most, and none from before the last reset."""
    events = told('user("Go.") test({n})->!"boom" x15', recovery=Recovery(history_max=10))
    gate = next(event for event in events if event.type == "gate_opened")

    assert [failure.turn for failure in gate.history] == list(range(1, gate.turn + 1))
    events = told('test()->!"a {n}" x20 test()->!"boom" x3', RepeatedFailure())
    gate = next(event for event in events if event.type == "gate_opened")
    assert [failure.turn for failure in gate.history] == list(range(14, 24))


@requirement("A6")
def test_the_history_of_a_slow_task_is_kept() -> None:
    """Failures that are long settled are still shown, as many as were asked for."""
    slow = '(~200 test()->!"a {n}") x25 test()->!"boom" x3'
    events = told(slow, RepeatedFailure(), recovery=Recovery(history_max=20))

    assert [failure.turn for failure in events[-1].history] == list(range(9, 29))


@requirement("F4")
def test_a_ladder_is_configuration() -> None:
    """Warn → pivot → gate by settings alone."""
    ladder = (Rung(2, "warn"), Rung(4, "pivot"), Rung(6, "gate"))
    rule = RepeatedCall(attempts_min=2, ladder=ladder)

    assert brief(told("run(a)->same x30", rule)) == ["warn 2", "pivot 4", "gate 6"]


@requirement("F4")
@requirement("E2")
def test_the_count_of_a_ladder_goes_on_after_a_pivot() -> None:
    """A rung names attempts of the loop, and the next pivot those since the last one."""
    rule = RepeatedCall(ladder=(Rung(3, "pivot"), Rung(8, "gate")))
    events = told("run(a)->same x30", rule)

    assert brief(events) == ["pivot 3", "pivot 6", "gate 8"]
    assert [event.attempts for event in events] == [3, 6, 8]
    assert [event.entropy_count for event in events] == [3, 3, 2]
    assert [event.why for event in events] == [None, None, "LADDER"]


@requirement("E3")
def test_a_pivot_counts_for_all_loops_of_its_task() -> None:
    """Two rules that see one loop ask for one pivot, and the agent has time to follow it."""
    rules = (ResponseRepeat(), RepeatedCall(ladder=(Rung(3, "pivot"),)))
    step = f"run(a)->same {SAME_RESPONSE}"

    assert brief(told(f"({step}) x12", *rules)) == ["pivot 5", "pivot 10", "gate 15"]


@requirement("A9")
def test_figures_that_get_worse_once_more_open_a_gate() -> None:
    """At the third a pivot, at the fourth a person, as the page of the rule says."""
    assert brief(told("progress(tests_failed={n}) x6", Degradation())) == ["pivot 3", "gate 4"]


@requirement("F4")
def test_the_strongest_of_a_turn_is_told_first() -> None:
    """The order is that of the actions and not of the alphabet; a gate is the only event."""
    pivot, warn = (Rung(3, "pivot"),), (Rung(3, "warn"),)
    blocked = BlockedTaskSpin()
    text = "attempt(blocked, no key)->page x3"
    weaker = told(text, blocked, NoProgressRepeat(ladder=warn))
    assert brief(weaker) == ["unblock_authority 3", "warn 3"]
    forced = told(text, blocked, NoProgressRepeat(ladder=(Rung(3, "force_next"),)))
    assert brief(forced) == ["unblock_authority 3", "force_next 3"]
    call = "run(a)->same"
    both = told(f"{call} x3", RepeatedCall(ladder=warn), SignatureRepeat(ladder=pivot))
    assert brief(both) == ["pivot 3", "warn 3"]
    stop = SignatureRepeat(ladder=(Rung(3, "gate"),))
    gate = told(f"{call} x3", RepeatedCall(ladder=pivot), stop)
    assert brief(gate) == ["gate 3"]


@requirement("C5")
def test_guards_are_asked_in_their_order() -> None:
    """Of what is as strong, max_iterations comes first, then max_runtime, loops, then errors."""
    rules = (
        ConsecutiveErrors(max_errors=2),
        RepeatedFailure(),
        MaxRuntime(max_runtime_s=60),
        MaxIterations(max_iterations=2),
    )
    text = '(~59 test()->!"boom") x3'
    opened = [told(text, *rules[:count])[0].rule for count in range(1, len(rules) + 1)]
    assert opened[::-1] == [
        "max_iterations",
        "max_runtime",
        "repeated_failure",
        "consecutive_errors",
    ]


@requirement("B2")
def test_an_order_to_move_on_clears_what_every_rule_has_counted() -> None:
    """The calls before it are of the task that was left, also where they are long settled."""
    rules = (RepeatedCall(), NoProgressRepeat(ladder=(Rung(3, "force_next"),)))
    work = "attempt(pending)->page"
    for pause in ("", "~300 "):
        text = f"run(a)->!boom x3 {work} x3 {pause}run(a)->!boom x5"
        assert brief(told(text, *rules)) == ["warn 3", "force_next 6", "warn 9", "gate 10"]


@requirement("A15")
def test_a_loop_of_the_task_that_one_agent_did_names_it() -> None:
    """The person on call for an agent hears of its gates; a loop of several agents has no agent."""
    alone = told('@A test()->!"boom" x3', RepeatedFailure())
    several = told('@A test()->!"boom" x2 @B test()->!"boom" @A test()->!"boom"', RepeatedFailure())

    assert [event.agent for event in alone] == ["A"]
    assert [event.agent for event in several] == [""]


@requirement("B4")
def test_a_warning_becomes_an_order() -> None:
    """3 attempts with the same work warn, 5 force the next task."""
    events = told("attempt(pending)->page x5", NoProgressRepeat())

    assert brief(events) == ["warn 3", "force_next 5"]


@requirement("B4")
def test_each_work_that_repeats_is_warned_of() -> None:
    """A warning of one loop of attempts does not swallow that of the next, which is another."""
    events = told(
        "attempt(pending)->page x3 attempt(pending)->form x3 attempt(pending)->page x3",
        NoProgressRepeat(),
    )

    assert brief(events) == ["warn 3", "warn 6"]
    assert [event.signature for event in events] == ["pending:page", "pending:form"]


@requirement("B4")
def test_what_has_no_signature_is_warned_of_by_each_rule() -> None:
    """Figures have none; that they get worse and that nothing gets better are two warnings."""
    ladder = (Rung(3, "warn"),)
    rules = (Degradation(ladder=ladder), NoMeasurableProgress(attempts_min=4, ladder=ladder))
    events = told("progress(tests_failed={n}) x6", *rules)

    assert {event.rule for event in events} == {"degradation", "no_measurable_progress"}


@requirement("B3")
def test_authority_for_one_blocker_does_not_count_for_another() -> None:
    """What an agent may do about a missing key says nothing of missing rights."""
    text = "attempt(blocked, no key) x3 attempt(blocked, no rights) x4"
    events = told(text, BlockedTaskSpin())

    assert brief(events) == ["unblock_authority 3", "unblock_authority 6", "gate 7"]
    assert events[1].blockers == ("no rights",)


@pytest.mark.parametrize(
    "text",
    [
        "run(a)->same x2000",
        f"{SAME_RESPONSE} x2000",
        "(create(a)->exists remove(a)->ok) x1000",
        'test({n})->!"boom" x2000',
        "attempt(done) x2000",
        'fetch(a)->!"429 Too Many Requests" x2000',
    ],
)
def test_a_long_loop_opens_one_gate(text: str) -> None:
    """However long it is, it has a few events and one gate."""
    events = detect(turns_in(text)).events

    assert len(events) <= EVENTS_MAX
    assert sum(event.type == "gate_opened" for event in events) <= 1


def assert_sound(judged: Detection) -> None:
    """Assert what holds for any turns and settings."""
    findings = {finding.id for finding in judged.findings}
    open_gate: dict[str, str] = {}
    for event in judged.events:
        if event.type == "gate_resolved":
            assert open_gate.pop(event.task) == event.gate
        elif event.type != "counter_reset":
            assert event.task not in open_gate
            assert event.finding in findings
        if event.type == "gate_opened":
            open_gate[event.task] = event.gate
        assert min(event.attempts, event.loop_count, event.pivots) >= 0
    assert max(Counter(event.id for event in judged.events).values(), default=1) == 1
    assert {s.task: s.gate.id for s in judged.states if s.gate} == open_gate


@settings(max_examples=seed_count(80))
@given(
    st.lists(step, min_size=1, max_size=80),
    st.integers(0, 2**32),
    st.just(()) | st.lists(overrides(), max_size=2).map(tuple),
)
@requirement("F2")
def test_batch_and_live_tell_the_same(
    steps: list[dict[str, Any]], seed: int, changes: tuple[Override, ...]
) -> None:
    """Whatever the sizes of the batches and the overrides; and the events are sound."""
    turns, recovery, judging = table(steps), Recovery(max_pivots=1), RuleSet(overrides=changes)
    judged = detect(turns, DetectionPolicy(judging, recovery))

    assert_sound(judged)
    assert in_turn(turns, judging, recovery, seed) == judged.events


@settings(max_examples=60)
@given(st.lists(step, min_size=1, max_size=80), st.integers(0, 2**32))
def test_a_restart_tells_nothing_twice(steps: list[dict[str, Any]], seed: int) -> None:
    """An engine that is fed the turns once more has the same events and states."""
    turns = table(steps).sort("order_ns", maintain_order=True)
    cut = random.Random(seed).randint(0, turns.height)
    judged = detect(table(steps))
    first = LiveEngine()
    before = first.feed(turns[:cut]).events
    second = LiveEngine()
    again = second.feed(turns[:cut]).events
    after = second.feed(turns[cut:])
    states: dict[str, TaskState] = {state.task: state for state in after.states}

    assert before == again
    assert {e.id for e in (*before, *after.events)} == {e.id for e in judged.events}
    assert all(states[s.task] == s for s in judged.states if s.task in states)


@requirement("A6")
def test_idle_tasks_are_forgotten() -> None:
    """A day after their last turn nothing is held of them, unless a person must still decide."""
    engine = LiveEngine(DetectionPolicy(ruleset([RepeatedCall()])))
    engine.feed(turns_in("run(a)->same x3"))
    last_s = 3

    assert engine.forget((last_s + DAY_S - 1) * NS_PER_S) == 0
    assert engine.forget((last_s + DAY_S + 1) * NS_PER_S) == 1
    assert (engine.kept, engine.findings()) == (0, [])
    engine.feed(turns_in("run(a)->same x5"))
    assert engine.forget((last_s + 9 * DAY_S) * NS_PER_S) == 0
    assert engine.kept > 0


@requirement("A6")
def test_a_forgotten_task_goes_on_as_in_batch() -> None:
    """The turns after the pause have the same events as if nothing had been forgotten."""
    turns = turns_in("run(a)->same x3 ~90000 run(a)->same run(a)->same x5")
    engine = LiveEngine()
    events = engine.feed(turns[:3]).events
    engine.forget(turns["end_ns"][2] + (DAY_S + 1) * NS_PER_S)
    events += engine.feed(turns[3:]).events
    ids = {event.id for event in detect(turns).events if event.type != "counter_reset"}

    assert {event.id for event in events} == ids
