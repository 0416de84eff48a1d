"""The links of a message: the gate on the page, its trace, and forms that decide on it."""

from dataclasses import dataclass, field
from urllib.parse import quote

from looptrace.analyzer.gates.decisions import DECISION_TEXTS, Decision
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.settings.page import PageSettings
from looptrace.analyzer.settings.webhook import GATE, TASK, Webhook
from looptrace.analyzer.text.display import plain
from looptrace.collector.decision_links import DecisionLinks
from looptrace.collector.trace_links import TraceLinks
from looptrace.rules.vocabulary import NS_PER_S

_NAME_CHARS_MAX = 120
# The decisions in a message; the page has the others.
_OFFERED: tuple[Decision, ...] = ("continue", "cancel")
_HOUR_S = 3_600
# Some browsers and receivers accept no longer links.
_LINK_CHARS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class EventLinks:
    """The links of the events of one webhook; empty where the settings name no address."""

    gate_url: str = ""  # with {gate} and {task} in it
    traces: TraceLinks = field(default_factory=lambda: TraceLinks(""))
    page_url: str = ""
    decision_hours: int = 0
    decisions: DecisionLinks | None = None

    def of(self, event: GateEvent, now_ns: int) -> list[tuple[str, str]]:
        """Return the titles and addresses of all links of an event that is sent now."""
        links = [("Open the gate", self.gate(event)), *self._decisions(event, now_ns)]
        links.append(("The trace", self.trace(event)))
        return [(title, url) for title, url in links if 0 < len(url) <= _LINK_CHARS_MAX]

    def gate(self, event: GateEvent) -> str:
        """Return the address of the event's gate for people, empty where there is none."""
        if not event.gate:
            return ""
        return self.gate_url.replace(GATE, _quoted(event.gate)).replace(TASK, _quoted(event.task))

    def trace(self, event: GateEvent) -> str:
        """Return the address of the event's trace, empty where there is none."""
        names = (event.trace_id, event.span_id, event.session)
        return self.traces.to(*(plain(name, _NAME_CHARS_MAX) for name in names))

    def _decisions(self, event: GateEvent, now_ns: int) -> list[tuple[str, str]]:
        if event.type != "gate_opened" or not self.decisions or not self.decision_hours:
            return []
        until_s = now_ns // NS_PER_S + self.decision_hours * _HOUR_S
        about = self.page_url, event.gate
        return [
            (f"{DECISION_TEXTS[decision][0]} …", self.decisions.link(*about, decision, until_s))
            for decision in _OFFERED
        ]


NO_LINKS = EventLinks()


def links_of(webhook: Webhook, page: PageSettings, decisions: DecisionLinks | None) -> EventLinks:
    """Return the links of a webhook; `decisions` signs those that decide."""
    own = f"{page.url.rstrip('/')}/gates/{GATE}" if page.url else ""
    traces = TraceLinks(page.trace_url)
    hours = webhook.decision_hours
    return EventLinks(webhook.gate_url or own, traces, page.url, hours, decisions)


def _quoted(text: str) -> str:
    return quote(plain(text, _NAME_CHARS_MAX), safe="")
