"""The model of the rule `likely_loop`, learned from tasks that are known to loop or not.

A turn is one example: will a loop of its task be complete within `HORIZON` turns, or was it
completed within that time? The model learns from both, because a complete loop looks like a
beginning one. Its quality is measured only on turns before the loop was complete, and on tasks that
it did not learn from: tasks are split into folds, and a model of the other folds predicts each
fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from looptrace.analyzer.detect.columns import columns
from looptrace.analyzer.detect.counters import Counting, add_counters
from looptrace.analyzer.detect.evaluate import find_stretches
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.tuning.calibrate import LOOPED, WELL, sorted_out
from looptrace.errors import InputError
from looptrace.rules.prediction.likely_loop import SIGNS, LikelyLoop, Model, signs_of, tells
from looptrace.rules.turns import Figures, Flags

WINDOW = 6
# A loop that completes more turns before or after a turn is not its label.
HORIZON = 10
# The strength of regularisation (the inverse of the penalty), against overfitting few examples.
REGULARISATION = 0.01
FOLDS = 5
# With fewer tasks of either kind some fold would not have both.
TASKS_MIN = 10
# The probabilities, in percent, for which the card shows the warnings of the rule.
WARNED_AT = (15, 20, 25, 30, 40, 50)
BINS = 10  # of the calibration, each a tenth of the probabilities
LABELS_BYTES_MAX = 64 * 1024 * 1024


class TrainError(InputError):
    """There are no examples, or the labels cannot be read; the message is one line."""


@dataclass(frozen=True, slots=True)
class Label:
    """The label of a task: the turn at which its loop was complete, None where it was healthy."""

    task: str
    turn: int | None


@dataclass(frozen=True, slots=True)
class Examples:
    """Turns to learn from, one element each: their signs, their outcome, and their place."""

    signs: Figures
    likely: Flags
    before: Flags  # the loop is not complete yet, or there is none
    task: npt.NDArray[np.int64]  # index into `tasks`
    turn: npt.NDArray[np.int64]
    tasks: tuple[Label, ...]
    fired: Mapping[str, int]  # the turn at which any other rule fired first, by task


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model and its card: its examples, and its quality on unseen tasks."""

    model: Model
    card: Mapping[str, Any]

    @property
    def json(self) -> str:
        """The file for the rule; the same examples give the same text."""
        return model_json(self.model, self.card)


def labels_in(text: str, name: str) -> list[Label]:
    """Read labels, one a line: `{"task": ..., "loop": true, "turn": 12}`; `name` is the file's.

    Raises:
        TrainError: if a line is not a label; it names the line.
    """
    labels: dict[str, Label] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            label = msgspec.json.decode(line)
            task, loop, turn = label["task"], label["loop"], label.get("turn")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = 'it must be like {"task": "a", "loop": true, "turn": 12}'
            raise TrainError(f"{name}:{number}: is not a label; {why}.") from error
        if type(loop) is not bool or not isinstance(task, str) or (loop and type(turn) is not int):
            raise TrainError(f"{name}:{number}: a label has a task, loop, and for a loop its turn.")
        labels[task] = Label(task, turn if loop else None)
    return list(labels.values())


def labels_of(part: pl.DataFrame, settings: Settings, now_ns: int) -> list[Label]:
    """Return labels for the tasks of a part: the decisions of people, and the healthy tasks."""
    became = sorted_out(part, settings, now_ns).group_by("task").agg(pl.col("became").first())
    fates = dict(became.iter_rows())
    gates: dict[str, int] = {}
    for event in detect(part, settings.policy).events:
        if event.type == "gate_opened":
            gates.setdefault(event.task, event.turn)
    well = [Label(task, None) for task, fate in fates.items() if fate == WELL]
    looped = [Label(task, gates[task]) for task, fate in fates.items() if fate == LOOPED]
    return sorted([*well, *looped], key=lambda label: label.task)


