"""The attributes of a gate event on spans, live or exported."""

from opentelemetry.trace import TraceFlags
from opentelemetry.util.types import AttributeValue

from looptrace import semconv
from looptrace.analyzer.gates.event_names import ATTRIBUTES, NAMES
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.text.digests import digest

SAMPLED = TraceFlags(TraceFlags.SAMPLED)


def attributes_of(notice: GateNotice, *, content: bool = False) -> dict[str, AttributeValue]:
    """Return the attributes of a gate event; without content, a signature is only its hash."""
    words = notice.reason if content else f"{notice.rule or notice.type}, turn {notice.turn}"
    values: dict[str, AttributeValue | None] = {
        attribute: getattr(notice, field) for attribute, field in ATTRIBUTES.items()
    }
    values |= {
        semconv.GEN_AI_EVALUATION_NAME: f"looptrace.{notice.rule or notice.type}",
        semconv.GEN_AI_EVALUATION_SCORE_LABEL: notice.action or _label(notice.type),
        semconv.GEN_AI_EVALUATION_SCORE_VALUE: float(notice.loop_count),
        semconv.GEN_AI_EVALUATION_EXPLANATION: words,
    }
    # A note with a decision is meant for others; a note without one is a message of the trace.
    if notice.decision or content:
        values[semconv.NOTE] = notice.note
    if not content:
        values[semconv.SIGNATURE] = digest(notice.signature)
    return {name: value for name, value in values.items() if value not in (None, "")}


def _label(event_type: str) -> str:
    """Return the label of a type; a newer server may send one that this version lacks."""
    return NAMES[event_type].label if event_type in NAMES else event_type
