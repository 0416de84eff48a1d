"""Outcomes of runs that are in their spans: evaluations, and attributes.

OpenTelemetry's event `gen_ai.evaluation.result` has the name of an evaluation and a score, as a
label or a number. It is on the evaluated span, or on another span of its trace. An attribute of any
span of a trace says the same in one value.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from looptrace.analyzer.settings.outcomes.sources import Solved
from looptrace.analyzer.tuning.certificates import Outcome
from looptrace.semconv import (
    GEN_AI_EVALUATION_NAME,
    GEN_AI_EVALUATION_RESULT,
    GEN_AI_EVALUATION_SCORE_LABEL,
    GEN_AI_EVALUATION_SCORE_VALUE,
    TASK_OUTCOME,
)


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """What a span says of the run of its trace: a name, and a label, a value or both."""

    trace_id: str
    at_ns: int
    source: Literal["evaluation", "attribute"]
    name: str
    label: str | None
    value: float | None


def outcomes_in(
    spans: pl.DataFrame, evaluation: Solved | None = None, attribute: Solved | None = None
) -> Iterator[Outcome]:
    """Yield the outcomes of traces in spans (`SPAN_SCHEMA`), the latest of a trace last."""
    wanted = {"evaluation": evaluation, "attribute": attribute}
    for each in recorded_in(spans, attribute.name if attribute else TASK_OUTCOME):
        condition = wanted[each.source]
        if condition and (holds := condition.holds(each.name, each.label, each.value)) is not None:
            yield Outcome(solved=holds, trace_id=each.trace_id)


def recorded_in(spans: pl.DataFrame, attribute: str = TASK_OUTCOME) -> list[RecordedOutcome]:
    """Return what spans (`SPAN_SCHEMA`) say of their runs, the oldest first."""
    found = [*_evaluations(spans), *_attributes(spans, attribute)]
    return sorted(found, key=lambda each: (each.at_ns, each.trace_id))


def _evaluations(spans: pl.DataFrame) -> Iterator[RecordedOutcome]:
    evaluated = spans.filter(
        pl.col("events").str.contains(GEN_AI_EVALUATION_RESULT, literal=True)
    ).select("trace_id", "events")
    for trace_id, events in evaluated.iter_rows():
        for event in json.loads(events):
            attributes = event.get("attributes") or {}
            name = attributes.get(GEN_AI_EVALUATION_NAME)
            if event.get("name") != GEN_AI_EVALUATION_RESULT or name is None:
                continue
            label = attributes.get(GEN_AI_EVALUATION_SCORE_LABEL)
            value = attributes.get(GEN_AI_EVALUATION_SCORE_VALUE)
            at_ns = int(event.get("time_ns") or 0)
            yield _recorded(trace_id, at_ns, "evaluation", str(name), label, value)


def _attributes(spans: pl.DataFrame, name: str) -> Iterator[RecordedOutcome]:
    named = spans.filter(pl.col("attributes").str.contains(json.dumps(name), literal=True))
    for trace_id, at_ns, attributes in named.select("trace_id", "end_ns", "attributes").iter_rows():
        if (value := json.loads(attributes).get(name)) is not None:
            yield _recorded(trace_id, at_ns, "attribute", name, value, value)


def _recorded(
    trace_id: str,
    at_ns: int,
    source: Literal["evaluation", "attribute"],
    name: str,
    label: Any,
    value: Any,
) -> RecordedOutcome:
    # JSON's true is a label; a text may be a number.
    text = None if label is None else label if isinstance(label, str) else json.dumps(label)
    try:
        number = None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):  # It is no number, and then only a label.
        number = None
    return RecordedOutcome(trace_id, at_ns, source, name, text, number)
