"""The signs of a likely failure, and the model over them."""

import random
import zlib
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import polars as pl
import pytest

from looptrace.analyzer.detect.columns import columns
from looptrace.analyzer.detect.counters import Counting, add_counters
from looptrace.analyzer.schema.turns import numbered
from looptrace.analyzer.settings.sections import parsed
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.contract import Rung, SettingError
from looptrace.rules.prediction.likely_failure import (
    SIGNS,
    LikelyFailure,
    Model,
    model_of,
    percents,
    signs_of,
)
from looptrace.rules.vocabulary import NS_PER_S
from tests.analyzer.engine.test_live import arrived, disagreements, looping_steps, table
from tests.drivers import batch, ruleset
from tests.rules.models import EXAMPLE, model

WINDOW = 6


def signs(turns: pl.DataFrame, window: int = WINDOW) -> list[dict[str, float]]:
    """Return the signs at each turn."""
    lane = columns(add_counters(turns, Counting()), texts=LikelyFailure.lane.kinds).lane(
        LikelyFailure.lane
    )
    return [dict(zip(SIGNS, row, strict=True)) for row in signs_of(lane, window).tolist()]


def test_signs_say_what_they_measure() -> None:
    """Computed by hand for three turns, of which the last two are the same."""
    text = "There is nothing new in the inbox."
    said = f'look(a)->"{text}" ~6 look(b)->!"{text}" look(b)->!"{text}"'
    first, second, third = signs(turns_in(said))

    assert (first["again"], first["failed"], first["entropy"], first["novelty"]) == (0, 0, 1, 1)
    assert (second["again"], second["same_answer"], second["failed"]) == (0, 0, 1 / 2)
    assert second["pause"] == pytest.approx(np.log2(1 + 7) / 2)
    assert (third["again"], third["same_answer"], third["both"]) == (1 / 3, 1 / 3, 1 / 3)
    assert third["same_failure"] == 1 / 3
    entropy = -(1 / 3 * np.log2(1 / 3) + 2 / 3 * np.log2(2 / 3)) / np.log2(3)
    assert third["entropy"] == pytest.approx(entropy, abs=0.001)
    packer = zlib.compressobj(wbits=-15, zdict=f"{text}\n{text}".encode())
    left = len(packer.compress(text.encode()) + packer.flush())
    fresh = zlib.compressobj(wbits=-15)
    whole = len(fresh.compress(text.encode()) + fresh.flush())
    assert third["novelty_now"] == pytest.approx(left / whole, abs=0.001)


def test_signs_look_no_further_back_than_they_say() -> None:
    """What came before the look-back plays no part, bit by bit."""
    chance = random.Random(5)
    calls = [
        f'run({chance.randint(1, 3)})->"{chance.randint(1, 3)} of the files"' for _ in "x" * 60
    ]
    lookback = 2 * WINDOW - 1
    whole = signs(turns_in(" ".join(calls)))

    for start in (1, 20, 40):
        part = signs(turns_in(" ".join(calls[start:])))
        # The first pause of a lane has nothing before it.
        assert part[lookback:] == whole[start + lookback :]


def test_each_lane_has_signs_of_its_own() -> None:
    """Beside others a task reads as it does alone, from its first turn on."""
    alone = [
        turns_in(f'look({name})->"There is nothing new in {name}" x9').with_columns(
            task=pl.lit(name), start_ns=pl.col("start_ns") + shift, end_ns=pl.col("end_ns") + shift
        )
        for name, shift in (("a", 0), ("b", 5_000 * NS_PER_S), ("c", 9_000 * NS_PER_S))
    ]
    together = signs(numbered(pl.concat([*alone, alone[0].with_columns(task=pl.lit("d"))])))

    assert together[:27] == [row for turns in alone for row in signs(numbered(turns))]
    assert together[27:] == together[:9]


@dataclass(frozen=True, slots=True)
class ShortSighted(LikelyFailure):
    """A planted fault: it claims to look back on fewer turns than it does."""

    @property
    def lookback(self) -> int:
        """Return the signs as if no turn preceded the window."""
        return self.attempts_min + EXAMPLE.window - 1


def test_it_looks_back_no_further_than_it_says() -> None:
    """Live keeps as many turns as a rule says it needs, and a fault in that is seen."""
    settings: dict[str, Any] = {"attempts_min": 2, "likely_percent": 50}
    settings["model"] = model({"again": 4.0, "same_answer": -2.0, "entropy": 1.0}, -2.0)

    assert disagreements(LikelyFailure(**settings), fails=False) == 0
    assert disagreements(ShortSighted(**settings), fails=False) > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.requirement("F2")
def test_batch_and_live_agree_on_what_is_likely(seed: int) -> None:
    """In any order of arrival, and in loops longer than the look-back."""
    turns = table(looping_steps(seed))
    rules = [LikelyFailure(attempts_min=2, likely_percent=60, model=EXAMPLE)]
    found = batch(turns, rules)

    assert found == arrived(turns, seed, ruleset(rules))
    assert found


@pytest.mark.requirement("B10")
def test_it_warns_or_gates() -> None:
    """A guess gives no advice; at a limit whose promise is kept it may open a gate."""
    for action in ("retry_later", "pivot", "force_completion"):
        with pytest.raises(SettingError, match=f"has the action '{action}'; the actions are: warn"):
            LikelyFailure(ladder=(Rung(3, action),))  # type: ignore[arg-type]
    assert LikelyFailure(ladder=(Rung(3, "gate"),)).action(3) == "gate"


@pytest.mark.parametrize("enabled", ["[rules.likely_failure]", None])
def test_without_a_model_it_cannot_be_on(enabled: str | None) -> None:
    """None ships, and a rule that finds nothing would look like one that finds no failure."""
    table = enabled or '[[overrides]]\nagent = "a"\n[overrides.rules.likely_failure]'
    with pytest.raises(
        SettingsError, match=r"x.toml:1: .*likely_failure is on, but model names no"
    ):
        parsed(f"{table}\nenabled = true\n".encode(), "x.toml")


def test_percents_are_those_of_the_limit() -> None:
    """What is learned about a percent is what the rule does at that percent."""
    scores = np.array([-9.0, log(3 / 97), -0.01, 0.0, 0.01, log(90 / 10), 99.0])
    assert percents(scores).tolist() == [0, 3, 49, 50, 50, 90, 99]


def test_a_model_is_plain_numbers() -> None:
    """Whatever a file says, it is only used in sums, and an invalid one is refused."""
    good: dict[str, Any] = {name: [1.0] * len(SIGNS) for name in ("mean", "scale", "weights")}
    good |= {"signs": list(SIGNS), "window": 6, "intercept": 0.5}
    assert isinstance(model_of(good), Model)
    bad: list[dict[str, Any]] = [
        {"signs": list(SIGNS)[1:]},
        {"mean": [1.0]},
        {"scale": [0.0] * len(SIGNS)},
        {"weights": [float("nan")] * len(SIGNS)},
        {"window": 1_000},
        {"intercept": None},
        {"weights": "many"},
    ]
    for change in bad:
        with pytest.raises(SettingError, match=r"^model "):
            model_of(good | change)


def test_without_a_model_it_finds_nothing() -> None:
    """A program may use the rule before there is one."""
    rule = LikelyFailure(attempts_min=2)
    assert batch(turns_in("(run(a)->!no) x40"), [rule]) == []
    assert rule.lookback == 2
