"""The rules over turns in memory, beside the plain loop and other detectors.

The plain loop has an advantage: it gets its rows as ready tuples, and makes no evidence. Both must
find exactly the same loops.
"""

import gc
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import polars as pl

from benchmarks import peers, plain
from benchmarks.generate import turns as generated
from looptrace.analyzer.detect.counters import add_counters
from looptrace.analyzer.detect.evaluate import find_stretches
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.rules.registry import default_rules

SEED = 1
# Each way is timed this many times, in turn; the median counts.
ROUNDS = 3
# Other detectors are slow, so that they get only this many of the turns.
PEER_TURNS = 20_000

# The four rules that the plain loop has, the plain loop, and all rules with what they count.
FOUR, PLAIN, ALL, WHOLE = "four rules", "plain loop", "all rules", "turns to findings"


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
    """Return the rules that the plain loop also has."""
    return RuleSet(tuple(rule for rule in default_rules() if rule.name in plain.RULES))


def loops_by_looptrace(turns: pl.DataFrame, rule_set: RuleSet) -> list[plain.Loop]:
    """Return looptrace's findings in the plain loop's form, sorted."""
    return sorted(
        (f.rule, f.task, f.agent, f.turn_first, f.turn_last, f.attempts, f.period)
        for f in detect(turns, DetectionPolicy(rule_set)).findings
    )


def loops_by_plain(turns: pl.DataFrame, rule_set: RuleSet) -> list[plain.Loop]:
    """Return the loops that the plain loop finds in the same turns."""
    counted = add_counters(turns, DEFAULT.rule_set.counting)
    return plain.loops(counted.select(plain.COLUMNS).rows(), settings_of(rule_set))


def cpu_s(turns: pl.DataFrame) -> dict[str, float]:
    """Return the processor time of each way over these turns, in seconds."""
    rule_set = rules_compared()
    counted = add_counters(turns, DEFAULT.rule_set.counting)
    rows = counted.select(plain.COLUMNS).rows()
    ways: dict[str, Callable[[], object]] = {
        FOUR: partial(find_stretches, counted, rule_set),
        PLAIN: partial(plain.loops, rows, settings_of(rule_set)),
        ALL: partial(find_stretches, counted, DEFAULT.rule_set),
        WHOLE: partial(detect, turns),
    }
    # Otherwise the garbage collector walks the plain loop's rows again and again, in all ways.
    gc.collect()
    gc.freeze()
    taken = [{name: _timed(way) for name, way in ways.items()} for _ in range(ROUNDS)]
    gc.unfreeze()
    return {name: median(times[name] for times in taken) for name in ways}


def _timed(way: Callable[[], object]) -> float:
    began_s = time.process_time()
    way()
    return time.process_time() - began_s


def turns_per_s(count: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the turns a CPU second of each way, and of each other detector that is installed.

    Raises:
        ValueError: if looptrace and the plain loop find other loops.
    """
    turns = generated(count, SEED)
    rule_set = rules_compared()
    if loops_by_looptrace(turns, rule_set) != loops_by_plain(turns, rule_set):
        raise ValueError("looptrace and the plain loop find different loops")
    ours = {name: count / taken_s for name, taken_s in cpu_s(turns).items()}
    return ours, peers.turns_per_s(turns.head(PEER_TURNS))
