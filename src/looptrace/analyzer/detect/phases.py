"""Iterative phases: the metric that gets better while one converges."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

# Signs of progress: fewer failing tests, more coverage, a marker of something completed.
Metric = Literal["tests_failed", "coverage", "markers"]
METRICS: tuple[Metric, ...] = get_args(Metric)
# The direction in which a metric of the author's own gets better.
Better = Literal["lower", "higher"]


class Convergence(NamedTuple):
    """The metric that gets better while an iterative phase converges.

    It is one of `METRICS`, or a metric of the author's own with the direction that is `better`.
    """

    metric: str
    better: Better | None = None


Converging: TypeAlias = Mapping[str, Convergence]  # by the name of the phase
