"""The texts about a gate for the person who is paged: failure, cost, loop, and what to do.

Each text is plain, bounded, and empty if the event or the store does not have it.
"""

from dataclasses import dataclass

from looptrace.analyzer.gates.decisions import decision_text
from looptrace.analyzer.gates.event_names import NAMES
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.waiting import Waiting, unless_decided
from looptrace.analyzer.report.strips.text import loop_strip
from looptrace.analyzer.report.wording import counted, loop_cost_text, reset_text
from looptrace.analyzer.text.display import plain
from looptrace.collector.store.outbox import GateBackground, PageGroup
from looptrace.collector.webhooks.event_links import NO_LINKS, EventLinks

_DECISION = '--decision continue --note "…"'
_ERROR_CHARS_MAX = 500
_NOTE_CHARS_MAX = 1_000
NAME_CHARS_MAX = 120
REASON_CHARS_MAX = 500
_STRIP_COLUMNS = 60


@dataclass(frozen=True, slots=True)
class GateTexts:
    """The texts of one event."""

    error: str = ""  # the words of the last error before the gate
    cost: str = ""
    agent_doing: str = ""
    strip: str = ""  # some lines
    command: str = ""  # that decides
    decided: str = ""  # the decision, and who decided
    unless_decided: str = ""  # what happens, and when


@dataclass(frozen=True, slots=True)
class Telling:
    """The other contents of a body, beside the event."""

    links: EventLinks = NO_LINKS
    key: str = ""  # PagerDuty's integration key
    has_error_text: bool = True
    now_ns: int = 0
    gate: GateBackground | None = None  # what the store knows of the event's gate
    waiting: tuple[Waiting, ...] = ()  # what happens when nobody decides
    group: PageGroup | None = None  # the incident, where gates are grouped

    def all_links(self, event: GateEvent) -> list[tuple[str, str]]:
        """Return the titles and addresses of all links of an event."""
        return self.links.of(event, self.now_ns)

    def texts(self, event: GateEvent) -> GateTexts:
        """Return the texts of an event, with the store's facts about its gate."""
        gate = self.gate
        if event.type == "gate_resolved":
            return GateTexts(decided=_decided(event, gate))
        if event.type not in ("gate_opened", "gate_renamed", "gate_unanswered"):
            return GateTexts()
        finding = gate.finding if gate else None
        source = f"--server {self.links.page_url}" if self.links.page_url else "--store STORE"
        failed = {failure.turn for failure in event.history}
        return GateTexts(
            error=(error_text(event) or "") if self.has_error_text else "",
            cost=loop_cost_text(finding.cost) if finding else "",
            agent_doing=gate.agent.text if gate and gate.agent else "",
            strip="\n".join(loop_strip(finding, failed, _STRIP_COLUMNS)) if finding else "",
            unless_decided=unless_decided(event, self.waiting),
            command=f"looptrace gates resolve {event.gate} {source} {_DECISION}",
        )

    def in_words(self, event: GateEvent) -> dict[str, str]:
        """Return the texts of an event by name, but the error, which is among its data."""
        about = self.texts(event)
        names = ("cost", "agent_doing", "strip", "command", "decided", "unless_decided")
        return {name: text for name in names if (text := getattr(about, name))}


def cut(text: str, length_max: int = NAME_CHARS_MAX) -> str:
    """Return a text on one line, cut."""
    return plain(text, length_max)


def note_of(event: GateEvent) -> str | None:
    """Return the note of a decision; without a decision it is a message of the trace."""
    return cut(event.note, _NOTE_CHARS_MAX) if event.note and event.decision else None


def names_before(event: GateEvent) -> str:
    """Write `The last message named task 4bf92f35 and no agent.`."""
    agent = f"agent {cut(event.agent_before)}" if event.agent_before else "no agent"
    return f"The last message named task {cut(event.task_before)} and {agent}."


def headline(event: GateEvent, telling: Telling) -> str:
    """Write `Gate opened for task 4bf92f35 and 2 more tasks: ...`."""
    words = f": {reason_of(event)}" if event.reason else ""
    count = telling.group.gates_open if telling.group else 0
    more = f" and {counted(count - 1, 'more task')}" if count > 1 else ""
    return f"{NAMES[event.type].title} for task {cut(event.task)}{more}{words}"


def reason_of(event: GateEvent) -> str:
    """Return the reason of an event in words; that of a reset is a name."""
    is_reset = event.type in ("gate_resolved", "counter_reset")
    return reset_text(event.reason) if is_reset else plain(event.reason, REASON_CHARS_MAX)


def error_text(event: GateEvent) -> str | None:
    """Return the words of the last error before a gate, None where there is none."""
    words = [failure.error or failure.error_type for failure in event.history]
    return next((plain(text, _ERROR_CHARS_MAX) for text in reversed(words) if text), None)


def _decided(event: GateEvent, gate: GateBackground | None) -> str:
    """Write `Go on, by ada`."""
    said = plain(decision_text(event.decision or ""), NAME_CHARS_MAX)
    by = f", by {plain(gate.resolved_by, NAME_CHARS_MAX)}" if gate and gate.resolved_by else ""
    return f"{said or 'By a message in the trace'}{by}"
