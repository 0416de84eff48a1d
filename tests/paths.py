"""Where things lie, seen from the tests."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
TRACES = ROOT / "examples/traces"
LOOPING = str(TRACES / "nightly_migration_loop.jsonl")
HEALTHY = str(TRACES / "checkout_fix_healthy.jsonl")
TALK = str(TRACES / "support_bot_same_answer_loop.jsonl")
# Data beside the checkout; a test that needs it is skipped where it is absent.
SHARED = ROOT.parent / "shared"


def written(path: Path, text: str) -> Path:
    """Write a file, and return its path."""
    path.write_text(text, encoding="utf-8")
    return path
