"""What looptrace says of traces that real frameworks wrote: the table of `docs/frameworks.md`.

`python -m tests.framework_table`, run from the project's root, writes it into the page. The traces
are no part of the project; they are looked for beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import SpansRead, read_spans
from tests.paths import ROOT

DUMPS = ROOT.parent / "shared" / "frameworks"
PAGE = ROOT / "docs" / "frameworks.md"
ABSENT = "the traces of real frameworks are not there: no folder ../shared/frameworks"

BEGIN = "<!-- Written by `python -m tests.framework_table`. -->"
END = "<!-- End of the written part. -->"

Verdict: TypeAlias = Literal["loop", "silent", "unknown"]

# Why a dump cannot show all there is to see, one sentence each.
NOTES = {
    "adk-native": (
        "Google's ADK exports the names of tools, but no arguments, no results and no errors, "
        "unless the capture of content is switched on."
    ),
    "autogen-native": (
        "AutoGen exports no arguments and no results; five equal errors show the loop all the "
        "same, but where all calls succeed nothing can be compared."
    ),
    "crewai-openllmetry": (
        "OpenLLMetry writes three spans of agents and tasks for a run of CrewAI, and none of a "
        "tool or a model."
    ),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    dump: str
    verdict: Verdict
    tools: int
    models: int
    arguments: int  # tool turns whose arguments are known
    outcomes: int  # tool turns whose result or error is known
    rules: tuple[str, ...]


def dumps() -> list[str]:
    """Return the names of all dumps."""
    return sorted(path.stem for path in DUMPS.glob("*.jsonl"))


@cache
def spans_of(dump: str) -> SpansRead:
    """Read one dump."""
    return read_spans([str(DUMPS / f"{dump}.jsonl")])


@cache
def analysis_of(dump: str) -> Analysis:
    """Analyse one dump."""
    return analyse(spans_of(dump).spans)


@cache
def lines_alone() -> dict[str, Line]:
    """Return the lines of all dumps, each analysed by itself."""
    found = ((dump, analysis_of(dump)) for dump in dumps())
    return {dump: _line(dump, analysis.turns, analysis.findings) for dump, analysis in found}


@cache
def lines_together() -> dict[str, Line]:
    """Return the lines of all dumps, analysed at once; several of them share a session."""
    analysis = analyse(read_spans([str(DUMPS)]).spans)
    found = {}
    for dump in dumps():
        traces = set(spans_of(dump).spans["trace_id"])
        turns = analysis.turns.filter(pl.col("trace_id").is_in(traces))
        found[dump] = _line(dump, turns, [f for f in analysis.findings if _touches(f, traces)])
    return found


def table() -> str:
    """Write the part of the page that follows from the dumps."""
    lines = list(lines_alone().values())
    rows = [
        "| dump | verdict | tool turns | model turns | arguments known | outcomes known | rules |",
        "|---|---|---|---|---|---|---|",
        *("| " + " | ".join(map(str, _cells(line))) + " |" for line in lines),
    ]
    notes = [f"- `{name}`: {NOTES[name]}" for name in sorted(NOTES)]
    return "\n".join([*rows, "", *notes])


def page() -> str:
    """Return the page with its written part made anew."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def _line(dump: str, turns: pl.DataFrame, findings: Sequence[Finding]) -> Line:
    tools = turns.filter(pl.col("kind") == "tool")
    comparable = tools.drop_nulls(["arguments", "outcome"])
    shows_all = tools.height and comparable.height == tools.height
    return Line(
        dump=dump,
        verdict="loop" if findings else "silent" if shows_all else "unknown",
        tools=tools.height,
        models=turns.filter(pl.col("kind") == "model").height,
        arguments=tools.height - tools["arguments"].null_count(),
        outcomes=tools.height - tools["outcome"].null_count(),
        rules=tuple(sorted({finding.rule for finding in findings})),
    )


def _touches(finding: Finding, traces: set[str]) -> bool:
    return any(turn.trace_id in traces for turn in finding.turns)


def _cells(line: Line) -> Iterator[str | int]:
    yield f"`{line.dump}`"
    yield f"**{line.verdict}**" if line.verdict == "loop" else line.verdict
    yield from (line.tools, line.models, line.arguments, line.outcomes)
    yield ", ".join(f"`{rule}`" for rule in line.rules)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
