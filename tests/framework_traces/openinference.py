"""Shapes in OpenInference's names: kinds of spans, and messages as flat numbered attributes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from examples.dialects import OPENAI, Asked, Message, Response
from tests.framework_traces.shape import (
    MODEL,
    Piece,
    Shape,
    Talk,
    arguments,
    failing,
    stop_of,
)

SCHEMA = '{"type": "object", "properties": {"order": {"type": "string"}}}'
REDACTED = "An error occurred while running the tool. Please try again."
REDACTED_STATUS = (
    "Error running tool (non-fatal): "
    "{'tool_name': 'check_labels', 'error': 'Tool execution failed. Error details are redacted.'}"
)


def flat(
    prefix: str, messages: Sequence[Message], first_call: int = 0, parts: Sequence[str] = ()
) -> dict[str, object]:
    """Return OpenAI's messages as numbered attributes.

    The calls of a message are numbered from `first_call`; the text of the roles in `parts` is a
    numbered part of the message.
    """
    said: dict[str, object] = {}
    for number, message in enumerate(messages):
        path = f"{prefix}.{number}.message"
        said[f"{path}.role"] = message["role"]
        if message["role"] in parts and "content" in message:
            said[f"{path}.contents.0.message_content.text"] = message["content"]
            said[f"{path}.contents.0.message_content.type"] = "text"
        elif "content" in message:
            said[f"{path}.content"] = message["content"]
        for key in ("tool_call_id", "name"):
            if key in message:
                said[f"{path}.{key}"] = message[key]
        for place, call in enumerate(message.get("tool_calls", ()), first_call):
            inner = f"{path}.tool_calls.{place}.tool_call"
            said[f"{inner}.id"] = call["id"]
            said[f"{inner}.function.name"] = call["function"]["name"]
            said[f"{inner}.function.arguments"] = call["function"]["arguments"]
    return said


def kind(name: str, **more: object) -> dict[str, object]:
    """Return what every span of OpenInference says: its kind."""
    return {"openinference.span.kind": name, **more}


def tokens(prompt: int, completion: int) -> dict[str, object]:
    """Return tokens under OpenInference's names."""
    counts = {"prompt": prompt, "completion": completion, "total": prompt + completion}
    return {f"llm.token_count.{name}": count for name, count in counts.items()}


def values(given: object = None, told: object = None) -> dict[str, object]:
    """Return input and output as JSON text; None leaves one of them out."""
    pairs = (("input.value", given), ("output.value", told))
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in pairs
        if value is not None
    }


# What the client was called with, as JSON.
INVOKED = {"llm.invocation_parameters": json.dumps({"model": MODEL, "service_tier": "default"})}


def llm(
    response: Response, given: Mapping[str, object], told: Mapping[str, object]
) -> dict[str, object]:
    """Return a model's span, but for input and output as a whole."""
    counted = tokens(response.input_tokens, response.output_tokens)
    return kind("LLM", **{"llm.model_name": MODEL}, **counted, **given, **told)


def _openai_model(_: Talk, response: Response) -> list[Piece]:
    said = llm(
        response,
        flat("llm.input_messages", response.messages),
        flat("llm.output_messages", [response.message]),
    )
    whole = values({"messages": []}, {"choices": []})
    stop = {"llm.finish_reason": stop_of(response)}
    return [Piece("ChatCompletion", said | INVOKED | whole | stop, status="ok")]


def _prefixed(asked: Asked) -> Message:
    text = f"ERROR: {asked.error[1]}" if asked.call.error else asked.call.result
    return {"role": "tool", "tool_call_id": asked.id, "content": text}


# The OpenAI SDK alone: models only, and a failure is what the model was given.
OPENAI_SDK = Shape(
    "openinference.instrumentation.openai",
    around=lambda talk: [Piece(talk.run.service, {})],
    model=_openai_model,
    wording=replace(OPENAI, answered=_prefixed),
)


def _langgraph_session(talk: Talk) -> dict[str, object]:
    metadata = {"lc_agent_name": talk.run.agent, "session_id": talk.run.session}
    metadata["thread_id"] = talk.run.session
    return {"session.id": talk.run.session, "metadata": json.dumps(metadata)}


def _langgraph_chain(talk: Talk, name: str, said: object, told: object) -> Piece:
    whole = values({"messages": said}, {"messages": told})
    return Piece(name, kind("CHAIN", **_langgraph_session(talk), **whole), status="ok")


