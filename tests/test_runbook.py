"""The runbook and the alerts speak of what there is, and of all of it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generate import DOCS, served
from looptrace.collector.server.metrics import Metrics

ROOT = DOCS.parent
RUNBOOK = (DOCS / "runbook.md").read_text("utf-8")
SERVING = ("collector/server", "collector/webhooks")
_NAME = re.compile(r"\blooptrace_[a-z]+_[a-z_]+")
# The first cell of a row of a table, where it is a code span.
_FIRST_CELL = re.compile(r"^\| `([^`]*)`(?: \|)", re.MULTILINE)


def sources(*folders: str) -> Iterator[str]:
    """Read the files of some folders of the package."""
    for folder in folders:
        for path in sorted((ROOT / "src/looptrace" / folder).rglob("*.py")):
            yield path.read_text("utf-8")


def texts(source: str) -> str:
    """Return the texts of a file, a line each; of an f-string its pieces."""
    return "\n".join(filter(None, map(text_of, ast.walk(ast.parse(source)))))


def text_of(node: ast.AST) -> str | None:
    """Return the constant text that a node is, None where it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def logged() -> set[str]:
    """Return the messages that a server logs, but for those that are an error's own."""
    calls = (node for source in sources(*SERVING) for node in ast.walk(ast.parse(source)))
    found = {
        text_of(node.args[0])
        for node in calls
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "_logger"
    }
    return {text for text in found if text} - {"%s"}


@pytest.mark.parametrize("path", ["docs/metrics.md", "docs/runbook.md", "deploy/alerts.yml"])
def test_numbers_that_are_named_exist(path: str) -> None:
    """An alert about a number that nobody shows never fires."""
    metrics = Metrics(served()[0], {})
    shown = set(re.findall(r"^# TYPE (looptrace_\w+)", metrics.page().decode(), re.MULTILINE))
    metrics.close(1)
    shown.add("looptrace_webhooks_results_total")  # Shown when something was to be sent.

    found = _NAME.findall((ROOT / path).read_text("utf-8"))
    named = {name.removesuffix("_bucket") for name in found}

    assert named - shown == set()
    assert path != "docs/metrics.md" or shown <= named


def test_sentences_that_are_named_exist() -> None:
    """Who searches the runbook for what a server said finds it, word for word."""
    said = RUNBOOK.partition("## What it logs")[2]
    cells = _FIRST_CELL.findall(said)

    assert len(cells) > 20
    for source in sources(*SERVING, ""):
        # Most files are not parsed, which would take seconds.
        if any(all(word in source for word in cell.split()) for cell in cells):
            known = texts(source)
            cells = [cell for cell in cells if cell not in known]
    assert cells == []


def test_all_that_is_logged_is_explained() -> None:
    """But for errors, whose sentences say themselves what to do."""
    messages = logged()
    pieces = {max(message.split("%s"), key=len).strip(" :()") for message in messages}

    assert len(pieces) > 5
    assert [piece for piece in sorted(pieces) if piece not in RUNBOOK] == []


def test_alerts_are_explained() -> None:
    """Each alert rests on a number of the section that says what to do."""
    explained = RUNBOOK.partition("## What it logs")[0]
    alerts = (ROOT / "deploy/alerts.yml").read_text("utf-8")
    expressions = re.findall(r"^ +expr: (.*)$", alerts, re.MULTILINE)

    assert len(expressions) == alerts.count("- alert:")
    unexplained = [
        name
        for expression in expressions
        for name in _NAME.findall(expression)
        if name.removesuffix("_bucket") not in explained
        and name != "looptrace_detection_is_current"
    ]
    assert unexplained == []
    assert Path(ROOT / "deploy/alerts.yml").name in explained
