import json
from dataclasses import asdict, fields, replace
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looptrace.analyzer.detect.findings import Cost, Finding, LoopTurn
from looptrace.analyzer.gates.event_names import NAMES, NAMES_BEFORE
from looptrace.analyzer.gates.events import Failure, GateEvent
from looptrace.analyzer.settings.page import PageSettings
from looptrace.analyzer.settings.webhook import FORMATS, Format, Webhook
from looptrace.collector.decision_links import DecisionLinks
from looptrace.collector.store.outbox import GateBackground
from looptrace.collector.trace_links import TraceLinks
from looptrace.collector.webhooks.event_links import EventLinks, links_of
from looptrace.collector.webhooks.formats import BODY_BYTES_MAX, body_of
from looptrace.collector.webhooks.gate_texts import Telling
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.test_outbox import HOOK, event, opened, resolved

GATE_URL = "https://me.example/gates/{gate}?task={task}"
# What every event says, as long and as odd as it can be.
texts = st.text(max_size=40).map(lambda text: text * 1_000)
events = st.builds(
    GateEvent,
    type=st.sampled_from(sorted(NAMES)),
    at_ns=st.integers(0, 2**62),
    turn=st.integers(0, 2**31),
    blockers=st.lists(texts, max_size=20).map(tuple),
    rule=st.sampled_from(["cycle", "chant"]),
    **dict.fromkeys(("id", "gate"), st.text("0123456789abcdef", min_size=16, max_size=16)),
    **dict.fromkeys(("status", "status_before"), st.just("active")),
    **dict.fromkeys(("decision", "note"), st.none() | texts),
    **dict.fromkeys(("task", "agent", "service", "session", "signature", "reason"), texts),
    **dict.fromkeys(("trace_id", "span_id"), texts),
)


LINKS = EventLinks(GATE_URL)
COST = Cost(38.0, 11_000, 900)


def body(form: Format, about: GateEvent, telling: Telling | None = None) -> dict[str, Any]:
    """Read the body of an event."""
    chosen = telling or Telling(LINKS, "key")
    found: dict[str, Any] = json.loads(body_of(form, about, chosen)[0])
    return found


def background(**about: Any) -> GateBackground:
    """Return a gate with its finding: two alternating calls, with another between."""
    roles: list[Literal["first", "repeat"]] = ["first", "first", "repeat", "repeat"]
    turns = tuple(
        LoopTurn("0" * 32, f"{turn:016x}", turn, role)
        for turn, role in zip((6, 7, 9, 10), roles, strict=True)
    )
    names = ("f", "cycle", "t", "s", "0" * 32, "planner")
    finding = Finding(*names, 6, 10, 2, 1, 2, "sig", "why", "gate", turns, COST)
    return replace(GateBackground(1, finding), **about)


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=30)
@given(events, st.sampled_from(["", GATE_URL]))
def test_a_body_is_json_of_less_than_20_kb(form: Format, about: GateEvent, gate_url: str) -> None:
    """Whatever traces say, receivers that keep to Standard Webhooks take it."""
    signed = DecisionLinks(b"k" * 32)
    links = EventLinks(gate_url, TraceLinks("https://t/{trace_id}"), "https://p", 1, signed)
    history = tuple(
        Failure(turn, 1, "a", "l", None, None, None, about.reason, "0" * 32, "0" * 16)
        for turn in (7, 10)
    )
    told = replace(about, history=history)
    gate = background(resolved_by=about.agent)
    data, _ = body_of(form, told, Telling(links, "k" * 32, gate=gate))
    assert len(data) <= BODY_BYTES_MAX
    assert isinstance(json.loads(data, parse_constant=pytest.fail), dict)


@pytest.mark.parametrize("form", FORMATS)
def test_messages_of_people_and_tools_are_not_sent(form: Format) -> None:
    """Both may hold anything, and a receiver is somewhere else."""
    failure = Failure(1, 1, "a", "l", "s", "k", "t", "SECRET-ERROR", "0" * 32, "0" * 16)
    about = opened(1, note="SECRET-NOTE", history=(failure,), reason="why")
    data, _ = body_of(form, about, Telling(LINKS, "key", has_error_text=False))
    assert b"SECRET" not in data
    assert b"why" in data
    data, _ = body_of(form, about, Telling(LINKS, "key"))
    assert b"SECRET-NOTE" not in data
    assert b"SECRET-ERROR" in data


