"""Traces of frameworks as tests take them: what looptrace must say of each, and what they hold."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from looptrace.analyzer.engine.analysis import Analysis
from tests import framework_table
from tests.framework_table import OWN, REAL, Verdict, analysis_of
from tests.framework_traces.run import AGENT, CHECK, ERROR, ORDER, STEPS


@dataclass(frozen=True, slots=True)
class Layer:
    """A folder of traces, and the words of what happened in them."""

    name: str
    folder: Path
    agent: str
    check: str
    arguments: str
    failure: str
    texts: tuple[str, str]  # of a loop's first and second response
    ok_calls: tuple[str, ...]


class Expected(NamedTuple):
    """What looptrace must say of a trace."""

    verdict: Verdict
    agent: str  # whether the trace names the agent
    task: str  # what the task is called after: the session, or the trace where there is none
    findings: tuple[str, ...] = ()  # rule, and first and last turn


def loop(calls: str, responses: str = "", *, without: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the findings on a call that fails again and again, and on what is said between."""
    rules = ("repeated_call", "repeated_failure", "signature_repeat")
    found = [f"{rule} {calls}" for rule in rules if rule not in without]
    return tuple(sorted(found + ([f"response_repeat {responses}"] if responses else [])))


LAYERS = (
    Layer(
        "own",
        OWN,
        AGENT,
        CHECK,
        json.dumps(ORDER, separators=(",", ":")),
        ERROR.partition(": ")[2],
        (STEPS["loop"][0].text, STEPS["loop"][1].text),
        tuple(call.name for step in STEPS["ok"] for call in step.calls),
    ),
    Layer(
        "real",
        REAL,
        "fixer",
        "run_tests",
        '{"path":"tests/test_cart.py"}',
        "3 failed, 9 passed: AssertionError: expected 42, got 41",
        ("Let me run the tests.", "Let me try running the tests again."),
        ("read_file", "run_tests", "edit_file", "run_tests", "edit_file", "run_tests"),
    ),
)


def runs(names: str, looping: Expected, healthy: Verdict = "silent") -> dict[str, Expected]:
    """Return what is expected of the loop and of the healthy run of each framework's name."""
    others = Expected(healthy, looping.agent, looping.task)
    return {
        f"{name}-{kind}": expected
        for name in names.split()
        for kind, expected in (("loop", looping), ("ok", others))
    }


SAID = loop("2-10", "3-9")  # The user's message comes first, and the model speaks in between.


EXPECTED = {
    **runs(
        "langfuse-native langgraph-langsmith langgraph-openinference langgraph-otelgenai "
        "openairaw-traceloop pydanticai-native pydanticai-openinference strands-native "
        "strands-native-latest",
        Expected("loop", "agent", "session", SAID),
    ),
    **runs(
        "llamaindex-openllmetry openairaw-openinference openairaw-openllmetry openairaw-otelgenai",
        Expected("loop", "", "trace", SAID),
    ),
    **runs(
        "openaiagents-openinference openaiagents-openllmetry",
        Expected("loop", "agent", "trace", loop("2-10", "3-9", without=("repeated_failure",))),
    ),
    **runs(
        "crewai-openinference smolagents-openinference smolagents-openinference-code",
        Expected("loop", "agent", "trace", loop("1-5")),
    ),
    **runs("adk-openinference", Expected("loop", "agent", "session", loop("1-5"))),
    **runs("agentframework-native", Expected("loop", "agent", "trace", loop("2-6", "3-7"))),
    **runs("vercelai-legacy", Expected("loop", "agent", "session", loop("1-9", "4-10"))),
    **runs(
        "autogen-native",
        Expected("loop", "agent", "trace", loop("1-5", without=("repeated_call",))),
        "unknown",
    ),
    **runs("adk-native", Expected("unknown", "agent", "session"), "unknown"),
    **runs("crewai-openllmetry", Expected("unknown", "", ""), "unknown"),
    # Older forms of one framework, of which only the loop was recorded.
    **{
        f"pydanticai-native-v{version}-loop": Expected("loop", "agent", "session", SAID)
        for version in (2, 3, 6)
    },
}


# Of these shapes no framework's trace is at hand, only one of our own.
EXPECTED_OWN = {
    **runs(
        "looptrace-own",
        Expected("loop", "agent", "session", ("blocked_task_spin 1-5",)),
        "unknown",
    ),
    **runs("openairaw-openinference-separate", Expected("loop", "", "session", SAID)),
    **runs("openllmetry-numbered", Expected("loop", "agent", "session", SAID)),
    **runs("vercelai-stream", Expected("loop", "agent", "session", loop("1-9", "4-10"))),
}


ALL = EXPECTED | EXPECTED_OWN


# Which spans are a model's, and where their tokens stand, as the traces themselves have it.
MODEL_SPANS = {
    "gen_ai.operation.name": {"chat", "generate_content"},
    "openinference.span.kind": {"LLM"},
    "langfuse.observation.type": {"generation"},
    "ai.operationId": {"ai.generateText.doGenerate", "ai.streamText.doStream"},
    "llm.request.type": {"chat"},
}


INPUT_TOKENS = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
)


OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
)


@dataclass(frozen=True, slots=True)
class Dump:
    """One trace of a layer."""

    layer: Layer
    name: str

    def spans(self, name: str = "") -> Iterator[dict[str, Any]]:
        """Yield the spans whose name holds a text, with attributes and events as values."""
        for row in framework_table.spans_of(self.layer.folder, self.name).spans.iter_rows(
            named=True
        ):
            if name in row["name"]:
                yield row | {key: json.loads(row[key]) for key in ("attributes", "events", "links")}

    def attributes(self, key: str) -> list[Any]:
        """Return the values of an attribute."""
        return [span["attributes"][key] for span in self.spans() if key in span["attributes"]]

    @property
    def analysis(self) -> Analysis:
        """Return what looptrace says of it."""
        return analysis_of(self.layer.folder, self.name)

    def turns(self, kind: str = "tool") -> pl.DataFrame:
        """Return the turns of one kind."""
        return self.analysis.turns.filter(pl.col("kind") == kind)

    def calls_of_loop(self) -> list[str]:
        """Return the arguments that all five calls of a loop have."""
        return [self.layer.arguments] * 5

    def tokens(self, keys: tuple[str, ...], usage: str) -> int:
        """Add up what the model spans say that they used."""
        total = 0
        for span in self.spans():
            said = span["attributes"]
            if any(said.get(marker) in kinds for marker, kinds in MODEL_SPANS.items()):
                details = json.loads(said.get("langfuse.observation.usage_details", "{}"))
                total += next((said[key] for key in keys if key in said), details.get(usage, 0))
        return total


def dumps(names: Iterable[str]) -> pytest.MarkDecorator:
    """Return the mark that runs a test on traces of both layers, those that are not real once."""
    found = []
    for layer in LAYERS:
        absent = pytest.mark.skipif(not layer.folder.is_dir(), reason=framework_table.ABSENT)
        for name in names:
            if layer.folder == OWN or name in EXPECTED:
                dump = Dump(layer, name)
                found.append(pytest.param(dump, id=f"{layer.name}-{name}", marks=absent))
    return pytest.mark.parametrize("dump", found)


needs_real = pytest.mark.skipif(not REAL.is_dir(), reason=framework_table.ABSENT)


# Their traces show no call.
BLIND = ("crewai-openllmetry-loop", "crewai-openllmetry-ok")
