"""Outcomes of runs from evaluations in their spans, by OpenTelemetry's `gen_ai.evaluation.result`.

The event has the name of the evaluation and a score, as a label or a number. It is on the evaluated
span, or on another span of its trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import polars as pl

from looptrace.analyzer.tuning.certificates import Outcome
from looptrace.semconv import (
    GEN_AI_EVALUATION_NAME,
    GEN_AI_EVALUATION_RESULT,
    GEN_AI_EVALUATION_SCORE_LABEL,
    GEN_AI_EVALUATION_SCORE_VALUE,
)

_WANTED = re.compile(r"(?P<name>[^=<>]+?)\s*(?P<how>>=|=)\s*(?P<what>[^=].*)")


@dataclass(frozen=True, slots=True)
class Solved:
    """The evaluation that says whether a run was solved, by its label or from a value on."""

    name: str
    label: str | None = None
    value_min: float = inf

    def holds(self, attributes: dict[str, Any]) -> bool | None:
        """Return whether an evaluation says so; None if it is another, or has no such score."""
        if attributes.get(GEN_AI_EVALUATION_NAME) != self.name:
            return None
        if self.label is not None:
            label = attributes.get(GEN_AI_EVALUATION_SCORE_LABEL)
            return None if label is None else label == self.label
        value = attributes.get(GEN_AI_EVALUATION_SCORE_VALUE)
        return value >= self.value_min if isinstance(value, int | float) else None


def solved_where(text: str) -> Solved:
    """Return the evaluation in a text such as `correctness=pass` or `correctness>=0.8`.

    Raises:
        ValueError: if the text names no evaluation and score.
    """
    if (found := _WANTED.fullmatch(text.strip())) is None:
        raise ValueError(f"{text!r} is no evaluation")
    if found["how"] == "=":
        return Solved(found["name"], label=found["what"])
    return Solved(found["name"], value_min=float(found["what"]))


def outcomes_in(spans: pl.DataFrame, solved: Solved) -> Iterator[Outcome]:
    """Yield the outcomes of traces in spans (`SPAN_SCHEMA`), the latest of a trace last."""
    evaluated = spans.filter(
        pl.col("events").str.contains(GEN_AI_EVALUATION_RESULT, literal=True)
    ).select("trace_id", "events")
    found: list[tuple[int, str, bool]] = []
    for trace_id, events in evaluated.iter_rows():
        for event in json.loads(events):
            if event.get("name") != GEN_AI_EVALUATION_RESULT:
                continue
            holds = solved.holds(event.get("attributes") or {})
            if holds is not None:
                found.append((int(event.get("time_ns") or 0), trace_id, holds))
    for _, trace_id, holds in sorted(found):
        yield Outcome(solved=holds, trace_id=trace_id)
