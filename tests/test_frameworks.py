"""Traces in the shapes that frameworks write: the verdict on each, and the oddities of each.

Every test runs on traces of our own making (`tests/framework_traces`), and again on those that the
frameworks wrote, where they lie beside the project: the verdicts must be the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from looptrace._core import says_nothing
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.engine.analysis import Analysis
from tests import framework_table
from tests.framework_table import OWN, REAL, Verdict, analysis_of, line_alone, lines_together
from tests.framework_traces.run import AGENT, CHECK, ERROR, ORDER, STEPS
from tests.producers.recorder import TRACES


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
OTHER_ATTRIBUTES = ("looptrace-own-loop", "looptrace-own-ok")

ALL = EXPECTED | EXPECTED_OWN
# Names that no trace of ours shows; other tests make spans with them.
USAGE_OF_AN_API = {  # as it is, from whichever API a program asks
    *(f"gen_ai.usage.raw#cache_{use}_input_tokens" for use in ("read", "creation")),
    *(f"gen_ai.usage.raw#{part}_tokens_details.cached_tokens" for part in ("input", "prompt")),
    "gen_ai.usage.raw#output_tokens_details.reasoning_tokens",
    "gen_ai.usage.raw#completion_tokens_details.reasoning_tokens",
    *(f"genkit:output#usage.custom.cache_{use}_input_tokens" for use in ("read", "creation")),
}
# Who asked, and at which prices: `tests/analyzer/detect/test_budgets.py` has spans with them.
USERS_AND_TIERS = {
    *(f"{name}.id" for name in ("enduser", "enduser.pseudo", "langfuse.user")),
    *(f"langfuse.{part}.metadata.langfuse_user_id" for part in ("trace", "observation")),
    *("langsmith.metadata.user_id", "lmnr.association.properties.user_id", "metadata#user_id"),
    *("ai.settings.context.userId", "ai.telemetry.metadata.userId", "mastra.metadata.userId"),
    *("traceloop.association.properties.user_id", "gen_ai.request.user"),
    *(f"{prefix}openai.request.service_tier" for prefix in ("", "gen_ai.")),
    *(f"{prefix}openai.response.service_tier" for prefix in ("", "gen_ai.")),
    *("gen_ai.usage.raw#service_tier", "ai.response.providerMetadata#openai.serviceTier"),
}
# Parts of platforms that no example has; they were read off the sources alone.
OF_PLATFORMS = {
    *(f"confident.{part}" for part in ("span.name", "span.retrieval_context", "trace.user_id")),
    *("langwatch.rag_contexts#value", "subagent.name"),
}
NOT_SHOWN = OF_PLATFORMS | (
    USAGE_OF_AN_API
    | USERS_AND_TIERS
    | {
        "exception.message",  # of events of an older BeeAI, each a span
        "exception.type",
        "gen_ai.conversation.compacted",
        "gen_ai.input.messages.*",  # of a collector that flattens, as tests of messages write it
        "gen_ai.output.messages.*",
        "gen_ai.tool.call.arguments.**",
        "gen_ai.tool.call.result.**",
        "honeyhive_user_id",
        "langfuse.session.id",
        "looptrace.payer",  # of a baggage entry, as tests of budgets write it
        "looptrace.phase.start_ns",  # of spans that were forwarded
        "looptrace.progress.code_written",
        "looptrace.progress.coverage",
        "looptrace.progress.dependencies_added",
        "looptrace.progress.files_created",
        "looptrace.task.parent_id",
        "looptrace.usage.differing_tokens",  # of logs, whose readers compare sums
        "tool.input",  # of spans that hooks of Claude Code make
        "tool.response",
        "tool.use_id",
        "tool_input",  # of Wave, and of Qwen Code before it had the conventions' names
        "tool_result",
    }
)

BLIND = ("crewai-openllmetry-loop", "crewai-openllmetry-ok")
WITH_TOOLS = sorted(EXPECTED.keys() - set(BLIND))
OWN_WITH_TOOLS = sorted(EXPECTED_OWN.keys() - set(OTHER_ATTRIBUTES))
OK = [dump for dump in WITH_TOOLS + OWN_WITH_TOOLS if dump.endswith("-ok")]
LOOPS = [dump for dump in WITH_TOOLS + OWN_WITH_TOOLS if dump.endswith("-loop")]
LOOPS_WITH_ARGUMENTS = sorted(set(LOOPS) - {"adk-native-loop", "autogen-native-loop"})
# Where a framework stops before the fifth failure.
EXECUTED = {"agentframework-native-loop": 3}
# Whether `tool.parameters` is the schema, or else the arguments.
SCHEMAS = {
    "crewai-openinference-loop": True,
    "openaiagents-openinference-loop": True,
    "smolagents-openinference-loop": True,
    "adk-openinference-loop": False,
    "pydanticai-openinference-loop": False,
}
# Where the wrapped arguments are.
WRAPPERS = {
    "langfuse-native-loop": "langfuse.observation.input",
    "openairaw-traceloop-loop": "traceloop.entity.input",
    "smolagents-openinference-loop": "input.value",
}
# The number of the call among the messages that the model answered.
GAPS = {
    "pydanticai-openinference-loop": "0.message.tool_calls.1",
    "openaiagents-openinference-loop": "1.message.tool_calls.0",
}
MODELS_ONLY = [f"openairaw-{name}-loop" for name in ("openinference", "openllmetry", "otelgenai")]
STRANDS = ["strands-native-loop", "strands-native-latest-loop"]


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


def test_every_dump_is_expected() -> None:
    """A trace that is not in the table is one that nobody looked at."""
    assert set(framework_table.dumps(OWN)) == EXPECTED.keys() | EXPECTED_OWN.keys()


@needs_real
def test_every_real_dump_is_expected() -> None:
    """As of ours, and so each real one has a twin."""
    assert framework_table.dumps(REAL).keys() == EXPECTED.keys()


@needs_real
@pytest.mark.parametrize("name", EXPECTED)
def test_a_twin_has_the_shape_of_the_real_dump(name: str) -> None:
    """What looptrace reads of a framework's spans is in our trace on the same kind of span."""
    assert framework_table.keys_used(OWN, name) == framework_table.keys_used(REAL, name)


