"""A model is fitted on one's own runs, and used only where it saves more than every counter."""

import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.schema.turns import numbered
from looptrace.analyzer.settings.sections import default, load
from looptrace.analyzer.testing.notation import turns_in
from looptrace.analyzer.tuning.certificates import Outcome, Run, halves, runs_of
from looptrace.analyzer.tuning.failure_model import (
    ModelError,
    model_json,
    signs_by_task,
    with_predictions,
)
from looptrace.analyzer.tuning.limits import limits
from looptrace.rules.prediction.likely_failure import LikelyFailure, model_of
from tests.commands import printed, run
from tests.otlp import Trace, tool_call

RULES = default().policy.rule_set
RUNS = 240
SIXTH = 6


def calls(number: int, *, is_solved: bool) -> list[tuple[str, str]]:
    """Return the calls of a run: one that fails returns to places in turn, and finds old news.

    No counter sees that: calls differ from the one before, none fails, and some find something new.
    """
    chance = random.Random(number)
    if is_solved:
        return [(f"{number}-{n}", f"alpha{n} beta{n * number} {chance.random()}") for n in range(9)]
    return [
        (f"{number}-{n % 3}", f"gamma{n % 3} of {number}" if n % SIXTH else f"new {n}")
        for n in range(24)
    ]


@cache
def known_runs(count: int = 150) -> tuple[pl.DataFrame, list[Outcome]]:
    """Return the turns of runs, two of three solved, and their outcomes."""
    parts, outcomes = [], []
    for number in range(count):
        is_solved = number % 3 > 0
        steps = calls(number, is_solved=is_solved)
        text = " ".join(f'look("{place}")->"{found}"' for place, found in steps)
        name = pl.lit(f"run-{number}")
        parts.append(turns_in(text).with_columns(task=name, session=name, trace_id=name))
        outcomes.append(Outcome(solved=is_solved, task=f"run-{number}"))
    return numbered(pl.concat(parts)), outcomes


@pytest.fixture(scope="module")
def predicted() -> tuple[str, list[Run], list[Run]]:
    """Return a fitted model, and the runs without and with its predictions."""
    turns, outcomes = known_runs()
    runs = runs_of(turns, default(), outcomes)
    model, made = with_predictions(runs, signs_by_task(turns))
    return model_json(model), runs, made


def test_the_same_runs_give_the_same_model(predicted: tuple[str, list[Run], list[Run]]) -> None:
    """A file can be made again, and read without code."""
    text, runs, _ = predicted
    turns, _ = known_runs()
    again, _ = with_predictions(runs, signs_by_task(turns))
    assert model_json(again) == text
    assert model_of(json.loads(text)) == again


def test_runs_are_told_apart_that_the_model_has_not_seen(
    predicted: tuple[str, list[Run], list[Run]],
) -> None:
    """In both halves: by folds in the one, and by the whole model in the other."""
    for half in halves(predicted[2]):
        reached = {True: [0], False: [0]}
        for each in half:
            peaks = each.peaks.get(LikelyFailure.name, ())
            reached[each.solved].append(max((peak.reached for peak in peaks), default=0))
        least_failed = sorted(reached[False][1:])[len(reached[False]) // 10]
        assert max(reached[True]) < least_failed


def test_a_model_is_chosen_only_where_it_saves_more(
    predicted: tuple[str, list[Run], list[Run]],
) -> None:
    """Where a counter saves as much, the counter is taken: a person can check it."""
    _, runs, made = predicted
    (limit,) = limits(made, RULES, 0.1)
    assert limit.rule == LikelyFailure.name
    assert limit.is_kept(0.1)
    assert (limit.beyond[0], limit.together.lost) == (0, 0)
    assert limit.saved_otherwise is not None
    assert limit.saved > limit.saved_otherwise
    as_good = [run for run in runs if LikelyFailure.name not in run.peaks]
    others = limits(as_good, RULES, 0.1)
    assert all(each.rule != LikelyFailure.name for each in others)
    copied = [
        replace(run, peaks=dict.fromkeys([LikelyFailure.name, "same_result"], peaks))
        if (peaks := run.peaks.get(LikelyFailure.name))
        else run
        for run in made
    ]
    (counter,) = limits(copied, RULES, 0.1)
    assert counter.rule == "same_result"
    assert counter.saved_otherwise == pytest.approx(limit.saved)


def test_too_few_runs_fit_no_model() -> None:
    """A model of four failed runs would learn these by heart."""
    turns, outcomes = known_runs(12)
    runs = runs_of(turns, default(), outcomes)
    with pytest.raises(ModelError, match=r"were not solved in the half .*; a model needs 5"):
        with_predictions(runs, signs_by_task(turns))


def test_the_command_writes_a_model_that_the_rule_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From traces and outcomes to settings in force, with the gate that was promised."""
    monkeypatch.chdir(tmp_path)
    lines, outcomes = [], []
    for number in range(RUNS):
        is_solved = number % 3 > 0
        trace = Trace(f"run-{number}")
        for place, found in calls(number, is_solved=is_solved):
            attributes = tool_call("look", json.dumps({"at": place}), result=found) | {
                "looptrace.task.kind": "search"
            }
            trace.span("execute_tool look", None, attributes)
        lines.append(json.dumps(trace.request()))
        outcomes.append(json.dumps({"session": f"run-{number}", "solved": is_solved}))
    Path("runs.jsonl").write_text("\n".join(lines))
    Path("outcomes.jsonl").write_text("\n".join(outcomes))
    command = ["calibrate", "runs.jsonl", "--outcomes", "outcomes.jsonl", "--lost", "5%"]
    with_model = [*command, "--model", "model.json", "--write"]
    assert "The model saves" in printed(*with_model)
    (override,) = load("looptrace.toml").policy.rule_set.overrides
    rule = override.rules["likely_failure"]
    assert isinstance(rule, LikelyFailure)
    assert rule.model == model_of(json.loads(Path("model.json").read_text()))
    assert rule.ladder[-1].action == "gate"
    told = run(*command)
    assert "of 160 solved runs that can be lost, gates would have stopped 0" in told.stdout
    assert "80 of 80" in told.stdout
    again = run(*with_model)
    assert "for no kind does its limit save more" in again.stdout
