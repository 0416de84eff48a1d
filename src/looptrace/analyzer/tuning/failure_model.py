"""The model of the rule `likely_failure`, fitted on runs whose outcome is known.

Each turn of a run is an example of its outcome, and each run has the same weight. The model is
fitted on the half of the problems that also chooses limits (`limits`). There its predictions are
cross-validated, by problem, so that a model that learned its runs by heart is not chosen; the
promise is made on the other half.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view

from looptrace.analyzer.detect.columns import columns
from looptrace.analyzer.detect.counters import Counting, add_counters
from looptrace.analyzer.schema.turns import IS_STEP
from looptrace.analyzer.tuning.certificates import Peak, Run, by_kind, halves
from looptrace.errors import InputError
from looptrace.rules.prediction.likely_failure import (
    SIGNS,
    LikelyFailure,
    Model,
    percents,
    signs_of,
    tells,
)
from looptrace.rules.turns import Codes, Figures, Flags

WINDOW = 6
# The strength of regularisation (the inverse of the penalty), against overfitting few examples.
REGULARISATION = 0.01
FOLDS = 5


class ModelError(InputError):
    """There are too few runs to fit a model; the message is one line."""


class RunSigns(NamedTuple):
    """The turns of a run that say enough: their `SIGNS`, and the steps after each."""

    values: Figures
    later: Codes


def signs_by_task(turns: pl.DataFrame) -> Mapping[str, RunSigns]:
    """Return the signs of each task in turns (`TURN_SCHEMA`) of whole tasks."""
    rows = add_counters(turns, Counting())
    lane = columns(rows, texts=LikelyFailure.lane.kinds).lane(LikelyFailure.lane)
    values, enough = signs_of(lane, WINDOW), tells(lane, WINDOW)
    steps = IS_STEP.cast(pl.Int64)
    told = rows.select("task", later=steps.sum().over("task") - steps.cum_sum().over("task"))
    mine = told[lane.rows]
    names, later = mine["task"].to_numpy(), mine["later"].to_numpy()
    places = {name: (names == name) & enough for name in set(names.tolist())}
    return {name: RunSigns(values[chosen], later[chosen]) for name, chosen in places.items()}


def with_predictions(runs: Sequence[Run], signs: Mapping[str, RunSigns]) -> tuple[Model, list[Run]]:
    """Fit a model, and return the distinct runs with the peaks of its rule; signs are by task.

    Raises:
        ModelError: if fewer problems than folds were solved, or were not.
        ModuleNotFoundError: if scikit-learn is not installed.
    """
    first, second = halves([run for alike in by_kind(runs).values() for run in alike])
    told = [run for run in first if len(signs[run.task].later)]
    for is_solved in (True, False):
        problems = {run.problem for run in told if run.solved == is_solved}
        if len(problems) < FOLDS:
            word = "solved" if is_solved else "not solved"
            raise ModelError(
                f"{len(problems)} problems with {WINDOW // 2} turns or more were {word} in the "
                f"half that is learned from; a model needs {FOLDS}."
            )
    counts = [len(signs[run.task].later) for run in told]
    values = np.concatenate([signs[run.task].values for run in told])
    failed = np.repeat([not run.solved for run in told], counts)
    groups = np.repeat([run.problem for run in told], counts)
    weights = {"logisticregression__sample_weight": np.repeat(1 / np.array(counts), counts)}
    scores = _cross_validated(values, failed, groups, weights)
    scaler, regression = (step for _, step in _pipeline().fit(values, failed, **weights).steps)
    model = Model(
        WINDOW,
        mean=_rounded(scaler.mean_),
        scale=_rounded(scaler.scale_),
        weights=_rounded(regression.coef_[0]),
        intercept=_rounded(regression.intercept_)[0],
    )
    ends = np.cumsum(counts)[:-1]
    made = [
        _with_peaks(run, signs[run.task].later, part)
        for run, part in zip(told, np.split(scores, ends), strict=True)
    ]
    made += [run for run in first if not len(signs[run.task].later)]
    for run in second:
        own = signs[run.task]
        made.append(_with_peaks(run, own.later, model.score(own.values)))
    return model, made


def _cross_validated(
    values: Figures, failed: Flags, groups: Any, weights: Mapping[str, Any]
) -> Figures:
    """Return log-odds of each turn by a model that has not seen its problem."""
    # Imported here, because it is an extra and takes long.
    from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict  # noqa: PLC0415

    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0)
    scores: Figures = cross_val_predict(
        _pipeline(),
        values,
        failed,
        groups=groups,
        cv=folds,
        params=weights,
        method="decision_function",
    )
    return scores


def _pipeline() -> Any:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    return make_pipeline(StandardScaler(), LogisticRegression(C=REGULARISATION, max_iter=1_000))


def _rounded(values: Figures) -> tuple[float, ...]:
    """Return numbers with the digits that matter, as the file has them."""
    return tuple(round(float(value), 6) for value in values)


def _with_peaks(run: Run, later: Codes, scores: Figures) -> Run:
    """Return a run with the percents that its rule would reach, each time more than before."""
    in_a_row = LikelyFailure().attempts_min
    if len(scores) < in_a_row:
        return run
    reached = sliding_window_view(percents(scores), in_a_row).min(axis=1)
    before = np.concatenate([[0], np.maximum.accumulate(reached)[:-1]])
    new = reached > before
    pairs = zip(reached[new].tolist(), later[in_a_row - 1 :][new].tolist(), strict=True)
    peaks = tuple(Peak(percent, steps) for percent, steps in pairs)
    return replace(run, peaks={**run.peaks, LikelyFailure.name: peaks})


def model_json(model: Model) -> str:
    """Return the file of a model; the same runs give the same text."""
    lists = {name: getattr(model, name) for name in ("mean", "scale", "weights", "intercept")}
    said = {"signs": list(SIGNS), "window": model.window, **lists}
    return msgspec.json.format(msgspec.json.encode(said), indent=2).decode() + "\n"
