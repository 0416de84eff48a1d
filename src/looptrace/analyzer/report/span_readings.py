"""What spans were read as, at a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from looptrace.analyzer.fields.span_reading import SpanReading
from looptrace.analyzer.report.tables import print_pairs, print_section
from looptrace.analyzer.report.verdict import WHAT_TO_DO
from looptrace.analyzer.text.display import plain

_VALUE_LENGTH_MAX = 200


def print_readings(readings: Iterable[SpanReading], console: Console) -> None:
    """Print what each span was read as, its fields with their keys, and the keys that are left."""
    for reading in readings:
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


def _verdict(reading: SpanReading) -> str:
    if not reading.kind:
        return f"not understood: no dialect knows it. {WHAT_TO_DO}."
    by = f"by {reading.dialect}, because of {reading.condition}"
    what = "structure, no turn by itself" if reading.kind == "structure" else f"a {reading.kind}"
    return f"read as {what}, {by}"
