"""Counts of phases: visits, transitions, and how often the metric of a phase got better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan
from typing import Literal, NamedTuple, TypeAlias, get_args

import msgspec
import numpy as np

from looptrace.analyzer.detect.columns import code_of
from looptrace.analyzer.detect.parts import Columns, Parts
from looptrace.rules.turns import KINDS, UNKNOWN, Codes, Figures, Flags

# Signs of progress: fewer failing tests, more coverage, a marker of something completed.
Metric = Literal["tests_failed", "coverage", "markers"]
METRICS: tuple[Metric, ...] = get_args(Metric)
# The direction in which a metric of the author's own gets better.
Better = Literal["lower", "higher"]

_USER = KINDS.index("user")


class Convergence(NamedTuple):
    """The metric that gets better while an iterative phase converges.

    It is one of `METRICS`, or a metric of the author's own with the direction that is `better`.
    """

    metric: str
    better: Better | None = None


Converging: TypeAlias = Mapping[str, Convergence]  # by the name of the phase


def own_figures(
    count: int,
    phases: Iterable[str | None],
    metrics: Iterable[str | None],
    converging: Converging,
) -> Figures:
    """Return for turns the author's own figure that their phase converges on; higher is better.

    The figure is read from `metrics`, which are JSON text. It is NaN if a turn does not have it.
    """
    if not _any_own(converging):
        return np.full(count, nan)
    pairs = zip(phases, metrics, strict=True)
    return np.array([own_figure(phase, figures, converging) for phase, figures in pairs])


def own_figure(phase: str | None, metrics: str | None, converging: Converging) -> float:
    """Return the own figure of one turn, as `own_figures` does for many."""
    convergence = converging.get(phase or "")
    if metrics is None or convergence is None or convergence.better is None:
        return nan
    figure: float = msgspec.json.decode(metrics).get(convergence.metric, nan)
    return figure if convergence.better == "higher" else -figure


def _any_own(converging: Converging) -> bool:
    return any(convergence.better for convergence in converging.values())


def count_phases(rows: Columns, epochs: Parts, converging: Converging) -> Codes:
    """Count visits and transitions; return for each turn the row that gives the phase before it."""
    phase = rows["phase_code"]
    if not phase.any():  # True of most traces; saves half of the time.
        nothing = np.zeros_like(phase)
        for name in ("phase_before_code", "visits", "transitions_seen", "converging"):
            rows[name] = nothing
        rows["enters"] = np.zeros(len(phase), dtype=np.bool_)
        return np.full_like(phase, -1)
    before = epochs.before(epochs.last(phase != UNKNOWN))
    rows["phase_before_code"] = np.where(before < 0, UNKNOWN, phase[before])
    places = phase.nonzero()[0]
    iterations = np.zeros_like(phase)
    for name, (metric, better) in converging.items():
        improvements = rows["own_improvements" if better else f"{metric}_improvements"]
        iterations = np.where(phase == code_of(name), improvements, iterations)
    rows["converging"] = iterations
    other = (phase != rows["phase_before_code"]) | _begins_anew(rows, epochs)
    enters = (phase != UNKNOWN) & other & (rows["kind"] != _USER)
    rows["enters"] = enters
    visited = (rows["task"], rows["epoch"], phase, iterations)
    Parts(rows, by=visited, only=places).count(visits=enters)
    # A visit to an iterative phase is judged when it ends, at the transition to another phase.
    left = np.where(before < 0, 0, iterations[before])
    transitions = Parts(rows, by=(*visited, rows["phase_before_code"], left), only=places)
    transitions.count(transitions_seen=enters & (rows["phase_before_code"] != UNKNOWN))
    return before


def count_own_improvements(rows: Columns) -> Flags:
    """Count in each phase the turns that have the best own figure so far, and mark them."""
    better = np.zeros(len(rows["task"]), dtype=np.bool_)
    if np.isnan(rows["own_figure"]).all():
        rows["own_improvements"] = better.astype(np.int64)
        return better
    by = (rows["task"], rows["epoch"], rows["phase_code"])
    phases = Parts(rows, by=by, only=rows["phase_code"].nonzero()[0])
    better |= rows["own_figure"] > phases.best("own_figure", 1)
    phases.count(own_improvements=better)
    return better


def _begins_anew(rows: Columns, epochs: Parts) -> Flags:
    """Mark turns with a phase that was declared again since the turn before them ended.

    Declarations at the same time, by spans side by side, are one visit.
    """
    anew = np.zeros(len(rows["task"]), dtype=np.bool_)
    anew[1:] = (rows["phase_start_ns"][1:] >= rows["end_ns"][:-1]) & ~epochs.starts[1:]
    return anew
