"""The oddities of each framework, as its traces show them, are read right."""

import json

import polars as pl

from looptrace._core import says_nothing
from tests.framework_dumps import BLIND, LAYERS, Dump, dumps

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
