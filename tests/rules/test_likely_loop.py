"""The signs of a likely loop, the model over them, and how it is learned."""

from __future__ import annotations

import json
import random
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from looptrace.analyzer.detect.columns import columns
from looptrace.analyzer.detect.counters import Counting, add_counters
from looptrace.analyzer.detect.ruleset import DEFAULT
from looptrace.analyzer.report.calibration import calibration_svg
from looptrace.analyzer.schema.turns import numbered
from looptrace.analyzer.settings.sections import load, parsed
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.testing.notation import turns_in
from looptrace.analyzer.tuning.train import Label, TrainError, examples_of, labels_in, trained
from looptrace.cli.main import main
from looptrace.rules.contract import ACTIONS, Rung, SettingError
from looptrace.rules.prediction.likely_loop import (
    SHIPPED,
    SIGNS,
    LikelyLoop,
    Model,
    model_of,
    signs_of,
)
from looptrace.rules.vocabulary import NS_PER_S
from tests.analyzer.engine.test_live import arrived, disagreements, looping_steps, table
from tests.drivers import batch, ruleset
from tests.otlp import Trace
from tests.paths import ROOT

WINDOW = 6


def signs(turns: pl.DataFrame, window: int = WINDOW) -> list[dict[str, float]]:
    """Return the signs at each turn."""
    lane = columns(add_counters(turns, Counting()), texts=LikelyLoop.lane.kinds).lane(
        LikelyLoop.lane
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
class ShortSighted(LikelyLoop):
    """A planted fault: it claims to look back on fewer turns than it does."""

    @property
    def lookback(self) -> int:
        """Return the signs as if no turn preceded the window."""
        return self.attempts_min + self.model.window - 1


def test_it_looks_back_no_further_than_it_says() -> None:
    """Live keeps as many turns as a rule says it needs, and a fault in that is seen."""
    settings: dict[str, Any] = {"attempts_min": 2, "likely_percent": 30}

    assert disagreements(LikelyLoop(**settings), fails=False) == 0
    assert disagreements(ShortSighted(**settings), fails=False) > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.requirement("F2")
def test_batch_and_live_agree_on_what_is_likely(seed: int) -> None:
    """In any order of arrival, and in loops longer than the look-back."""
    turns = table(looping_steps(seed))
    rules = [LikelyLoop(attempts_min=2, likely_percent=15)]
    found = batch(turns, rules)

    assert found == arrived(turns, seed, ruleset(rules))
    assert found


@pytest.mark.requirement("B10")
def test_it_only_ever_warns() -> None:
    """It is no proof, so that no setting makes a gate or a pivot of it."""
    for action in ACTIONS[1:]:
        with pytest.raises(SettingError, match=f"has the action '{action}'; the actions are: warn"):
            LikelyLoop(ladder=(Rung(3, action),))
    with pytest.raises(SettingsError, match=r"x.toml:2: rules.likely_loop.ladder has the action"):
        parsed(b'[rules.likely_loop]\nladder = [{ attempts = 3, action = "gate" }]\n', "x.toml")


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


def examples(count: int = 12) -> tuple[pl.DataFrame, list[Label]]:
    """Return tasks that repeat themselves and tasks that do not, and which are which."""
    parts, labels = [], []
    for number in range(count):
        again = 'look(a)->"There is nothing new in the inbox of the team"'
        begin = " ".join(f"open({number}, {n})->page{n}{number}" for n in range(number % 4))
        texts = {
            f"loop-{number}": f"{begin} {again} x14",
            f"well-{number}": f'find({{n}})->"alpha{{n}} beta{{n}} delta{number} {{n}}" x16',
        }
        for name, text in texts.items():
            task = pl.lit(name)
            parts.append(turns_in(text).with_columns(task=task, session=task, trace_id=task))
            labels.append(Label(name, number % 4 + 12 if "loop" in name else None))
    return numbered(pl.concat(parts)), labels


def test_what_is_learned_tells_loops_from_work() -> None:
    """On obvious tasks, by a model that never saw them; the result is the same twice."""
    turns, labels = examples()
    learned = trained(examples_of([turns], labels, DEFAULT))
    card = learned.card

    assert card["tasks"] == {"loop": 12, "well": 12}
    assert card["roc_auc"] > 0.95
    assert card["roc_auc"] > card["roc_auc_of_turn_number"]
    (at,) = [one for one in card["warnings"] if one["likely_percent"] == 50]
    assert (at["loops_warned_of"], at["well_warned_of"]) == (12, 0)
    assert at["median_turns_before_complete"] > 0
    assert trained(examples_of([turns], labels, DEFAULT)).json == learned.json
    assert model_of(json.loads(learned.json)).window == learned.model.window
    assert model_of(json.loads(learned.json)) != SHIPPED
    svg = calibration_svg(card["calibration"])
    assert svg.count("predicted, ") == len(card["calibration"]) > 1
    assert "<script" not in svg


def test_a_sign_can_be_left_out() -> None:
    """Made-up times must not teach the model anything."""
    turns, labels = examples()
    model = trained(examples_of([turns], labels, DEFAULT), ["pause", "again"]).model
    weights = dict(zip(SIGNS, model.weights, strict=True))

    assert (weights["pause"], weights["again"]) == (0, 0)
    assert weights["both"] != 0


def test_labels_say_what_is_wrong() -> None:
    """An invalid line is named, and too few tasks are refused."""
    said = '{"task": "a", "loop": false}\n\n{"task": "b", "loop": true, "turn": 7}\n'
    assert labels_in(said, "x") == [Label("a", None), Label("b", 7)]
    for line in (
        "3",
        "{",
        '{"task": "a"}',
        '{"task": "a", "loop": true}',
        '{"task": 1, "loop": false}',
    ):
        with pytest.raises(TrainError, match=r"^x:2: "):
            labels_in(f'{{"task": "a", "loop": false}}\n{line}\n', "x")
    turns, labels = examples(3)
    with pytest.raises(TrainError, match="there are 3 tasks with a loop and 3 without"):
        examples_of([turns], labels, DEFAULT)


def test_the_command_writes_a_model_that_the_rule_reads(tmp_path: Path) -> None:
    """From traces and labels to settings in force."""
    traces, labels = tmp_path / "traces.jsonl", tmp_path / "labels.jsonl"
    lines, said = [], []
    for number in range(24):
        trace, loops = Trace(f"session-{number}"), number % 2 == 0
        for turn in range(14):
            answer = "There is nothing new." if loops else f"alpha{turn} beta{turn * number}"
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "look",
                "gen_ai.tool.call.arguments": json.dumps({"at": 0 if loops else turn}),
                "gen_ai.tool.call.result": answer,
            }
            trace.span("execute_tool look", None, attributes)
        lines.append(trace.lines())
        said.append(json.dumps({"task": f"session-{number}", "loop": loops, "turn": 12}))
    traces.write_text("".join(lines))
    labels.write_text("\n".join(said))
    model, plot = tmp_path / "model.json", tmp_path / "plot.svg"
    command = ["train", str(traces), "--labels", str(labels), "--output", str(model)]
    result = CliRunner().invoke(main, [*command, "--plot", str(plot)])

    assert result.exit_code == 0, result.output
    assert "12 tasks with a loop, 12 without." in result.stdout
    assert plot.read_text().startswith("<svg")
    file = tmp_path / "looptrace.toml"
    file.write_text('model = "model.json"\n[rules.likely_loop]\nenabled = true\n')
    settings = load(file)
    (rule,) = [rule for rule in settings.policy.rule_set.rules if isinstance(rule, LikelyLoop)]
    assert rule.model == model_of(json.loads(model.read_text()))
    assert parsed(toml_of(settings).encode(), "y.toml") == settings
    model.write_text("{}")
    with pytest.raises(SettingsError, match=r":1: model cannot be used: model is not a file of"):
        load(file)
    few = CliRunner().invoke(main, ["train", str(traces), "--output", str(model)])
    assert few.exit_code == 2
    assert "0 tasks with a loop" in few.stderr


def test_the_shipped_model_says_how_good_it_is() -> None:
    """Its card lies in the same file, and was measured on tasks that it did not learn from."""
    folder = ROOT / "src/looptrace/rules/prediction"
    said = json.loads((folder / "likely_loop.json").read_text("utf-8"))

    assert model_of(said) == SHIPPED
    assert dict(zip(SIGNS, SHIPPED.weights, strict=True))["pause"] == 0
    assert 0.5 < said["card"]["roc_auc"] < 1
    assert said["card"]["folds"] >= 5
