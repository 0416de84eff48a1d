"""Measures the live engine: `python -m benchmarks.live [--long] [--beside CHECKOUT]`.

A tick is one call of `LiveEngine.feed`, and its cost is processor time, in milliseconds. Each case
runs in a process of its own. With `--beside`, another checkout of looptrace runs every case right
after this one, so that both meet the same load of the machine.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.generate import sessions
from looptrace.analyzer.detect.loops import GUARDS
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.live_task import HORIZON_S
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.schema.turns import TURN_SCHEMA, numbered
from looptrace.rules.registry import default_rules
from looptrace.rules.vocabulary import NS_PER_S

ROOT = Path(__file__).parent.parent
SEED = 1

# The earlier turns of each task are fed in parts of this size.
HISTORY_PART_TURNS = 1_000
# The earlier turns of each task for 1, 100 and 1,000 tasks, and the number of ticks.
MIXED = {1: (200, 100), 100: (100, 30), 1_000: (100, 12)}
# One task with this many earlier turns; the last case takes minutes.
LENGTHS = (100, 1_000, 10_000)
LONG = 100_000
SINGLE_TICKS = 100
WARM_TICKS = 3

START_S = 1_767_225_600
STEP_S = 5
# A session that many agents share, because all have one name for it: the turns of a tick, how many
# there are in a second, and by how much they come late.
SHARED_TURNS, SHARED_TURNS_PER_S, SHARED_LATE_S_MAX = 12, 50, 5
MS_PER_S = 1_000
PERCENTILES = (50, 99)
UNLIMITED = DetectionPolicy(
    RuleSet(tuple(rule for rule in default_rules() if rule.name not in GUARDS))
)


@dataclass(frozen=True, slots=True)
class Case:
    """A case: a number of tasks, each with a history, which get a turn each at every tick.

    A shared task gets `SHARED_TURNS` turns, which come late. A healthy task is a working one whose
    length no guard limits, so that no rule fires.
    """

    # mixed, healthy, working or shared (every call is another), or looping (all are the same)
    work: str
    tasks: int
    history: int
    ticks: int
    late_s_max: float = SHARED_LATE_S_MAX  # of a shared task

    @property
    def label(self) -> str:
        """The case in words."""
        if self.work == "mixed":
            return f"{self.tasks:,} tasks of {self.history} turns, 1 turn each"
        turns = f"{self.turns_a_tick} turns" if self.turns_a_tick > 1 else "1 turn"
        return f"{self.work} task of {self.history:,} turns, {turns}"

    @property
    def turns_a_tick(self) -> int:
        """How many turns each task gets at every tick."""
        return SHARED_TURNS if self.work == "shared" else 1


def cases(*, long: bool) -> list[Case]:
    """Return the cases, the longest task only on request."""
    lengths = (*LENGTHS, LONG) if long else LENGTHS
    mixed = [Case("mixed", tasks, *sizes) for tasks, sizes in MIXED.items()]
    works = ("healthy", "working", "looping")
    single = [Case(work, 1, n, SINGLE_TICKS) for work in works for n in lengths]
    shared = Case("shared", 1, SHARED_TURNS_PER_S * HORIZON_S, SINGLE_TICKS)
    return [*mixed, *single, shared]


def turns_of(case: Case) -> pl.DataFrame:
    """Return the turns of all tasks of a case, with their `place`: part of the history, or a tick.

    Places are in the order in which turns come.
    """
    length = case.history + (WARM_TICKS + case.ticks) * case.turns_a_tick
    rng = np.random.default_rng(SEED)
    drafts = sessions(np.full(case.tasks, length), rng)
    if case.work != "mixed":
        drafts = _alike(drafts, case.work)
    turns = numbered(add_fingerprints(drafts.select(TURN_SCHEMA.names())))
    if case.work == "shared":
        late_ns = rng.uniform(0, case.late_s_max * NS_PER_S, turns.height)
        turns = turns[np.argsort(turns["end_ns"].to_numpy() + late_ns)]
    number = pl.int_range(pl.len()).over("task")
    later = case.history + (number - case.history) // case.turns_a_tick
    return turns.with_columns(place=pl.when(number < case.history).then(number).otherwise(later))


def _alike(drafts: pl.DataFrame, work: str) -> pl.DataFrame:
    """Return a person's message, and then one agent's calls of one tool every few seconds.

    In a shared task there are many a second.
    """
    place = pl.int_range(pl.len())
    step_ns = NS_PER_S // SHARED_TURNS_PER_S if work == "shared" else STEP_S * NS_PER_S
    end_ns = START_S * NS_PER_S + step_ns * place
    asks = place == 0
    number = pl.lit("") if work == "looping" else place.cast(pl.String)
    unknown = pl.lit(None, pl.String)
    return drafts.with_columns(
        kind=pl.when(asks).then(pl.lit("user")).otherwise(pl.lit("tool")).cast(TURN_SCHEMA["kind"]),
        agent=pl.when(asks).then(pl.lit("")).otherwise(pl.lit("lead")),
        name=pl.lit("run_tests"),
        arguments=pl.concat_str(pl.lit('{"path":"a'), number, pl.lit('.py"}')),
        result=pl.concat_str(pl.lit("saw "), number, pl.lit(" lines")),
        failed=pl.lit(value=False),
        **dict.fromkeys(("error", "error_type", "text", "response", "talks_on"), unknown),
        start_ns=end_ns - NS_PER_S,
        end_ns=end_ns,
    )


def measured(case: Case) -> list[float]:
    """Return the cost of each tick of a case, in milliseconds of processor time."""
    turns = turns_of(case)
    engine = LiveEngine(UNLIMITED if case.work == "healthy" else DEFAULT)
    for begin in range(0, case.history, HISTORY_PART_TURNS):
        end = min(begin + HISTORY_PART_TURNS, case.history) - 1
        engine.feed(turns.filter(pl.col("place").is_between(begin, end)).drop("place"))
    parts = turns.filter(pl.col("place") >= case.history).partition_by("place", include_key=False)
    for part in parts[:WARM_TICKS]:
        engine.feed(part)
    gc.collect()
    taken = []
    for part in parts[WARM_TICKS:]:
        before_s = time.process_time()
        engine.feed(part)
        taken.append((time.process_time() - before_s) * MS_PER_S)
    return taken


def in_process(module: str, case: dict[str, Any], checkout: Path) -> list[float]:
    """Return the result of a benchmark for one case with the looptrace of a checkout."""
    if not (checkout / "src/looptrace").is_dir():
        raise SystemExit(f"{checkout}: is no checkout of looptrace")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(checkout / "src"), str(ROOT)))}
    command = [sys.executable, "-m", module, "--case", json.dumps(case)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, cwd=ROOT)
    figures: list[float] = json.loads(done.stdout)
    return figures


def main() -> int:
    """Run the benchmark, or one case of it."""
    parser = argparse.ArgumentParser(description="Measure ticks of the live engine.")
    parser.add_argument("--long", action="store_true", help="tasks of 100,000 turns too (minutes)")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="a checkout to compare")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(
            json.dumps(list(np.percentile(measured(Case(**json.loads(options.case))), PERCENTILES)))
        )
        return 0
    print(f"{'ms of processor time a tick, p50 / p99':<44}{'here':>16}", end="")
    print(f"{'beside':>18}{'ratio':>8}" if options.beside else "")
    for case in cases(long=options.long):
        low, high = in_process("benchmarks.live", asdict(case), ROOT)
        line = f"{case.label:<44}{low:>8.2f}{high:>8.2f}"
        if options.beside:
            checkout = options.beside.resolve()
            other_low, other_high = in_process("benchmarks.live", asdict(case), checkout)
            line += f"{other_low:>10.2f}{other_high:>8.2f}{other_low / low:>8.1f}"
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
