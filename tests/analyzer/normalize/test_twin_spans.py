"""Spans that show one call are one call."""

import json
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.normalize.turn_builder import turns_of
from tests.analyzer.normalize.test_trace_buffer import assert_comes_to_all_at_once
from tests.collector.store.stored import spans_of
from tests.otlp import Attributes, Trace, tool_call

ARGUMENTS = {"gen_ai.tool.call.arguments": '{"gate": "north"}'}


def _tool(name: str, call_id: str = "", more: Attributes | None = None) -> Attributes:
    ids = {"gen_ai.tool.call.id": call_id} if call_id else {}
    return tool_call(name) | ids | {**(more or {})}


def calls_of(outer: Attributes, inner: Attributes, between: str = "") -> pl.DataFrame:
    """Return the turns of a span of a tool within another, with a span of no kind between."""
    trace = Trace("s")
    around = trace.span("outer", None, outer)
    around = trace.span(between, around) if between else around
    trace.span("inner", around, inner)
    return turns_of(spans_of(trace))[0]


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (_tool("open"), _tool("open")),
        (_tool("gates__open", more=ARGUMENTS), _tool("open", more=ARGUMENTS)),
        (_tool("gates.open", more=ARGUMENTS), _tool("open")),
        (_tool("call_tool", "c1"), _tool("open", "c1")),
    ],
)
def test_a_call_of_the_agent_and_of_the_server(outer: Attributes, inner: Attributes) -> None:
    """A server knows its tool by the name alone; an id says that it is the same call."""
    for between in ("", "POST"):
        assert calls_of(outer, inner, between).height == 1


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (_tool("reopen"), _tool("open")),
        (_tool("ask_porter"), _tool("open")),
        (_tool("gates__open", more=ARGUMENTS), _tool("open", more={"tool_arguments": '{"g": 1}'})),
        (_tool("ask_porter", "c1"), _tool("open", "c2")),
    ],
)
def test_a_call_within_another(outer: Attributes, inner: Attributes) -> None:
    """An agent that is a tool calls tools of its own."""
    assert calls_of(outer, inner).height == 2


@pytest.mark.parametrize(
    ("inner", "within", "calls"),
    [
        (_tool("open", more=ARGUMENTS), True, 1),
        (_tool("open", more=ARGUMENTS), False, 2),
        (_tool("open", more={"gen_ai.tool.call.arguments": '{"gate": "south"}'}), True, 2),
        (_tool("open", "c2", more=ARGUMENTS), True, 2),
    ],
)
def test_a_call_whose_spans_lost_their_parents(inner: Attributes, within: bool, calls: int) -> None:
    """The server's span of a call lies within the client's; calls with ids of their own do not."""
    trace = Trace("s")
    trace.span("tools/call open", None, _tool("open", "c1", ARGUMENTS), start_s=0, end_s=4)
    at = (1, 3) if within else (1, 5)
    trace.span("tools/call open", None, inner, start_s=at[0], end_s=at[1])
    turns, _ = turns_of(spans_of(trace))
    assert turns.height == calls


@pytest.mark.parametrize(
    ("inner", "calls"),
    [
        (_tool("open", more=ARGUMENTS), 1),
        (_tool("open"), 1),
        (_tool("reopen", more=ARGUMENTS), 2),
        (_tool("open", "c2", ARGUMENTS), 2),
    ],
)
def test_a_call_of_a_server_that_lost_its_caller(inner: Attributes, calls: int) -> None:
    """The agent writes the server before the name of the tool, and the server may write less."""
    trace = Trace("s")
    trace.span("outer", None, _tool("gates__open", "c1", ARGUMENTS), start_s=0, end_s=4)
    trace.span("inner", None, inner, start_s=1, end_s=3)
    turns, _ = turns_of(spans_of(trace))
    assert turns.height == calls
    assert_comes_to_all_at_once(spans_of(trace), 1)


@pytest.mark.parametrize(("server", "calls"), [("gates", 1), ("porter", 2)])
def test_clocks_of_a_client_and_of_a_server_differ(server: str, calls: int) -> None:
    """Spans of two services at one time show one call, and those of one service show two."""
    trace = Trace("s", service="porter")
    trace.span("tools/call open", None, _tool("open", more=ARGUMENTS), start_s=0, end_s=4)
    trace.span("tools/call open", None, _tool("open", more=ARGUMENTS), start_s=1, end_s=5)
    is_later = pl.col("start_ns") == pl.col("start_ns").max()
    services = pl.when(is_later).then(pl.lit(server)).otherwise("service")
    turns, _ = turns_of(spans_of(trace).with_columns(service=services))
    assert turns.height == calls


