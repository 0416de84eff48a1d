"""An endpoint that groups by incident gets one page for all of its gates, and one end."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.gates.agent_states import AgentDoing, AgentState
from looptrace.analyzer.gates.resolutions import resolution_turns
from looptrace.analyzer.schema.turns import numbered
from looptrace.analyzer.settings.webhook import Format, Webhook
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.outbox import Outbox
from looptrace.collector.webhooks.client import WebhookRequest
from looptrace.collector.webhooks.endpoint_worker import EndpointWorker, Receiver
from looptrace.collector.webhooks.retry_policy import EndpointResponse
from looptrace.rules.contract import SettingError
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.recorded_gates import CALL, turns_of
from tests.reliability.test_webhook_delivery import run

MINUTE_NS = 60 * NS_PER_S
START_NS = 2_000_000_000 * NS_PER_S
GATES = 30
PAGER = Webhook(
    "pager", "https://a.example/", "pagerduty", ("env:KEY",), actions=("gate",), group_by="incident"
)


class Desk:
    """A store, an endpoint that groups, and what it was sent."""

    def __init__(self, path: Path, hook: Webhook = PAGER) -> None:
        self.now_ns = START_NS
        self.sent: list[dict[str, Any]] = []
        self.is_away = False
        self.agent = AgentState()
        self.gates = GateStore.open(path, (hook,))
        self.outbox = Outbox.open(path)
        clocks = (lambda: self.now_ns, lambda: self.now_ns)
        receiver = Receiver(hook, hook.url, (b"k" * 32,), "key")
        of = (receiver, self.outbox, self, *clocks, Random(1), Counter[tuple[str, str]]())
        self.worker = EndpointWorker(*of, self.agent_of)

    async def agent_of(self, _gate: str) -> AgentState:
        """Return what the agents of all gates do."""
        return self.agent

    async def send(self, request: WebhookRequest) -> EndpointResponse:
        """Receive a message, or not."""
        if self.is_away:
            return EndpointResponse(500, "it answered 500")
        self.sent.append(json.loads(request.body))
        return EndpointResponse(204)

    def loops(self, *tasks: str) -> None:
        """Let tasks loop; those that were decided on go on."""
        for task in tasks:
            said = resolution_turns(self.gates.resolutions(), NOTHING)
            turns = numbered(pl.concat([turns_of(f"{CALL} x9", task), said])).filter(task=task)
            judged = detect(turns)
            self.gates.record(judged.events, judged.states, self.now_ns, judged.openings)

    def decides(self, task: str) -> None:
        """Decide on the gate of a task."""
        (gate,) = self.gates.gates("open", task)
        self.gates.resolve(gate.id, "reviewed", None, self.now_ns)
        self.loops(task)

    def told(self, minutes: int = 0) -> list[str]:
        """Return the actions that are sent until some minutes later."""
        self.now_ns += minutes * MINUTE_NS
        self.sent.clear()
        while not run(self.worker.step()):
            pass
        return [each["event_action"] for each in self.sent]

    def hears(self, minutes: int = 0) -> list[tuple[str, int]]:
        """Return the same, each with the gates that wait."""
        actions = self.told(minutes)
        about = [each["payload"]["custom_details"]["incident"] for each in self.sent]
        return [(action, of["gates_open"]) for action, of in zip(actions, about, strict=True)]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a desk with nothing on it."""
    return Desk(tmp_path / "gates.db")


def test_many_gates_are_one_page_and_one_end(desk: Desk) -> None:
    """The page has the count; the end comes with the last gate, under the key of the page."""
    tasks = [f"t{number}" for number in range(GATES)]
    desk.loops(*tasks)
    assert desk.hears() == [("trigger", GATES)]
    key = desk.sent[0]["dedup_key"]
    assert f"and {GATES - 1} more tasks" in desk.sent[0]["payload"]["summary"]
    assert desk.outbox.endpoint("pager").pending == 0
    for task in tasks[:-1]:
        desk.decides(task)
    assert desk.hears(60) == []
    desk.decides(tasks[-1])
    assert desk.hears() == [("resolve", 0)]
    assert desk.sent[0]["dedup_key"] == key
    desk.loops("later")
    assert desk.hears() == [("trigger", 1)]
    assert desk.sent[0]["dedup_key"] != key


def test_further_gates_are_told_together_after_the_interval(tmp_path: Path) -> None:
    """Without an interval they are not told while the first page is open."""
    desk = Desk(tmp_path / "gates.db", replace(PAGER, repeat_minutes=30))
    desk.loops("t1")
    assert desk.hears() == [("trigger", 1)]
    desk.loops("t2", "t3")
    assert desk.hears(29) == []
    assert desk.hears(1) == [("trigger", 3)]
    assert desk.hears(60) == []
    desk.loops("t4")
    assert desk.hears() == [("trigger", 4)]  # The last message is long ago.
    desk.loops("t5")
    for task in ("t1", "t2", "t3", "t4", "t5"):
        desk.decides(task)
    assert desk.hears(30) == [("resolve", 0)]  # Nobody hears of what has ended meanwhile.
    assert desk.outbox.endpoint("pager").pending == 0


