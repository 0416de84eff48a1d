"""`--explain-span`: what spans were read as, at a terminal."""

from collections.abc import Sequence

import polars as pl

from looptrace.analyzer.fields.dialect_table import DialectTable
from looptrace.analyzer.fields.span_fields import SpanReading, span_reading
from looptrace.analyzer.report.pages import stdout_console
from looptrace.analyzer.report.tables import print_pairs, print_section
from looptrace.analyzer.report.verdict import WHAT_TO_DO
from looptrace.analyzer.schema.spans import span_rows
from looptrace.analyzer.text.display import plain
from looptrace.cli.shared import traces
from looptrace.errors import InputError

_SPAN_ID_LENGTH_MAX = 32
_VALUE_LENGTH_MAX = 200


def explain_spans(paths: Sequence[str], span_id: str, dialects: DialectTable) -> None:
    """Print what the spans whose id begins so are read as, with the keys of their fields.

    Raises:
        InputError: if there is none.
    """
    console = stdout_console()
    for reading in _readings(paths, span_id, dialects):
        scope = f"scope {reading.scope}" if reading.scope else "no scope"
        print_section(
            f"{reading.name} ({scope}), span {reading.span_id} of trace {reading.trace_id}",
            [_verdict(reading)],
            console,
        )
        pairs = ((f"{f.name} = {f.key}", plain(f.value, _VALUE_LENGTH_MAX)) for f in reading.fields)
        print_pairs(pairs, console)
        if reading.unread:
            print_section("read by no field", [", ".join(reading.unread)], console)
        console.print()


def _readings(paths: Sequence[str], span_id: str, dialects: DialectTable) -> list[SpanReading]:
    begins = pl.col("span_id").str.starts_with(span_id.lower())
    found = [
        span_reading(row, dialects)
        for table in traces.span_tables(paths)
        for row in span_rows(table.filter(begins))
    ]
    if not found:
        raise InputError(
            f"no span whose id begins with {plain(span_id, _SPAN_ID_LENGTH_MAX)} is in "
            f"{', '.join(paths)}: give the id in hex digits, as the trace has it"
        )
    return found


def _verdict(reading: SpanReading) -> str:
    if not reading.kind:
        return f"not understood: no dialect knows it. {WHAT_TO_DO}."
    by = f"by {reading.dialect}, because of {reading.condition}"
    what = "structure, no turn by itself" if reading.kind == "structure" else f"a {reading.kind}"
    return f"read as {what}, {by}"