def test_calls_that_are_written_when_the_run_is_over() -> None:
    """Each call is that of its own response, and equal ones are no parallel calls of the last."""
    trace = Trace("s", session_key="session.id")
    for number in range(3):
        call = {"type": "tool_call", "id": f"c{number}", "name": "open", "arguments": {}}
        said = json.dumps([{"role": "assistant", "parts": [call]}])
        trace.span("chat", None, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": said})
    for number in range(3):
        trace.span("open", None, _tool("open", f"c{number}"))
    tools = turns_of(spans_of(trace))[0].filter(kind="tool")
    assert tools["step"].n_unique() == 3


def test_a_response_beside_its_call_is_no_call() -> None:
    """ADK for Java writes two spans for each call."""
    trace = Trace("s", session_key=None, scope="gcp.vertex.agent")
    for _ in range(2):
        asked: Attributes = {"gcp.vertex.agent.tool_call_args": '{"gate": "north"}'}
        trace.span("tool_call [open]", None, asked)
        answered: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gcp.vertex.agent.tool_response": '{"result": "it is stuck"}',
        }
        trace.span("tool_response [open]", None, answered)
    turns, _ = turns_of(spans_of(trace))
    assert turns["name"].to_list() == ["open", "open"]


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_part_of_a_call(succeeds: bool) -> None:
    """Only the span of what was run says whether it failed; without a call it is no turn."""
    trace = Trace("s", session_key="session.id")
    call = {"span.type": "tool", "tool_name": "Bash", "full_command": "open north"}
    around = trace.span("claude_code.tool", None, call)
    ran: dict[str, Any] = {"span.type": "tool.execution", "success": succeeds}
    ran |= {} if succeeds else {"error": "ShellError"}
    trace.span("claude_code.tool.execution", around, ran)
    trace.span("claude_code.tool.execution", None, ran)

    turns, _ = turns_of(spans_of(trace))

    assert turns["name"].to_list() == ["Bash"]
    assert turns["failed"].to_list() == [None if succeeds else True]
    assert turns["error_type"].to_list() == [None if succeeds else "ShellError"]


_SCOPE = "openinference.instrumentation.beeai"
_TEST: Attributes = {
    "openinference.span.kind": "TOOL",
    "tool.name": "run_tests",
    "input.value": '{"path": "a"}',
    "output.value": "1 failed",
}
_AGENT: Attributes = {"openinference.span.kind": "AGENT"}


def _events(trace: Trace, around: str) -> None:
    call = trace.span("run_tests", around, _TEST)
    for name in ("start", "retry", "error", "progress", "finish"):
        event = {"openinference.span.kind": "TOOL", "metadata.path": f"tool.run_tests.{name}"}
        trace.span(name, call, event, seconds=0)


def _events_beside(trace: Trace, around: str) -> None:
    """Write each event as older versions do: a span beside the others, named by its number."""
    told = {"openinference.span.kind": "TOOL", "traceId": "t", "output.value": "1 failed"}
    for event in ("start", "success", "finish"):
        target = {"target": f"tool.run_tests.{event}", "name": event}
        trace.span(f"tool.run_tests.{event}-3", around, {**told, **target})


def _nested(trace: Trace, around: str) -> None:
    for _ in range(3):
        around = trace.span("run_tests", around, _TEST)


def _with_an_agent_between(trace: Trace, around: str) -> None:
    agent = trace.span("packer", trace.span("run_tests", around, _TEST), _AGENT)
    trace.span("run_tests", trace.span("run_tests", agent, _TEST), _TEST)


def _copies(trace: Trace, around: str) -> None:
    """Write a call when it ended, and again when each run around it ended."""
    now = trace.now_s
    at: dict[str, Any] = {"start_s": now + 1, "end_s": now + 2}
    trace.span("run_tests", around, _TEST, **at)
    agent = trace.span("packer", around, _AGENT, start_s=now, end_s=now + 3)
    trace.span("run_tests", agent, _TEST, **at)
    flow = trace.span("flow", around, start_s=now, end_s=now + 3)
    agent = trace.span("packer", flow, _AGENT, start_s=now, end_s=now + 3)
    trace.span("run_tests", agent, _TEST, **at)


def _parallel(trace: Trace, around: str) -> None:
    """Two agents do the same at the same time."""
    now = trace.now_s
    for name in ("packer", "checker"):
        agent = trace.span(name, around, _AGENT, start_s=now, end_s=now + 3)
        trace.span("run_tests", agent, _TEST, start_s=now + 1, end_s=now + 2)


def _within_other_work(trace: Trace, around: str) -> None:
    call = trace.span("run_tests", around, _TEST)
    trace.span("lint", call, {**_TEST, "tool.name": "lint"})


def _within_an_agent(trace: Trace, around: str) -> None:
    agent = trace.span("packer", trace.span("run_tests", around, _TEST), _AGENT)
    trace.span("run_tests", agent, {**_TEST, "input.value": '{"path": "b"}'})


