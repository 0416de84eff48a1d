"""Makes docs/modules.md: what each folder is for, and the names of its modules."""

from __future__ import annotations

import ast
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

The folders in the order of the data's flow, below [the map](architecture.md). A module begins with
a sentence about itself.
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
    """Return the page."""
    lines = [_HEAD]
    for folder in folders():
        paths = modules(folder)
        about = _sentence(PACKAGE / folder / "__init__.py")
        lines.append(_row((folder.name and str(folder)) or "looptrace", about, paths))
    for folder in core_folders():
        paths = core_modules(folder)
        about = _sentence(folder / ("lib.rs" if folder.name == "src" else "mod.rs"))
        lines.append(_row(str(folder.relative_to(ROOT)), about, paths))
    tables = sorted((CORE / "data").glob("*.toml"))
    lines.append(_row("core/data", "The tables of the core: rows with examples.", tables))
    return "\n".join([*lines, ""])


def core_folders() -> list[Path]:
    """Return the folders of the core's modules."""
    return sorted({path.parent for path in CORE.glob("src/**/*.rs")})


def core_modules(folder: Path) -> list[Path]:
    """Return the modules of a folder of the core, without the one that names them."""
    return sorted(p for p in folder.glob("*.rs") if p.name not in {"lib.rs", "mod.rs"})


def _row(folder: str, about: str, paths: list[Path]) -> str:
    names = ", ".join(f"`{path.stem}`" for path in paths)
    return f"- `{folder}`: {about} {names}"


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