@pytest.mark.requirement("A18")
@pytest.mark.parametrize("form", FORMATS)
def test_the_note_of_a_decision_is_sent(form: Format) -> None:
    """A service that runs the agent hands on what a person decided, and why."""
    about = replace(resolved(1), decision="continue", note="Use the other key.")
    data, _ = body_of(form, about, Telling(LINKS, "key"))
    assert b"continue" in data or b"Go on" in data
    assert b"Use the other key." in data


def test_the_standard_body_says_all_of_an_event() -> None:
    """A field that is added to events is sent, or left out on purpose."""
    about = opened(7, blockers=("no key",), reason="three times", service_version="1.5.0")
    found = body("standard", about)
    assert set(found) == {"type", "timestamp", "data"}
    assert found["type"] == "looptrace.gate.opened"
    assert found["timestamp"] == "1970-01-01T00:00:00.000Z"
    left_out = {"type", "at_ns", "history", "signature_coarse", "tools", *NAMES_BEFORE}
    names = {field.name for field in fields(GateEvent)}
    more = {"url", "trace_url", "resolved_by", "error", "cost"}
    assert set(found["data"]) == names - left_out | more
    assert found["data"]["blockers"] == ["no key"]
    assert found["data"]["url"] == "https://me.example/gates/g?task=t"
    assert body("standard", event())["data"]["url"] == ""
    assert body("standard", event())["data"]["decision"] is None
    assert found["data"]["service_version"] == "1.5.0"
    assert "service_version" not in body("standard", event())["data"]


def test_cloudevents_have_what_the_specification_requires() -> None:
    """The structured mode, which says so in its type."""
    data, content_type = body_of("cloudevents", event(5), Telling())
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
    (button,) = body("slack", about)["blocks"][-1]["elements"]
    assert unquote(button["url"]).startswith("https://me.example/gates/g?task=<!channel>")


def test_a_card_of_teams_is_what_a_workflow_takes() -> None:
    """Texts of a trace are runs, in which Teams reads no markup: no link, no mention, no image."""
    about = replace(opened(1, task="[ok](https://evil.example) <at>all</at> **b**"), service="shop")
    found = body("teams", about)
    (attachment,) = found["attachments"]
    assert (found["type"], attachment["contentUrl"]) == ("message", None)
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.2")
    title, *texts, actions = card["body"]
    assert title["text"] == "Gate opened"
    runs = [[run["text"] for run in each["inlines"]] for each in texts]
    assert ["Task ", "[ok](https://evil.example) <at>all</at> **b**"] in runs
    assert ["Service ", "shop"] in runs
    assert {each["type"] for each in texts} == {"RichTextBlock"}
    (open_gate,) = actions["actions"]
    assert (open_gate["type"], open_gate["title"]) == ("Action.OpenUrl", "Open the gate")
    assert open_gate["url"].startswith("https://me.example/gates/g?task=")


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
    """Alertmanager shows the duration of an alert from its start."""
    opening, end = opened(1_000_000_000), resolved(9_000_000_000)
    telling = Telling(gate=GateBackground(opening.at_ns))
    (over,) = body("alertmanager", end, telling)["alerts"]
    (firing,) = body("alertmanager", opening)["alerts"]
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
    """Otherwise nobody would be notified about two agents that hand over forever."""
    hook = replace(HOOK, agents=("fixer",))
    wanted = {
        agent: hook.wants(opened(1, agent=agent, finding="f")) for agent in ("fixer", "other", "")
    }
    assert wanted == {"fixer": True, "other": False, "": True}
    assert not hook.wants(event(4, type="counter_reset", agent="", finding=""))


