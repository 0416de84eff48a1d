"""Writes the pages that are made from the code; with `--check` it only says which are stale."""

from __future__ import annotations

import sys
from pathlib import Path

from looptrace.analyzer.dialects import KEYS
from looptrace.analyzer.rule_pages import pages
from looptrace.analyzer.settings_forms import page, schema
from looptrace.analyzer.span_kinds import DIALECTS

DOCS = Path(__file__).parent

_DIALECTS_HEAD = """# Dialects

<!-- Made from the tables in analyzer/dialects.py by `make docs`; edit them there. -->

Which attributes of a span are read as what. One dialect is chosen per span, the first of these
whose marker has a known value; a field is then read from the first key that is present, the chosen
dialect's keys first, the others' after them.

`key#field` is a field of a JSON object, `key.*` are flat numbered messages, and `@name` is what a
GenAI span event of that name carries.
"""


def dialects_page() -> str:
    """Return the page of the dialects and their keys."""
    lines = [
        _DIALECTS_HEAD,
        "## Markers",
        "",
        "| dialect | marker | values |",
        "| --- | --- | --- |",
    ]
    for dialect in DIALECTS:
        kinds = ", ".join(f"`{value}` is {kind}" for value, kind in dialect.kinds.items())
        lines.append(f"| {dialect.name} | `{dialect.marker}` | {kinds} |")
    lines += ["", "## Fields", "", "| field | dialect | keys |", "| --- | --- | --- |"]
    for name, by_dialect in KEYS.items():
        for dialect_name, keys in by_dialect.items():
            lines.append(f"| {name} | {dialect_name} | {', '.join(f'`{key}`' for key in keys)} |")
    return "\n".join([*lines, ""])


def stale() -> dict[Path, str]:
    """Return the pages that differ from the code, with the text that they should have."""
    wanted = {DOCS / "rules" / name: text for name, text in pages().items()}
    wanted[DOCS / "dialects.md"] = dialects_page()
    wanted[DOCS / "settings.md"] = page()
    wanted[DOCS / "looptrace.schema.json"] = schema()
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
