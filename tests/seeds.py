"""How many of its seeds a test goes through: a share in `make test`, all in `make test-slow`."""

from __future__ import annotations

import os

SHARE = 8


def seeds(count: int) -> int:
    """Return the number of seeds, or of Hypothesis' examples, of a test that has so many in all."""
    return count if os.environ.get("LOOPTRACE_ALL_SEEDS") else max(2, count // SHARE)
