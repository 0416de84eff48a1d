"""Measures the rules: `python -m benchmarks.rules [--turns 1000000] [--seed 1]`.

First looptrace and the plain loop must find exactly the same loops. Then both are timed in turn,
from coded turns to loops, which is the stage that they share. The plain loop is favoured: it is
given its rows as ready tuples, makes no evidence, and reads its rows one after the other when its
memory is measured.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import polars as pl

from benchmarks import plain
from benchmarks.generate import sessions, written
from looptrace.analyzer.detect.columns import encode_columns
from looptrace.analyzer.detect.counters import Counting, add_counters
from looptrace.analyzer.detect.evaluate import find_stretches
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fingerprint.signatures import add_fingerprints
from looptrace.analyzer.schema.turns import TURN_SCHEMA, numbered
from looptrace.rules.registry import default_rules

T = TypeVar("T")

# Judging must be at least this many times as fast as the plain loop.
RATIO_MIN = 5.0
# Both are measured this often, one after the other; the median counts.
ROUNDS = 5

# One session with this history, then single turns; and many sessions that get two turns at a time.
SINGLE_HISTORY_TURNS = 200
SINGLE_TICKS = 300
BATCH_SESSIONS = 500
BATCH_HISTORY_TURNS = 66
BATCH_TURNS_EACH = 2
BATCH_TICKS = 10
PERCENTILES = (50, 99)

MS_PER_S = 1_000
BYTES_PER_MB = 1_000_000
# The system tells the peak of a process in kilobytes, on a Mac in bytes.
PEAK_UNIT_BYTES = 1 if sys.platform == "darwin" else 1_024

JUDGE, PLAIN_LOOP, WHOLE = "judge, looptrace", "judge, plain loop", "detect, whole"
WRITTEN_FILE, CODED_FILE = "written.parquet", "coded.parquet"


@dataclass(frozen=True, slots=True)
class Times:
    """What one stage took; processor time is added up over threads, and hardly moves with load."""

    wall_s: float
    cpu_s: float


def settings_of(rule_set: RuleSet) -> plain.Settings:
    """Return the settings that the rules have, for the plain loop."""
    values = {rule.name: {k: v for k, (v, _) in rule.settings().items()} for rule in rule_set.rules}
    return plain.Settings(
        calls_min=values["repeated_call"]["attempts_min"],
        signatures_min=values["signature_repeat"]["attempts_min"],
        responses_min=values["response_repeat"]["attempts_min"],
        rounds_min=values["cycle"]["rounds_min"],
        period_max=values["cycle"]["period_max"],
    )


def rules_compared() -> RuleSet:
    """Return the rules that the plain loop has too."""
    return RuleSet(tuple(rule for rule in default_rules() if rule.name in plain.RULES))


def loops_by_looptrace(turns: pl.DataFrame, rule_set: RuleSet) -> list[plain.Loop]:
    """Return looptrace's findings in the plain loop's form, sorted."""
    return sorted(
        (f.rule, f.task, f.agent, f.turn_first, f.turn_last, f.attempts, f.period)
        for f in detect(turns, DetectionPolicy(rule_set)).findings
    )


def loops_by_plain(turns: pl.DataFrame, rule_set: RuleSet) -> list[plain.Loop]:
    """Return what the plain loop finds in the same turns."""
    return plain.loops(encode_columns(turns).select(plain.COLUMNS).rows(), settings_of(rule_set))


def main() -> int:
    """Run the benchmark; returns 1 if results differ or judging is too slow."""
    parser = argparse.ArgumentParser(description="Measure the rules beside a plain Python loop.")
    parser.add_argument("--turns", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"polars {pl.__version__}, numpy {np.__version__}, "
        f"{options.turns:,} turns from seed {options.seed}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # This process is still small, and each child starts with no more than it has.
        _in_child(_prepare, folder, options.turns, options.seed)
        peaks = {stage: _in_child(_peak, folder, stage) for stage in (JUDGE, PLAIN_LOOP, WHOLE)}
        drafts = pl.read_parquet(folder / WRITTEN_FILE)
    turns, times = _stages(drafts)
    difference = _difference(turns)
    if difference:
        print(difference)
        return 1
    times |= _judging(turns)
    _show(times, peaks, options.turns)
    _show_live(options.seed)
    return _verdict(times)


def _in_child(function: Callable[..., T], *arguments: object) -> T:
    """Call a function in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def _prepare(folder: Path, count: int, seed: int) -> None:
    """Write the turns as they are before fingerprints, and as they are before rule_set."""
    drafts = written(count, seed)
    drafts.write_parquet(folder / WRITTEN_FILE)
    add_counters(encode_columns(numbered(add_fingerprints(drafts))), Counting()).write_parquet(
        folder / CODED_FILE
    )


def _peak(folder: Path, stage: str) -> float:
    """Return how many megabytes a stage needed beyond its input."""
    rule_set = rules_compared()
    table = pl.read_parquet(folder / CODED_FILE)
    whole = table.select(TURN_SCHEMA.names())
    runs: dict[str, Callable[[], object]] = {
        JUDGE: lambda: find_stretches(table, rule_set)[0],
        PLAIN_LOOP: lambda: plain.loops(
            table.select(plain.COLUMNS).iter_rows(), settings_of(rule_set)
        ),
        WHOLE: lambda: detect(whole, DetectionPolicy(rule_set)).findings,
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    runs[stage]()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (after - before) * PEAK_UNIT_BYTES / BYTES_PER_MB


def _stages(drafts: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Times]]:
    """Run what comes before the rules, and return the turns with the times."""
    printed, fingerprint = _timed(lambda: add_fingerprints(drafts))
    turns, order = _timed(lambda: numbered(printed))
    _, code = _timed(lambda: add_counters(encode_columns(turns), Counting()))
    return turns, {"fingerprint": fingerprint, "order and number": order, "code and count": code}