def test_every_key_of_the_dialects_is_in_a_trace() -> None:
    """A name that is read from no trace may be wrong, and nobody would see it."""
    shown = set[str]()
    for folder in (OWN, framework_table.DIALECTS, TRACES):
        names = framework_table.dumps(folder)
        shown |= set().union(*(framework_table.keys_shown(folder, name) for name in names))

    assert framework_table.KEYS_READ - shown == NOT_SHOWN


@pytest.mark.requirement("F5")
@dumps(ALL)
def test_verdict(dump: Dump) -> None:
    """A loop is found where the trace shows it, and nowhere else."""
    assert framework_table.spans_of(dump.layer.folder, dump.name).skipped == ()
    assert line_alone(dump.layer.folder, dump.name).verdict == ALL[dump.name].verdict


@dumps(ALL)
def test_findings_say_which_turns_of_whom(dump: Dump) -> None:
    """Rule, turns, agent and task are what a person is told, and must be right."""
    expected, findings = ALL[dump.name], dump.analysis.findings
    acting = dump.analysis.turns.filter(pl.col("kind") != "user")
    traces = {span["trace_id"] for span in dump.spans()}
    tasks = {"trace" if task in traces else "session" for task in acting["task"]}

    assert [f"{f.rule} {f.turn_first}-{f.turn_last}" for f in _by_rule(findings)] == [
        *expected.findings
    ]
    assert {f.agent for f in findings} <= set(acting["agent"])
    assert set(acting["agent"]) <= {dump.layer.agent if expected.agent else ""}
    assert tasks <= {expected.task}
    assert {f.task for f in findings} <= set(acting["task"])


def _by_rule(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: finding.rule)


@dumps(ALL)
def test_line_among_all_dumps(dump: Dump) -> None:
    """Traces of other sessions change nothing, whatever file they are in."""
    folder = dump.layer.folder

    assert lines_together(folder, apart=True)[dump.name] == line_alone(folder, dump.name)


