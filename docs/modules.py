"""Makes docs/modules.md: what each folder of the code is for."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/looptrace"
CORE = ROOT / "core"

# Folders in the order in which data goes through them; one below them comes after its parent.
FLOW = (
    "collector/otlp",
    "collector/coding_agents",
    "collector/files",
    "collector/content",
    "collector/sdk",
    "analyzer/schema",
    "analyzer/text",
    "analyzer/fields",
    "analyzer/normalize",
    "analyzer/fingerprint",
    "analyzer/detect",
    "rules",
    "analyzer/gates",
    "analyzer/engine",
    "analyzer/settings",
    "analyzer/tuning",
    "analyzer/report",
    "analyzer/testing",
    "analyzer",
    "collector/store",
    "collector/judge",
    "collector/webhooks",
    "collector/server",
    "collector/page",
    "collector",
    "queries",
    "cli",
    "middleware",
    "testing",
    ".",
)
_HEAD = """# Modules

<!-- Made by `make docs` from the first sentence of each folder. -->

What each folder is for, in the order of the data's flow; [the map](architecture.md) has the whole.
Folders below these, and modules, begin with a sentence about themselves.
"""


def folders() -> list[Path]:
    """Return the folders with modules in the order of `FLOW`.

    Raises:
        LookupError: if `FLOW` places a folder nowhere.
    """
    paths = {path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")}
    return sorted(paths, key=lambda folder: (_place(folder), folder))


def modules(folder: Path) -> list[Path]:
    """Return the modules of a folder, without its `__init__.py`."""
    return sorted(p for p in (PACKAGE / folder).glob("*.py") if p.name != "__init__.py")


def page() -> str:
    """Return the page: the folders of `FLOW`, each with the names of those below it."""
    lines = [_HEAD]
    below: dict[str, list[str]] = {str(folder): [] for folder in folders() if str(folder) in FLOW}
    for folder in folders():
        if str(folder) not in FLOW:
            above = FLOW[_place(folder)]
            below[above].append(str(folder.relative_to(above)))
    for name, inner in below.items():
        about = _sentence(PACKAGE / name / "__init__.py")
        lines.append(_row(name if name != "." else "looptrace", about, inner))
    for folder in sorted({path.parent for path in CORE.glob("src/**/*.rs")}):
        about = _sentence(folder / ("lib.rs" if folder.name == "src" else "mod.rs"))
        lines.append(_row(str(folder.relative_to(ROOT)), about))
    lines.append(_row("core/data", "The tables of the core: rows with examples."))
    return "\n".join([*lines, ""])


def _row(folder: str, about: str, below: Iterable[str] = ()) -> str:
    names = ", ".join(f"`{name}`" for name in below)
    return f"- `{folder}`: {about}{names and f' Below: {names}.'}"


def _place(folder: Path) -> int:
    for above in (folder, *folder.parents):
        if str(above) in FLOW and (above.name or not folder.name):
            return FLOW.index(str(above))
    raise LookupError(f"docs/modules.py: FLOW has no place for {folder}")


def _sentence(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(text)) or ""
    else:  # The comment at the head of a module of Rust or of a table.
        lines = takewhile(lambda line: line.startswith(("//!", "#")), text.splitlines())
        text = "\n".join(line.removeprefix("//!").removeprefix("#").strip() for line in lines)
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".:") + "."
