"""Traces of real frameworks: the verdict on each, and the oddities of each where they are real.

The traces are no part of the project; without them beside it these tests are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.text.errors import says_nothing
from tests import framework_table
from tests.framework_table import DUMPS, Verdict, analysis_of, lines_alone, lines_together, spans_of

pytestmark = pytest.mark.skipif(not DUMPS.is_dir(), reason=framework_table.ABSENT)

EXPECTED: dict[str, Verdict] = {
    "adk-native-loop": "unknown",
    "adk-native-ok": "unknown",
    "adk-openinference-loop": "loop",
    "adk-openinference-ok": "silent",
    "agentframework-native-loop": "loop",
    "agentframework-native-ok": "silent",
    "autogen-native-loop": "loop",
    "autogen-native-ok": "unknown",
    "crewai-openinference-loop": "loop",
    "crewai-openinference-ok": "silent",
    "crewai-openllmetry-loop": "unknown",
    "crewai-openllmetry-ok": "unknown",
    "langfuse-native-loop": "loop",
    "langfuse-native-ok": "silent",
    "langgraph-langsmith-loop": "loop",
    "langgraph-langsmith-ok": "silent",
    "langgraph-openinference-loop": "loop",
    "langgraph-openinference-ok": "silent",
    "langgraph-otelgenai-loop": "loop",
    "langgraph-otelgenai-ok": "silent",
    "llamaindex-openllmetry-loop": "loop",
    "llamaindex-openllmetry-ok": "silent",
    "openaiagents-openinference-loop": "loop",
    "openaiagents-openinference-ok": "silent",
    "openaiagents-openllmetry-loop": "loop",
    "openaiagents-openllmetry-ok": "silent",
    "openairaw-openinference-loop": "loop",
    "openairaw-openinference-ok": "silent",
    "openairaw-openllmetry-loop": "loop",
    "openairaw-openllmetry-ok": "silent",
    "openairaw-otelgenai-loop": "loop",
    "openairaw-otelgenai-ok": "silent",
    "openairaw-traceloop-loop": "loop",
    "openairaw-traceloop-ok": "silent",
    "pydanticai-native-loop": "loop",
    "pydanticai-native-ok": "silent",
    "pydanticai-native-v2-loop": "loop",
    "pydanticai-native-v3-loop": "loop",
    "pydanticai-native-v6-loop": "loop",
    "pydanticai-openinference-loop": "loop",
    "pydanticai-openinference-ok": "silent",
    "smolagents-openinference-code-loop": "loop",
    "smolagents-openinference-code-ok": "silent",
    "smolagents-openinference-loop": "loop",
    "smolagents-openinference-ok": "silent",
    "strands-native-latest-loop": "loop",
    "strands-native-latest-ok": "silent",
    "strands-native-loop": "loop",
    "strands-native-ok": "silent",
    "vercelai-legacy-loop": "loop",
    "vercelai-legacy-ok": "silent",
}

BLIND = ("crewai-openllmetry-loop", "crewai-openllmetry-ok")
WITH_TOOLS = sorted(EXPECTED.keys() - set(BLIND))
OK = [dump for dump in WITH_TOOLS if dump.endswith("-ok")]
LOOPS = [dump for dump in WITH_TOOLS if dump.endswith("-loop")]
LOOPS_WITH_ARGUMENTS = sorted(set(LOOPS) - {"adk-native-loop", "autogen-native-loop"})
# Where a framework stops before the fifth failure.
EXECUTED = {"agentframework-native-loop": 3}
# Here the results' texts are all there is, and they do not begin like an error.
WITHOUT_FAILURES = "llamaindex-openllmetry-loop"

PATH = '{"path":"tests/test_cart.py"}'
OK_CALLS = ["read_file", "run_tests", "edit_file", "run_tests", "edit_file", "run_tests"]
FAILURE = "3 failed, 9 passed: AssertionError: expected 42, got 41"

# Which spans are a model's, and where their tokens stand, as the traces themselves have it.
MODEL_SPANS = {
    "gen_ai.operation.name": {"chat", "generate_content"},
    "openinference.span.kind": {"LLM"},
    "langfuse.observation.type": {"generation"},
    "ai.operationId": {"ai.generateText.doGenerate"},
}
INPUT_TOKENS = ("gen_ai.usage.input_tokens", "llm.token_count.prompt", "ai.usage.inputTokens")
OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "llm.token_count.completion")


def spans(dump: str, name: str = "") -> Iterator[dict[str, Any]]:
    """Yield the spans of a dump whose name holds a text, with attributes and events as values."""
    for row in spans_of(dump).spans.iter_rows(named=True):
        if name in row["name"]:
            yield row | {key: json.loads(row[key]) for key in ("attributes", "events", "links")}


def attributes(dump: str, key: str) -> list[Any]:
    """Return the values of an attribute in a dump."""
    return [span["attributes"][key] for span in spans(dump) if key in span["attributes"]]


def turns(dump: str, kind: str = "tool") -> pl.DataFrame:
    """Return the turns of one kind."""
    return analysis_of(dump).turns.filter(pl.col("kind") == kind)


def tokens(dump: str, keys: tuple[str, ...], usage: str) -> int:
    """Add up what the model spans of a dump say that they used."""
    total = 0
    for span in spans(dump):
        said = span["attributes"]
        if any(said.get(marker) in kinds for marker, kinds in MODEL_SPANS.items()):
            details = json.loads(said.get("langfuse.observation.usage_details", "{}"))
            total += next((said[key] for key in keys if key in said), details.get(usage, 0))
    return total


def test_every_dump_is_expected() -> None:
    """A dump that is not in the table is one that nobody looked at."""
    assert framework_table.dumps() == sorted(EXPECTED)


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("dump", EXPECTED)
def test_verdict(dump: str) -> None:
    """A loop is found where the trace shows it, and nowhere else."""
    assert spans_of(dump).skipped == ()
    assert lines_alone()[dump].verdict == EXPECTED[dump]


@pytest.mark.parametrize("dump", EXPECTED)
def test_line_among_all_dumps(dump: str) -> None:
    """Traces of one session that lie in other files change nothing."""
    together, alone = lines_together()[dump], lines_alone()[dump]

    assert set(alone.rules) <= set(together.rules)
    assert replace(together, rules=alone.rules) == alone
    assert set(together.rules) - set(alone.rules) <= {"no_measurable_progress"}


@pytest.mark.parametrize("dump", LOOPS_WITH_ARGUMENTS)
def test_finding_names_the_failing_call(dump: str) -> None:
    """A person must see at once which call is stuck, and since when."""
    executed = turns(dump).filter(pl.col("outcome").is_not_null())
    found = [f for f in analysis_of(dump).findings if f.rule == "repeated_call"]

    assert [f.attempts for f in found] == [EXECUTED.get(dump, 5)]
    assert found[0].reason.startswith("run_tests(tests/test_cart.py) ")
    assert [turn.turn for turn in found[0].turns] == executed["turn"].to_list()


@pytest.mark.parametrize("dump", LOOPS)
def test_loop_has_every_call_once(dump: str) -> None:
    """A call that counts twice would make a loop of one retry."""
    calls = turns(dump)
    asked = 4 if dump in EXECUTED else 5  # One more is asked for than is executed.
    ids = calls["call_id"].drop_nulls()
    executed = EXECUTED.get(dump, 5)

    assert calls["name"].to_list() == ["run_tests"] * asked
    assert ids.n_unique() == len(ids)
    assert calls["failed"].to_list()[:executed] == [dump != WITHOUT_FAILURES] * executed


@pytest.mark.parametrize("dump", OK)
def test_ok_has_every_call_once(dump: str) -> None:
    """The six calls of the run that worked are read in their order, none twice."""
    calls = turns(dump)
    ids = calls["call_id"].drop_nulls()

    assert calls["name"].to_list() == OK_CALLS
    assert ids.n_unique() == len(ids)
    assert True not in set(calls["failed"])


@pytest.mark.parametrize("dump", EXPECTED)
def test_tokens_are_those_of_model_spans(dump: str) -> None:
    """Spans of agents repeat the sum of their models', which must not count again."""
    summary = analysis_of(dump).summary

    assert summary.input_tokens == tokens(dump, INPUT_TOKENS, "input")
    assert summary.output_tokens == tokens(
        dump, (*OUTPUT_TOKENS, "ai.usage.outputTokens"), "output"
    )


