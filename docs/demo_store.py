"""The store of the pictures: the examples as if they had just run, and on days before."""

import sys
import time
from pathlib import Path

import polars as pl

from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.settings.sections import default
from looptrace.collector.files.reader import read_spans
from looptrace.collector.store import reader, writer
from looptrace.rules.vocabulary import NS_PER_S

EXAMPLES = Path(__file__).parents[1] / "examples/traces"
_MINUTE_NS = 60 * NS_PER_S
_DAY_NS = 24 * 60 * _MINUTE_NS
# A run of the same examples on each of the days before, whose gates were resolved.
_DAYS = 6
# The attributes that name a session or a task, in the dialects of the examples.
NAMES = (
    r'("(?:[a-z_.]*(?:session|conversation|task)[._]?id|thread\.id|'
    r'traceloop\.association\.properties\.[a-z_]+)": ?"[^"]+)"'
)
_DECISIONS = (
    ("continue", "Migration 41 added the column already: skip 0042 and go on with 0043."),
    ("reviewed", "The fixture had the old header; it is regenerated now."),
    ("not_a_loop", ""),
    ("cancel", "The source is down until tomorrow."),
)


def make_store(store_dir: Path, now_ns: int) -> None:
    """Ingest the examples as of several days ago, decide on their gates, and as of now."""
    for day in range(_DAYS, 0, -1):
        _ingest(store_dir, now_ns - day * _DAY_NS - day * 37 * _MINUTE_NS, f"-{day}")
        with reader.open_gates(store_dir) as gates:
            for place, gate in enumerate(gates.gates("open")):
                decision, note = _DECISIONS[(place + day) % len(_DECISIONS)]
                wait_ns = (2 + 3 * place + day) * _MINUTE_NS
                gates.resolve(gate.id, decision, note or None, gate.opened_ns + wait_ns)
        writer.ingest(SPAN_SCHEMA.to_frame(), store_dir, default().policy)  # They take effect.
    _ingest(store_dir, now_ns, "")


def _ingest(store_dir: Path, end_ns: int, suffix: str) -> None:
    """Ingest each trace so that it ended some minutes before a time, under ids of its own."""
    spans = examples()
    if suffix:  # No day is like the other.
        traces = sorted(set(spans["trace_id"]))
        left_out = [trace for n, trace in enumerate(traces) if (n * n + end_ns // _DAY_NS) % 4 == 0]
        spans = spans.filter(~pl.col("trace_id").is_in(left_out))
    last_ns = pl.col("end_ns").max().over("trace_id")
    place = pl.col("trace_id").rank("dense").cast(pl.Int64)
    shift = end_ns - last_ns - place * 3 * _MINUTE_NS
    seen = spans.with_columns(start_ns=pl.col("start_ns") + shift, end_ns=pl.col("end_ns") + shift)
    if suffix:
        seen = seen.with_columns(
            pl.col("trace_id").str.replace(r"^.{2}", f"{int(suffix) % 256:02x}"),
            attributes=pl.col("attributes").str.replace_all(
                NAMES,
                f'${{1}}{suffix}"',
            ),
        )
    writer.ingest(seen, store_dir, default().policy)


def examples() -> pl.DataFrame:
    """Return the spans of the example traces."""
    return read_spans([str(EXAMPLES)]).spans


if __name__ == "__main__":
    make_store(Path(sys.argv[1]), time.time_ns())