@pytest.mark.parametrize(
    ("write", "calls"),
    [
        *[(write, 1) for write in (_events, _nested, _with_an_agent_between, _copies)],
        *[(write, 2) for write in (_parallel, _within_other_work, _within_an_agent)],
    ],
)
def test_one_call_is_counted_once(write: Callable[[Trace, str], None], calls: int) -> None:
    """BeeAI's instrumentation wrote each call up to three times, before September 2025."""
    trace = Trace("s", scope=_SCOPE)
    root = trace.span("app")
    for _ in range(4):
        write(trace, root)
    spans = spans_of(trace)
    assert turns_of(spans)[0].filter(pl.col("kind") == "tool").height == 4 * calls
    for order in (spans.sort("end_ns"), spans, spans.reverse(), spans.sample(shuffle=True, seed=4)):
        assert_comes_to_all_at_once(order, 1)


def test_methods_of_an_object_are_no_runs_and_no_responses() -> None:
    """OpenInference gives each method of LlamaIndex the kind of its object."""
    trace = Trace("s", scope="openinference.instrumentation.llama_index")
    given = {**_AGENT, "input.value": "Get A17 ready.", "output.value": "It is ready."}
    model = {"openinference.span.kind": "LLM", "output.value": "I look."}
    root = trace.span("AgentRunner._chat", None, given)
    for number in range(4):
        at = {**given, "input.value": f"step {number}"}
        step = trace.span("AgentRunner._run_step", root, at)
        worker = trace.span("OpenAIAgentWorker.run_step", step, at)
        trace.span("OpenAI._prepare_chat_with_tools", worker, {**model, "output.value": "[]"})
        trace.span("OpenAI.chat", worker, model)
    turns, _ = turns_of(spans_of(trace))

    assert turns.filter(pl.col("kind") == "model")["text"].to_list() == ["I look."] * 4
    assert turns.filter(pl.col("kind") == "handoff").is_empty()
    assert set(turns["agent"]) <= {"AgentRunner._chat", ""}


def _half(of: str) -> Attributes:
    """Return one half of a response: what was said, or the tokens."""
    if of == "messages":
        said = '[{"role": "assistant", "parts": [{"type": "text", "content": "Open."}]}]'
        return {"gen_ai.operation.name": "chat", "gen_ai.output.messages": said}
    counts = {"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 2}
    return {"gen_ai.operation.name": "chat", **counts}


@pytest.mark.parametrize(
    ("inner", "within", "responses"),
    [("tokens", True, 1), ("tokens", False, 2), ("messages", True, 2)],
)
def test_a_response_whose_spans_lost_their_parents(
    inner: str, within: bool, responses: int
) -> None:
    """LiveKit has the messages on one span and the tokens on one within it."""
    trace = Trace("s")
    trace.span("llm_node", None, _half("messages"), start_s=0, end_s=4)
    at = (1, 3) if within else (1, 5)
    trace.span("llm_request", None, _half(inner), start_s=at[0], end_s=at[1])
    turns, _ = turns_of(spans_of(trace))
    assert turns.height == responses
    assert_comes_to_all_at_once(spans_of(trace), 1)


def test_a_part_that_lost_its_call() -> None:
    """The id says of which call it is."""
    trace = Trace("s", session_key="session.id")
    call = {"tool.name": "open", "tool.call_id": "c1"}
    trace.span("runtime.tool.call", None, call, start_s=0, end_s=4)
    trace.span("runtime.tool.handler", None, call, status="error", start_s=1, end_s=3)
    turns, _ = turns_of(spans_of(trace))
    assert turns["failed"].to_list() == [True]


@pytest.mark.parametrize(
    ("within", "names"),
    [
        (None, ["open"]),
        ({"http.request.method": "GET"}, ["open"]),
        (_half("messages"), ["inner"]),
        (_tool("close"), ["close"]),
    ],
)
def test_an_activity_is_a_call_unless_it_frames_one(
    within: Attributes | None, names: list[str]
) -> None:
    """Programs send requests within calls too."""
    trace = Trace("s", session_key="temporalWorkflowID")
    around = trace.span("RunActivity:open", None, {"temporalActivityID": "1"})
    if within is not None:
        trace.span("inner", around, within)
    turns, _ = turns_of(spans_of(trace))
    assert turns["name"].to_list() == names


def test_an_activity_of_dapr_is_no_call_and_names_no_agent() -> None:
    """It has the conventions' name of an operation, as the call within it."""
    trace = Trace("s", scope="dapr_agents.observability.instrumentor")
    activity = {"workflow.activity": "run_tool", "agent.name": "Porter"}
    for parent in (True, False):
        around = trace.span("Porter.run_tool", None, activity | tool_call("open"))
        named = {"agent.name": "AgentToolExecutor", "openinference.span.kind": "TOOL"}
        trace.span("execute_tool open", around if parent else None, tool_call("open") | named)
    turns, _ = turns_of(spans_of(trace))
    assert turns["name"].to_list() == ["open", "open"]
    assert "AgentToolExecutor" not in set(turns["agent"])