def examples_of(
    parts: Iterable[pl.DataFrame], labels: Sequence[Label], rule_set: RuleSet
) -> Examples:
    """Return the turns of labelled tasks, from parts (`TURN_SCHEMA`) that share no task.

    Raises:
        TrainError: if there are too few tasks of either kind.
    """
    labelled = {label.task: label for label in labels}
    runs: list[tuple[Label, Figures, npt.NDArray[np.int64]]] = []
    fired: dict[str, int] = {}
    for part in parts:
        mine = part.filter(pl.col("task").is_in(set(labelled)))
        if mine.is_empty():
            continue
        rows = add_counters(mine, Counting())
        lane = columns(rows, texts=LikelyLoop.lane.kinds).lane(LikelyLoop.lane)
        signs, enough = signs_of(lane, WINDOW), tells(lane, WINDOW)
        turn = rows["turn"].to_numpy().astype(np.int64)[lane.rows]
        names = rows["task"].to_numpy()[lane.rows]
        for name in sorted(set(names.tolist())):
            chosen = enough & (names == name)
            if chosen.any():
                runs.append((labelled[name], signs[chosen], turn[chosen]))
        for loop in find_stretches(rows, rule_set)[0]:
            first = loop.fired[0].turn
            fired[loop.task] = min(first, fired.get(loop.task, first))
    return _examples(runs, fired)


def _examples(
    runs: Sequence[tuple[Label, Figures, npt.NDArray[np.int64]]], fired: Mapping[str, int]
) -> Examples:
    loops = sum(label.turn is not None for label, _, _ in runs)
    if min(loops, len(runs) - loops) < TASKS_MIN:
        raise TrainError(
            f"there are {loops} tasks with a loop and {len(runs) - loops} without, of"
            f" {WINDOW // 2} turns or more; at least {TASKS_MIN} of each are needed."
        )
    signs = np.concatenate([part for _, part, _ in runs])
    turn = np.concatenate([part for _, _, part in runs])
    task = np.repeat(np.arange(len(runs)), [len(part) for _, _, part in runs])
    complete = np.array([-1 if label.turn is None else label.turn for label, _, _ in runs])[task]
    return Examples(
        signs=signs,
        likely=(complete >= 0) & (np.abs(complete - turn) <= HORIZON),
        before=(complete < 0) | (turn < complete),
        task=task,
        turn=turn,
        tasks=tuple(label for label, _, _ in runs),
        fired=fired,
    )


def trained(examples: Examples, without: Sequence[str] = ()) -> TrainedModel:
    """Fit the model, leaving some of the signs out, and measure it by cross-validation.

    Raises:
        ModuleNotFoundError: if scikit-learn is not installed.
    """
    # Imported here, because it is an extra and takes long.
    from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict  # noqa: PLC0415

    used = np.array([name not in without for name in SIGNS])
    chosen = examples.signs[:, used]
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0)
    predicted = cross_val_predict(
        _pipeline(), chosen, examples.likely, groups=examples.task, cv=folds, method="predict_proba"
    )[:, 1]
    scaler, regression = (step for _, step in _pipeline().fit(chosen, examples.likely).steps)
    columns_of = {"mean": scaler.mean_, "scale": scaler.scale_, "weights": regression.coef_[0]}
    spread = {"mean": np.zeros(len(SIGNS)), "scale": np.ones(len(SIGNS))}
    spread["weights"] = np.zeros(len(SIGNS))
    for name, values in columns_of.items():
        spread[name][used] = values
    lists = {name: tuple(float(value) for value in values) for name, values in spread.items()}
    model = Model(WINDOW, **lists, intercept=float(regression.intercept_[0]))
    return TrainedModel(model, _card(examples, predicted))


def _pipeline() -> Any:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    return make_pipeline(StandardScaler(), LogisticRegression(C=REGULARISATION, max_iter=1_000))