TOLD = opened(
    10,
    reason="two calls by turns",
    history=tuple(
        Failure(turn, 1, "a", "l", "s", "k", "ValueError", f"cart {turn}", "0" * 32, "0" * 16)
        for turn in (9, 10)
    ),
)


def slack_text(about: GateEvent, telling: Telling) -> str:
    """Return what Slack shows of a message."""
    blocks = body("slack", about, telling)["blocks"]
    return "\n".join(block["text"]["text"] for block in blocks if "text" in block)


def test_who_is_paged_reads_all_that_is_needed() -> None:
    """What failed, the cost, the loop as a strip, the agent, and the command that decides."""
    telling = Telling(EventLinks(page_url="https://p"), gate=background())
    text = slack_text(TOLD, telling)
    strip = "loop    AB·ab\nfailed     ✗✗\n        turns 6–10, a repeats A"

    for part in ("cart 10", "11.9 k tokens, 38 s in the loop", "agent `planner`", "service `shop`"):
        assert part in text
    assert strip in text
    command = 'looptrace gates resolve g --server https://p --decision continue --note "…"'
    assert command in text
    assert body("standard", TOLD, telling)["data"]["error"] == "cart 10"
    assert body("standard", TOLD, telling)["data"]["cost"] == asdict(COST)
    in_words = body("pagerduty", TOLD, telling)["payload"]["custom_details"]["in_words"]
    notes = body("alertmanager", TOLD, telling)["alerts"][0]["annotations"]
    for words in (in_words, notes):
        assert (words["strip"], words["command"]) == (strip, command)
    assert notes["error"] == "cart 10"


def test_a_resolution_says_by_whom() -> None:
    """A paged person sees who has resolved it, and with what note."""
    about = replace(resolved(12), decision="cancel", note="Not needed any more.", reason="person")
    text = slack_text(about, Telling(gate=background(resolved_by="Ada <!here>")))

    assert "*Cancel the task, by Ada &lt;!here&gt;*\nNot needed any more." in text
    assert "Failed with" not in text
    for form in ("slack", "teams", "pagerduty", "alertmanager"):
        assert "Gate resolved for task t: a person spoke" in str(body(form, about)), form


def test_buttons_lead_where_the_settings_say() -> None:
    """To the gate and the trace; and to decisions only where they are allowed, for a while."""
    page = PageSettings(trace_url="https://t/{trace_id}", url="https://p/")
    about = replace(TOLD, trace_id="0af7651916cd43dd8448eb211c80319c")
    plain_links = links_of(HOOK, page, DecisionLinks(b"k"))
    titles = dict(plain_links.of(about, 0))
    assert titles == {
        "Open the gate": "https://p/gates/g",
        "The trace": "https://t/0af7651916cd43dd8448eb211c80319c",
    }

    hook = replace(HOOK, decision_hours=2)
    signed = DecisionLinks(b"k")
    offered = dict(links_of(hook, page, signed).of(about, 100 * NS_PER_S))
    assert list(offered) == ["Open the gate", "Go on …", "Cancel the task …", "The trace"]
    address, _, query = offered["Cancel the task …"].partition("?")
    assert address == "https://p/decide/g"
    given = dict(parse_qsl(query))
    assert given["until"] == str(100 + 7_200)
    assert signed.holds("g", given, 7_299)
    assert not signed.holds("g", given, 7_300)
    assert not signed.holds("h", given, 0)
    assert not signed.holds("g", given | {"decision": "continue"}, 0)
    assert not signed.holds("g", given | {"until": "9999999"}, 0)
    assert not DecisionLinks(b"other").holds("g", given, 0)
    assert not dict(links_of(hook, page, signed).of(resolved(3), 0)).keys() & {"Go on …"}


def test_a_link_that_is_too_long_is_left_out() -> None:
    """Slack refuses a whole message for one address of more than 3,000 characters."""
    page = PageSettings(url="https://p/")
    hook = replace(HOOK, gate_url="https://me.example/" + "x" * 1_000 + "{task}" * 10)
    assert links_of(hook, page, None).of(replace(TOLD, task="t" * 120), 0) == []
