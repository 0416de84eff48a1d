"""What `make bench` measures: rows of figures, each with what it should be."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Keys that every row may have.
WALL, CPU, PEAK = "wall", "cpu", "peak"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a row, and the target that it has, if any."""

    unit: str
    target: float | None = None
    more_is_better: bool = True

    def is_met(self, value: float) -> bool | None:
        """Return whether a value is as it should be; None without a target."""
        if self.target is None:
            return None
        return value >= self.target if self.more_is_better else value <= self.target

    def ratio(self, value: float, other: float) -> float:
        """Return how many times as good a value is as another."""
        better, worse = (value, other) if self.more_is_better else (other, value)
        return better / worse if worse else float("inf")


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one run: looptrace's, the plain reader and loop's, and those of peers."""

    values: Mapping[str, float]
    plain: Mapping[str, float] = field(default_factory=dict)
    peers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """Something that is measured.

    `measure` is given a folder in which inputs stay between runs, and which share of the full size
    it should take.
    """

    name: str
    title: str
    figures: Mapping[str, Figure]
    measure: Callable[[Path, float], Measured]