def _card(examples: Examples, scores: Figures) -> dict[str, Any]:
    """Return the card of a model: its examples and its quality; shares are from 0 to 1."""
    from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score  # noqa: PLC0415

    all_scores, scores, likely = scores, scores[examples.before], examples.likely[examples.before]
    share = float(likely.mean())
    loops = sum(label.turn is not None for label in examples.tasks)
    return {
        "tasks": {"loop": loops, "well": len(examples.tasks) - loops},
        "turns": {"loop_within_horizon": int(likely.sum()), "others": int((~likely).sum())},
        "horizon_turns": HORIZON,
        "folds": FOLDS,
        "roc_auc": _rounded(roc_auc_score(likely, scores)),
        "roc_auc_of_turn_number": _rounded(roc_auc_score(likely, examples.turn[examples.before])),
        "average_precision": _rounded(average_precision_score(likely, scores)),
        "average_precision_of_chance": _rounded(share),
        "brier": _rounded(brier_score_loss(likely, scores)),
        "brier_of_base_rate": _rounded(share * (1 - share)),
        "calibration": _calibration(likely, scores),
        "warnings": [_warnings(examples, all_scores, percent) for percent in WARNED_AT],
    }


def _rounded(value: float) -> float:
    return round(float(value), 3)


def _calibration(likely: Flags, predicted: Figures) -> list[dict[str, Any]]:
    """Return the mean prediction and the mean outcome of each tenth of the probabilities."""
    place = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)
    return [
        {
            "predicted": _rounded(predicted[place == number].mean()),
            "observed": _rounded(likely[place == number].mean()),
            "turns": int((place == number).sum()),
        }
        for number in sorted(set(place.tolist()))
    ]


def _warnings(examples: Examples, predicted: Figures, percent: int) -> dict[str, Any]:
    """Return the warnings of the rule at this probability, with its other settings unchanged.

    The lead over the other rules is counted in turns, over the loops that both saw.
    """
    warned = _warned(examples, (predicted >= percent / 100) & examples.before)
    loops = [label for label in examples.tasks if label.turn is not None]
    well = [label for label in examples.tasks if label.turn is None]
    before = [label for label in loops if label.task in warned]
    lead = [(label.turn or 0) - warned[label.task] for label in before]
    ahead = [
        examples.fired[label.task] - warned[label.task]
        for label in before
        if label.task in examples.fired
    ]
    return {
        "likely_percent": percent,
        "loops_warned_of": len(before),
        "loops": len(loops),
        "well_warned_of": sum(label.task in warned for label in well),
        "well": len(well),
        "median_turns_before_complete": float(np.median(lead)) if lead else None,
        "loops_that_other_rules_saw": len(ahead),
        "median_turns_before_other_rules": float(np.median(ahead)) if ahead else None,
        "earlier_than_other_rules": sum(turns > 0 for turns in ahead),
    }


def _warned(examples: Examples, likely: Flags) -> dict[str, int]:
    """Return the turn at which each task is warned of first."""
    needed = LikelyLoop().attempts_min
    warned: dict[str, int] = {}
    streak, last = 0, -1
    for task, turn, is_likely in zip(examples.task, examples.turn, likely, strict=True):
        streak = (streak if task == last else 0) + 1 if is_likely else 0
        last = task
        if streak >= needed:
            warned.setdefault(examples.tasks[task].task, int(turn))
    return warned


def model_json(model: Model, card: Mapping[str, Any]) -> str:
    """Write a model with its card; numbers are rounded to the digits that matter."""
    said = {
        "signs": list(SIGNS),
        "window": model.window,
        **{
            name: [round(value, 6) for value in getattr(model, name)]
            for name in ("mean", "scale", "weights")
        },
        "intercept": round(model.intercept, 6),
        "card": card,
    }
    return msgspec.json.format(msgspec.json.encode(said), indent=2).decode() + "\n"
