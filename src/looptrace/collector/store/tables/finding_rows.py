"""Findings as rows of their table, and the loops of such rows."""

from collections.abc import Iterable
from typing import Any

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.loops import LoopPart, joined
from looptrace.analyzer.schema.findings import FINDING_SCHEMA

# The columns that decide of which loop a finding is.
PART_COLUMNS = list(LoopPart._fields)
_LOOPS_SCHEMA = pl.Schema({"id": pl.String(), "loop": pl.String()})


def finding_table(findings: Iterable[Finding]) -> pl.DataFrame:
    """Return findings as they are stored (`FINDING_SCHEMA`)."""
    return pl.DataFrame([_flat(finding.record()) for finding in findings], schema=FINDING_SCHEMA)


def loops_of_rows(findings: pl.DataFrame) -> pl.DataFrame:
    """Return the `loop` of each finding by its `id`: the id of the finding that leads it.

    The rows have `PART_COLUMNS`; those of a task are together.
    """
    is_alone = pl.len().over("task") == 1
    alone = findings.filter(is_alone).select("id", loop="id")
    numbers = pl.col("turns").list.eval(pl.element().struct.field("turn"))
    several = findings.filter(~is_alone).select(PART_COLUMNS).with_columns(turns=numbers)
    parts = (LoopPart._make((*rest, frozenset(turns))) for *rest, turns in several.iter_rows())
    rows = [(part.id, loop[0].id) for loop in joined(parts) for part in loop]
    return pl.concat([alone, pl.DataFrame(rows, _LOOPS_SCHEMA, orient="row")])


def _flat(finding: dict[str, Any]) -> dict[str, Any]:
    cost = finding.pop("cost")
    return {**finding, **{f"cost_{name}": value for name, value in cost.items()}}
