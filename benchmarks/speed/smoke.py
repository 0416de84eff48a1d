"""Ratios to the plain reader and loop at small sizes, beside the ones in docs/benchmarks.json.

Processor time of two ways that do the same work, one right after the other, hardly depends on the
machine and its load; the least of some rounds depends on them least. `make ratios` fails where one
is less than half of the recorded one.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import live, plain
from benchmarks.generate import turns
from benchmarks.span_shapes import SEED, SHAPES, write_files
from benchmarks.speed import plain_reader
from benchmarks.speed.rules import rules_compared, settings_of
from looptrace.analyzer.detect.counters import add_counters
from looptrace.analyzer.detect.evaluate import find_stretches
from looptrace.analyzer.engine.batch import analysis_of, detect
from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.report.json import json_report
from looptrace.collector.files.reader import read_spans

PLAIN = "plain"
RECORDED = Path(__file__).parents[2] / "docs/benchmarks.json"
SPANS, TURNS, ROUNDS = 1_500, 20_000, 5
LENGTHS, TICKS = (100, 3_000), 40
SHARED_LENGTH, LATE_S = 3_000, (0, 5)

# The factor over the recorded ratio that counts as a failure.
SLOWER_MAX = 2.0


def ratios() -> dict[str, float]:
    """Return the speed of each way as a multiple of the plain one, by processor time."""
    table = turns(TURNS, SEED)
    counted = add_counters(table, DEFAULT.rule_set.counting)
    rows = counted.select(plain.COLUMNS).rows()
    analysis = analysis_of(table, 0)
    taken_s = least_s(
        {
            PLAIN: partial(plain.loops, rows, settings_of(rules_compared())),
            "four rules": partial(find_stretches, counted, rules_compared()),
            "all rules": partial(find_stretches, counted, DEFAULT.rule_set),
            "turns to findings": partial(detect, table),
            "JSON report": partial(json_report, analysis),
        }
    )
    by_plain = taken_s.pop(PLAIN)
    return {
        **{f"files, {shape}": _files(shape) for shape in SHAPES},
        **{name: by_plain / each_s for name, each_s in taken_s.items()},
        f"a turn of a task of {LENGTHS[0]} : {LENGTHS[1]:,}": _compared(
            *(live.Case("working", 1, length, TICKS) for length in LENGTHS)
        ),
        "turns in order : late": _compared(
            *(live.Case("shared", 1, SHARED_LENGTH, TICKS, late_s) for late_s in LATE_S)
        ),
    }


def least_s(ways: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the least processor time of each way over alternating rounds, after a warm-up."""
    least = dict.fromkeys(ways, float("inf"))
    for place in range(ROUNDS + 1):
        for name, way in ways.items():
            began_s = time.process_time()
            way()
            if place:
                least[name] = min(least[name], time.process_time() - began_s)
    return least


def _files(shape: str) -> float:
    with TemporaryDirectory() as folder:
        paths = write_files(Path(folder, shape), shape, SPANS)
        taken_s = least_s(
            {PLAIN: partial(_plain_files, paths), "ours": partial(_files_to_findings, paths)}
        )
    return taken_s[PLAIN] / taken_s["ours"]


def _files_to_findings(paths: list[str]) -> object:
    return detect(turns_of(read_spans(paths).spans)[0])


def _plain_files(paths: list[str]) -> object:
    spans = [span for path in paths for span in plain_reader.spans_of(Path(path))]
    return plain_reader.read_loops(spans, plain.DEFAULT)


def _compared(*cases: live.Case) -> float:
    """Return what a tick of the first case costs, as a multiple of one of the other."""
    one, other = (float(np.quantile(live.measured(case), 0.25)) for case in cases)
    return one / other


def main() -> int:
    """Print each ratio beside the recorded one, and return 1 where one fell to a half."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="record the ratios")
    options = parser.parse_args()
    figures = json.loads(RECORDED.read_text(encoding="utf-8"))
    recorded, measured = figures["smoke"], ratios()
    for name, ratio in measured.items():
        print(f"{name:34} {ratio:8.3f}   recorded {recorded.get(name, math.nan):8.3f}")
    if options.write:
        RECORDED.write_text(json.dumps({**figures, "smoke": measured}, indent=1) + "\n", "utf-8")
        return 0
    return int(any(ratio * SLOWER_MAX < recorded[name] for name, ratio in measured.items()))


if __name__ == "__main__":
    sys.exit(main())
