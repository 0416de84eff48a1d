"""Lines of the requirements, by their numbers, that no other test proves; and the page itself."""

import re
from collections import Counter

import pytest

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.calls.repeated_failure import RepeatedFailure
from looptrace.rules.contract import Rule
from looptrace.rules.phases.phase_visits import PhaseVisits
from looptrace.rules.phases.transition_repeats import TransitionRepeats
from looptrace.rules.registry import RULES, default_rules
from tests.drivers import batch
from tests.requirement_table import PAGE, lines, proofs

requirement = pytest.mark.requirement
RULE_OF = {rule.name: rule for rule in RULES}
DAY_S = 86_400


def found(text: str, rule: Rule | str) -> list[Finding]:
    """Judge turns in the notation by one rule, by default with its defaults."""
    return batch(turns_in(text), [RULE_OF[rule]() if isinstance(rule, str) else rule])


@requirement("A2")
@requirement("A3")
def test_second_identical_failure_is_one_repeat() -> None:
    """The second identical failure has attempts 2 and loop_count 1."""
    (finding,) = found('test()->!"boom" x2', RepeatedFailure(attempts_min=2))

    assert (finding.attempts, finding.loop_count) == (2, 1)


@requirement("A3")
def test_third_unresolved_failure_opens_the_gate() -> None:
    """The default gate for repeated failures opens at attempts 3, and not before."""
    assert found('test()->!"boom" x2', "repeated_failure") == []
    assert [f.action for f in found('test()->!"boom" x3', "repeated_failure")] == ["gate"]


@requirement("A2")
def test_a_failure_is_compared_with_the_last_ten() -> None:
    """The failure eleven failures ago is out of the window."""
    ten = 'test()->!"boom" lint()->!"style {n}" x8 '
    eleven = 'test()->!"boom" lint()->!"style {n}" x9 '
    rule = RepeatedFailure(attempts_min=2)

    assert len(found(f'{ten} test()->!"boom"', rule)) == 1
    assert found(f'{eleven} test()->!"boom"', rule) == []


@requirement("A4")
def test_counters_survive_a_change_of_agent() -> None:
    """A fails twice, B once: that is 3."""
    (finding,) = found('@A test()->!"boom" x2 @B test()->!"boom"', "repeated_failure")

    assert finding.attempts == 3


@requirement("A10")
def test_failures_of_the_outside_do_not_count() -> None:
    """A rate limit is not the agent's own failure."""
    assert found('fetch()->!"429 Too Many Requests" x9', "repeated_failure") == []


@requirement("A11")
def test_intermittent_failures_are_no_loop_by_message() -> None:
    """Another message each time is another failure."""
    assert found('test()->!"boom {n}" x9', "repeated_failure") == []


@requirement("A12")
def test_fourth_request_opens_the_gate() -> None:
    """A collaboration loop's gate opens at loop_count 3, the fourth request; a day breaks it."""
    (finding,) = found('handoff(B, "Can you review this?") x4', "collaboration_loop")

    assert (finding.loop_count, finding.action) == (3, "gate")
    assert RULE_OF["collaboration_loop"]().settings()["gap_s"][0] == DAY_S


@requirement("A12")
def test_the_same_request_through_a_supervisor_warns() -> None:
    """Others that are asked in between, and what all of them answer, hide nothing."""
    text = '(handoff(B, "Can you review this?")->"Yes, {n}." handoff(C, "Sum up.")->"So {n}.") x5'
    (finding,) = found(text, "no_new_request")

    assert (finding.loop_count, finding.action) == (4, "warn")


@requirement("B2")
def test_done_three_times_forces_the_next_task() -> None:
    """At least 3 attempts in the last hour, all done."""
    assert [f.action for f in found("attempt(done) x3", "completed_task_revisit")] == ["force_next"]


@requirement("B3")
def test_same_blockers_three_times_ask_for_authority() -> None:
    """The last 3 attempts all blocked by the same set of blockers."""
    (finding,) = found("attempt(blocked, key) x3", "blocked_task_spin")

    assert finding.action == "unblock_authority"


