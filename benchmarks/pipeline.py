"""Measures each stage from bytes to a report: `python -m benchmarks.pipeline [--spans 10000]`.

It prints the processor time of each stage per span, the median of several rounds, for three shapes
of spans. With `--beside CHECKOUT` another checkout of looptrace is measured over the same files, in
alternating rounds, and the ratio counts.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

from benchmarks.span_shapes import SHAPES, requests
from looptrace.analyzer.detect.counters import add_counters
from looptrace.analyzer.detect.evaluate import find_stretches
from looptrace.analyzer.engine.batch import analysis_of, detect
from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.report.json import json_report
from looptrace.collector.files.reader import read_spans

T = TypeVar("T")

ROUNDS = 3
SPANS_FIRST = 200
SEED = 1
US_PER_S = 1_000_000
ROOT = Path(__file__).resolve().parent.parent
STAGES = (
    "read",
    "normalise",
    "of it fingerprint",
    "code and count",
    "rules",
    "findings and gates",
    "JSON report",
)
PARTIAL = "of it "


def measure(path: Path) -> dict[str, float]:
    """Return the processor time of each stage over one file, in µs a span."""
    taken: list[float] = []

    def timed(run: Callable[[], T]) -> T:
        gc.collect()
        began = time.process_time()
        result = run()
        taken.append(time.process_time() - began)
        return result

    detect(turns_of(read_spans([str(path)]).spans.head(SPANS_FIRST))[0])  # Made once.
    spans = timed(lambda: read_spans([str(path)])).spans
    turns, noted = timed(lambda: turns_of(spans))
    timed(lambda: add_fingerprints(turns))
    rows = timed(lambda: add_counters(turns, DEFAULT.rule_set.counting))
    timed(lambda: find_stretches(rows, DEFAULT.rule_set))
    timed(lambda: detect(turns))
    taken[-1] -= taken[-2] + taken[-3]  # The work of `detect` beside coding, counting and rules.
    analysis = analysis_of(turns, spans.height, noted.skipped)
    timed(lambda: json_report(analysis))
    return {name: s * US_PER_S / spans.height for name, s in zip(STAGES, taken, strict=True)}


def measured_by(checkout: Path, path: Path) -> dict[str, float]:
    """Measure with the package of a checkout, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "benchmarks.pipeline", "--file", str(path)]
    done = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    stages: dict[str, float] = json.loads(done.stdout)
    return stages


def compare(path: Path, beside: Path | None) -> None:
    """Print a line for each stage, beside those of another checkout."""
    checkouts = [ROOT] if beside is None else [ROOT, beside]
    rounds = [[measured_by(checkout, path) for checkout in checkouts] for _ in range(ROUNDS)]
    middles = [
        {stage: median(stages[stage] for stages in times) for stage in STAGES}
        for times in zip(*rounds, strict=True)
    ]
    for times in middles:
        times["whole"] = sum(us for stage, us in times.items() if not stage.startswith(PARTIAL))
    here, other = middles[0], middles[-1]
    for stage, us in here.items():
        ratio = f"{other[stage]:10.2f}{other[stage] / us:8.2f}" if beside else ""
        print(f"  {stage:20}{us:10.2f}{ratio}")


def main() -> None:
    """Write the files, measure them, and print a table for each shape."""
    parser = argparse.ArgumentParser(description="Measure each stage from bytes to a report.")
    parser.add_argument("--spans", type=int, default=10_000)
    parser.add_argument("--shape", choices=SHAPES, action="append")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.file:
        print(json.dumps(measure(options.file)))
        return
    titles = f"{'other':>10}{'ratio':>8}" if options.beside else ""
    with tempfile.TemporaryDirectory() as folder:
        for shape in options.shape or SHAPES:
            path = Path(folder) / f"{shape}.pb"
            with path.open("wb") as file:
                file.writelines(requests(shape, options.spans, SEED))
            size = path.stat().st_size
            print(f"{shape}, {size / options.spans:,.0f} bytes a span")
            print(f"  {'µs of CPU a span':20}{'here':>10}{titles}")
            compare(path, options.beside)


if __name__ == "__main__":
    main()
