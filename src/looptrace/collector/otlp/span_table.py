"""The span table from decoded spans: rows, or columns of the core."""

from collections.abc import Sequence
from itertools import groupby
from typing import TypeAlias, cast

import polars as pl

from looptrace._core import Spans
from looptrace.analyzer.schema.distinct_spans import is_logged
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, SpanRow

# Spans in their order.
Block: TypeAlias = Spans | Sequence[SpanRow]


def span_table(rows: Sequence[SpanRow]) -> pl.DataFrame:
    """Return rows as a table of SPAN_SCHEMA."""
    if not rows:
        return SPAN_SCHEMA.to_frame()
    columns = zip(SPAN_SCHEMA.items(), zip(*rows, strict=True), strict=True)
    return pl.DataFrame([pl.Series(name, column, kind) for (name, kind), column in columns])


def logged_count(block: Block) -> int:
    """Return how many of some spans are events of log records."""
    return block.logged if isinstance(block, Spans) else sum(map(is_logged, block))


def joined_table(blocks: Sequence[Block]) -> pl.DataFrame:
    """Return blocks of spans, in their order, as one table of SPAN_SCHEMA."""
    tables = [
        pl.DataFrame(Spans.joined(cast("list[Spans]", list(run))))
        if is_core
        else span_table([row for block in run for row in cast("Sequence[SpanRow]", block)])
        for is_core, run in groupby(filter(len, blocks), lambda block: isinstance(block, Spans))
    ]
    return pl.concat(tables) if tables else SPAN_SCHEMA.to_frame()
