"""Agents of real frameworks loop, get events on their own live spans, and stop.

`make test-frameworks` installs the frameworks and runs these tests; `make test` leaves them out.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from examples.frameworks.shared import ATTEMPTS, MENDED
from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.fields.dialect_table import SHIPPED
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.collector.files.reader import read_spans
from tests.paths import ROOT

PAGE = ROOT / "docs" / "frameworks_live.md"
PACKAGES = {
    "pydantic_ai_agent": "pydantic_ai",
    "langgraph_agent": "langgraph",
    "openai_agents_agent": "agents",
    "strands_agent": "strands",
    "smolagents_agent": "smolagents",
    "llama_index_agent": "llama_index",
    "agno_agent": "agno",
    "agent_framework_agent": "agent_framework",
    "autogen_agent": "autogen_agentchat",
    "google_adk_agent": "google.adk",
    "crewai_agent": "crewai",
}
# The page has the lines of their middleware, which has tests of its own.
TWO_LINES = {
    "openai_agents_agent",
    "strands_agent",
    "smolagents_agent",
    "google_adk_agent",
    "crewai_agent",
}
requirement = pytest.mark.requirement
TIMEOUT_S = 300
GATE = "Work on task ticket-42 stops here"
# The texts that differ from run to run: times, ids, and counts at the time of the gate.
VARIES = re.compile(
    r"\d+ ms|\d+ times;|tokens: \d+|\d{4}-\d\d-\d\dT\S+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[0-9a-f]{16}"
)
LEFT_OUT = "…"
# Python reads this file at its start: it writes down whatever would reach the network.
WITNESS = """
import os, sys
out = os.open(os.environ["WITNESSED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
CALLS = ("connect", "getaddrinfo", "gethostbyname", "gethostbyaddr", "sendto", "sendmsg")
WATCHED = {f"socket.{call}" for call in CALLS}
def hook(event, args):
    if event in WATCHED:
        os.write(out, f"{event} {args[1:]}\\n".encode())
sys.addaudithook(hook)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What a program printed, where its spans are, and what it did on the network."""

    name: str
    printed: str
    path: Path
    witnessed: str

    @property
    def called(self) -> int:
        """How often the tests were run, as the program itself counts."""
        return int(re.findall(r"run_tests was called (\d+) times", self.printed)[0])

    def turns(self) -> int:
        """Return how many calls of the tests looptrace reads off the spans, less refused ones."""
        turns = turns_of(read_spans([str(self.path)]).spans)[0]
        calls = turns.filter(pl.col("kind") == "tool", pl.col("name") == "run_tests")
        return len(calls.filter(~pl.col("error").fill_null("").str.contains(GATE, literal=True)))

    def spans(self) -> list[dict[str, Any]]:
        """Return the rows of the exported spans, with attributes and events as values."""
        rows = read_spans([str(self.path)]).spans.iter_rows(named=True)
        return [
            row | {key: json.loads(row[key]) for key in ("attributes", "events")} for row in rows
        ]


def python(arguments: list[str], folder: Path) -> tuple[str, str]:
    """Run Python in a folder; return what it printed, and what it did on the network.

    The folder is its home: CrewAI keeps a database of runs, and the answer to a question that it
    asks in a terminal, under the name of the folder in the home of the user.
    """
    (folder / "sitecustomize.py").write_text(WITNESS, encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={
            **inherited,
            "HOME": str(folder),
            "PYTHONPATH": os.pathsep.join(map(str, [folder, ROOT, ROOT / "src"])),
            "WITNESSED": str(folder / "witnessed"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0), done.stderr
    return done.stdout, (folder / "witnessed").read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=PACKAGES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run an example as its reader would."""
    return run_of(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module", params=PACKAGES)
def healthy_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run an example whose agent fixes one failure after another."""
    return run_of(request.param, tmp_path_factory.mktemp(request.param), "healthy")


def run_of(name: str, folder: Path, *arguments: str) -> Run:
    """Run an example, where its framework is installed."""
    if not _installed(PACKAGES[name]):
        pytest.skip(f"{PACKAGES[name]} is not in this environment; `make test-frameworks` has all")
    printed, witnessed = python(["-m", f"examples.frameworks.{name}", *arguments], folder)
    return Run(name, printed, folder / "build" / "examples" / f"{name}.json", witnessed)


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # The package that it is a part of is not there either.
        return False


def kind(span: dict[str, Any]) -> str | None:
    """Return what a span is: an agent's, a tool's, or another."""
    return SHIPPED.kind_of(span["attributes"], span["name"], None)[0]


def above(span_id: str, parents: dict[str, str]) -> Iterator[str]:
    """Yield the ids of the spans above one."""
    while span_id := parents.get(span_id, ""):
        yield span_id


def gates(span: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a span's gate events."""
    return [event for event in span["events"] if event["name"] == "looptrace.gate"]


@requirement("F3")
def test_the_agents_live_span_carries_the_events(run: Run) -> None:
    """They are on one span, the agent's or the run's, above all calls, and came before its end."""
    spans = run.spans()
    (agent,) = [span for span in spans if gates(span)]
    parents = {span["span_id"]: span["parent_span_id"] for span in spans}
    calls = {span["span_id"] for span in spans if kind(span) == "tool"}

    assert kind(agent) == "agent" or not agent["parent_span_id"]
    assert all(agent["span_id"] in above(call, parents) for call in calls)
    assert agent["start_ns"] < min(event["time_ns"] for event in gates(agent))
    assert max(event["time_ns"] for event in gates(agent)) < agent["end_ns"]


@requirement("D4")
def test_the_agent_stops_at_its_gate(run: Run) -> None:
    """It receives the directive and makes no more calls, although its script has many more."""
    assert run.printed.count(GATE) == 1
    assert f"times; the script goes on to {ATTEMPTS}" in run.printed
    assert 3 <= run.called < ATTEMPTS
    assert run.turns() == run.called


def test_a_healthy_run_is_silent(healthy_run: Run) -> None:
    """Each run of the tests brings news: nothing is found, and each call could be compared."""
    read = read_spans([str(healthy_run.path)])
    turns = turns_of(read.spans)[0].filter(pl.col("kind") == "tool")

    assert GATE not in healthy_run.printed
    assert (healthy_run.called, healthy_run.turns()) == (len(MENDED), len(MENDED))
    assert not [event for span in healthy_run.spans() for event in gates(span)]
    assert analyse(read.spans, read.skipped).findings == ()
    assert not set(turns["arguments"]) & {None, ""}


@requirement("F2")
def test_the_exported_spans_bring_the_same_events(run: Run) -> None:
    """A later analysis of the trace has the same events as the agent."""
    read = read_spans([str(run.path)])
    (live,) = [found for span in run.spans() if (found := gates(span))]
    names = ("looptrace.event.type", "looptrace.rule.id", "looptrace.turn.last")
    later = analyse(read.spans, read.skipped).events

    assert read.skipped == ()
    assert [tuple(event["attributes"][name] for name in names) for event in live] == [
        (event.type, event.rule, event.turn) for event in later
    ]


def test_nothing_reaches_the_network(run: Run) -> None:
    """No model, no backend of the framework's maker, no telemetry."""
    assert run.witnessed == ""


def test_the_witness_sees_the_network(tmp_path: Path) -> None:
    """What the test above relies on."""
    script = "import socket; socket.socket().connect_ex(('127.0.0.1', 9))"

    assert python(["-c", script], tmp_path)[1] == "socket.connect (('127.0.0.1', 9),)\n"


def test_the_page_shows_what_the_program_says(run: Run) -> None:
    """The lines to add are the program's, and the output is as printed, with some left out."""
    text = PAGE.read_text(encoding="utf-8")
    about = text.partition(f"examples/frameworks/{run.name}.py)")[2].partition("\n## ")[0]
    if run.name in TWO_LINES:
        assert about == ""
        return
    (added,) = re.findall(r"```python\n(.*?)```\n", about, re.DOTALL)
    shown = "".join(re.findall(r"```text\n(.*?)```\n", about, re.DOTALL))
    program = (ROOT / "examples" / "frameworks" / f"{run.name}.py").read_text(encoding="utf-8")
    printed = iter(VARIES.sub("", run.printed).splitlines())
    lines = [VARIES.sub("", line) for line in shown.splitlines() if line.strip() != LEFT_OUT]

    assert set(added.splitlines()) <= {*program.splitlines(), LEFT_OUT}
    assert [line for line in lines if line not in printed] == []