def test_page_is_up_to_date() -> None:
    """The page is what people read before they trust the tool with their framework."""
    assert framework_table.page() == framework_table.PAGE.read_text(encoding="utf-8")


def test_page_explains_what_is_unknown() -> None:
    """`unknown` without a reason reads like a fault of the tool."""
    unknown = {dump.rsplit("-", 1)[0] for dump, verdict in EXPECTED.items() if verdict == "unknown"}

    assert set(framework_table.NOTES) == unknown


@pytest.mark.parametrize(
    ("dump", "holds"),
    [
        ("crewai-openinference-loop", "properties"),
        ("openaiagents-openinference-loop", "properties"),
        ("smolagents-openinference-loop", '"description"'),
        ("adk-openinference-loop", "tests/test_cart.py"),
        ("pydanticai-openinference-loop", "tests/test_cart.py"),
    ],
)
def test_trap_01_tool_parameters_schema(dump: str, holds: str) -> None:
    """The same attribute holds the schema here and the arguments there; neither is read."""
    parameters = attributes(dump, "tool.parameters")

    assert len(parameters) >= 5
    assert all(holds in text for text in parameters)
    assert turns(dump)["arguments"].to_list() == [PATH] * 5


def test_trap_02_bare_string_input() -> None:
    """LangGraph's bare path is the argument that the model named."""
    bare = [span["attributes"]["input.value"] for span in tools("langgraph-openinference-loop")]

    assert bare == ["tests/test_cart.py"] * 5
    assert turns("langgraph-openinference-loop")["arguments"].to_list() == [PATH] * 5


