"""Measures one new span live: `python -m benchmarks.arrivals [--beside CHECKOUT]`.

Spans of a trace arrive one by one in the order of their ends, as they do from an agent. Each makes
turns, on which the rules run. The cost is the processor time of the last spans of each trace, in
milliseconds; each case runs in a process of its own. Of short traces many come one after the other:
the few last spans of one would show what the first spans of a process take.
"""

import argparse
import gc
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from benchmarks.live import MS_PER_S, PERCENTILES, ROOT, UNLIMITED, in_process
from benchmarks.span_shapes import SHAPES, requests
from looptrace.analyzer.engine.live import Fed
from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.collector.files.reader import read_spans

SEED = 1
SIZES = (10, 100, 1_000)
# Of each trace at most so many last spans are measured, and no more than half. Of 100 spans the one
# that ends a trace of 10,000 would be counted 100 times too often.
MEASURED_MAX = 1_000
# At least so many spans are measured, of as many traces as that takes.
MEASURED_MIN = 500


@dataclass(frozen=True, slots=True)
class Case:
    """Traces of so many spans in one of the shapes."""

    shape: str
    spans: int

    def request(self) -> bytes:
        """Return the traces as one request."""
        calls = max(1, (self.spans - 1) // 2)
        traces = max(1, 2 * MEASURED_MIN // self.spans)
        return b"".join(requests(self.shape, (1 + 2 * calls) * traces, SEED, calls))


def traces_of(case: Case) -> list[pl.DataFrame]:
    """Return the spans of each trace, in the order of their ends."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "spans.pb")
        path.write_bytes(case.request())
        spans = read_spans([str(path)]).spans.sort("end_ns", maintain_order=True)
        return spans.partition_by("trace_id", maintain_order=True)


def measured(case: Case) -> list[tuple[float, float]]:
    """Return the cost of each span's turns, and of running the rules on them, in milliseconds."""
    traces = traces_of(case)
    LiveSpans().take(
        pl.concat(traces)
    )  # Patterns are compiled once a process, 30 ms that are no span's.
    live = LiveSpans(UNLIMITED)  # A guard of the length would fire at each span of a long trace.
    judge, judged_ms = live.engine.take, list[float]()

    def timed(*news: Any) -> Fed:
        began_s = time.process_time()
        fed = judge(*news)
        judged_ms.append((time.process_time() - began_s) * MS_PER_S)
        return fed

    live.engine.take = timed  # type: ignore[method-assign, assignment]
    gc.collect()
    taken = []
    for spans in traces:
        begin = max(len(spans) // 2, len(spans) - MEASURED_MAX)
        live.take(spans[:begin])
        for part in spans[begin:].iter_slices(1):
            began_s = time.process_time()
            live.take(part)
            taken_ms = (time.process_time() - began_s) * MS_PER_S
            taken.append((taken_ms - judged_ms[-1], judged_ms[-1]))
    return taken


def main() -> int:
    """Run the benchmark, or one case of it."""
    parser = argparse.ArgumentParser(description="Measure spans that arrive one by one.")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="a checkout to compare")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        taken = np.array(measured(Case(**json.loads(options.case))))
        both = np.percentile(taken.sum(axis=1), PERCENTILES)
        print(json.dumps([*both, *np.median(taken, axis=0)]))
        return 0
    print(f"{'ms of processor time a span: p50 / p99, turns + judging':<56}{'here':>24}", end="")
    print(f"{'beside':>28}{'ratio':>8}" if options.beside else "")
    for case in (Case(shape, size) for shape in SHAPES for size in SIZES):
        here = _line(case, ROOT)
        row = f"{case.shape}, a trace of {case.spans:,} spans"
        print(f"{row:<56}{here[1]:>24}", end="")
        if options.beside:
            there = _line(case, options.beside.resolve())
            print(f"{there[1]:>28}{there[0] / here[0]:>8.1f}", end="")
        print(flush=True)
    return 0


def _line(case: Case, checkout: Path) -> tuple[float, str]:
    low, high, turns, judging = in_process("benchmarks.arrivals", asdict(case), checkout)
    return low, f"{low:.2f} / {high:.2f}, {turns:.2f} + {judging:.2f}"


if __name__ == "__main__":
    sys.exit(main())
