"""Traces that agents in other languages wrote: looptrace finds the loop, and nothing else.

`tests/producers` has the agents, and says how their spans are recorded anew.
"""

import gzip
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import read_spans
from tests.producers.recorder import PRODUCERS, RESOURCE_KEYS, TRACES
from tests.producers.scripted_model import ATTEMPTS, PATH, SCRIPTS

ERROR = "1 failed: test_total, expected 42, got 41"
BYTES_MAX = 60_000
RULES = ("repeated_call", "repeated_failure", "signature_repeat")
ALL_RULES = (*RULES, "response_repeat")


class Expected(NamedTuple):
    """What a producer writes, as looptrace reads it."""

    rules: tuple[str, ...] = ALL_RULES  # that find the loop
    session: str = "ticket-42"
    agent: str = "fixer"
    error: str = ERROR
    texts: bool = True  # whether the model's answers are there
    tool: str = ""  # the name that all tools have, where theirs are not written


EXPECTED = {
    # Messages are only in the log.
    "adk-go": Expected(RULES, texts=False),
    # An error of a tool ends the agent, so that the tool returns it.
    "genkit-go": Expected(session="", agent=""),
    "langchain-openinference": Expected(),
    # It writes the name of the class for that of the tool, and no names and sessions of agents.
    "langchain-traceloop": Expected(session="", agent="", tool="DynamicStructuredTool"),
    "mastra-otel": Expected(RULES),
    # It writes no session, and hides the error.
    "openai-agents-openinference": Expected(
        ("repeated_call", "response_repeat", "signature_repeat"),
        session="",
        error="An error occurred while running the tool. Please try again.",
    ),
    # An error is an exception without a status; prompts are all messages as one text.
    "quarkus-langchain4j": Expected(RULES, session="", agent=""),
    # It hides what an error says.
    "rig": Expected(session="", error="the tool failed"),
    # A tool that failed is a success whose result is the error; the answers are only in the log.
    "spring-ai": Expected(RULES, agent="", texts=False),
    "spring-ai-1": Expected(RULES, agent="", texts=False),
    "vercel-legacy": Expected(),
    "vercel-otel": Expected(),
}
of_each = pytest.mark.parametrize("name", EXPECTED)


@cache
def analysis_of(trace: str) -> Analysis:
    """Analyse a trace."""
    read = read_spans([str(TRACES / f"{trace}.json.gz")])
    assert read.skipped == ()
    return analyse(read.spans)


def calls_of(trace: str) -> pl.DataFrame:
    """Return the calls of tools in a trace, in their order."""
    return analysis_of(trace).turns.filter(pl.col("kind") == "tool")


def test_every_trace_is_expected() -> None:
    """A trace that is not in the table is one that nobody looked at."""
    names = {path.name.removesuffix(".json.gz") for path in TRACES.glob("*.json.gz")}

    assert names == {f"{name}-{script}" for name in EXPECTED for script in SCRIPTS}
    assert EXPECTED.keys() == PRODUCERS.keys()


@of_each
def test_the_loop_is_found(name: str) -> None:
    """Each call counts once, with its name, its arguments and what came of it."""
    expected, calls = EXPECTED[name], calls_of(f"{name}-loop")
    rules = {finding.rule for finding in analysis_of(f"{name}-loop").findings}

    assert set(expected.rules) <= rules
    assert calls["name"].to_list() == [expected.tool or "run_tests"] * ATTEMPTS
    assert all(PATH in text for text in calls["arguments"])
    assert calls["outcome"].n_unique() == 1
    assert calls["failed"].all()
    assert all(text.startswith(expected.error) for text in calls["error"])


@of_each
def test_other_work_is_silent(name: str) -> None:
    """Three calls that differ and an answer are no loop."""
    expected, calls = EXPECTED[name], calls_of(f"{name}-ok")
    names = [answer.tool for answer in SCRIPTS["ok"] if answer.tool]

    assert analysis_of(f"{name}-ok").findings == ()
    assert calls["name"].to_list() == ([expected.tool] * len(names) if expected.tool else names)
    assert not calls["failed"].any()
    assert calls["outcome"].null_count() == 0


@of_each
@pytest.mark.parametrize("script", SCRIPTS)
def test_what_else_is_read(name: str, script: str) -> None:
    """Answers, tokens, session and agent are there where their producer writes them."""
    expected, turns = EXPECTED[name], analysis_of(f"{name}-{script}").turns
    models = turns.filter(pl.col("kind") == "model")
    answers = [answer.text for answer in SCRIPTS[script]]

    assert models["input_tokens"].sort().to_list() == [100 + 40 * i for i in range(len(answers))]
    assert models["output_tokens"].sort().to_list() == [20 + i for i in range(len(answers))]
    assert models["text"].to_list() == (answers if expected.texts else [None] * len(answers))
    acting = turns.filter(pl.col("kind") != "user")
    assert set(acting["agent"]) == {expected.agent}
    assert {*acting["session"]} == (
        {expected.session} if expected.session else {*acting["trace_id"]}
    )


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.gz")), ids=lambda path: path.name)
def test_a_trace_is_small_and_names_no_machine(path: Path) -> None:
    """The recorder leaves out folders, hosts and processes."""
    text = gzip.decompress(path.read_bytes()).decode()
    keys = set(re.findall(r'"key":"([^"]+)"', text.partition('"scopeSpans"')[0]))

    assert path.stat().st_size <= BYTES_MAX
    assert keys <= {*RESOURCE_KEYS}
    assert not re.findall(r"/(?:tmp|work|root|home)/|registry", text)
