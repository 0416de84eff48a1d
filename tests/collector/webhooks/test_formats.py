from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrace.analyzer.gates.event_names import NAMES
from looptrace.analyzer.gates.events import Failure, GateEvent
from looptrace.analyzer.settings.webhook import FORMATS, Format, Webhook
from looptrace.collector.webhooks.formats import BODY_BYTES_MAX, body_of
from tests.collector.store.test_outbox import HOOK, event, opened, resolved

GATE_URL = "https://me.example/gates/{gate}?task={task}"
# What every event says, as long and as odd as it can be.
texts = st.text(max_size=40).map(lambda text: text * 1_000)
events = st.builds(
    GateEvent,
    id=st.text("0123456789abcdef", min_size=16, max_size=16),
    type=st.sampled_from(sorted(NAMES)),
    task=texts,
    at_ns=st.integers(0, 2**62),
    turn=st.integers(0, 2**31),
    status=st.just("active"),
    status_before=st.just("active"),
    agent=texts,
    service=texts,
    session=texts,
    signature=texts,
    reason=texts,
    trace_id=texts,
    span_id=texts,
    decision=st.none() | texts,
    note=st.none() | texts,
    blockers=st.lists(texts, max_size=20).map(tuple),
    gate=st.text("0123456789abcdef", min_size=16, max_size=16),
    rule=st.sampled_from(["cycle", "chant"]),
)


def body(form: Format, about: GateEvent, gate_url: str = GATE_URL) -> dict[str, Any]:
    """Read the body of an event."""
    found: dict[str, Any] = json.loads(body_of(form, about, gate_url, "key")[0])
    return found


@pytest.mark.parametrize("form", FORMATS)
@given(events, st.sampled_from(["", GATE_URL]))
def test_a_body_is_json_of_less_than_20_kb(form: Format, about: GateEvent, gate_url: str) -> None:
    """Whatever traces say, receivers that keep to Standard Webhooks take it."""
    data, _ = body_of(form, about, gate_url, "k" * 32)
    assert len(data) <= BODY_BYTES_MAX
    assert isinstance(json.loads(data, parse_constant=pytest.fail), dict)


@pytest.mark.parametrize("form", FORMATS)
def test_messages_of_people_and_tools_are_not_sent(form: Format) -> None:
    """Both may hold anything, and a receiver is somewhere else."""
    failure = Failure(1, 1, "a", "l", "s", "k", "t", "SECRET-ERROR", "0" * 32, "0" * 16)
    about = opened(1, note="SECRET-NOTE", history=(failure,), reason="why")
    data, _ = body_of(form, about, GATE_URL, "key")
    assert b"SECRET" not in data
    assert b"why" in data


@pytest.mark.requirement("A18")
@pytest.mark.parametrize("form", FORMATS)
def test_the_note_of_a_decision_is_sent(form: Format) -> None:
    """A service that runs the agent hands on what a person decided, and why."""
    about = replace(resolved(1), decision="continue", note="Use the other key.")
    data, _ = body_of(form, about, GATE_URL, "key")
    assert b"continue" in data
    assert b"Use the other key." in data


def test_the_standard_body_says_all_of_an_event() -> None:
    """A field that is added to events is sent, or left out on purpose."""
    about = opened(7, blockers=("no key",), reason="three times")
    found = body("standard", about)
    assert set(found) == {"type", "timestamp", "data"}
    assert found["type"] == "looptrace.gate.opened"
    assert found["timestamp"] == "1970-01-01T00:00:00.000Z"
    left_out = {"type", "at_ns", "history", "signature_coarse"}
    names = {field.name for field in fields(GateEvent)}
    assert set(found["data"]) == names - left_out | {"url"}
    assert found["data"]["blockers"] == ["no key"]
    assert found["data"]["url"] == "https://me.example/gates/g?task=t"
    assert body("standard", event())["data"]["url"] == ""
    assert body("standard", event())["data"]["decision"] is None


def test_cloudevents_have_what_the_specification_requires() -> None:
    """The structured mode, which says so in its type."""
    data, content_type = body_of("cloudevents", event(5), "", "")
    found = json.loads(data)
    assert content_type == "application/cloudevents+json"
    assert {name: found[name] for name in ("specversion", "id", "source", "type")} == {
        "specversion": "1.0",
        "id": event(5).id,
        "source": "looptrace",
        "type": "looptrace.loop.detected",
    }
    assert found["data"] == body("standard", event(5))["data"]


def test_slack_shows_a_task_as_it_is_named() -> None:
    """Neither a link, a mention nor code can be put into a channel by a trace."""
    about = opened(1, task="<!channel> `x` & <https://evil.example|ok>")
    text = body("slack", about)["blocks"][0]["text"]["text"]
    assert "<!channel>" not in text
    assert "<!channel>" not in body("slack", about)["text"]  # what a phone shows
    assert "&lt;!channel&gt; 'x' &amp; &lt;https://evil.example|ok&gt;" in text
    link = text.split("(<")[1].split("|open>")[0]
    assert unquote(link).startswith("https://me.example/gates/g?task=<!channel>")


def test_both_ends_of_a_gate_are_one_incident() -> None:
    """PagerDuty and Alertmanager close by the key what was opened by it."""
    opening, end = body("pagerduty", opened(1)), body("pagerduty", resolved(2))
    assert [opening["event_action"], end["event_action"]] == ["trigger", "resolve"]
    assert opening["dedup_key"] == end["dedup_key"] == "looptrace g"
    assert opening["routing_key"] == "key"
    assert opening["payload"]["source"] == "shop"

    firing, over = body("alertmanager", opened(1)), body("alertmanager", resolved(2))
    assert [firing["status"], over["status"]] == ["firing", "resolved"]
    for name in ("labels", "fingerprint"):
        assert firing["alerts"][0][name] == over["alerts"][0][name]
    assert firing["groupKey"] == over["groupKey"]
    assert firing["alerts"][0]["endsAt"] < "1900" < over["alerts"][0]["endsAt"]


def test_an_alert_that_ended_starts_when_its_gate_opened() -> None:
    """Alertmanager shows how long an alert lasted, and history is told by when it began."""
    opening, end = opened(1_000_000_000), resolved(9_000_000_000)
    data, _ = body_of("alertmanager", end, "", "", opening.at_ns)
    (over,), (firing,) = json.loads(data)["alerts"], body("alertmanager", opening)["alerts"]
    assert over["startsAt"] == firing["startsAt"] == "1970-01-01T00:00:01.000Z"
    assert over["endsAt"] == "1970-01-01T00:00:09.000Z"


@pytest.mark.parametrize("form", ["pagerduty", "alertmanager"])
def test_receivers_of_states_are_told_of_gates_alone(form: Format) -> None:
    """A warning would stay open there for ever, because nothing ends it."""
    hook = Webhook("a", HOOK.url, form, ("env:K",))
    found = [event(1), opened(2), resolved(3), event(4, type="counter_reset")]
    assert [each.type for each in found if hook.wants(each)] == ["gate_opened", "gate_resolved"]
    assert all(replace(hook, format="standard").wants(each) for each in found)


def test_a_loop_of_several_agents_goes_to_the_webhooks_of_each() -> None:
    """Nobody would be told of two agents that hand over to each other for ever."""
    hook = replace(HOOK, agents=("fixer",))
    wanted = {
        agent: hook.wants(opened(1, agent=agent, finding="f")) for agent in ("fixer", "other", "")
    }
    assert wanted == {"fixer": True, "other": False, "": True}
    assert not hook.wants(event(4, type="counter_reset", agent="", finding=""))
