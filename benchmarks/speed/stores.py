"""Stores of many turns, and the plain loop over one: `python -m benchmarks.speed.stores STORE`."""

import json
import sys
from pathlib import Path

import polars as pl

from benchmarks import plain
from benchmarks.generate import ID_HEX_DIGITS, turns
from benchmarks.speed.plain_reader import Codes
from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.analyzer.fingerprint.fingerprints import fingerprint_source
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import BY_TURN
from looptrace.collector.store.file_names import BUCKETS
from looptrace.collector.store.tables.parquet import STORED_SPAN_SCHEMA, file_patterns
from looptrace.collector.store.tables.replacement import NewRows, replace_rows
from looptrace.collector.store.writer import ingest

# Turns are made in parts, which are other buckets' days, so that memory has one part at a time.
PART_TURNS = 1_000_000 // BUCKETS
SEED = 1


def make_store(store_dir: Path, count: int) -> None:
    """Write a store of this many turns, in the form of `ingest`, unless it exists.

    Its spans have only the columns for counting, because they are not read. It has no findings, as
    if it was made with other settings.
    """
    if store_dir.exists():
        return
    ingest(SPAN_SCHEMA.to_frame(), store_dir)
    parts = max(BUCKETS, -(-count // PART_TURNS) // BUCKETS * BUCKETS)
    made_with = fingerprint_source(DEFAULT.sameness)
    for bucket in range(BUCKETS):
        rows = pl.concat(
            _named(turns(count // parts, SEED + part), part)
            for part in range(bucket, parts, BUCKETS)
        )
        new = {bucket: NewRows(None, rows, rows["start_ns"])}
        replace_rows(store_dir, "turns", new, BY_TURN, made_with)
        spans = rows.select("trace_id", "span_id", "start_ns", "end_ns", attributes=pl.lit("{}"))
        missing = [
            pl.lit(None, kind).alias(name)
            for name, kind in STORED_SPAN_SCHEMA.items()
            if name not in spans.columns
        ]
        spans = spans.with_columns(missing).select(STORED_SPAN_SCHEMA.names())
        replace_rows(store_dir, "spans", {bucket: NewRows(None, spans, spans["start_ns"])})


def _named(rows: pl.DataFrame, part: int) -> pl.DataFrame:
    """Give the sessions of a part names of their own."""
    number = pl.lit(f"{part:0{ID_HEX_DIGITS}x}")
    return rows.with_columns(
        pl.format(f"{part}-{{}}", "task").alias("task"),
        pl.format(f"{part}-{{}}", "session").alias("session"),
        trace_id=number + pl.col("trace_id").str.slice(ID_HEX_DIGITS),
    )


_TEXTS = ("task", "agent", "kind", "turn", "name", "arguments", "result", "error", "response")


def plain_store_loops(store_dir: Path) -> list[plain.Loop]:
    """Return the loops of the plain loop in the turns of a store, compared as they are written."""
    codes, rows = Codes(), list[plain.Row]()
    table = pl.read_parquet(file_patterns(store_dir, "turns"), columns=[*_TEXTS, "end_ns"])
    table = table.sort("task", "turn", maintain_order=True)
    for task, agent, kind, turn, name, arguments, result, error, response, end in table.iter_rows():
        call, outcome = codes[name, arguments], codes[result, error]
        signature = codes[name, outcome]
        if kind == "model":
            call = codes[arguments]
        said = codes[response]
        known = (call, outcome, signature, said, False, False, False)
        rows.append((task, agent, kind, turn, *known, end, end))  # No call looks.
    return plain.loops(rows, plain.DEFAULT)


if __name__ == "__main__":
    print(json.dumps({"loops": len(plain_store_loops(Path(sys.argv[1])))}))