def _langgraph_model(talk: Talk, response: Response) -> list[Piece]:
    given = flat("llm.input_messages", [_named(talk, message) for message in response.messages])
    told = flat("llm.output_messages", [response.message])
    text = values({"messages": []}, {"generations": []})
    said = llm(response, given, told) | INVOKED | _langgraph_session(talk) | text
    said["llm.finish_reason"] = stop_of(response)
    node = _langgraph_chain(talk, "model", [], [response.step.text])
    person = {**node.attributes, **flat("llm.input_messages", talk.first[1:])}
    return [replace(node, attributes=person), Piece("ScriptedModel", said, status="ok")]


def _named(talk: Talk, message: Message) -> Message:
    """Return a message with the name of the agent that said it."""
    return {**message, "name": talk.run.agent} if message["role"] == "assistant" else message


def _langgraph_tool(talk: Talk, asked: Asked) -> list[Piece]:
    data = {"content": asked.call.result, "type": "tool", "tool_call_id": asked.id}
    bare = list(asked.arguments.values())
    given = str(bare[0]) if len(bare) == 1 else arguments(asked)
    told = None if asked.call.error else {"type": "tool", "data": data}
    said = kind("TOOL", **{"tool.name": asked.name}, **_langgraph_session(talk))
    piece = Piece(asked.name, said | values(given, told), status="ok")
    error, message = asked.error
    node = _langgraph_chain(talk, "tools", [asked.name], [asked.outcome])
    return [node, failing(piece, asked, f"{error}({message!r})Traceback (most recent call last):")]


def _langgraph_root(talk: Talk) -> list[Piece]:
    root = _langgraph_chain(talk, talk.run.agent, talk.run.task, talk.last.step.text)
    return [
        replace(root, attributes={**root.attributes, **flat("llm.input_messages", talk.first[1:])})
    ]


# LangGraph: a chain around everything; the only argument of a tool is its bare value.
LANGGRAPH = Shape(
    "openinference.instrumentation.langchain",
    around=_langgraph_root,
    model=_langgraph_model,
    tool=_langgraph_tool,
    wording=replace(OPENAI, answered=lambda asked: {**OPENAI.answered(asked), "name": asked.name}),
)


def _crew_tool(_: Talk, asked: Asked) -> list[Piece]:
    named = {"tool.name": asked.name, "tool.parameters": SCHEMA}
    given = values(arguments(asked), None if asked.call.error else asked.call.result)
    return [failing(Piece(f"{asked.name}.run", kind("TOOL", **named, **given), (), "ok"), asked)]


def _crew_end(talk: Talk, piece: Piece) -> Piece:
    """Return a span around the run, with the guard's exception if all calls failed."""
    calls = [call for step in talk.run.steps for call in step.calls]
    if not all(call.error for call in calls):
        return replace(piece, status="ok")
    return failing(piece, Asked("", replace(calls[0], error="ToolExecutionFailedError: stopped")))


def _crew_root(talk: Talk) -> list[Piece]:
    agent = kind("AGENT", **{"graph.node.id": talk.run.agent}, **values(talk.run.task))
    failed = any(call.error for step in talk.run.steps for call in step.calls)
    told = {} if failed else values(None, talk.last.step.text)
    crew = Piece("Crew_1.kickoff", kind("CHAIN", **told))
    core = Piece(f"{talk.run.agent}._execute_core", agent | told)
    return [_crew_end(talk, piece) for piece in (crew, core)]


# CrewAI: an agent and its tools, no models; its own guard ends the run with an exception.
CREWAI = Shape("openinference.instrumentation.crewai", around=_crew_root, tool=_crew_tool)


def _step(number: int, told: str | None, asked: Asked | None = None) -> Piece:
    memory = {"memory_step": f"ActionStep(step_number={number})"}
    piece = Piece(f"Step {number}", kind("CHAIN", **values(memory, told)), (), "ok")
    if asked is None or not asked.call.error:
        return piece
    stopped = replace(asked.call, error=f"AgentToolExecutionError: {asked.error[1]}")
    return failing(piece, Asked("", stopped), f"AgentToolExecutionError: {asked.error[1]}")


def _smolagents_root(talk: Talk) -> list[Piece]:
    said = values({"task": talk.run.task}, talk.last.step.text)
    summed = tokens(talk.input_tokens, talk.output_tokens)
    return [Piece(f"{talk.run.agent}.run", kind("AGENT", **said, **summed), status="ok")]


