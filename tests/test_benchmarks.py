from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from benchmarks import plain, simulation
from benchmarks.generate import turns
from benchmarks.plain import RULES
from benchmarks.span_shapes import SHAPES, write_files
from benchmarks.speed import plain_reader
from benchmarks.speed.rules import loops_by_looptrace, loops_by_plain, rules_compared, settings_of
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.collector.files.reader import read_spans
from looptrace.rules.calls.cycle import Cycle
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.calls.signature_repeat import SignatureRepeat
from looptrace.rules.responses.response_repeat import ResponseRepeat

TURNS = 20_000
SEEDS = (1, 2, 3)
SPANS = 1_000

# About 12 % of the sessions are given a loop; 20,000 turns are only some 500 sessions.
SHARE_MIN, SHARE_MAX = 0.08, 0.17
PERIODS_MIN = 4

# Hashes of the things that happen in crowded turns, and how often; null is unknown.
HASHES = ("0a", "0b", "0c", None)
SHARES = (0.55, 0.35, 0.07, 0.03)


def crowded(seed: int) -> pl.DataFrame:
    """Return turns in which so few things happen that loops meet, overlap and take turns."""
    rng = np.random.default_rng(seed)
    drawn = [
        pl.when(pl.col(name).is_not_null() & (pl.col("kind") != "user"))
        .then(pl.lit(pl.Series(HASHES).gather(rng.choice(len(HASHES), TURNS, p=SHARES))))
        .alias(name)
        for name in ("call", "outcome", "signature", "response")
    ]
    # Equal calls name one file, by which what a look shows is told apart.
    named = pl.when(pl.col("arguments").is_not_null()).then(pl.col("call")).alias("arguments")
    # A call that ran out of time and comes after a longer pause each time would be a poll.
    failed = pl.when(pl.col("error_kind").is_not_null()).then(pl.lit("runtime")).alias("error_kind")
    return turns(TURNS, seed).with_columns(*drawn, failed).with_columns(named)


def loops_agreed(table: pl.DataFrame, judging: RuleSet) -> list[plain.Loop]:
    """Return the loops of every rule, which looptrace and the plain loop must both find."""
    ours = loops_by_looptrace(table, judging)
    assert ours == loops_by_plain(table, judging)
    assert {loop[0] for loop in ours} == set(RULES)
    return ours


@pytest.mark.parametrize("seed", SEEDS)
def test_plain_loop_agrees_on_sessions(seed: int) -> None:
    """Both implementations find the same loops, in about as many sessions as were given one."""
    table = turns(TURNS, seed)
    loops = loops_agreed(table, rules_compared())
    share = len({task for _, task, *_ in loops}) / table["task"].n_unique()
    assert SHARE_MIN < share < SHARE_MAX
    assert len({period for *_, period in loops}) >= PERIODS_MIN


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_plain_loop_agrees_where_loops_are_crowded(seed: int) -> None:
    """Where loops meet, both join them to the same stretches, down to the least settings."""
    table = crowded(seed)
    least = (
        RepeatedCall(attempts_min=2),
        SignatureRepeat(attempts_min=4),
        ResponseRepeat(attempts_min=2),
        Cycle(rounds_min=3, period_max=5),
    )
    loops_agreed(table, rules_compared())
    loops_agreed(table, RuleSet(least))


def test_turns_depend_on_the_seed_alone() -> None:
    """The same seed gives the same turns, of the schema and the number that was asked for."""
    table = turns(SPANS, seed=1)
    assert table.schema == TURN_SCHEMA
    assert table.height == SPANS
    assert_frame_equal(table, turns(SPANS, seed=1))
    assert not table.equals(turns(SPANS, seed=2))


def test_plain_reader_agrees_on_files(tmp_path: Path) -> None:
    """The plain reader finds the loops that looptrace finds by the rules that both have."""
    by_shape = {}
    for shape in SHAPES:
        paths = write_files(tmp_path / shape, shape, SPANS)
        spans = [span for path in paths for span in plain_reader.spans_of(Path(path))]
        loops = plain_reader.read_loops(spans, plain.DEFAULT)
        by_shape[shape] = {(rule, task) for rule, task, *_ in loops}
        findings = detect(turns_of(read_spans(paths).spans)[0], DetectionPolicy(rules_compared()))
        assert by_shape[shape] == {(f.rule, f.task.partition("@")[0]) for f in findings.findings}
    assert by_shape["short"]


def test_plain_reader_reads_json_as_protobuf(tmp_path: Path) -> None:
    """Lines of JSON hold the spans that the files of protobuf hold, to both readers."""
    as_json, packed = (
        write_files(tmp_path / str(as_json), "flat", SPANS, as_json=as_json)
        for as_json in (True, False)
    )
    assert_frame_equal(read_spans(as_json).spans, read_spans(packed).spans, check_row_order=False)
    by_plain = [
        sorted(map(str, (span for path in paths for span in plain_reader.spans_of(Path(path)))))
        for paths in (as_json, packed)
    ]
    assert len(by_plain[0]) == len(by_plain[1]) > 0


def test_settings_of_the_plain_loop_are_those_of_the_rules() -> None:
    """The plain reader, which imports nothing of looptrace, loops by looptrace's defaults."""
    assert settings_of(rules_compared()) == plain.DEFAULT


def test_a_day_costs_what_its_turns_cost() -> None:
    """All turns of a day are served once, and an outage leaves servers behind."""
    day = simulation.day(3)
    owners = np.zeros(simulation.SESSIONS, dtype=np.int64)
    arriving = simulation.arriving(day, owners, 1)
    assert np.isclose(arriving.sum(), day.turns.sum())
    result = simulation.simulated(day, 1, 3, times=1, forwarded=0.0)
    seconds = simulation.MINUTES * simulation.MINUTE_S
    assert np.isclose(result.mean_busy, day.turns.sum() * simulation.SERVE_US / 1e6 / seconds)
    assert result.behind_max > 0.5
    assert simulation.simulated(day, 3, 3, times=1, forwarded=0.0).behind_max < result.behind_max
