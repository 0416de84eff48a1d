"""Where things lie, seen from the tests."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
# Data beside the checkout; a test that needs it is skipped where it is absent.
SHARED = ROOT.parent / "shared"
