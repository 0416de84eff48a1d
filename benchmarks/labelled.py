"""Labelled runs of agents, the targets of their labels, and the scores of detectors.

A folder holds `NAME.otlp.jsonl.gz` (or `.jsonl`), runs as OTLP/JSON, and `NAME.labels.jsonl`, one
label a line: `{"session", "step", "label", "value", "source"}`. A step is the attribute
`looptrace.step` of a span; null means the whole session.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import polars as pl

from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.tuning.certificates import SHOWN
from looptrace.collector.files.reader import read_spans

STEP = "looptrace.step"
LABELS_SUFFIX = ".labels.jsonl"
TRACES_SUFFIXES = (".otlp.jsonl.gz", ".otlp.jsonl")


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop that a detector flags: its steps in order, and the number of steps in one round."""

    steps: Sequence[int]
    period: int = 1


Flags = Mapping[str, Sequence[Loop]]  # of each session that is flagged


class MissingError(Exception):
    """A folder or file is not there; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class Label:
    """One label; `step` is None where it is about the whole session."""

    session: str
    step: int | None
    name: str
    value: object


@dataclass(frozen=True, slots=True)
class Runs:
    """The turns of one file (`TURN_SCHEMA`), the step of each span, and the labels."""

    name: str
    turns: pl.DataFrame
    steps: Mapping[tuple[str, str], int]  # by trace id and span id
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """The target of one kind of label: the turns, pairs of turns, or sessions to flag.

    A pair is a step and the one right before it. It is flagged where one loop has both steps as
    repeats of each other, which a round of several steps does not. A session is positive from this
    many positive labels on, and flagged where there is any loop.
    """

    title: str
    label: str
    positive: object
    unit: Literal["turn", "pair", "session"]
    needed_labels: int = 1


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a detector; precision and recall are None where nothing counts."""

    true_positives: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    true_negatives: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.true_positives + other.true_positives,
            self.false_positives + other.false_positives,
            self.false_negatives + other.false_negatives,
            self.true_negatives + other.true_negatives,
        )

    @property
    def flagged(self) -> int:
        """The number of positives by the detector."""
        return self.true_positives + self.false_positives

    @property
    def positives(self) -> int:
        """The number of positives by label."""
        return self.true_positives + self.false_negatives

    @property
    def precision(self) -> float | None:
        """The share of the flagged that is positive."""
        return self.true_positives / self.flagged if self.flagged else None

    @property
    def recall(self) -> float | None:
        """The share of the positive that is flagged."""
        return self.true_positives / self.positives if self.positives else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of both; 0 where nothing is flagged."""
        both = self.flagged + self.positives
        return 2 * self.true_positives / both if both else None


STUDY, REPETITION = "study:action_action", "Repetition"
LEDGER = "ledger:is_in_loop"

TARGETS = (
    Target("pairs called Repetition", STUDY, REPETITION, "pair"),
    Target("sessions with 1 Repetition", STUDY, REPETITION, "session"),
    Target("sessions with 3 Repetitions", STUDY, REPETITION, "session", 3),
    Target("turns in a loop (ledger)", LEDGER, True, "turn"),
    Target("sessions in a loop (ledger)", LEDGER, True, "session"),
    Target("turns without progress (ledger)", "ledger:is_progress_being_made", False, "turn"),
    Target("one failure reason 3 times", "derived:same_failure_reason>=3", True, "session"),
    Target("runs that were not solved", "solved", False, "session"),
)
# A run with this label and value should stay silent.
HEALTHY = ("solved", True)


def labelled_runs(folder: Path) -> list[Runs]:
    """Read every labelled file of a folder.

    Raises:
        MissingError: if there is none, or labels have no traces.
    """
    paths = sorted(folder.glob(f"*{LABELS_SUFFIX}"))
    if not paths:
        raise MissingError(f"{folder} holds no *{LABELS_SUFFIX}; name a folder of labelled runs.")
    return [_runs(path) for path in paths]


def _runs(labels: Path) -> Runs:
    name = labels.name.removesuffix(LABELS_SUFFIX)
    traces = [labels.with_name(name + suffix) for suffix in TRACES_SUFFIXES]
    found = next((path for path in traces if path.exists()), None)
    if found is None:
        raise MissingError(f"{labels} has no traces beside it; add {traces[0].name}.")
    turns, steps = read_runs([str(found)])
    return distinct(Runs(name, turns, steps, tuple(_labels(labels))))


def distinct(runs: Runs) -> Runs:
    """Return runs without those that repeat an earlier one turn for turn, with the same labels.

    Some logs show a finished run again in each later trial; it is one run.
    """
    said = defaultdict[str, list[tuple[object, ...]]](list)
    for label in runs.labels:
        said[label.session].append((label.step, label.name, label.value))
    in_order = runs.turns.sort("session", "order_ns", "turn", maintain_order=True)
    for session, *shown in in_order.select("session", *SHOWN).iter_rows():
        said[session].append(tuple(shown))
    kept = {tuple(told): session for session, told in reversed(said.items())}
    sessions = set(kept.values())
    return replace(
        runs,
        turns=runs.turns.filter(pl.col("session").is_in(sessions)),
        labels=tuple(label for label in runs.labels if label.session in sessions),
    )


def read_runs(paths: Sequence[str]) -> tuple[pl.DataFrame, dict[tuple[str, str], int]]:
    """Read traces as turns, and the step of each span that has one."""
    spans = read_spans(paths).spans
    step = pl.col("attributes").str.json_path_match(f'$["{STEP}"]').cast(pl.Int64)
    stepped = spans.select("trace_id", "span_id", step=step).drop_nulls("step")
    return turns_of(spans)[0], {(trace, span): n for trace, span, n in stepped.rows()}


def _labels(path: Path) -> Iterable[Label]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            given = json.loads(line)
            yield Label(given["session"], given["step"], given["label"], given["value"])


def score(target: Target, labels: Iterable[Label], flags: Flags) -> Score | None:
    """Score the flags of a detector by the labels of a target; None where there are no labels."""
    asked = [label for label in labels if label.name == target.label]
    if not asked:
        return None
    pairs = Counter(_COUNTS[target.unit](target, asked, flags))
    return Score(pairs[True, True], pairs[False, True], pairs[True, False], pairs[False, False])


def _of_turns(target: Target, labels: Sequence[Label], flags: Flags) -> Iterable[tuple[bool, bool]]:
    """Return, for each labelled step, whether it is positive, and whether it is flagged.

    A label applies to all steps since the earlier label, because some labels come from an overseer
    that looks back on a round of several steps.
    """
    by_session = defaultdict(list)
    for label in labels:
        if label.step is not None:
            by_session[label.session].append((label.step, label.value == target.positive))
    for session, labelled in by_session.items():
        before = -1
        flagged = {step for loop in flags.get(session, ()) for step in loop.steps[loop.period :]}
        for step, positive in sorted(labelled):
            yield positive, any(before < place <= step for place in flagged)
            before = step


def _of_pairs(target: Target, labels: Sequence[Label], flags: Flags) -> Iterable[tuple[bool, bool]]:
    """Return, for each labelled pair, whether it is positive and whether one loop has both."""
    for label in labels:
        both = {label.step, (label.step or 0) - 1}
        loops = (loop for loop in flags.get(label.session, ()) if loop.period == 1)
        flagged = any(both.issubset(loop.steps) for loop in loops)
        yield label.value == target.positive, flagged


def _of_sessions(
    target: Target, labels: Sequence[Label], flags: Flags
) -> Iterable[tuple[bool, bool]]:
    """Return, for each labelled session, whether it is positive, and whether it is flagged."""
    positives = Counter(label.session for label in labels if label.value == target.positive)
    for session in dict.fromkeys(label.session for label in labels):
        yield positives[session] >= target.needed_labels, session in flags


_COUNTS = {"turn": _of_turns, "pair": _of_pairs, "session": _of_sessions}


def false_alarms(labels: Iterable[Label], flags: Flags) -> tuple[list[str], int]:
    """Return the flagged healthy sessions, and the number of all healthy ones."""
    healthy = [label.session for label in labels if (label.name, label.value) == HEALTHY]
    return [session for session in healthy if session in flags], len(healthy)


Detector = Callable[[Runs], Flags]
