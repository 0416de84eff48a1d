"""The texts about a gate for the person who is paged: failure, cost, loop, and what to do.

Each text is plain, bounded, and empty if the event or the store does not have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from looptrace.analyzer.gates.decisions import decision_text
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.waiting import Waiting, unless_decided
from looptrace.analyzer.report.strips.text import loop_strip
from looptrace.analyzer.report.wording import loop_cost_text
from looptrace.analyzer.text.display import plain
from looptrace.collector.store.outbox import GateBackground

_DECISION = '--decision continue --note "…"'
_ERROR_CHARS_MAX = 500
_NAME_CHARS_MAX = 120
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


def gate_texts(
    event: GateEvent,
    gate: GateBackground | None,
    *,
    has_error_text: bool,
    where: str,
    waiting: Sequence[Waiting] = (),
) -> GateTexts:
    """Return the texts of an event, with the store's facts about its gate.

    `where` is the address of the server, empty if unknown.
    """
    if event.type == "gate_resolved":
        return GateTexts(decided=_decided(event, gate))
    if event.type not in ("gate_opened", "gate_renamed", "gate_unanswered"):
        return GateTexts()
    finding = gate.finding if gate else None
    source = f"--server {where}" if where else "--store STORE"
    failed = {failure.turn for failure in event.history}
    return GateTexts(
        error=(error_text(event) or "") if has_error_text else "",
        cost=loop_cost_text(finding.cost) if finding else "",
        agent_doing=gate.agent.text if gate and gate.agent else "",
        strip="\n".join(loop_strip(finding, failed, _STRIP_COLUMNS)) if finding else "",
        unless_decided=unless_decided(event, waiting),
        command=f"looptrace gates resolve {event.gate} {source} {_DECISION}",
    )


def error_text(event: GateEvent) -> str | None:
    """Return the words of the last error before a gate, None where there is none."""
    words = [failure.error or failure.error_type for failure in event.history]
    return next((plain(text, _ERROR_CHARS_MAX) for text in reversed(words) if text), None)


def _decided(event: GateEvent, gate: GateBackground | None) -> str:
    """Write `Go on, by ada`."""
    said = plain(decision_text(event.decision or ""), _NAME_CHARS_MAX)
    by = f", by {plain(gate.resolved_by, _NAME_CHARS_MAX)}" if gate and gate.resolved_by else ""
    return f"{said or 'By a message in the trace'}{by}"
