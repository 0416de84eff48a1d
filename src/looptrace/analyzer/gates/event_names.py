"""The public form of gate events: a table of their types, and one of their fields.

Log lines, webhooks, notices to agents, spans and JSON reports are made from these. The module
imports only what an agent's process has. The tables have the order of the output.
"""

from collections.abc import Mapping
from typing import NamedTuple

from looptrace import semconv


class TypeNames(NamedTuple):
    """The names of one type of event: in logs, webhooks, headlines, and as an evaluation."""

    log: str
    webhook: str
    title: str
    label: str


# A log reports a detected loop, whatever the action.
NAMES: Mapping[str, TypeNames] = {
    "loop_detected": TypeNames(
        "loop_detected", "looptrace.loop.detected", "Loop detected", "loop_detected"
    ),
    "pivot_issued": TypeNames(
        "loop_detected", "looptrace.pivot.issued", "Pivot issued", "pivot_issued"
    ),
    "gate_opened": TypeNames("gate_triggered", "looptrace.gate.opened", "Gate opened", "stop"),
    "gate_renamed": TypeNames("gate_renamed", "looptrace.gate.renamed", "Gate renamed", "stop"),
    "gate_unanswered": TypeNames(
        "gate_unanswered", "looptrace.gate.unanswered", "Gate unanswered", "stop"
    ),
    "gate_resolved": TypeNames("gate_resolved", "looptrace.gate.resolved", "Gate resolved", "pass"),
    "counter_reset": TypeNames(
        "loop_counter_reset", "looptrace.counter.reset", "Counter reset", "pass"
    ),
}

# Texts of people and tools; a report leaves them out.
CONTENT = frozenset({"note", "error"})

# Attributes of spans, by the field.
ATTRIBUTES: Mapping[str, str] = {
    semconv.EVENT_TYPE: "type",
    semconv.RULE_ID: "rule",
    semconv.ACTION: "action",
    semconv.TASK_ID: "task",
    semconv.TURN_FIRST: "turn_first",
    semconv.TURN_LAST: "turn",
    semconv.ATTEMPTS: "attempts",
    semconv.LOOP_COUNT: "loop_count",
    semconv.SIGNATURE: "signature",
    semconv.GATE_ID: "gate",
    semconv.DECISION: "decision",
}

# Fields of a webhook: unchanged fields, then fields with a text, which is cut.
WEBHOOK_VALUES = (
    *("id", "turn", "turn_first", "status", "status_before", "action", "finding", "gate", "why"),
    *("attempts", "loop_count", "entropy_count", "pivots", "retry_after_s", "exact"),
)
WEBHOOK_TEXTS = (
    *("task", "session", "agent", "service", "rule", "signature", "reason", "decision"),
    *("trace_id", "span_id"),
)
# The texts that only a renamed gate has.
NAMES_BEFORE = ("task_before", "agent_before")