def _smolagents_tool(
    name: str, tool: str, args: list[object], kwargs: Mapping[str, object], sanitize: bool
) -> Piece:
    wrapped = {"args": args, "sanitize_inputs_outputs": sanitize, "kwargs": kwargs}
    parameter = "answer" if tool == "final_answer" else "order"
    named = {"tool.name": tool, "tool.parameters": json.dumps({parameter: {"type": "string"}})}
    return Piece(name, kind("TOOL", **named, **values(wrapped)), status="ok")


def _smolagents(sanitize: bool) -> Shape:
    """Return the shape of smolagents; agents that write code do not have inputs sanitized."""

    def tool(_: Talk, asked: Asked) -> list[Piece]:
        piece = _smolagents_tool("SimpleTool", asked.name, [], asked.arguments, sanitize)
        told = values(None, None if asked.call.error else asked.call.result)
        done = replace(piece, attributes={**piece.attributes, **told})
        error, message = asked.error
        return [failing(done, asked, f"{error}: {message}")]

    def step(talk: Talk, response: Response) -> list[Piece]:
        number = talk.responses.index(response) + 1
        if response.asked:
            (asked,) = response.asked
            return [_step(number, None if asked.call.error else asked.call.result, asked)]
        answer = response.step.text
        args: list[object] = [] if sanitize else [answer]
        kwargs = {"answer": answer} if sanitize else {}
        final = _smolagents_tool("FinalAnswerTool", "final_answer", args, kwargs, sanitize)
        told = {**final.attributes, **values(None, answer)}
        return [_step(number, answer), replace(final, attributes=told)]

    scope = "openinference.instrumentation.smolagents"
    return Shape(scope, around=_smolagents_root, step=step, tool=tool)


SMOLAGENTS, SMOLAGENTS_CODE = _smolagents(sanitize=True), _smolagents(sanitize=False)


def _agents_root(talk: Talk) -> list[Piece]:
    named = {"graph.node.id": talk.run.agent, "agent.name": talk.run.agent}
    return [
        Piece(talk.run.service, kind("AGENT"), status="ok"),
        Piece(talk.run.service, kind("CHAIN"), status="ok"),
        Piece(talk.run.agent, kind("AGENT", **named), status="ok"),
    ]


def _in_two(message: Message) -> list[Message]:
    """Return a response as the two messages in which OpenAI's Responses API has it."""
    if not message.get("tool_calls"):
        return [{"role": "assistant", "content": message["content"]}]
    text = {"role": "assistant", "content": message["content"]}
    return [text, {"role": "assistant", "tool_calls": message["tool_calls"]}]


def _agents_model(_: Talk, response: Response) -> list[Piece]:
    before = [part for m in response.messages for part in _split(m)]
    answer = _in_two(response.message)
    told = flat("llm.output_messages", answer)
    part = "llm.output_messages.0.message.contents.0.message_content"
    told |= {f"{part}.type": "text", f"{part}.text": answer[0]["content"]}
    whole = values([], {"output": []})
    given = flat("llm.input_messages", before, parts=("assistant",))
    stop = {"llm.finish_reason": stop_of(response)}
    parts = {
        "llm.token_count.prompt_details.cache_read": response.input_tokens // 2,
        "llm.token_count.completion_details.reasoning": response.output_tokens // 4,
    }
    said = llm(response, given, told) | INVOKED | parts | whole | stop
    return [Piece("response", said, status="ok")]


def _split(message: Message) -> list[Message]:
    return _in_two(message) if message["role"] == "assistant" else [message]


def _agents_tool(_: Talk, asked: Asked) -> list[Piece]:
    told = REDACTED if asked.call.error else asked.call.result
    named = {"tool.name": asked.name, "tool.parameters": SCHEMA}
    piece = Piece(asked.name, kind("TOOL", **named, **values(arguments(asked), told)), (), "ok")
    if not asked.call.error:
        return [piece]
    return [replace(piece, status="error", message=REDACTED_STATUS)]


# OpenAI's Agents SDK: text and call are two messages, and each error is replaced by one sentence.
OPENAI_AGENTS = Shape(
    "openinference.instrumentation.openai_agents",
    around=_agents_root,
    step=lambda *_: [Piece("turn", kind("CHAIN"), status="ok")],
    model=_agents_model,
    tool=_agents_tool,
    wording=replace(
        OPENAI,
        answered=lambda asked: {
            "role": "tool",
            "tool_call_id": asked.id,
            "content": REDACTED if asked.call.error else asked.call.result,
        },
    ),
)
