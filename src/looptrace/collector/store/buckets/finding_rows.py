"""Findings as rows of their table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from looptrace.analyzer.detect.findings import Finding

_LOOP_TURN = {
    "trace_id": pl.String(),
    "span_id": pl.String(),
    "turn": pl.UInt32(),
    "role": pl.String(),
}

# `Finding`, with its cost flattened.
FINDING_SCHEMA = pl.Schema(
    {
        "id": pl.String(),
        "rule": pl.String(),
        "task": pl.String(),
        "session": pl.String(),
        "trace_id": pl.String(),
        "agent": pl.String(),
        "turn_first": pl.UInt32(),
        "turn_last": pl.UInt32(),
        "attempts": pl.Int64(),
        "loop_count": pl.Int64(),
        "period": pl.Int64(),
        "signature": pl.String(),
        "reason": pl.String(),
        "action": pl.String(),
        "turns": pl.List(pl.Struct(_LOOP_TURN)),
        "cost_seconds": pl.Float64(),
        "cost_input_tokens": pl.Int64(),
        "cost_output_tokens": pl.Int64(),
    }
)


def finding_table(findings: Iterable[Finding]) -> pl.DataFrame:
    """Return findings as they are stored (`FINDING_SCHEMA`)."""
    return pl.DataFrame([_flat(finding.record()) for finding in findings], schema=FINDING_SCHEMA)


def _flat(finding: dict[str, Any]) -> dict[str, Any]:
    cost = finding.pop("cost")
    return {**finding, **{f"cost_{name}": value for name, value in cost.items()}}
