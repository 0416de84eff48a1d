"""Small traces of the oddities that real frameworks' spans have, one function each.

Each docstring says what the right reading is. The shapes were checked against traces that the
frameworks wrote; tasks, tools and words are our own. A call id names the call within its trace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from examples import dialects
from examples.dialects import Attributes, Call, Message, Run, Step
from tests.otlp import CLIENT, CONSUMER, PRODUCER, Trace, exception

Requests: TypeAlias = list[dict[str, Any]]
Arguments: TypeAlias = Mapping[str, str | int]

SCHEMA = '{"type": "object", "properties": {"level": {"type": "integer"}}}'
LANGGRAPH_STEPS_PER_TURN = 2


def _run(session: str, *steps: Step, agent: str = "helper") -> Run:
    task = "Please take care of it."
    return Run(session, "traps", agent, "2026-03-02T09:00:00+00:00", "You help.", task, steps)


def _openinference(
    name: str, given: Mapping[str, object], output: str, parameters: str
) -> Attributes:
    return {
        "openinference.span.kind": "TOOL",
        "tool.name": name,
        "tool.parameters": parameters,
        "input.value": json.dumps(given),
        "input.mime_type": "application/json",
        "output.value": output,
    }


def _execute_tool(name: str, call_id: str, **attributes: str) -> Attributes:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        **{f"gen_ai.tool.call.{key}": value for key, value in attributes.items()},
    }


def _call_part(call_id: str, name: str, arguments: object) -> Message:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def _answer_part(call_id: str, response: object) -> Message:
    return {"type": "tool_call_response", "id": call_id, "response": response}


def _said(text: str, *parts: Message) -> Message:
    return {"role": "assistant", "parts": [{"type": "text", "content": text}, *parts]}


def _heard(role: str, *parts: Message) -> Message:
    return {"role": role, "parts": list(parts)}


def _asked(text: str) -> Message:
    return _heard("user", {"type": "text", "content": text})


def _chat(given: Sequence[Message], answer: Message) -> Attributes:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "small-1",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([answer]),
    }


def _openai(text: str, *calls: tuple[str, str, Arguments]) -> Message:
    made = [
        {"id": call_id, "function": {"name": name, "arguments": json.dumps(arguments)}}
        for call_id, name, arguments in calls
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}


def _llm(given: Sequence[Message], answer: Message) -> Attributes:
    return {
        "openinference.span.kind": "LLM",
        "llm.model_name": "small-1",
        "llm.token_count.prompt": 100,
        "llm.token_count.completion": 10,
        **dialects.flat_messages("llm.input_messages", given),
        **dialects.flat_messages("llm.output_messages", [answer]),
    }


def trap_01_tool_parameters_schema() -> Requests:
    """OpenInference's `tool.parameters` is the schema in one framework, the arguments in another.

    Session `schema` (as of OpenAI Agents, smolagents, CrewAI): 4 tool turns named dim_lights, in
    order with arguments {"level": 80}, {"level": 60}, {"level": 40}, {"level": 20}, result "ok",
    not failed. All four calls differ; the schema that they share is never the arguments.
    Session `arguments` (as of Pydantic AI, ADK): 2 tool turns named dim_lights, both with
    arguments {"level": 10}, result "ok", not failed. No model turns in either.
    """
    schema = Trace("schema", session_key="session.id")
    for level in (80, 60, 40, 20):
        tool = _openinference("dim_lights", {"level": level}, "ok", SCHEMA)
        schema.span("dim_lights", None, tool, status="ok")
    arguments = Trace("arguments", session_key="session.id")
    for _ in range(2):
        tool = _openinference("dim_lights", {"level": 10}, "ok", json.dumps({"level": 10}))
        arguments.span("dim_lights", None, tool, status="ok")
    return schema.requests() + arguments.requests()


def trap_02_bare_string_input() -> Requests:
    """LangGraph with OpenInference: a tool with one argument has the bare value as its input.

    Session `bare`: 4 tool turns: get_forecast three times, each with arguments {"city": "Oslo"}
    (named by the call in the model's output: the tool's span says only `Oslo`, and no call id) and
    result "rain" (the content of a ToolMessage, whose JSON holds another call id each time), then
    save_forecast with arguments {"city": "Oslo", "text": "rain"} and result "saved". None failed.
    5 model turns; texts "Look 0.", "Look 1.", "Look 2.", "Look 3.", "Done.". The CHAIN spans, which
    repeat the same messages, are no turns.
    """
    trace = Trace("bare", session_key="session.id")
    root = trace.span("helper", None, {"openinference.span.kind": "CHAIN"}, seconds=0)
    city = {"city": "Oslo"}
    calls: list[tuple[str, Arguments, str, str]] = [("get_forecast", city, "Oslo", "rain")] * 3
    last = {**city, "text": "rain"}
    calls.append(("save_forecast", last, json.dumps(last), "saved"))
    said: list[Message] = [{"role": "user", "content": "What is the weather?"}]
    for index, (name, arguments, shown, content) in enumerate(calls):
        answer = _openai(f"Look {index}.", (f"call_{index}", name, arguments))
        _langgraph_node(trace, root, "model", _llm(said, answer))
        message = {"content": content, "type": "tool", "name": name, "id": None}
        output = {"type": "tool", "data": {**message, "tool_call_id": f"call_{index}"}}
        tool: Attributes = {
            "openinference.span.kind": "TOOL",
            "tool.name": name,
            "input.value": shown,
            "output.value": json.dumps(output),
            "output.mime_type": "application/json",
        }
        _langgraph_node(trace, root, "tools", tool)
        heard = {"role": "tool", "content": content, "tool_call_id": f"call_{index}"}
        said += [answer, heard]
    _langgraph_node(trace, root, "model", _llm(said, _openai("Done.")))
    return trace.requests()


def _langgraph_node(trace: Trace, root: str, node: str, inner: Attributes) -> None:
    kind: Attributes = {"openinference.span.kind": "CHAIN", "output.value": '{"messages": []}'}
    chain = trace.span(node, root, kind, status="ok", seconds=0)
    trace.span(str(inner.get("tool.name", "ChatModel")), chain, inner, status="ok")


def trap_03_openllmetry_wrapped_input() -> Requests:
    """LangChain with OpenLLMetry: the arguments lie inside of what the callback was given.

    Session `wrapped`: 3 tool turns named count_rows, agent "helper", all with arguments
    {"table": "orders"} and result "0 rows", not failed; no model turns. The arguments' attribute as
    a whole differs each time (step, checkpoint, call id), and so does the result's (call id).
    """
    key = "traceloop.association.properties.session_id"
    trace = Trace("wrapped", session_key=key)
    for index in range(3):
        step = LANGGRAPH_STEPS_PER_TURN * (index + 1)
        metadata = {"langgraph_step": step, "checkpoint_ns": f"tools:{index}"}
        run = {"color": "green", "name": "count_rows", "tool_call_id": f"call_{index}"}
        given = {
            "input_str": "{'table': 'orders'}",
            "tags": ["seq:step:1"],
            "metadata": metadata,
            "inputs": {"table": "orders"},
            "kwargs": run,
        }
        told = _tool_message("0 rows", f"call_{index}")
        tool = {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "count_rows",
            "traceloop.association.properties.lc_agent_name": "helper",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "count_rows",
            "gen_ai.tool.call.arguments": json.dumps(given),
            "traceloop.entity.input": json.dumps(given),
            "gen_ai.tool.call.result": told,
            "traceloop.entity.output": told,
            "gen_ai.task.status": "success",
        }
        trace.span("execute_tool count_rows", None, tool)
    return trace.requests()


def _tool_message(content: str, call_id: str) -> str:
    message = {"content": content, "type": "tool", "tool_call_id": call_id, "status": "success"}
    path = ["langchain", "schema", "messages", "ToolMessage"]
    output = {"lc": 1, "type": "constructor", "id": path, "kwargs": message}
    return json.dumps({"output": output, "kwargs": {"color": "green"}})


def trap_04_argument_wrappers() -> Requests:
    """Arguments come wrapped by decorators and classes, by each in a way of its own.

    Sessions `traceloop`, `langfuse`, `smolagents` and `llamaindex`, one tool turn each, named
    book_room, all four with the same arguments {"room": "blue", "day": "monday"} and result
    "booked", not failed; no model turns. (In `traceloop` the result is JSON text, with quotes.)
    """
    arguments = {"room": "blue", "day": "monday"}
    wrapped = json.dumps({"args": [], "kwargs": arguments})
    sanitized = {"args": [], "sanitize_inputs_outputs": True, "kwargs": arguments}
    shapes: dict[str, tuple[str, str, Attributes]] = {
        "traceloop": (
            "traceloop.association.properties.session_id",
            "book_room.tool",
            {
                "traceloop.span.kind": "tool",
                "traceloop.entity.name": "book_room",
                "gen_ai.tool.name": "book_room",
                "traceloop.entity.input": wrapped,
                "traceloop.entity.output": '"booked"',
            },
        ),
        "langfuse": (
            "session.id",
            "book_room",
            {
                "langfuse.observation.type": "tool",
                "langfuse.observation.input": wrapped,
                "langfuse.observation.output": "booked",
            },
        ),
        "smolagents": (
            "session.id",
            "SimpleTool",
            _openinference("book_room", sanitized, "booked", SCHEMA),
        ),
        "llamaindex": (
            "session.id",
            "FunctionTool.acall",
            _openinference("book_room", {"kwargs": arguments}, "booked", SCHEMA),
        ),
    }
    requests: Requests = []
    for session, (key, name, attributes) in shapes.items():
        trace = Trace(session, session_key=key)
        trace.span(name, None, attributes)
        requests += trace.requests()
    return requests


def trap_05_gaps_in_indexes() -> Requests:
    """OpenInference's numbered messages have gaps, and one response may be two messages.

    Session `gap` (as of Pydantic AI): the only tool call is number 1, because the text was part 0.
    Session `split` (as of OpenAI Agents): text and call are output messages 0 and 1.
    In each: 1 tool turn named find_price with arguments {"sku": "A-17"} and result "9 EUR" (known
    from the second model's input), not failed; 2 model turns with the texts "I look it up." and
    "It costs 9 EUR.".
    """
    asked = {"role": "user", "content": "What does A-17 cost?"}
    heard = {"role": "tool", "content": "9 EUR", "tool_call_id": "call_a"}
    call = ("call_a", "find_price", {"sku": "A-17"})
    text, done = _openai("I look it up."), _openai("It costs 9 EUR.")
    gap = Trace("gap", session_key="session.id")
    answer = _openai("I look it up.", call)
    for attributes in (_llm([asked], answer), _llm([asked, answer, heard], done)):
        moved = {
            key.replace("tool_calls.0.", "tool_calls.1."): value
            for key, value in attributes.items()
        }
        gap.span("chat", None, moved, status="ok")
    split = Trace("split", session_key="session.id")
    second = {**_openai("", call)}
    del second["content"]
    first = {
        **_llm([asked], text),
        **dialects.flat_messages("llm.output_messages", [text, second]),
    }
    split.span("response", None, first, status="ok")
    split.span("response", None, _llm([asked, text, second, heard], done), status="ok")
    return gap.requests() + split.requests()


def trap_06_arguments_as_text() -> Requests:
    """Message parts carry the arguments as JSON text in one framework, as an object in others.

    Session `text` (as of Microsoft Agent Framework) and session `object`: in each 2 tool turns
    named water_plants with arguments {"bed": 3} (an object in both sessions, so that all four calls
    are the same) and result "done", not failed; 3 model turns with the texts "Once.", "Twice." and
    "Watered.". There are no tool spans.
    """
    requests: Requests = []
    shapes: dict[str, object] = {"text": '{"bed": 3}', "object": {"bed": 3}}
    for session, arguments in shapes.items():
        trace = Trace(session)
        said = [_asked("Water bed 3 twice.")]
        for index, text in enumerate(("Once.", "Twice.")):
            answer = _said(text, _call_part(f"call_{index}", "water_plants", arguments))
            trace.span("chat small-1", None, _chat(said, answer), kind=CLIENT)
            said += [answer, _heard("tool", _answer_part(f"call_{index}", "done"))]
        trace.span("chat small-1", None, _chat(said, _said("Watered.")), kind=CLIENT)
        requests += trace.requests()
    return requests


def trap_07_redacted_errors() -> Requests:
    """OpenAI Agents redacts errors: different failures have the same words.

    Session `redacted`: 4 tool turns named get_rate, agent "helper", with arguments {"pair":
    "EUR/USD"}, {"pair": "EUR/GBP"}, {"pair": "EUR/JPY"}, {"pair": "EUR/CHF"}, all failed with
    the same result. Neither that text nor the status message says what went wrong, so no two are
    the same failure (their signatures differ) and nothing is a loop. No model turns.
    """
    trace = Trace("redacted", session_key="session.id")
    agent = {"openinference.span.kind": "AGENT", "agent.name": "helper"}
    root = trace.span("helper", None, agent, status="ok", seconds=0)
    said = "An error occurred while running the tool. Please try again."
    redacted = (
        "{'tool_name': 'get_rate', 'error': 'Tool execution failed. Error details are redacted.'}"
    )
    for currency in ("USD", "GBP", "JPY", "CHF"):
        tool = _openinference("get_rate", {"pair": f"EUR/{currency}"}, said, SCHEMA)
        message = f"Error running tool (non-fatal): {redacted}"
        trace.span("get_rate", root, tool, status="error", message=message)
    return trace.requests()


def trap_08_adk_without_content() -> Requests:
    """Google's ADK tells nothing about tools; with OpenInference all model calls are one span.

    Session `adk_native`: 3 tool turns named open_gate, agent "porter", failed, with arguments,
    result, and error unknown (`TOOL_ERROR` says nothing); 3 model turns (generate_content) without
    text. Session `adk_openinference`: 3 tool turns named open_gate, agent "porter", with arguments
    {"gate": "north"}, failed, error "motor is stuck" (inside of the result, which is a function
    response); 1 model turn with the text "The gate stays shut." and 100 input tokens: the agent's
    span, which the last model call overwrote. The calls in its history are the same three calls,
    not more, and the one in its output is what is left over from the call before.
    """
    native = Trace("adk_native")
    agent = {"gen_ai.agent.name": "porter"}
    root = native.span("invoke_agent porter", None, {"gen_ai.operation.name": "invoke_agent"})
    for index in range(3):
        model: Attributes = {"gen_ai.operation.name": "generate_content", **agent}
        model["gen_ai.usage.input_tokens"] = 100
        native.span("generate_content small-1", root, model)
        tool = {**_execute_tool("open_gate", f"call_{index}"), **agent, "error.type": "TOOL_ERROR"}
        native.span("execute_tool open_gate", root, tool, status="error", message="TOOL_ERROR")
    return native.requests() + _adk_with_openinference().requests()


def _adk_with_openinference() -> Trace:
    trace = Trace("adk_openinference")
    gate, stuck = {"gate": "north"}, {"error": "motor is stuck"}
    said: list[Message] = [{"role": "user", "content": "Open the north gate."}]
    for index in range(3):
        said += [
            _openai("I open it.", (f"call_{index}", "open_gate", gate)),
            {"role": "tool", "content": json.dumps(stuck), "tool_call_id": f"call_{index}"},
        ]
    left_over = _openai("The gate stays shut.", ("call_2", "open_gate", gate))
    overwritten: Attributes = {
        **_llm(said, left_over),
        "gen_ai.operation.name": "generate_content",
        "gen_ai.agent.name": "porter",
        "gen_ai.request.model": "small-1",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
    }
    root = trace.span("invoke_agent porter", None, overwritten, status="ok", seconds=0)
    for index in range(3):
        call_id = f"call_{index}"
        response = {"id": call_id, "name": "open_gate", "response": stuck}
        tool = {
            **_openinference("open_gate", gate, json.dumps(response), json.dumps(gate)),
            **_execute_tool("open_gate", call_id),
            "gen_ai.agent.name": "porter",
            "error.type": "TOOL_ERROR",
            "tool.id": call_id,
        }
        trace.span("execute_tool open_gate", root, tool, status="error", message="TOOL_ERROR")
    return trace


def trap_09_linked_traces_nested_tools() -> Requests:
    """AutoGen spreads a run over traces that only links join, and OpenInference nests tool spans.

    Traces `manager`, `first` and `second` are one run, joined by links, with no session id
    anywhere: one task with 4 tool turns named ring_bell, agent "ringer", failed, error "rope is
    torn" of type ValueError, arguments and results unknown; no model turns. The messaging spans are
    no turns, and the exception, which each span has twice, is one failure.
    Session `nested` (AutoGen with OpenInference): 2 tool turns, not 4, named ring_bell, agent
    "ringer", with arguments {"bell": "east"} and result "rope is torn" (from the outer span, whose
    status is OK) and failed with error "rope is torn" of type ValueError (from the inner span).
    """
    manager = Trace("manager", session_key=None)
    process = manager.span("autogen process Manager", None, _messaging("process"), kind=CONSUMER)
    requests: Requests = []
    for index, name in enumerate(("first", "second")):
        created = manager.span(f"autogen create {name}", process, _messaging("create"))
        trace = Trace(name, session_key=None, at=f"2026-03-02T09:0{index + 1}:00+00:00")
        link = [(manager.trace_id, created)]
        sent = _messaging("publish")
        root = trace.span("autogen publish", None, sent, links=link, kind=PRODUCER, seconds=0)
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "ringer"}
        parent = trace.span("invoke_agent ringer", root, agent, kind=CLIENT, seconds=0)
        for number in range(2):
            _torn(trace, parent, f"call_{index}_{number}")
        requests += trace.requests()
    nested = Trace("nested", session_key="session.id")
    kind = {"openinference.span.kind": "AGENT", "graph.node.id": "ringer"}
    root = nested.span("ringer.on_messages_stream", None, kind, status="ok", seconds=0)
    for number in range(2):
        bell = {"bell": "east"}
        outer = _openinference("ring_bell", bell, "rope is torn", json.dumps(bell))
        parent = nested.span("ringer.ring_bell", root, outer, status="ok", seconds=0)
        _torn(nested, parent, f"call_{number}")
    return requests + manager.requests() + nested.requests()


def _messaging(operation: str) -> Attributes:
    return {"messaging.operation": operation, "messaging.destination": "ringer"}


def _torn(trace: Trace, parent: str, call_id: str) -> None:
    error = exception("ValueError", "rope is torn")
    trace.span(
        "execute_tool ring_bell",
        parent,
        {**_execute_tool("ring_bell", call_id), "error.type": "ValueError"},
        [error, error],
        status="error",
        message="ValueError: rope is torn",
    )


def trap_10_llamaindex_doubles() -> Requests:
    """LlamaIndex: two model spans a call with OpenInference, no tool kinds with OpenLLMetry.

    Session `llama_openinference`: 2 tool turns named sweep with arguments {"room": "hall"} and
    result "swept", not failed; 3 model turns with the texts "I sweep.", "Again." and "Clean.", not
    6: the spans `_prepare_chat_with_tools` are of kind LLM, but hold no messages and no tokens.
    Session `llama_openllmetry`: the same 2 tool turns and 3 model turns. Everything is called
    `task`; the models are known by their operation, the tools from the models' messages.
    """
    texts, sweep = ("I sweep.", "Again."), {"room": "hall"}
    first = Trace("llama_openinference", session_key="session.id")
    root = first.span("Agent.run", None, {"openinference.span.kind": "CHAIN"}, seconds=0)
    said: list[Message] = [{"role": "user", "content": "Sweep the hall."}]
    for index, text in enumerate(texts):
        answer = _openai(text, (f"call_{index}", "sweep", sweep))
        _llamaindex_model(first, root, said, answer)
        tool = _openinference("sweep", {"kwargs": sweep}, "swept", SCHEMA)
        node = {"openinference.span.kind": "CHAIN"}
        step = first.span("Agent.call_tool", root, node, status="ok", seconds=0)
        first.span("FunctionTool.acall", step, tool, status="ok")
        heard = {"role": "tool", "content": "swept", "tool_call_id": f"call_{index}"}
        said += [answer, heard]
    _llamaindex_model(first, root, said, _openai("Clean."))
    key = "traceloop.association.properties.session_id"
    second = Trace("llama_openllmetry", session_key=key)
    root = second.span("Agent.workflow", None, _task("Agent", "workflow"), seconds=0)
    parts = [_asked("Sweep the hall.")]
    for index, text in enumerate(texts):
        part = _call_part(f"call_{index}", "sweep", sweep)
        second.span("Model.task", root, _task("Model") | {"traceloop.entity.output": "{}"})
        second.span("Model.task", root, _task("Model") | dict(_chat(parts, _said(text, part))))
        tool_output = {"blocks": [{"block_type": "text", "text": "swept"}], "is_error": False}
        result = {"tool_name": "sweep", "tool_kwargs": sweep, "tool_output": tool_output}
        called = {"tool.name": "sweep", "tool.arguments": json.dumps(sweep)}
        told = {"traceloop.entity.output": json.dumps(result)}
        second.span("Agent.task", root, _task("Agent") | called | told)
        parts += [_said(text, part), _heard("tool", _answer_part(f"call_{index}", "swept"))]
    second.span("Model.task", root, _task("Model") | dict(_chat(parts, _said("Clean."))))
    return first.requests() + second.requests()


def _llamaindex_model(trace: Trace, root: str, given: list[Message], answer: Message) -> None:
    kind = {"openinference.span.kind": "LLM", "llm.model_name": "small-1"}
    both = {**kind, "input.value": '{"tools": []}', "output.value": '{"messages": []}'}
    trace.span("Model._prepare_chat_with_tools", root, both, status="ok")
    trace.span("Model.achat", root, _llm(given, answer), status="ok")


def _task(name: str, kind: str = "task") -> dict[str, Any]:
    return {"traceloop.span.kind": kind, "traceloop.entity.name": f"{name}.{kind}"}


def trap_11_no_tool_spans() -> Requests:
    """CrewAI with OpenLLMetry shows no tools and no models, the OpenAI SDK alone no tools.

    Trace `crew` (no session id): no tool turns and no model turns, only three agent spans, of which
    the outer two name no agent: no hand-off either. Nothing can be said about loops.
    Session `sdk`: 3 tool turns named call_taxi with arguments {"to": "station"}, the first two with
    result "Error: Busy: no taxi is free" and failed, the third with result "on its way" and not
    failed; 4 model turns with the texts "Call.", "Call again.", "Once more." and "It comes.".
    """
    crew = Trace("crew", session_key=None)
    operation: Attributes = {"gen_ai.operation.name": "invoke_agent", "crewai.crew.name": "crew"}
    root = crew.span("crewai.workflow", None, operation, status="error", message="stopped")
    task = {**operation, "traceloop.span.kind": "task", "crewai.task.agent": "driver"}
    inner = crew.span("Call a taxi.task", root, task, status="error", message="stopped")
    agent = {**operation, "traceloop.span.kind": "agent", "crewai.agent.role": "driver"}
    agent["gen_ai.agent.name"] = "driver"
    crew.span("driver.agent", inner, agent, status="error", message="stopped")
    station, busy = {"to": "station"}, "Busy: no taxi is free"
    sdk = _run(
        "sdk",
        Step("Call.", (Call("call_taxi", station, error=busy),)),
        Step("Call again.", (Call("call_taxi", station, error=busy),)),
        Step("Once more.", (Call("call_taxi", station, "on its way"),)),
        Step("It comes."),
    )
    return crew.requests() + dialects.openai_sdk(sdk).requests()


def trap_12_openllmetry_langgraph() -> Requests:
    """LangGraph with OpenLLMetry: many spans around few turns, and the agent's making in a trace.

    Session `graph`: 2 tool turns named cut_hedge, agent "gardener", with arguments {"side": "left"}
    and {"side": "right"} and result "cut" (the ToolMessage's content), not failed; 3 model turns
    with the texts "Left.", "Right." and "Neat.". The spans execute_task (twice for each piece of
    middleware) and create_agent (in a trace of its own, without a session) are no turns, and
    `gardener.workflow` inside `invoke_agent gardener` is no hand-off.
    """
    made = Trace("made", session_key=None)
    agent = {"gen_ai.agent.name": "gardener"}
    made.span("create_agent gardener", None, {"gen_ai.operation.name": "create_agent", **agent})
    trace = Trace("graph", session_key="traceloop.association.properties.session_id")
    invoke = {"gen_ai.operation.name": "invoke_agent", **agent}
    root = trace.span("invoke_agent gardener", None, invoke, seconds=0)
    flow = {**invoke, **_task("gardener", "workflow")}
    parent = trace.span("gardener.workflow", root, flow, seconds=0)
    said = [_asked("Cut the hedge.")]
    for index, (text, side) in enumerate((("Left.", "left"), ("Right.", "right"))):
        answer = _said(text, _call_part(f"call_{index}", "cut_hedge", {"side": side}))
        trace.span("ChatModel.chat", _middleware(trace, parent), _chat(said, answer), kind=CLIENT)
        given = {"input_str": repr({"side": side}), "metadata": {"langgraph_step": index}}
        tool = {
            **_task("cut_hedge", "tool"),
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "cut_hedge",
            "gen_ai.tool.call.arguments": json.dumps({**given, "inputs": {"side": side}}),
            "gen_ai.tool.call.result": _tool_message("cut", f"call_{index}"),
        }
        trace.span("execute_tool cut_hedge", _middleware(trace, parent), tool)
        said += [answer, _heard("tool", _answer_part(f"call_{index}", "cut"))]
    last = _chat(said, _said("Neat."))
    trace.span("ChatModel.chat", _middleware(trace, parent), last, kind=CLIENT)
    return made.requests() + trace.requests()


def _middleware(trace: Trace, parent: str) -> str:
    task = {"gen_ai.operation.name": "execute_task", "gen_ai.task.name": "Retry.wrap"}
    outer = trace.span("execute_task Retry.wrap", parent, task | _task("Retry"), seconds=0)
    return trace.span("execute_task Retry.wrap", outer, task, seconds=0)


def trap_13_custom_operations() -> Requests:
    """Operation names that no convention knows are not turns, and no errors either.

    Session `custom`: 2 tool turns named feed_cat with arguments {"grams": 50} and result "eaten",
    not failed; 2 model turns with the texts "Feed." and "Feed again.". The 6 spans around them
    (invoke_agent, agent_step, execute_event_loop_cycle, chain, execute_task, polish_silver) are no
    turns, and nothing is reported as skipped.
    """
    trace = Trace("custom")
    said = [_asked("Feed the cat twice.")]
    root = trace.span("invoke_agent", None, {"gen_ai.operation.name": "invoke_agent"}, seconds=0)
    for index, text in enumerate(("Feed.", "Feed again.")):
        operation = ("agent_step", "execute_event_loop_cycle")[index]
        step = {"gen_ai.operation.name": operation}
        parent = trace.span(f"step {index + 1}", root, step, seconds=0)
        answer = _said(text, _call_part(f"call_{index}", "feed_cat", {"grams": 50}))
        trace.span("chat small-1", parent, _chat(said, answer), kind=CLIENT)
        inside = {"gen_ai.operation.name": ("chain", "execute_task")[index]}
        node = trace.span("tools", parent, inside, seconds=0)
        content = {"arguments": '{"grams": 50}', "result": "eaten"}
        trace.span(
            "execute_tool feed_cat", node, _execute_tool("feed_cat", f"call_{index}", **content)
        )
        said += [answer, _heard("tool", _answer_part(f"call_{index}", "eaten"))]
    trace.span("polish_silver spoon", root, {"gen_ai.operation.name": "polish_silver"})
    return trace.requests()


def trap_14_parents_first() -> Requests:
    """LangSmith exports after the run, parents before their children; other exporters do not.

    Session `early`: 3 tool turns, agent "helper", in this order: fetch with arguments {"page": 1}
    and result "a", fetch with {"page": 2} and "b", fetch with {"page": 3} and "c" (the contents of
    ToolMessages), none failed; 4 model turns with the texts "One.", "Two.", "Three." and "Read.".
    The order in the file says nothing: parents come first, and the last spans before the first.
    """
    pages = ((1, "One.", "a"), (2, "Two.", "b"), (3, "Three.", "c"))
    steps = (Step(text, (Call("fetch", {"page": page}, body),)) for page, text, body in pages)
    root, *others = dialects.langsmith(_run("early", *steps, Step("Read."))).requests(
        parents_first=True
    )
    return [root, *others[::-1]]


def trap_15_content_in_events() -> Requests:
    """Strands puts arguments, results and messages in span events, old style and new.

    Sessions `old` and `latest`, in each: 2 tool turns named knock, agent "helper", with arguments
    {"door": 4}; the first failed, with error "nobody home" of type RuntimeError, the second has
    result "come in" and is not failed; 3 model turns with the texts "Knock.", "Knock again." and
    "We are in.". The spans execute_event_loop_cycle, whose events repeat it all, are no turns.
    """
    door: Arguments = {"door": 4}
    old = _run(
        "old",
        Step("Knock.", (Call("knock", door, error="RuntimeError: nobody home"),)),
        Step("Knock again.", (Call("knock", door, "come in"),)),
        Step("We are in."),
    )
    return dialects.strands(old).requests() + _strands_latest().requests()


def _strands_latest() -> Trace:
    trace = Trace("latest", session_key="session.id")
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}
    root = trace.span("invoke_agent helper", None, agent, status="ok", seconds=0)
    said, details = [_asked("Knock.")], "gen_ai.client.inference.operation.details"
    chat: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100}
    turns = (("Knock.", "nobody home"), ("Knock again.", "come in"), ("We are in.", ""))
    for index, (text, heard) in enumerate(turns):
        call_id = f"call_{index}"
        call = _call_part(call_id, "knock", {"door": 4})
        answer = _said(text, call) if heard else _said(text)
        events = [
            (details, {"gen_ai.input.messages": json.dumps(said)}),
            (details, {"gen_ai.output.messages": json.dumps([answer])}),
        ]
        trace.span("chat", root, chat, events, status="ok")
        if not heard:
            break
        result = _answer_part(call_id, [{"text": heard}])
        events = [
            (details, {"gen_ai.input.messages": json.dumps([_heard("tool", call)])}),
            (details, {"gen_ai.output.messages": json.dumps([_heard("tool", result)])}),
        ]
        tool = _execute_tool("knock", call_id)
        if index == 0:
            error = [*events, exception("RuntimeError", heard)]
            trace.span("execute_tool knock", root, tool, error, status="error", message=heard)
        else:
            trace.span("execute_tool knock", root, tool, events, status="ok")
        said += [answer, _heard("user", result)]
    return trace


def trap_16_returned_error() -> Requests:
    """Errors that a tool returns instead of raising leave the status as it was.

    Session `returned`: 5 tool turns named pay, no model turns, no status but UNSET. The first three
    failed: "ERROR: card declined", {"error": "card expired"} and, in two lines, "pay: no such card"
    and "exit code 1"; their errors hold "card declined", "card expired" and "no such card". The
    last two did not: results "0 errors, 1 payment made" and {"error": null, "paid": true}.
    """
    trace = Trace("returned")
    results = (
        "ERROR: card declined",
        '{"error": "card expired"}',
        "pay: no such card\nexit code 1",
        "0 errors, 1 payment made",
        '{"error": null, "paid": true}',
    )
    for index, result in enumerate(results):
        content = {"arguments": json.dumps({"card": index}), "result": result}
        trace.span("execute_tool pay", None, _execute_tool("pay", f"call_{index}", **content))
    return trace.requests()
