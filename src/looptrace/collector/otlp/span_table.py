"""The span table from decoded rows."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from looptrace.analyzer.schema.spans import SPAN_SCHEMA, SpanRow


def span_table(rows: Sequence[SpanRow]) -> pl.DataFrame:
    """Return rows as a table of SPAN_SCHEMA."""
    if not rows:
        return SPAN_SCHEMA.to_frame()
    columns = zip(SPAN_SCHEMA.items(), zip(*rows, strict=True), strict=True)
    return pl.DataFrame([pl.Series(name, column, kind) for (name, kind), column in columns])
