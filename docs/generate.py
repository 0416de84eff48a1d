"""Writes the pages that are made from the code; with `--check` it only says which are stale."""

from __future__ import annotations

import sys
from pathlib import Path

from looptrace.analyzer.rule_pages import pages

DOCS = Path(__file__).parent


def stale() -> dict[Path, str]:
    """Return the pages that differ from the code, with the text that they should have."""
    wanted = {DOCS / "rules" / name: text for name, text in pages().items()}
    return {
        path: text
        for path, text in wanted.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }


def main() -> None:
    """Write the stale pages, or end with 1 and name them."""
    found = stale()
    if "--check" in sys.argv:
        names = ", ".join(str(path.relative_to(DOCS.parent)) for path in found)
        sys.exit(f"{names}: stale; run `make docs`." if found else 0)
    for path, text in found.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
