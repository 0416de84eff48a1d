"""Waiting for a person has an end: reminders, others who are told, and a default."""

from pathlib import Path
from typing import Any

import pytest

from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.analyzer.gates.directives import Directives
from looptrace.analyzer.gates.resolutions import resolution_turns
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.gates.waiting import Waiting, unless_decided, waiting_for
from looptrace.analyzer.settings.sections import parsed
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.store.gate_file.attempts import Tried
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.outbox import Outbox
from looptrace.collector.store.unanswered import attend
from looptrace.collector.webhooks.formats import body_of
from looptrace.collector.webhooks.gate_texts import Telling
from looptrace.rules.contract import SettingError
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.stored import spans_of
from tests.otlp import Trace, tool_call

MINUTE_NS = 60 * NS_PER_S
START_NS = 1_772_443_000 * NS_PER_S  # after the spans
PAGER = Webhook("pager", "https://pager.example/", secrets=("env:PAGER",), actions=("gate",))
LEAD = Webhook("lead", "https://lead.example/", "slack", escalations_only=True)
WAITING = Waiting(15, 30, ("lead",), 60, "cancel")


class Night:
    """A store that is told what a live engine finds in a loop, and nobody who decides."""

    def __init__(self, gates: GateStore) -> None:
        trace = Trace("s1", service="agent")
        for _ in range(8):
            named = tool_call("build")
            trace.span("build", None, named, status="error", message="no rule to make this")
        self.gates = gates
        self.live = LiveSpans(recall=gates.state)
        self.outbox = Outbox.open(gates.path)
        self._record(self.live.take(spans_of(trace))[1], START_NS)
        ((self.gate, self.opening),) = gates.openings()

    def _record(self, fed: object, now_ns: int) -> None:
        told = [*fed.moved, *fed.events]  # type: ignore[attr-defined]
        self.gates.record(told, fed.states, now_ns, fed.openings)  # type: ignore[attr-defined]

    def at(self, minutes: float, *waiting: Waiting) -> dict[str, list[str]]:
        """Attend after so many minutes; return what each webhook is sent."""
        now_ns = START_NS + int(minutes * MINUTE_NS)
        attend(self.gates, waiting or (WAITING,), now_ns)
        if said := self.gates.resolutions():
            self._record(self.live.feed(resolution_turns(said, DEFAULT.sameness)), now_ns)
        sent: dict[str, list[str]] = {"pager": [], "lead": []}
        for name, types in sent.items():
            while (delivery := self.outbox.next(name)) and delivery.next_try_ns <= now_ns:
                self.outbox.delivered(delivery, Tried(0))
                types.append(delivery.event.type)
        return sent


@pytest.fixture
def night(tmp_path: Path) -> Night:
    """Return a night with an open gate."""
    return Night(GateStore.open(tmp_path / "gates.db", [PAGER, LEAD]))


def test_a_gate_that_nobody_answers_is_told_again_passed_on_and_decided(night: Night) -> None:
    """Each step is taken once, also by a server that starts anew."""
    assert night.at(0) == {"pager": ["gate_opened"], "lead": []}
    assert night.at(14.9) == {"pager": [], "lead": []}
    assert night.at(15) == {"pager": ["gate_unanswered"], "lead": []}
    assert night.at(29) == {"pager": [], "lead": []}
    assert night.at(30) == {"pager": ["gate_unanswered"], "lead": ["gate_unanswered"]}
    assert night.at(59.9) == {"pager": [], "lead": []}
    assert night.at(60) == {"pager": ["gate_resolved"], "lead": ["gate_resolved"]}
    (gate,) = night.gates.gates()
    assert (gate.status, gate.decision, gate.resolved_by) == ("resolved", "cancel", "default")
    assert night.at(600) == {"pager": [], "lead": []}


def test_a_person_ends_the_wait(night: Night) -> None:
    """Nothing more is said, and the decision stands."""
    night.at(0)
    night.gates.resolve(night.gate, "reviewed", None, START_NS + MINUTE_NS)

    assert night.at(60) == {"pager": ["gate_resolved"], "lead": []}
    assert night.gates.gate(night.gate).gate.decision == "reviewed"


def test_a_gate_that_is_back_waits_anew(night: Night) -> None:
    """What was withdrawn may have been so for long."""
    night.at(0)
    state = night.gates.state("s1@agent")
    night.gates.record((), [TaskState("s1@agent")], START_NS)
    night.gates.record((), [state], START_NS)

    assert night.at(60)["lead"] == []
    assert night.gates.gate(night.gate).gate.decision is None
    night.at(120)
    assert night.gates.gate(night.gate).gate.decision == "cancel"


def test_the_first_that_matches_holds(night: Night) -> None:
    """Others wait for ever."""
    other, own = Waiting(1, services=("shop",)), Waiting(2, services=("agent",))

    assert waiting_for(night.opening, [other, own, Waiting(3)]) == own
    assert waiting_for(night.opening, [other]) is None
    assert night.at(0, other)["pager"] == ["gate_opened"]
    assert night.at(9_999, other) == {"pager": [], "lead": []}


@pytest.mark.parametrize(
    ("default", "said", "told"),
    [
        ("cancel", "the task is cancelled", "so it is cancelled. Stop here."),
        ("continue", "it goes on with another approach", "so it goes on. Use another approach"),
    ],
)
def test_it_is_said_before_it_happens(night: Night, default: str, said: str, told: str) -> None:
    """On the gate, in the alert, and to the agent; and then that nobody decided."""
    waiting = Waiting(15, 30, ("lead",), 60, default)  # type: ignore[arg-type]
    directives = Directives(waiting=(waiting,))
    alert, _ = body_of("slack", night.opening, Telling(waiting=(waiting,)))

    assert unless_decided(night.opening, [waiting]).endswith(f"{said} after 60 minutes")
    assert f"{said} after 60 minutes" in alert.decode()
    assert f"If nobody decides within 60 minutes, {said}." in str(directives.text_of(night.opening))
    night.at(0, waiting)
    night.at(60, waiting)
    (end,) = (event for _, event in night.gates.events() if event.type == "gate_resolved")
    assert told in str(directives.text_of(end))


def test_nothing_is_said_where_nothing_happens(night: Night) -> None:
    """Neither to people nor to agents."""
    assert unless_decided(night.opening, []) == ""
    assert "nobody decides" not in str(Directives().text_of(night.opening))


@pytest.mark.parametrize(
    "wrong",
    [
        {"remind_minutes": 60, "decide_minutes": 60},
        {"escalate_minutes": 60, "escalate_to": ("lead",), "decide_minutes": 30},
        {"escalate_minutes": 5},
        {"escalate_to": ("lead",)},
    ],
)
def test_steps_come_in_their_order(wrong: dict[str, Any]) -> None:
    """A default before the reminder would be a surprise."""
    with pytest.raises(SettingError):
        Waiting(**wrong)


def test_a_gate_is_passed_on_to_a_webhook_of_the_file() -> None:
    """A wrong name would be found at night."""
    text = '[[waiting]]\nescalate_minutes = 5\nescalate_to = ["nobody"]\n'
    with pytest.raises(SettingsError, match="escalate_to"):
        parsed(text.encode(), "looptrace.toml")