@dumps(ALL)
def test_line_among_dumps_of_one_session(dump: Dump) -> None:
    """Traces of one session add to what is found, and hide nothing.

    Most dumps share a session and a prompt, so that together they are iterations of one task: their
    equal calls add up, also those of healthy runs.
    """
    folder = dump.layer.folder
    together, alone = lines_together(folder, apart=False)[dump.name], line_alone(folder, dump.name)

    assert set(alone.rules) <= set(together.rules)
    assert replace(together, rules=alone.rules, verdict=alone.verdict) == alone


@dumps(LOOPS_WITH_ARGUMENTS)
def test_finding_names_the_failing_call(dump: Dump) -> None:
    """A person must see at once which call is stuck, and since when."""
    executed = dump.turns().filter(pl.col("outcome").is_not_null())
    found = [f for f in dump.analysis.findings if f.rule == "repeated_call"]
    (argument,) = json.loads(dump.layer.arguments).values()

    assert [f.attempts for f in found] == [EXECUTED.get(dump.name, 5)]
    assert found[0].reason.startswith(f"{dump.layer.check}({argument}) ")
    assert [turn.turn for turn in found[0].turns] == executed["turn"].to_list()


@dumps(LOOPS)
def test_loop_has_every_call_once(dump: Dump) -> None:
    """A call that counts twice would make a loop of one retry."""
    calls = dump.turns()
    asked = 4 if dump.name in EXECUTED else 5  # One more is asked for than is executed.
    ids = calls["call_id"].drop_nulls()
    executed = EXECUTED.get(dump.name, 5)

    assert calls["name"].to_list() == [dump.layer.check] * asked
    assert ids.n_unique() == len(ids)
    assert calls["failed"].to_list()[:executed] == [True] * executed


@dumps(OK)
def test_ok_has_every_call_once(dump: Dump) -> None:
    """The six calls of the run that worked are read in their order, none twice."""
    calls = dump.turns()
    ids = calls["call_id"].drop_nulls()

    assert calls["name"].to_list() == [*dump.layer.ok_calls]
    assert ids.n_unique() == len(ids)
    # A run with failing tests has failed, however well its tool worked.
    assert calls.filter("failed", pl.col("tests_failed").fill_null(0) == 0).is_empty()


@pytest.mark.parametrize("name", [name for name in OK if ALL[name].verdict == "silent"])
def test_ok_has_arguments_and_results(name: str) -> None:
    """The six calls are read as they were made, not only as different ones."""
    calls = Dump(LAYERS[0], name).turns()
    made = [call for step in STEPS["ok"] for call in step.calls]

    assert [json.loads(text) for text in calls["arguments"]] == [call.arguments for call in made]
    assert [str(text).strip('"') for text in calls["result"]] == [call.result for call in made]


@dumps(ALL)
def test_tokens_are_those_of_model_spans(dump: Dump) -> None:
    """Spans of agents repeat the sum of their models', which must not count again."""
    summary = dump.analysis.summary

    assert summary.input_tokens == dump.tokens(INPUT_TOKENS, "input")
    assert summary.output_tokens == dump.tokens(OUTPUT_TOKENS, "output")


@pytest.mark.parametrize("folder", [OWN, pytest.param(REAL, marks=needs_real)])
def test_page_is_up_to_date(folder: Path) -> None:
    """The page is what people read before they trust the tool with their framework."""
    page = framework_table.page(folder, sorted(EXPECTED))

    assert page == framework_table.PAGE.read_text(encoding="utf-8")


def test_page_explains_what_is_unknown() -> None:
    """`unknown` without a reason reads like a fault of the tool."""
    unknown = {dump.rsplit("-", 1)[0] for dump in EXPECTED if ALL[dump].verdict == "unknown"}

    assert set(framework_table.NOTES) == unknown


