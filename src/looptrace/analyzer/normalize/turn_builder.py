"""Spans to turns: in any dialect, and without counting anything twice.

Tool calls have two sources: the spans of tools, and the messages of models' spans. The core joins
the two on the call id, else on name, arguments and order (`core/src/trace`). Each call becomes one
turn.
"""

from dataclasses import dataclass

import polars as pl

from looptrace import _core
from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.fields.span_fields import reader_by
from looptrace.analyzer.fingerprint.equivalence import NOTHING, Sameness
from looptrace.analyzer.fingerprint.fingerprints import policy_of
from looptrace.analyzer.normalize.understanding import Understood, understood_of
from looptrace.analyzer.schema.distinct_spans import whole_spans
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, Skipped
from looptrace.analyzer.schema.turns import TURN_SCHEMA, numbered


@dataclass(frozen=True, slots=True)
class Noted:
    """What there is to say of the spans that turns were made of."""

    skipped: list[Skipped]
    understood: Understood


def turns_of(
    spans: pl.DataFrame,
    sameness: Sameness = NOTHING,
    dialects: DialectTable = SHIPPED,
    threads: int = 1,
) -> tuple[pl.DataFrame, Noted]:
    """Turn spans (`SPAN_SCHEMA`, in any order) into turns (`TURN_SCHEMA`, sorted and numbered).

    The second result is what could not be taken as it stood, circles of parents, and how much was
    understood. `sameness` decides how turns are compared, `dialects` how spans are read.
    `threads` share the work; the turns are the same.
    """
    made, circles, seen = _core.turns_of(
        whole_spans(spans).select(*SPAN_SCHEMA),
        reader_by(dialects),
        policy_of(sameness),
        sameness.sessions.join_services,
        threads,
    )
    table = pl.DataFrame(made)
    later = [pl.lit(None, kind).alias(n) for n, kind in TURN_SCHEMA.items() if n not in table]
    turns = table.with_columns(later).select(TURN_SCHEMA.names()).cast(TURN_SCHEMA)
    skipped = [_circle(trace_id, span_id) for trace_id, span_id in circles]
    return numbered(turns), Noted(skipped, understood_of(seen))


def _circle(trace_id: str, span_id: str) -> Skipped:
    return Skipped(
        f"span {span_id} of trace {trace_id}",
        f"its parents form a circle or a chain of over {_core.ANCESTORS_MAX}; "
        "those beyond were not asked for session, task or agent",
    )
