"""The progress that an agent's author recorded on a span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap
from math import isfinite
from typing import Any

from looptrace import semconv
from looptrace.analyzer.fields.field_reader import FieldColumns
from looptrace.analyzer.schema.span_fields import NO_FIGURES, ProgressFigures
from looptrace.analyzer.text.payloads import canonical, parsed

# A task cannot have more tests, files or lines.
COUNT_MAX = 10**9
PERCENT_MAX = 100.0

_MARKERS = ("files_created", "dependencies_added", "code_written")
_PROGRESS = ("tests_failed", "tests_total", "coverage", *_MARKERS)


def figures_of(columns: FieldColumns) -> Sequence[ProgressFigures]:
    """Read recorded progress; a value that is no number, or an impossible one, is unknown."""
    own = {
        name.removeprefix(semconv.METRIC_PREFIX): values
        for name, values in columns.others.items()
        if name.startswith(semconv.METRIC_PREFIX)
    }
    if not own and not any(map(columns.__contains__, _PROGRESS)):
        return [NO_FIGURES] * len(columns)
    counts = [_numbers(columns, name, COUNT_MAX) for name in ("tests_failed", "tests_total")]
    done = [_numbers(columns, name, COUNT_MAX) for name in _MARKERS]
    return list(
        map(
            ProgressFigures,
            *([None if n is None else int(n) for n in numbers] for numbers in counts),
            _numbers(columns, "coverage", PERCENT_MAX),
            starmap(_sum_known, zip(*done, strict=True)),
            (_metrics(own, place) for place in range(len(columns))),
        )
    )


def _sum_known(*numbers: float | None) -> int | None:
    known = [int(number) for number in numbers if number is not None]
    return sum(known) if known else None


def _metrics(own: Mapping[str, Sequence[Any]], place: int) -> str | None:
    """Return the author's own figures of one span as JSON; only numbers are kept."""
    metrics = {
        name: float(value)
        for name, values in own.items()
        if isinstance(value := values[place], int | float) and isfinite(value)
    }
    return canonical(metrics) if metrics else None


def _numbers(columns: FieldColumns, name: str, greatest: float) -> Sequence[float | None]:
    return [_number(value, greatest) for value in columns.values(name)]


def _number(value: object, greatest: float) -> float | None:
    """Read a number between 0 and `greatest`; true counts as one, a list as its length."""
    value = parsed(value)
    if isinstance(value, list):
        value = len(value)
    return float(value) if isinstance(value, int | float) and 0 <= value <= greatest else None
