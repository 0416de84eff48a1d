"""The results of looptrace on traces of real frameworks: the table of `docs/frameworks.md`.

`python -m tests.framework_table`, run from the project's root, writes it into the page. Those
traces are not part of the project, and are looked for beside it. Each has a twin in
`tests/framework_traces`, for which looptrace must have the same results.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import polars as pl

from looptrace import semconv
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.fields.dialect_table import FIELDS, SHIPPED
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.files.reader import SpansRead, read_spans
from tests.paths import ROOT, SHARED

REAL = SHARED / "frameworks"
OWN = ROOT / "tests" / "framework_traces"
DIALECTS = ROOT / "tests" / "dialects"
PAGE = ROOT / "docs" / "frameworks.md"
ABSENT = "the traces of real frameworks are not there: no folder ../shared/frameworks"

BEGIN = "<!-- Written by `python -m tests.framework_table`. -->"
END = "<!-- End of the written part. -->"

KEYS_READ = {key for name in FIELDS for key in SHIPPED.keys_of(name)}
READ = {key.partition("#")[0] for key in KEYS_READ}
READ |= SHIPPED.markers | {"tool.parameters"}
READ_PREFIXES = tuple(key.rstrip("*") for key in KEYS_READ if key.endswith("*"))
TRACEBACK = {"exception.stacktrace", "exception.escaped"}  # Nothing is read from them.

Verdict: TypeAlias = Literal["loop", "silent", "unknown"]

# Why a dump cannot show all there is to see, one sentence each.
NOTES = {
    "adk-native": (
        "Google's ADK exports the names of tools, but no arguments, no results and no errors, "
        "unless the capture of content is switched on."
    ),
    "autogen-native": (
        "AutoGen exports no arguments and no results; five equal errors still show the loop, "
        "but where all calls succeed nothing can be compared."
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


@cache
def dumps(folder: Path) -> Mapping[str, Path]:
    """Return the files of a folder by the names of the traces in them."""
    return {path.name.partition(".")[0]: path for path in sorted(folder.glob("*.json*"))}


@cache
def spans_of(folder: Path, dump: str) -> SpansRead:
    """Read one dump."""
    return read_spans([str(dumps(folder)[dump])])


@cache
def analysis_of(folder: Path, dump: str) -> Analysis:
    """Analyse one dump."""
    return analyse(spans_of(folder, dump).spans)


@cache
def line_alone(folder: Path, dump: str) -> Line:
    """Return the line of a dump that is analysed by itself."""
    analysis = analysis_of(folder, dump)
    return _line(dump, analysis.turns, analysis.findings)


@cache
def lines_together(folder: Path, *, apart: bool) -> dict[str, Line]:
    """Return the lines of all dumps, analysed at once.

    Several of them share a session; `apart` gives each dump sessions of its own.
    """
    read = {dump: spans_of(folder, dump).spans for dump in dumps(folder)}
    if apart:
        read = {dump: _with_own_sessions(folder, dump, spans) for dump, spans in read.items()}
    analysis = analyse(pl.concat(read.values()))
    found = {}
    for dump in dumps(folder):
        traces = set(spans_of(folder, dump).spans["trace_id"])
        turns = analysis.turns.filter(pl.col("trace_id").is_in(traces))
        found[dump] = _line(dump, turns, [f for f in analysis.findings if _touches(f, traces)])
    return found


def _with_own_sessions(folder: Path, dump: str, spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans whose attributes name the dump with each session."""
    attributes = pl.col("attributes")
    for session in set(analysis_of(folder, dump).turns["session"]) - set(spans["trace_id"]):
        attributes = attributes.str.replace_all(f'"{session}"', f'"{session}-{dump}"', literal=True)
    return spans.with_columns(attributes)


