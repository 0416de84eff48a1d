"""The seeds that a test goes through: the share of a day, or all in `make test-seeds`."""

from __future__ import annotations

import os
from datetime import date

SHARE = 8
# The workers of one run begin on both sides of midnight, and must agree.
DAY = int(os.environ.setdefault("LOOPTRACE_SEEDS_DAY", str(date.today().toordinal())))


def seeds(count: int) -> list[int]:
    """Return the seeds of a test that has so many in all; in some days each has its turn."""
    size = seed_count(count)
    return sorted({(DAY * size + number) % count for number in range(size)})


def seed_count(count: int) -> int:
    """Return the number of Hypothesis' examples of a test that has so many in all."""
    return count if os.environ.get("LOOPTRACE_ALL_SEEDS") else min(count, max(2, count // SHARE))
