"""The attributes that a gate event has on spans, live or exported."""

from __future__ import annotations

import hashlib

from opentelemetry.trace import TraceFlags
from opentelemetry.util.types import AttributeValue

from looptrace.analyzer.gates.notice import GateNotice

EVENT = "looptrace.gate"


SCOPE = "looptrace"  # of what looptrace itself writes


SAMPLED = TraceFlags(TraceFlags.SAMPLED)


_DIGEST_BYTES = 8


_LABELS = {"gate_opened": "stop", "gate_resolved": "pass", "counter_reset": "pass"}


def attributes_of(told: GateNotice, *, content: bool = False) -> dict[str, AttributeValue]:
    """Return the attributes of a gate event; without content, a signature is only its hash."""
    signature = told.signature if content else _digest(told.signature)
    words = told.reason if content else f"{told.rule or told.type}, turn {told.turn}"
    found: dict[str, AttributeValue | None] = {
        "looptrace.event.type": told.type,
        "looptrace.rule.id": told.rule,
        "looptrace.action": told.action,
        "looptrace.task.id": told.task,
        "looptrace.turn.first": told.turn_first,
        "looptrace.turn.last": told.turn,
        "looptrace.attempts": told.attempts,
        "looptrace.loop_count": told.loop_count,
        "looptrace.signature": signature,
        "looptrace.gate.id": told.gate,
        "gen_ai.evaluation.name": f"looptrace.{told.rule or told.type}",
        "gen_ai.evaluation.score.label": told.action or _LABELS.get(told.type, told.type),
        "gen_ai.evaluation.score.value": float(told.loop_count),
        "gen_ai.evaluation.explanation": words,
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _digest(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