@requirement("B4")
def test_same_work_warns_and_then_forces() -> None:
    """A warning at 3 attempts with the same completed work, the next task from 5 on."""
    for attempts, action in ((3, "warn"), (4, "warn"), (5, "force_next")):
        (finding,) = found(f"attempt(pending)->page x{attempts}", "no_progress_repeat")
        assert finding.action == action


@requirement("B6")
@pytest.mark.parametrize(
    "text",
    [
        "attempt(in_progress)->page{n} x9",
        "attempt(blocked, key{n})->page{n} x9",
        "(attempt(done)->page{n} attempt(pending)->part{n}) x9",
    ],
)
def test_active_work_is_never_flagged(text: str) -> None:
    """Different work, blockers or status in the window means no finding."""
    assert batch(turns_in(text)) == []


@requirement("C2")
def test_same_signature_three_times_in_a_row() -> None:
    """Two is a legitimate retry, three a finding."""
    assert found('load({n})->!"KeyError: x" x2', "signature_repeat") == []
    assert len(found('load({n})->!"KeyError: x" x3', "signature_repeat")) == 1


@requirement("C4")
@pytest.mark.parametrize(
    "text",
    [
        "edit(auth.ts, change {n})->ok x3",
        'test()->"3 failed" test()->"2 failed" test()->"1 failed"',
    ],
)
def test_what_is_not_a_loop(text: str) -> None:
    """Three different changes to one file; 3, then 2, then 1 failing tests."""
    assert batch(turns_in(text)) == []


@requirement("D1")
def test_phase_visits_message() -> None:
    """The message names the phase, the limit and the count."""
    rounds = '(#fix edit(a, {n})->ok #test test()->"{n}") x6'
    reasons = [f.reason for f in found(rounds, PhaseVisits(max_visits=5))]

    assert "Phase 'test' exceeded max_visits (5) with 6 visits, turns 12–12" in reasons


@requirement("D2")
def test_transition_repeats_message() -> None:
    """The message names the transition, the limit and the count."""
    rounds = '(#fix edit(a, {n})->ok #test test()->"{n}") x6'
    (finding,) = found(rounds, TransitionRepeats(max_transitions=5))

    message = "Transition fix→test exceeded max_transitions (5) with 6 occurrences"
    assert finding.reason == f"{message}, turns 12–12"


@requirement("E1")
def test_same_response_three_times_is_a_pivot() -> None:
    """The hash of the trimmed text is compared."""
    said = 'say("No way.", given=error) say(" No way. ", given=error) say("No way.", given=error)'

    assert [f.action for f in found(said, "response_repeat")] == ["pivot"]


@requirement("A4")
def test_a_loop_of_the_task_names_its_agent() -> None:
    """A loop that one agent made is that agent's; one that two made is nobody's alone."""
    one = found('@A test()->!"boom" x3', "repeated_failure")
    two = found('@A test()->!"boom" x2 @B test()->!"boom"', "repeated_failure")

    assert [finding.agent for finding in one + two] == ["A", ""]


@requirement("C3")
def test_outputs_that_are_almost_alike_are_an_option() -> None:
    """At least 90 % alike, against the last 5 outputs; off unless switched on."""
    said = "I looked at the failing login test{s} again and could not find the reason"
    text = " ".join(f'look({n})->"{said.format(s="s" * (n % 2))}"' for n in range(3))
    rule = RULE_OF["near_duplicate_output"]()
    values = {name: value for name, (value, _) in rule.settings().items()}

    assert len(found(text, rule)) == 1
    assert (values["similar_percent"], values["window"]) == (90, 5)
    assert rule not in default_rules()


def test_lines_are_numbered_without_a_gap() -> None:
    """An id that is taken twice, or dropped, would leave a test that proves another line."""
    ids = re.findall(r"^- \*\*(.*?)\*\*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    counts = Counter(line[0] for line in ids)

    assert ids == [f"{section}{n}" for section in "ABCDEF" for n in range(1, counts[section] + 1)]
    assert ids == list(lines())


def test_marks_and_lines_of_the_page_agree() -> None:
    """A mark must name a line; a line without a test must say that it is open, and no other may."""
    proved = {line for line, _ in proofs()}

    assert proved == {line for line, is_open in lines().items() if not is_open}
