"""Makes the list of modules in docs/architecture.md, from the first sentence of each."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src/looptrace"

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
    "testing",
    ".",
)
_LIST = re.compile(
    r"(?P<head><!-- `make docs` writes this list. -->\n).*?(?P<tail><!-- end -->)", re.DOTALL
)


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


def with_modules(text: str) -> str:
    """Return the page with the list of every module."""
    lines = [""]
    for folder in folders():
        about = _sentence(PACKAGE / folder / "__init__.py")
        lines += [f"**`{folder if folder.name else 'looptrace'}/`** {about}", ""]
        lines += [f"- `{path.stem}`: {_sentence(path)}" for path in modules(folder)]
        lines += [""] if modules(folder) else []
    return _LIST.sub(lambda match: match["head"] + "\n".join([*lines, ""]) + match["tail"], text)


def _place(folder: Path) -> int:
    for above in (folder, *folder.parents):
        if str(above) in FLOW and (above.name or not folder.name):
            return FLOW.index(str(above))
    raise LookupError(f"docs/modules.py: FLOW has no place for {folder}")


def _sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".:") + "."
