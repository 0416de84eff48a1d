"""P3: the names of a gate that only the root span of a trace has, from exporter to page."""

import json

import pytest
from opentelemetry import trace

from tests.reliability.serving import OK, until
from tests.reliability.watching import ROOT, Watch

NAMED = "conv@shop"


@pytest.mark.parametrize("every_s", [1, 100])  # A longer run has turns that are settled.
def test_a_root_span_that_ends_late_names_the_gate_for_all(watch: Watch, every_s: int) -> None:
    """A message has the new name and the old one, of the same gate; the old one leads on."""
    at = watch("standard")
    root = at.loop(every_s=every_s)
    (opened,) = at.told(1)
    trace_id = trace.format_trace_id(root.context.trace_id)
    assert (opened["data"]["task"], opened["data"]["agent"]) == (trace_id, "")
    until(lambda: at.server.ask("GET", f"/v1/tasks/{trace_id}")[1].get("turns"))
    root.end()
    _, renamed = at.told(2)
    data = renamed["data"]
    assert renamed["type"] == "looptrace.gate.renamed"
    assert data["gate"] == opened["data"]["gate"] == at.gate()["id"]
    assert (data["task"], data["agent"]) == (NAMED, "fixer")
    assert (data["task_before"], data["agent_before"]) == (trace_id, "")

    until(lambda: at.server.ask("GET", f"/v1/tasks/{trace_id}")[1]["task"] == NAMED)
    assert at.server.ask("GET", f"/v1/gates?task={trace_id}")[1]["gates"] == [at.gate()]
    status, _, to = until(lambda: (page := at.server.get(f"/task?id={trace_id}"))[2] and page)
    assert (status, to) == (303, "/task?id=conv%40shop")
    status, text, _ = at.server.get(f"/gates/{data['gate']}")
    assert status == OK
    assert NAMED in text
    assert "deleted" not in text


def test_a_root_span_that_never_ends_leaves_one_name_everywhere(watch: Watch) -> None:
    """The pager and the page say the same, and the link leads to it."""
    at = watch("standard")
    root = at.loop()
    (opened,) = at.told(1)
    data, trace_id = opened["data"], trace.format_trace_id(root.context.trace_id)
    assert data["task"] == at.gate()["task"] == trace_id
    until(lambda: "4 turns" in at.server.page(f"/task?id={trace_id}"))
    status, text, _ = at.server.get(f"/gates/{data['gate']}")
    assert status == OK
    assert trace_id in text
    assert "deleted" not in text


def test_an_agent_whose_turns_are_long_settled_is_named(watch: Watch) -> None:
    """Without a session the task keeps its name, and the message says the agent."""
    at = watch("standard")
    root = at.loop({**ROOT, "gen_ai.conversation.id": ""}, every_s=100)
    (opened,) = at.told(1)
    until(lambda: at.server.get(f"/task?id={opened['data']['task']}")[0] == OK)
    root.end()
    _, renamed = at.told(2)
    assert renamed["type"] == "looptrace.gate.renamed"
    assert renamed["data"]["task"] == renamed["data"]["task_before"] == opened["data"]["task"]
    assert renamed["data"]["agent"] == at.gate()["agent"] == "fixer"
    assert renamed["data"]["gate"] == opened["data"]["gate"] == at.gate()["id"]


def test_a_receiver_of_states_keeps_one_state_a_gate(watch: Watch) -> None:
    """The name changes nothing by which PagerDuty and Alertmanager know a gate."""
    at = watch("pagerduty", "alertmanager")
    root = at.loop()
    at.told(2)
    root.end()
    at.told(4)
    at.resolve()
    at.told(6)
    pages = [each for each in at.told() if "dedup_key" in each]
    alerts = [alert for each in at.told() for alert in each.get("alerts", ())]
    assert [each["event_action"] for each in pages] == ["trigger", "trigger", "resolve"]
    assert len({each["dedup_key"] for each in pages}) == 1
    assert f"task {NAMED}" in pages[1]["payload"]["summary"]
    assert [alert["status"] for alert in alerts] == ["firing", "firing", "resolved"]
    assert len({json.dumps([alert["labels"], alert["fingerprint"]]) for alert in alerts}) == 1
    assert [alert["annotations"]["task"] for alert in alerts][1:] == [NAMED, NAMED]


def test_the_end_of_a_gate_reaches_the_receivers_of_its_opening(watch: Watch) -> None:
    """A gate without an agent goes to the receivers of all agents, also after it is named."""
    at = watch("pagerduty", more='agents = ["another"]')
    root = at.loop()
    at.told(1)
    root.end()
    until(lambda: at.gate()["agent"] == "fixer")
    at.resolve()
    until(lambda: at.told()[-1]["event_action"] == "resolve")


def test_a_name_that_comes_after_the_decision_opens_no_incident(watch: Watch) -> None:
    """The agent's span ends after the decision; a receiver of states has closed its incident."""
    at = watch("pagerduty", "slack")
    root = at.loop()
    at.told(2)
    at.resolve()
    until(lambda: at.gate()["status"] == "resolved")
    root.end()
    until(lambda: any("Gate renamed" in str(each) for each in at.told()))
    pages = [each["event_action"] for each in at.told() if "dedup_key" in each]
    assert pages == ["trigger", "resolve"]


@pytest.mark.requirement("F1")
def test_the_span_processor_says_the_names_of_a_root_span_that_is_open(watch: Watch) -> None:
    """The first message has the task and the agent, also if the root span never ends."""
    at = watch("standard")
    agent, processor = at.in_process()
    agent.loop()
    (opened,) = at.told(1)
    assert (opened["data"]["task"], opened["data"]["agent"]) == (NAMED, "fixer")
    assert at.gate()["task"] == NAMED
    processor.shutdown()