@dumps(SCHEMAS)
def test_trap_01_tool_parameters_schema(dump: Dump) -> None:
    """The same attribute holds the schema here and the arguments there; neither is read."""
    given = json.loads(dump.layer.arguments)
    parameters = [json.loads(text) for text in dump.attributes("tool.parameters")]
    shown = [value == given for value in parameters if "answer" not in value]

    assert shown == [not SCHEMAS[dump.name]] * 5
    assert dump.turns()["arguments"].to_list() == dump.calls_of_loop()


@dumps(["langgraph-openinference-loop"])
def test_trap_02_bare_string_input(dump: Dump) -> None:
    """LangGraph's bare value is the argument that the model named."""
    tools = [s for s in dump.spans() if s["attributes"].get("openinference.span.kind") == "TOOL"]

    assert [s["attributes"]["input.value"] for s in tools] == [
        *json.loads(dump.layer.arguments).values()
    ] * 5
    assert dump.turns()["arguments"].to_list() == dump.calls_of_loop()


@dumps(WRAPPERS)
def test_trap_04_argument_wrappers(dump: Dump) -> None:
    """What decorators put round the arguments is not part of them."""
    (argument,) = json.loads(dump.layer.arguments)
    given = dump.attributes(WRAPPERS[dump.name])
    wrapped = [text for text in given if f'"kwargs": {{"{argument}"' in text]

    assert len(wrapped) == 5
    assert dump.turns()["arguments"].to_list() == dump.calls_of_loop()


@dumps(GAPS)
def test_trap_05_gaps_in_indexes(dump: Dump) -> None:
    """A call that is not number 0 of message 0 is seen, and so is the text before it."""
    key = f"llm.output_messages.{GAPS[dump.name]}.tool_call.function.name"

    assert dump.attributes(key) == [dump.layer.check] * 5
    rules = {finding.rule for finding in dump.analysis.findings}
    assert rules >= {"repeated_call", "signature_repeat", "response_repeat"}
    assert dump.turns("model")["text"][1] == dump.layer.texts[1]


@dumps(["agentframework-native-loop"])
def test_trap_06_arguments_as_text(dump: Dump) -> None:
    """Microsoft's Agent Framework has JSON text within JSON; the last call shows nowhere else."""
    messages = json.loads(dump.attributes("gen_ai.output.messages")[0])
    call = next(part for part in messages[0]["parts"] if part["type"] == "tool_call")

    assert isinstance(call["arguments"], str)
    assert dump.turns()["arguments"].to_list() == [dump.layer.arguments] * 4
    assert dump.turns()["outcome"].is_null().to_list() == [False] * 3 + [True]


@dumps(["openaiagents-openinference-loop", "openaiagents-openllmetry-loop"])
def test_trap_07_redacted_errors(dump: Dump) -> None:
    """The text that replaces every error proves sameness only for the same call."""
    calls = dump.turns()

    assert all(says_nothing(error) for error in calls["error"])
    assert calls["failed"].to_list() == [True] * 5
    assert all(dump.layer.check in signature for signature in calls["signature"])


@dumps(["adk-native-loop"])
def test_trap_08_adk_without_content(dump: Dump) -> None:
    """`TOOL_ERROR` is no error that could be equal to another."""
    native = dump.turns()

    assert set(dump.attributes("error.type")) == {"TOOL_ERROR"}
    assert native["failed"].to_list() == [True] * 5
    for column in ("arguments", "outcome", "signature", "error_type"):
        assert native[column].is_null().all(), column


@dumps(["adk-openinference-loop", "adk-openinference-ok"])
def test_trap_08_adk_with_one_span_for_all_models(dump: Dump) -> None:
    """The span that every model call overwrote is one response, and makes no call up."""
    assert dump.turns("model").height == 1


@dumps(["autogen-native-loop"])
def test_trap_09_linked_traces(dump: Dump) -> None:
    """AutoGen's many traces are one task, because their links say so."""
    traces = {span["trace_id"] for span in dump.spans()}
    calls = dump.turns()

    assert len(traces) > calls.height
    assert calls["task"].n_unique() == calls["session"].n_unique() == 1
    assert calls["error"].to_list() == [dump.layer.failure] * 5


