"""A task in a notebook: the strip of each of its loops, with what repeats and what it has cost."""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.loops import loops_in
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.report.strip import cycle_of, strip_of
from looptrace.analyzer.report.templating import template
from looptrace.analyzer.report.wording import shown_of

_STYLES = ("report.css", "strip.css")


def notebook_html(
    turns: pl.DataFrame, findings: Iterable[Finding], events: Sequence[GateEvent]
) -> str:
    """Write a task (`TURN_SCHEMA`, in order) as HTML whose styles reach nothing around it."""
    groups, _ = shown_of(loops_in(findings))
    loops = [
        (group, strip_of(turns, (group.lead,), events), cycle_of(group.lead, turns))
        for group in groups
    ]
    return template("notebook.html.j2").render(
        styles=_styles(),
        task=next(iter(turns["task"]), ""),
        loops=loops,
        plain_strip=None if loops else strip_of(turns, (), events),
    )


@cache
def _styles() -> str:
    """Return the colours and the strip of the report, within a notebook's cell."""
    folder = files("looptrace.analyzer.report") / "templates"
    sheets = [(folder / name).read_text(encoding="utf-8") for name in _STYLES]
    # Nested in the rule of the cell, the root is the cell itself.
    return "\n".join(sheets).replace(":root", "&").replace("body {", "& {")