def tools(dump: str) -> list[dict[str, Any]]:
    """Return the spans of a dump that OpenInference says are a tool's."""
    return [s for s in spans(dump) if s["attributes"].get("openinference.span.kind") == "TOOL"]


@pytest.mark.parametrize(
    ("dump", "key"),
    [
        ("langfuse-native-loop", "langfuse.observation.input"),
        ("openairaw-traceloop-loop", "traceloop.entity.input"),
        ("smolagents-openinference-loop", "input.value"),
    ],
)
def test_trap_04_argument_wrappers(dump: str, key: str) -> None:
    """What decorators put round the arguments is not part of them."""
    wrapped = [text for text in attributes(dump, key) if '"kwargs": {"path"' in text]

    assert len(wrapped) == 5
    assert turns(dump)["arguments"].to_list() == [PATH] * 5


@pytest.mark.parametrize(
    ("dump", "number"),
    [
        ("pydanticai-openinference-loop", "0.message.tool_calls.1"),
        ("openaiagents-openinference-loop", "1.message.tool_calls.0"),
    ],
)
def test_trap_05_gaps_in_indexes(dump: str, number: str) -> None:
    """A call that is not number 0 of message 0 is seen, and so is the text before it."""
    key = f"llm.output_messages.{number}.tool_call.function.name"

    assert attributes(dump, key) == ["run_tests"] * 5
    rules = {finding.rule for finding in analysis_of(dump).findings}
    assert rules >= {"repeated_call", "signature_repeat", "response_repeat"}
    assert turns(dump, "model")["text"][1] == "Let me try running the tests again."


def test_trap_06_arguments_as_text() -> None:
    """Microsoft's Agent Framework has JSON text within JSON; the last call shows nowhere else."""
    messages = json.loads(attributes("agentframework-native-loop", "gen_ai.output.messages")[0])
    call = next(part for part in messages[0]["parts"] if part["type"] == "tool_call")

    assert isinstance(call["arguments"], str)
    assert turns("agentframework-native-loop")["arguments"].to_list() == [PATH] * 4
    assert turns("agentframework-native-loop")["outcome"].is_null().to_list() == [False] * 3 + [
        True
    ]


@pytest.mark.parametrize(
    "dump", ["openaiagents-openinference-loop", "openaiagents-openllmetry-loop"]
)
def test_trap_07_redacted_errors(dump: str) -> None:
    """The text that replaces every error proves sameness only for the same call."""
    calls = turns(dump)

    assert all(says_nothing(error) for error in calls["error"])
    assert calls["failed"].to_list() == [True] * 5
    assert all("run_tests" in signature for signature in calls["signature"])