def _difference(turns: pl.DataFrame) -> str | None:
    """Say where the two first differ, None if they agree; also prints how many loops there are."""
    rule_set = rules_compared()
    ours, theirs = loops_by_looptrace(turns, rule_set), loops_by_plain(turns, rule_set)
    if ours != theirs:
        apart = set(ours) ^ set(theirs)
        if not apart:
            return "DIFFERENT: one of the two found a loop twice"
        first = min(apart)
        finder = "looptrace" if first in ours else "the plain loop"
        return f"DIFFERENT: only {finder} found {first} (and {len(apart) - 1} more differ)"
    by_rule = {name: sum(loop[0] == name for loop in ours) for name in plain.RULES}
    told = ", ".join(f"{name} {number}" for name, number in by_rule.items())
    print(f"looptrace and the plain loop found the same {len(ours)} loops: {told}\n")
    return None


def _judging(turns: pl.DataFrame) -> dict[str, Times]:
    """Time both ways of rule_set in turn, and everything from turns to findings."""
    rule_set = rules_compared()
    settings = settings_of(rule_set)
    table = add_counters(encode_columns(turns), Counting())
    rows = table.select(plain.COLUMNS).rows()
    # Else the garbage collector walks the plain loop's rows again and again, in both stages.
    gc.collect()
    gc.freeze()
    stages: dict[str, Callable[[], object]] = {
        JUDGE: lambda: find_stretches(table, rule_set)[0],
        PLAIN_LOOP: lambda: plain.loops(rows, settings),
        WHOLE: lambda: detect(turns, DetectionPolicy(rule_set)).findings,
    }
    taken: dict[str, list[Times]] = {stage: [] for stage in stages}
    for _ in range(ROUNDS):
        for stage, run in stages.items():
            taken[stage].append(_timed(run)[1])
    gc.unfreeze()
    return {
        stage: Times(median(t.wall_s for t in times), median(t.cpu_s for t in times))
        for stage, times in taken.items()
    }


def _timed(run: Callable[[], T]) -> tuple[T, Times]:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    result = run()
    return result, Times(time.perf_counter() - wall_s, time.process_time() - cpu_s)


def _show(times: dict[str, Times], peaks: dict[str, float], count: int) -> None:
    """Print a line for each stage."""
    print(f"{'stage':<20}{'turns/s':>14}{'turns/cpu-s':>14}{'extra MB':>10}")
    for stage, taken in times.items():
        peak = f"{peaks[stage]:,.0f}" if stage in peaks else ""
        print(f"{stage:<20}{count / taken.wall_s:>14,.0f}{count / taken.cpu_s:>14,.0f}{peak:>10}")


def _show_live(seed: int) -> None:
    """Print the latency of single turns, and the throughput of small batches."""
    rng = np.random.default_rng(seed)
    single = _fed(rng, 1, SINGLE_HISTORY_TURNS, 1, SINGLE_TICKS)
    low, high = np.percentile([taken.wall_s * MS_PER_S for taken in single], PERCENTILES)
    print(
        f"\nlive, one turn at a time, one session with {SINGLE_HISTORY_TURNS} turns before: "
        f"p50 {low:.2f} ms, p99 {high:.2f} ms"
    )
    batches = _fed(rng, BATCH_SESSIONS, BATCH_HISTORY_TURNS, BATCH_TURNS_EACH, BATCH_TICKS)
    size = BATCH_SESSIONS * BATCH_TURNS_EACH
    taken_s = median(taken.wall_s for taken in batches)
    print(
        f"live, {size:,} turns at a time over {BATCH_SESSIONS} sessions with "
        f"{BATCH_HISTORY_TURNS} turns before: {size / taken_s:,.0f} turns/s"
    )


def _fed(rng: np.random.Generator, tasks: int, history: int, each: int, ticks: int) -> list[Times]:
    """Feed a live engine the history of some tasks, then time ticks of a few turns of each."""
    turns = add_fingerprints(sessions(np.full(tasks, history + each * ticks), rng))
    turns = numbered(turns).with_columns(place=pl.int_range(pl.len()).over("task"))
    engine = LiveEngine(DetectionPolicy(rules_compared()))
    engine.feed(turns.filter(pl.col("place") < history).drop("place"))
    begins = range(history, history + each * ticks, each)
    fed = [
        turns.filter(pl.col("place").is_between(begin, begin + each - 1)).drop("place")
        for begin in begins
    ]
    return [_timed(partial(engine.feed, tick))[1] for tick in fed]


def _verdict(times: dict[str, Times]) -> int:
    """Say whether judging is fast enough, by processor time; returns the exit code."""
    ratio = times[PLAIN_LOOP].cpu_s / times[JUDGE].cpu_s
    fast_enough = ratio >= RATIO_MIN
    print(
        f"\njudging is {ratio:.1f} times as fast as the plain loop; "
        f"it must be at least {RATIO_MIN:g} times: {'ok' if fast_enough else 'TOO SLOW'}"
    )
    return 0 if fast_enough else 1


if __name__ == "__main__":
    sys.exit(main())