def test_the_gate_of_a_page_that_waits_too_long_may_have_ended(tmp_path: Path) -> None:
    """Another gate that waits is told in its place; without one nothing is."""
    desk = Desk(tmp_path / "gates.db", replace(PAGER, repeat_minutes=30))
    desk.loops("t1")
    desk.hears()
    desk.loops("t2", "t3")
    assert desk.hears() == []
    desk.decides("t2")
    assert desk.hears(30) == [("trigger", 2)]
    assert "task t2" not in desk.sent[0]["payload"]["summary"]
    desk.decides("t1")
    desk.decides("t3")
    assert desk.hears() == [("resolve", 0)]
    desk.is_away = True
    desk.loops("t4")
    assert desk.hears() == []
    desk.decides("t4")
    desk.is_away = False
    assert desk.hears(600) == []


def test_what_a_person_sends_again_is_told_whatever_the_group(desk: Desk) -> None:
    """It has the key of the page, and after the end it begins no page that nothing would end."""
    desk.loops("t1", "t2")
    desk.hears()
    key, told = desk.sent[0]["dedup_key"], desk.outbox.attempts()[0].event
    desk.outbox.resend(told, None, desk.now_ns)
    assert desk.hears() == [("trigger", 2)]
    assert desk.sent[0]["dedup_key"] == key
    desk.decides("t1")
    desk.decides("t2")
    assert desk.hears() == [("resolve", 0)]
    desk.outbox.resend(told, None, desk.now_ns)
    assert desk.hears() == [("trigger", 0)]
    desk.loops("t3")
    assert desk.hears() == [("trigger", 1)]


def test_other_incidents_have_pages_of_their_own(desk: Desk) -> None:
    """What does not mean the same is not grouped."""
    desk.loops("t1", "t2")
    judged = detect(turns_of("look(b)->same x9", "u1"))
    desk.gates.record(judged.events, judged.states, desk.now_ns, judged.openings)
    assert desk.hears() == [("trigger", 2), ("trigger", 1)]
    desk.decides("u1")
    assert desk.hears() == [("resolve", 0)]


def test_reminders_of_an_incident_are_one(desk: Desk) -> None:
    """A hundred gates on which nobody decides remind once."""
    desk.loops("t1", "t2", "t3")
    desk.hears()
    for gate in desk.gates.gates("open"):
        desk.gates.tell_unanswered(gate.id, 1, (), desk.now_ns)
    assert desk.hears() == [("trigger", 3)]


@pytest.mark.parametrize("form", ["alertmanager", "slack", "standard", "teams"])
def test_every_format_says_how_many_wait(tmp_path: Path, form: Format) -> None:
    """Only the key of a format of states is that of the page."""
    desk = Desk(tmp_path / "gates.db", replace(PAGER, format=form))
    desk.loops("t1", "t2")
    run(desk.worker.step())
    text = json.dumps(desk.sent)
    assert {
        "alertmanager": "and 1 more task" in text and '"startsAt"' in text,
        "slack": "*Open gates of its incident* 2" in text,
        "standard": '"gates_open": 2' in text,
        "teams": "Open gates of its incident " in text,
    }[form]


def test_an_interval_needs_a_grouping() -> None:
    """It would do nothing."""
    with pytest.raises(SettingError, match="needs group_by"):
        replace(PAGER, group_by="gate", repeat_minutes=5)


ALONE = replace(PAGER, group_by="gate")


@pytest.mark.parametrize(
    ("doing", "unless", "is_told"),
    [
        ("ended", ALONE.unless_agent, False),
        ("went_on", ALONE.unless_agent, True),  # It still spends what it spends.
        ("went_on", ("ended", "went_on"), False),
        ("ended", (), True),
        ("unknown", ("ended", "went_on"), True),
        ("waits", ("ended", "went_on"), True),
    ],
)
def test_a_gate_at_which_nobody_waits_is_only_listed(
    tmp_path: Path, doing: AgentDoing, unless: tuple[Any, ...], is_told: bool
) -> None:
    """Neither the gate nor a reminder of it is sent, and then not its end either."""
    desk = Desk(tmp_path / "gates.db", replace(ALONE, unless_agent=unless))
    desk.agent = AgentState(doing)
    desk.loops("t1")
    (gate,) = desk.gates.gates("open")
    desk.gates.tell_unanswered(gate.id, 1, (), desk.now_ns)
    assert bool(desk.told()) is is_told
    assert desk.outbox.endpoint("pager").pending == 0
    desk.decides("t1")
    assert desk.told() == (["resolve"] if is_told else [])


def test_an_agent_that_comes_back_to_its_gate_is_told_of(tmp_path: Path) -> None:
    """A worker looks again at what it has left."""
    desk = Desk(tmp_path / "gates.db", ALONE)
    desk.agent = AgentState("ended")
    desk.loops("t1")
    assert desk.told() == []
    assert desk.told(60 * 24 * 40) == []  # Not too old to be sent.
    desk.outbox.sweep(desk.now_ns)
    desk.agent = AgentState("waits")
    assert desk.told(2) == ["trigger"]
    desk.decides("t1")
    assert desk.told() == ["resolve"]
