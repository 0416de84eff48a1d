"""The seeds and forms that a test goes through: those of a day, or all in `make test-seeds`."""

import os
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, TypeVar

import pytest

SHARE = 8
T = TypeVar("T")
# The workers of one run begin on both sides of midnight, and must agree.
DAY = int(os.environ.setdefault("LOOPTRACE_SEEDS_DAY", str(date.today().toordinal())))


def seeds(count: int) -> list[int]:
    """Return the seeds of a test that has so many in all; in some days each has its turn."""
    size = seed_count(count)
    return sorted({(DAY * size + number) % count for number in range(size)})


def seed_count(count: int) -> int:
    """Return the number of Hypothesis' examples of a test that has so many in all."""
    return count if os.environ.get("LOOPTRACE_ALL_SEEDS") else min(count, max(2, count // SHARE))


def turn_of(place: int, values: Sequence[T]) -> Sequence[T]:
    """Return the value whose turn it is at this place of a list today, or all."""
    return (
        values if os.environ.get("LOOPTRACE_ALL_SEEDS") else [values[(DAY + place) % len(values)]]
    )


def in_turn(items: Mapping[str, object], values: Sequence[tuple[object, ...]]) -> list[Any]:
    """Return the parameters of a test: each item with the values of its turn, by its name."""
    return [
        pytest.param(item, *value, id="-".join(map(str, (name, *value))))
        for place, (name, item) in enumerate(items.items())
        for value in turn_of(place, values)
    ]