def test_trap_08_adk_without_content() -> None:
    """`TOOL_ERROR` is no error that could be equal to another, and no call is made up."""
    native = turns("adk-native-loop")

    assert set(attributes("adk-native-loop", "error.type")) == {"TOOL_ERROR"}
    assert native["failed"].to_list() == [True] * 5
    for column in ("arguments", "outcome", "signature", "error_type"):
        assert native[column].is_null().all(), column
    assert turns("adk-openinference-loop", "model").height == 1


def test_trap_09_linked_traces() -> None:
    """AutoGen's many traces are one task, because their links say so."""
    traces = {span["trace_id"] for span in spans("autogen-native-loop")}
    calls = turns("autogen-native-loop")

    assert len(traces) == 25
    assert calls["task"].n_unique() == calls["session"].n_unique() == 1
    assert calls["error"].to_list() == [FAILURE] * 5


def test_trap_10_llamaindex_tasks() -> None:
    """With OpenLLMetry everything is a task; models and their calls are found all the same."""
    calls = turns("llamaindex-openllmetry-loop")

    assert attributes("llamaindex-openllmetry-loop", "traceloop.span.kind").count("tool") == 0
    assert calls["arguments"].to_list() == [PATH] * 5
    assert calls["result"].to_list() == [FAILURE] * 5


@pytest.mark.parametrize("dump", BLIND)
def test_trap_11_blind(dump: str) -> None:
    """Three spans of agents are no turns, and agents that name no other hand nothing over."""
    assert spans_of(dump).spans.height == 3
    assert analysis_of(dump).turns.height == 0


@pytest.mark.parametrize("instrumentation", ["openinference", "openllmetry", "otelgenai"])
def test_trap_11_no_tool_spans(instrumentation: str) -> None:
    """The OpenAI SDK alone has only spans of models; calls and failures stand in their messages."""
    dump = f"openairaw-{instrumentation}-loop"

    assert list(spans(dump, "run_tests")) == []
    assert turns(dump)["arguments"].to_list() == [PATH] * 5
    assert turns(dump)["result"].is_not_null().all()


@pytest.mark.parametrize("dump", ["strands-native-loop", "strands-native-latest-loop"])
def test_trap_13_custom_operations(dump: str) -> None:
    """An event loop's cycle is no turn, though its events repeat the messages."""
    operations = attributes(dump, "gen_ai.operation.name")

    assert operations.count("execute_event_loop_cycle") == 6
    assert analysis_of(dump).turns.filter(pl.col("kind") != "user").height == 11


def test_trap_14_parents_first() -> None:
    """LangSmith sends parents first; the turns stand in the order of their ends."""
    dump = "langgraph-langsmith-loop"
    places = {span["span_id"]: place for place, span in enumerate(spans(dump))}
    children = [s for s in spans(dump) if s["parent_span_id"] in places]
    ends = analysis_of(dump).turns["end_ns"]

    assert sum(places[s["parent_span_id"]] < places[s["span_id"]] for s in children) == 27
    assert ends.is_sorted()


@pytest.mark.parametrize("dump", ["strands-native-loop", "strands-native-latest-loop"])
def test_trap_15_content_in_events(dump: str) -> None:
    """What Strands says only in span events is known like what others say in attributes."""
    in_spans = [key for span in spans(dump, "run_tests") for key in span["attributes"]]

    assert "gen_ai.tool.call.result" not in in_spans
    assert turns(dump)["arguments"].to_list() == [PATH] * 5
    assert turns(dump)["error"].to_list() == [FAILURE] * 5
    assert turns(dump, "model")["text"][0] == "Let me run the tests."


@pytest.mark.parametrize("instrumentation", ["openinference", "openllmetry", "otelgenai"])
def test_trap_16_returned_error(instrumentation: str) -> None:
    """No span says that the tool failed, only the text that the model was given does."""
    dump = f"openairaw-{instrumentation}-loop"

    assert 2 not in {span["status"] for span in spans(dump)}
    assert turns(dump)["failed"].to_list() == [True] * 5


@pytest.mark.parametrize(
    "dump", ["openaiagents-openinference-loop", "openaiagents-openinference-ok"]
)
def test_span_of_a_whole_run_hands_nothing_over(dump: str) -> None:
    """OpenInference calls the run of OpenAI's agents an agent, but it never acts."""
    agents = [s for s in spans(dump) if s["attributes"].get("openinference.span.kind") == "AGENT"]

    assert len(agents) == 2
    assert turns(dump, "handoff").is_empty()
