"""Which gates a silence, an outage, an agent's process and a webhook take for theirs."""

from dataclasses import fields, replace

import pytest

from looptrace.analyzer.gates.agent_states import AgentState, keys_of, session_key
from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.silences import (
    MATCHER_CHARS_MAX,
    WHY_CHARS_MAX,
    Inhibition,
    Matchers,
    Silence,
    check_silence,
    incident_of,
    is_of_outage,
)
from looptrace.analyzer.settings.webhook import Webhook
from tests.analyzer.gates.test_event_names import event_of

OPENING = replace(event_of("gate_opened"), tools=("read", "edit"), signature="error", agent="ada")
WANTED = {
    "rule": "repeated_call",
    "tool": "edit",
    "agent": "ada",
    "service": "service",
    "incident": incident_of(OPENING),
}
HOOK = Webhook("pager", "https://pager.example/", secrets=("env:PAGER",))


def test_a_silence_is_for_what_has_all_of_its_fields() -> None:
    """One that matched more would hide a page that nobody meant."""
    assert WANTED.keys() == {each.name for each in fields(Matchers)}
    assert Matchers().matches(OPENING)
    assert Matchers(**WANTED).matches(OPENING)
    for name in WANTED:
        assert not Matchers(**WANTED | {name: "other"}).matches(OPENING)


@pytest.mark.parametrize(
    ("matchers", "why", "ends_ns", "error"),
    [
        (Matchers(tool="r"), "known", 11, None),
        (Matchers(tool="r" * MATCHER_CHARS_MAX), "w" * WHY_CHARS_MAX, 15, None),
        (Matchers(), "known", 11, "needs a rule, a tool"),
        (Matchers(tool="t" * (MATCHER_CHARS_MAX + 1)), "known", 11, "a matcher has more than 200"),
        (Matchers(rule="r"), " ", 11, "needs a reason"),
        (Matchers(rule="r"), "w" * (WHY_CHARS_MAX + 1), 11, "the reason has more than 1000"),
        (Matchers(rule="r"), "known", 10, "within 720 hours"),
        (Matchers(rule="r"), "known", 16, "within 720 hours"),
        (Matchers(rule="cycl"), "known", 11, "no rule 'cycl'. Did you mean cycle"),
    ],
)
def test_a_silence_of_everything_or_for_ever_is_refused(
    matchers: Matchers, why: str, ends_ns: int, error: str | None
) -> None:
    """Pages that nobody gets any more are found weeks later."""
    if error is None:
        check_silence(matchers, why, 10, ends_ns, 5)
    else:
        with pytest.raises(GateError, match=error):
            check_silence(matchers, why, 10, ends_ns, 5)


def test_an_outage_holds_back_the_loops_of_its_failures_alone() -> None:
    """A loop that also meets another failure is one that the outage's end does not end."""
    outage = Inhibition("o1", "error", frozenset({"session"}), 9, "timeouts")
    assert outage.causes(OPENING)
    assert not outage.causes(replace(OPENING, session="other"))
    assert not outage.causes(replace(OPENING, signature="other"))
    for who, made in ((outage.who, True), ("Ada", False), (None, False)):
        assert is_of_outage(Silence("s1", Matchers(), 0, 9, who)) == made


def test_a_process_follows_an_event_by_task_trace_and_session() -> None:
    """By the session alone only where the task is the session of one service."""
    named = replace(OPENING, task="session@service")
    keys = {"session@service", "older", OPENING.trace_id}
    assert keys_of(named, ["older"]) == keys | {session_key("session")}
    assert keys_of(OPENING) == {OPENING.task, OPENING.trace_id}
    assert [AgentState(state).has_ended for state in ("ended", "waits")] == [True, False]


@pytest.mark.parametrize(
    ("hook", "event", "wanted"),
    [
        (HOOK, OPENING, True),
        (replace(HOOK, escalations_only=True), OPENING, False),
        (replace(HOOK, agents=("ada",), rules=("repeated_call",)), OPENING, True),
        (replace(HOOK, agents=("ada",), rules=("cycle",)), OPENING, False),
        (replace(HOOK, agents=("bob",)), OPENING, False),
        (replace(HOOK, agents=("bob",)), replace(OPENING, agent=""), True),
        (replace(HOOK, agents=("bob",)), replace(OPENING, agent="", finding=""), False),
        (replace(HOOK, format="pagerduty"), OPENING, True),
        (replace(HOOK, format="pagerduty"), event_of("loop_detected"), False),
        (replace(HOOK, format="pagerduty"), event_of("gate_renamed"), True),
        (
            replace(HOOK, format="pagerduty"),
            replace(event_of("gate_renamed"), status="active"),
            False,
        ),
    ],
)
def test_a_webhook_gets_what_its_filters_and_format_take(
    hook: Webhook, event: GateEvent, wanted: bool
) -> None:
    """A loop of no one agent goes to the webhooks of each; states end with their gates."""
    assert hook.wants(event) == wanted
