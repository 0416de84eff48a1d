"""Findings as rows of their table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.schema.findings import FINDING_SCHEMA


def finding_table(findings: Iterable[Finding]) -> pl.DataFrame:
    """Return findings as they are stored (`FINDING_SCHEMA`)."""
    return pl.DataFrame([_flat(finding.record()) for finding in findings], schema=FINDING_SCHEMA)


def _flat(finding: dict[str, Any]) -> dict[str, Any]:
    cost = finding.pop("cost")
    return {**finding, **{f"cost_{name}": value for name, value in cost.items()}}
