"""Every block of every page is run, and what a page shows is what its commands print."""

import re
import tomllib
from pathlib import Path

import pytest

from docs.generate import installing
from docs.page_runs import PageError, blocks_of, current, merged, pages
from docs.rule_pages import ladders
from looptrace.installation import SOURCE
from looptrace.rules.calls.repeated_failure import RepeatedFailure
from looptrace.rules.contract import Rung
from tests.paths import ROOT

PAGES = [str(path.relative_to(ROOT)) for path in pages()]
# The blocks that are not run, with the reason beside each: the numbers may only fall.
NOT_RUN = {
    "CONTRIBUTING.md": 1,
    "README.md": 1,
    "docs/architecture.md": 1,
    "docs/benchmarks.md": 1,
    "docs/coding_agents.md": 3,
    "docs/inputs.md": 1,
    "docs/quality.md": 1,
    "docs/releases.md": 1,
    "docs/scale.md": 5,
    "docs/server.md": 2,
    "docs/typescript.md": 2,
    "docs/webhooks.md": 1,
    "docs/writing-a-rule.md": 2,
}


TUTORIAL = "docs/tutorial.md"


@pytest.mark.parametrize("name", [name for name in PAGES if name != TUTORIAL])
def test_a_page_does_what_it_shows(name: str) -> None:
    """A reader who follows it to the letter gets what it shows."""
    path = ROOT / name

    stale = f"{name} is stale; run `python -m docs.page_runs {name}`"
    assert current(path) == path.read_text(encoding="utf-8"), stale


def test_the_tutorial_does_what_it_shows() -> None:
    """It installs the package, too."""
    test_a_page_does_what_it_shows(TUTORIAL)


def test_few_blocks_are_not_run() -> None:
    """A block that nobody runs is wrong one day."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in PAGES}
    reasons = {
        name: [block.marks["not run"] for block in blocks_of(text) if "not run" in block.marks]
        for name, text in texts.items()
    }

    assert {name: len(found) for name, found in reasons.items() if found} == NOT_RUN


PAGE = """
<!-- file: a.py -->

```python
print("7 loops at 12:30")
```

<!-- exits: 3 -->

```sh
python a.py
(exit 3)
```

```text
SHOWN
```
"""
RIGHT = "7 loops at …"


def run(page: str, folder: Path) -> str:
    """Run the text of a page."""
    path = folder / "page.md"
    path.write_text(page, encoding="utf-8")
    return current(path)


@pytest.mark.parametrize("shown", [RIGHT, "…", "8 loops at …"])
def test_what_is_shown_is_compared(shown: str, tmp_path: Path) -> None:
    """What fits stays as it is; what does not is written anew."""
    expected = shown if shown != "8 loops at …" else "7 loops at 12:30"

    found = run(PAGE.replace("SHOWN", shown), tmp_path)

    assert found == PAGE.replace("SHOWN", expected)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("```sh\nfalse\ntrue\n```", "exit codes 1, not 0"),
        ("```python\n1 / 0\n```", "ZeroDivisionError"),
        ("```toml\n[rules.cycle]\nrounds = 3\n```", "rounds"),
        ("```json\n{,}\n```", "Expecting"),
        ("```text\nprinted by nobody\n```", "nothing is run"),
        ("```klingon\nQapla\n```", "nothing is run"),
        ("<!-- part of: LICENSE -->\n\n```text\nAll rights reserved\n```", "not in the file"),
    ],
)
def test_a_block_that_fails_is_seen(block: str, why: str, tmp_path: Path) -> None:
    """The last command of a block must not hide one before it, nor a block another."""
    with pytest.raises(PageError, match=f"page.md:[0-9]+: (.|\n)*{re.escape(why)}"):
        run(f"# A page\n\n{block}\n\n```sh\ntrue\n```\n", tmp_path)


def test_lines_that_fit_stay_where_others_are_written_anew() -> None:
    """What differs from run to run is marked once, and not again after each change."""
    shown, printed = "1 gate\nat …\n…\n", "2 gates\nat 12:30\nand more\n"

    assert merged(shown, printed) == "2 gates\nat …\n…\n"


# A command to install looptrace, up to its end; pages, examples, and messages have such.
INSTALLS = re.compile(r"pip install [^`\"\n]*looptrace[^`\"\n]*")


def test_it_can_be_installed_as_every_file_says() -> None:
    """Nobody can install a package that is not published; the tutorial's test runs the command."""
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in (*installing(), *(ROOT / "src").rglob("*.py"), *(ROOT / "deploy").iterdir())
        if path.is_file()
    }
    commands = {path.name: INSTALLS.findall(text) for path, text in texts.items()}
    published = [f"{name}: {each}" for name, found in commands.items() for each in found]
    with_others = [each for each in published if "@ git+https" not in each]

    assert sum(f"pip install '{SOURCE}[" in text for text in texts.values()) > 5
    assert with_others == [] or SOURCE != "."


def test_every_extra_that_a_page_names_exists() -> None:
    """A command with an extra that is misspelt installs the rest and says nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [path.read_text(encoding="utf-8") for path in installing()]
    named = {name for text in texts for name in re.findall(r"(?:looptrace|'\.)\[(\w+)\]", text)}

    assert named
    assert named <= set(project["optional-dependencies"])


def test_the_readme_says_when_a_failure_is_a_gate() -> None:
    """Its sentence is that of the ladder, which the tables are made from."""
    page = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())

    assert RepeatedFailure().ladder == (Rung(3, "gate"),)
    assert "an identical failure opens a *gate* at the third attempt" in page
    assert "| `gate` | `collaboration_loop`" in ladders()