@dumps(["llamaindex-openllmetry-loop"])
def test_trap_10_llamaindex_tasks(dump: Dump) -> None:
    """With OpenLLMetry everything is a task; models and their calls are found all the same."""
    calls = dump.turns()

    assert dump.attributes("traceloop.span.kind").count("tool") == 0
    assert calls["arguments"].to_list() == dump.calls_of_loop()
    assert calls["result"].str.ends_with(dump.layer.failure).to_list() == [True] * 5


@dumps(BLIND)
def test_trap_11_blind(dump: Dump) -> None:
    """Three spans of agents are no turns, and agents that name no other hand nothing over."""
    assert len(list(dump.spans())) == 3
    assert dump.analysis.turns.height == 0


@dumps(MODELS_ONLY)
def test_trap_11_no_tool_spans(dump: Dump) -> None:
    """The OpenAI SDK alone has only spans of models; calls and failures stand in their messages."""
    assert list(dump.spans(dump.layer.check)) == []
    assert dump.turns()["arguments"].to_list() == dump.calls_of_loop()
    assert dump.turns()["result"].is_not_null().all()


@dumps(STRANDS)
def test_trap_13_custom_operations(dump: Dump) -> None:
    """An event loop's cycle is no turn, though its events repeat the messages."""
    operations = dump.attributes("gen_ai.operation.name")

    assert operations.count("execute_event_loop_cycle") == 6
    assert dump.analysis.turns.filter(pl.col("kind") != "user").height == 11


@dumps(["langgraph-langsmith-loop"])
def test_trap_14_parents_first(dump: Dump) -> None:
    """LangSmith sends parents first; the turns stand in the order of their ends."""
    places = {span["span_id"]: place for place, span in enumerate(dump.spans())}
    children = [s for s in dump.spans() if s["parent_span_id"] in places]
    ends = dump.analysis.turns["end_ns"]

    assert sum(places[s["parent_span_id"]] < places[s["span_id"]] for s in children) == 27
    assert ends.is_sorted()


@dumps(STRANDS)
def test_trap_15_content_in_events(dump: Dump) -> None:
    """What Strands says only in span events is known like what others say in attributes."""
    in_spans = [key for span in dump.spans(dump.layer.check) for key in span["attributes"]]

    assert "gen_ai.tool.call.result" not in in_spans
    assert dump.turns()["arguments"].to_list() == dump.calls_of_loop()
    assert dump.turns()["error"].to_list() == [dump.layer.failure] * 5
    assert dump.turns("model")["text"][0] == dump.layer.texts[0]


@dumps(MODELS_ONLY)
def test_trap_16_returned_error(dump: Dump) -> None:
    """No span says that the tool failed, only the text that the model was given does."""
    assert 2 not in {span["status"] for span in dump.spans()}
    assert dump.turns()["failed"].to_list() == [True] * 5


@dumps(["openaiagents-openinference-loop", "openaiagents-openinference-ok"])
def test_span_of_a_whole_run_hands_nothing_over(dump: Dump) -> None:
    """OpenInference calls the run of OpenAI's agents an agent, but it never acts."""
    kinds = dump.attributes("openinference.span.kind")

    assert kinds.count("AGENT") == 2
    assert dump.turns("handoff").is_empty()


def test_attributes_of_our_own_are_read() -> None:
    """Status, work done and figures have no other name than looptrace's; they must reach turns."""
    ok = Dump(LAYERS[0], "looptrace-own-ok").analysis.turns
    attempts = ok.filter(pl.col("kind") == "attempt", pl.col("name") != "done")

    assert attempts["name"].to_list() == ["in_progress"] * 6
    assert attempts["result"].to_list()[1] == "check_labels: 2 labels missing"
    assert ok.drop_nulls("tests_failed")["tests_failed"].to_list() == [6, 5, 4, 3, 2, 1]
    assert ok["phase"].drop_nulls().unique(maintain_order=True).to_list() == [
        "read_order",
        "check_labels",
        "print_label",
    ]