def keys_used(folder: Path, dump: str) -> set[tuple[str, str]]:
    """Return which attributes and events that looptrace reads a dump has, on which kind of span.

    Numbers of messages that a model was given are one; those of what it answered tell shapes
    apart, as do the numbers of calls. `tool.parameters` counts, because reading it would be wrong.
    """
    found: set[tuple[str, str]] = set()
    for row in spans_of(folder, dump).spans.iter_rows(named=True):
        attributes = json.loads(row["attributes"])
        kind = SHIPPED.kind_of(attributes, row["name"], row["scope"])[0] or "other"
        found.add((kind, f"status {row['status']}"))
        found |= {(kind, _numberless(key)) for key in attributes if _is_read(key)}
        for event in json.loads(row["events"]):
            said = event["attributes"].keys() - TRACEBACK
            found |= {(kind, f"@{event['name']}#{key}") for key in said}
    return found


def keys_shown(folder: Path, dump: str) -> set[str]:
    """Return which keys of the dialects' table have a value in a dump."""
    found = set[str]()
    for row in spans_of(folder, dump).spans.iter_rows(named=True):
        said = _said(json.loads(row["attributes"]), json.loads(row["events"]))
        found |= {key for key in KEYS_READ - found if _shows(said, key)}
    return found


def table(folder: Path, named: Sequence[str]) -> str:
    """Write the part of the page that follows from the dumps."""
    lines = [line_alone(folder, dump) for dump in named]
    setups: dict[str, list[Line]] = {}
    for line in lines:
        setups.setdefault(line.dump.rpartition("-")[0], []).append(line)
    alike: dict[tuple[str, ...], list[str]] = {}
    for setup, runs in setups.items():
        alike.setdefault(tuple(_cells(runs)), []).append(f"`{setup}`")
    rows = [
        "| -loop | -ok | known arguments, outcomes | set-ups |",
        "|---|---|---|---|",
        *(f"| {' | '.join([*cells, ', '.join(names)])} |" for cells, names in alike.items()),
    ]
    notes = [f"- `{name}`: {NOTES[name]}" for name in sorted(NOTES)]
    return "\n".join([*rows, "", *notes])


def page(folder: Path, named: Sequence[str]) -> str:
    """Return the page with its written part made anew from the dumps that are named."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(folder, named)}\n\n{END}{after}"


def _said(attributes: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return attributes with those of events, as the table of dialects names them."""
    found = dict(attributes)
    for event in events:
        body = parsed(event["attributes"].get("gen_ai.event.content"))
        said = event["attributes"] | (body if isinstance(body, dict) else {})
        name = said.get("event.name", event["name"])
        if name == semconv.DETAILS_EVENT:
            found = said | found
        elif name in semconv.MESSAGE_EVENTS:
            found["@gen_ai.messages"] = said
        found.setdefault(f"@{name}", said)
    return found


def _shows(attributes: Mapping[str, object], key: str) -> bool:
    """Return whether attributes have a key that is written as in the table of dialects."""
    if key.endswith((".*", ".**")):
        return any(name.startswith(key.rstrip("*")) for name in attributes)
    holder, _, part = key.partition("#")
    if holder not in attributes:
        return False
    text = str(attributes[holder])
    paths = (re.split("[.!=*]+", path) for path in part.split("|"))
    return any(all(word in text for word in words) for words in paths)


def _is_read(key: str) -> bool:
    return key in READ or key.startswith(READ_PREFIXES)


def _numberless(key: str) -> str:
    return re.sub(r"(input_messages)\.\d+", r"\1.N", key)


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


def _cells(runs: Sequence[Line]) -> Iterator[str]:
    by_run = {line.dump.rpartition("-")[2]: line for line in runs}
    verdict = by_run["loop"].verdict
    yield f"**{verdict}**" if verdict == "loop" else verdict
    yield by_run["ok"].verdict if "ok" in by_run else "-"
    calls = sum(line.tools for line in runs)
    known = (sum(line.arguments for line in runs), sum(line.outcomes for line in runs))
    yield f"{known[0]}, {known[1]} of {calls}"


if __name__ == "__main__":
    PAGE.write_text(page(REAL, sorted(dumps(REAL))), encoding="utf-8")
