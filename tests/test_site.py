"""The documentation as a site: every page has a place in it, and no link of it is broken."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from subprocess import run
from sys import executable
from typing import Any

import pytest
import yaml

from tests.paths import ROOT

SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
# What a page of the site fetches by itself.
_FETCHED = re.compile(r'<(?:script|img|link)[^>]*(?:src|href)="(https?://[^"]+)"')


def pages_in(entry: Any) -> Iterator[str]:
    """Yield the pages of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for item in entry.values() if isinstance(entry, dict) else entry:
            yield from pages_in(item)


def test_every_page_has_one_place() -> None:
    """A page that the navigation leaves out is found by nobody."""
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    # Decisions are for those who change the code; the page of the architecture lists them.
    decisions = {page for page in pages if page.startswith("decisions/")}
    text = (docs / "architecture.md").read_text(encoding="utf-8")
    placed = list(pages_in(SETTINGS["nav"]))

    assert set(placed) == pages - decisions
    assert [page for page in sorted(decisions) if f"]({page})" not in text] == []
    assert len(placed) == len(set(placed))


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="looptrace[site] is not installed")
def test_the_site_is_built_and_fetches_nothing(tmp_path: Path) -> None:
    """A link that leads nowhere fails it; whoever reads it offline misses nothing."""
    site = tmp_path / "site"
    command = [executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    done = run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    built = list(site.rglob("*.html"))
    assert len(built) > len(list(pages_in(SETTINGS["nav"])))
    for page in built:
        assert not _FETCHED.findall(page.read_text(encoding="utf-8")), page
