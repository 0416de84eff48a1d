"""Measures how a server stores: `python -m benchmarks.rounds [--beside CHECKOUT]`.

Spans of one day come to a store in rounds of 10,000, each of new sessions. The cost of a round is
its processor time, which should not grow with the day.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from benchmarks.live import ROOT, in_process
from benchmarks.span_shapes import requests
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.collector.files.reader import read_spans
from looptrace.collector.store.writer import writing
from looptrace.rules.vocabulary import NS_PER_S

ROUND_SPANS = 10_000
ROUNDS, ROUNDS_A_LINE = 40, 4
DAY_NS = 86_400 * NS_PER_S


def rounds(count: int) -> Iterator[pl.DataFrame]:
    """Yield the spans of each round, all on one day."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "spans.pb")
        for seed in range(count):
            path.write_bytes(b"".join(requests("short", ROUND_SPANS, seed)))
            spans = read_spans([str(path)]).spans
            took_ns = pl.col("end_ns") - pl.col("start_ns")
            start_ns = DAY_NS + pl.col("start_ns") % DAY_NS
            # Traces and sessions are numbered in each round anew.
            yield spans.with_columns(
                pl.col("attributes").str.replace_all("session-", f"session-{seed}-"),
                trace_id=pl.lit(f"{seed:08x}") + pl.col("trace_id").str.slice(8),
                start_ns=start_ns,
                end_ns=start_ns + took_ns,
            )


def measured(count: int) -> list[float]:
    """Return the seconds of processor time of each round."""
    taken = []
    with TemporaryDirectory() as folder, SpanSpool() as none, writing(Path(folder)) as writer:
        writer.ingest(none)
        for spans in rounds(count):
            began_s = time.process_time()
            writer.add(spans)
            taken.append(time.process_time() - began_s)
    return taken


def main() -> int:
    """Run the benchmark, here and beside another checkout."""
    parser = argparse.ArgumentParser(description="Measure how a server stores.")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="a checkout to compare")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measured(json.loads(options.case)["count"])))
        return 0
    checkouts = [ROOT, *([options.beside.resolve()] if options.beside else [])]
    taken = [in_process("benchmarks.rounds", {"count": ROUNDS}, each) for each in checkouts]
    print(f"{'spans of the day':>16}  seconds of processor time a round")
    for start in range(0, ROUNDS, ROUNDS_A_LINE):
        means = [sum(each[start : start + ROUNDS_A_LINE]) / ROUNDS_A_LINE for each in taken]
        figures = "".join(f"{mean:>8.2f}" for mean in means)
        print(f"{(start + ROUNDS_A_LINE) * ROUND_SPANS:>16,}{figures}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
