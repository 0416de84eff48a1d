"""Writes one agent run in the attributes that agent frameworks really emit.

A `Run` says what happened; each dialect's function says it the way one framework or instrumentation
does: the same span names, keys, nesting and oddities.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

from tests.otlp import CLIENT, INTERNAL, Event, Trace, Value, exception

Message: TypeAlias = dict[str, Any]
Attributes: TypeAlias = dict[str, Value]

MODEL = "gpt-4.1-mini"
GEMINI = "gemini-2.5-flash"
CHARACTERS_PER_TOKEN = 4
TOOL_DEFINITIONS_TOKENS = 1_180  # Sent with every request, and not among its messages.
CALL_ID_BYTES = 9
LANGCHAIN_CLASSES = {
    "ai": "AIMessage",
    "human": "HumanMessage",
    "system": "SystemMessage",
    "tool": "ToolMessage",
}


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call and what came of it. An error is written `Type: message`."""

    name: str
    arguments: Mapping[str, str | int]
    result: str = ""
    error: str = ""
    seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """One model response: its text, the calls it asks for, and what the program then remarks."""

    text: str
    calls: tuple[Call, ...] = ()
    seconds: float = 2.5
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One agent at work on one task, from the time `at` on."""

    session: str
    service: str
    agent: str
    at: str
    instructions: str
    task: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A call with the id that the model gave it."""

    id: str
    call: Call

    @property
    def name(self) -> str:
        """Give the name of the tool."""
        return self.call.name

    @property
    def arguments(self) -> dict[str, str | int]:
        """Give the arguments of the call."""
        return dict(self.call.arguments)

    @property
    def error(self) -> tuple[str, str]:
        """Give the type and the message of the error, both empty where there is none."""
        kind, _, message = self.call.error.partition(": ")
        return kind, message

    @property
    def outcome(self) -> str:
        """Give what the model gets to see."""
        return f"Error: {self.call.error}" if self.call.error else self.call.result


@dataclass(frozen=True, slots=True)
class Response:
    """One model response, with the messages before it. Tokens are estimated from the text."""

    step: Step
    asked: tuple[Asked, ...]
    messages: list[Message]
    message: Message

    @property
    def finish_reason(self) -> str:
        """Say why the model stopped, in OpenAI's words."""
        return "tool_calls" if self.asked else "stop"

    @property
    def input_tokens(self) -> int:
        """Estimate the tokens of the request."""
        characters = len(json.dumps(self.messages))
        return TOOL_DEFINITIONS_TOKENS + characters // CHARACTERS_PER_TOKEN

    @property
    def output_tokens(self) -> int:
        """Estimate the tokens of this response."""
        return len(json.dumps(self.message)) // CHARACTERS_PER_TOKEN


@dataclass(frozen=True, slots=True)
class Wording:
    """How a dialect writes the messages of a conversation."""

    plain: Callable[[str, str], Message]  # role, text
    said: Callable[[Step, Sequence[Asked]], Message]
    answered: Callable[[Asked], Message]


def conversation(run: Run, wording: Wording) -> Iterator[Response]:
    """Give the responses of a run, each with everything that was said before it."""
    messages = [wording.plain("system", run.instructions), wording.plain("user", run.task)]
    for number, step in enumerate(run.steps):
        asked = tuple(
            Asked(_call_id(f"{run.session}/{run.agent}/{number}/{index}"), call)
            for index, call in enumerate(step.calls)
        )
        message = wording.said(step, asked)
        yield Response(step, asked, list(messages), message)
        messages += [message, *map(wording.answered, asked)]
        if step.remark:
            messages.append(wording.plain("system", step.remark))


def _call_id(seed: str) -> str:
    return "call_" + blake2b(seed.encode(), digest_size=CALL_ID_BYTES).hexdigest()


def _trace(run: Run, scope: str, session_key: str | None = None) -> Trace:
    session, service, at = run.session, run.service, run.at
    return Trace(session, session_key=session_key, service=service, scope=scope, at=at)


def tool_spans(
    trace: Trace,
    parent: str,
    asked: Sequence[Asked],
    describe: Callable[[Asked], tuple[str, Attributes, list[Event]]],
    success: Literal["ok"] | None = None,
) -> None:
    """Add the spans of the calls that one response asked for; they run at the same time."""
    start_s = trace.now_s
    for each in asked:
        name, attributes, events = describe(each)
        trace.span(
            name,
            parent,
            attributes,
            events,
            status="error" if each.call.error else success,
            message=each.error[1],
            seconds=each.call.seconds,
            start_s=start_s,
        )


def compact(value: object) -> str:
    """Give JSON as JavaScript and Pydantic write it."""
    return json.dumps(value, separators=(",", ":"))


# OpenTelemetry GenAI ---------------------------------------------------------------------------


def _genai_call(asked: Asked) -> Message:
    return {"type": "tool_call", "id": asked.id, "name": asked.name, "arguments": asked.arguments}


def _genai_said(step: Step, asked: Sequence[Asked]) -> Message:
    text = {"type": "text", "content": step.text}
    return {"role": "assistant", "parts": [text, *map(_genai_call, asked)]}


def _genai_answered(asked: Asked) -> Message:
    part = {"type": "tool_call_response", "id": asked.id, "response": asked.outcome}
    return {"role": "tool", "parts": [part], "name": asked.name}


def _pydantic_answered(asked: Asked) -> Message:
    # The role is `user`, and yet no person spoke.
    part = {"type": "tool_call_response", "id": asked.id, "result": asked.outcome}
    return {"role": "user", "parts": [{**part, "name": asked.name}]}


def _genai_plain(role: str, text: str) -> Message:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


GENAI = Wording(_genai_plain, _genai_said, _genai_answered)
PYDANTIC = Wording(_genai_plain, _genai_said, _pydantic_answered)


def _genai_usage(response: Response) -> Attributes:
    return {
        "gen_ai.usage.input_tokens": response.input_tokens,
        "gen_ai.usage.output_tokens": response.output_tokens,
    }


def _genai_chat(response: Response) -> Attributes:
    output = {**response.message, "finish_reason": response.finish_reason}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.finish_reasons": [response.finish_reason],
        "gen_ai.response.model": MODEL,
        **_genai_usage(response),
        "gen_ai.input.messages": compact(response.messages),
        "gen_ai.output.messages": compact([output]),
    }


def _genai_tool(asked: Asked) -> Attributes:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": asked.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": asked.id,
        "gen_ai.tool.call.arguments": compact(asked.arguments),
    }


def langgraph(run: Run) -> Trace:
    """Write LangGraph with OpenTelemetry's instrumentation: invoke_agent > chat, execute_tool.

    Tool spans name no conversation, failed ones have no result and no exception event.
    """
    trace = _trace(run, "opentelemetry.instrumentation.genai.langchain")
    session: Attributes = {"gen_ai.conversation.id": run.session}
    agent: Attributes = {"gen_ai.agent.name": run.agent}

    def tool(asked: Asked) -> tuple[str, Attributes, list[Event]]:
        failed = {"error.type": asked.error[0]}
        outcome = failed if asked.call.error else {"gen_ai.tool.call.result": asked.call.result}
        return f"execute_tool {asked.name}", {**_genai_tool(asked), **agent, **outcome}, []

    invoke: Attributes = {"gen_ai.operation.name": "invoke_agent", **agent, **session}
    root = trace.span(f"invoke_agent {run.agent}", None, invoke, seconds=0)
    for response in conversation(run, GENAI):
        chat = {**_genai_chat(response), **session}
        trace.span(f"chat {MODEL}", root, chat, kind=CLIENT, seconds=response.step.seconds)
        tool_spans(trace, root, response.asked, tool)
    return trace


def openai_sdk(run: Run) -> Trace:
    """Write the OpenAI SDK alone: one chat span after the other, and no tool spans.

    The conversation's id is where the program put it, on the span around them.
    """
    trace = _trace(run, "opentelemetry.instrumentation.genai.openai")
    own: Attributes = {"gen_ai.conversation.id": run.session, "gen_ai.agent.name": run.agent}
    root = trace.span("answer_ticket", None, own, seconds=0, scope=run.service)
    for response in conversation(run, GENAI):
        chat = _genai_chat(response)
        trace.span(f"chat {MODEL}", root, chat, kind=CLIENT, seconds=response.step.seconds)
    return trace


def pydantic_ai(run: Run) -> Trace:
    """Write Pydantic AI: invoke_agent > chat, execute_tool. The root repeats the tokens' sum."""
    trace = _trace(run, "pydantic-ai", "gen_ai.conversation.id")
    agent: Attributes = {"gen_ai.agent.name": run.agent}

    def tool(asked: Asked) -> tuple[str, Attributes, list[Event]]:
        outcome = {"gen_ai.tool.call.result": asked.call.result}
        return f"execute_tool {asked.name}", {**_genai_tool(asked), **agent, **outcome}, []

    responses = list(conversation(run, PYDANTIC))
    invoke: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        **agent,
        "final_result": run.steps[-1].text,
        "gen_ai.aggregated_usage.input_tokens": sum(each.input_tokens for each in responses),
        "gen_ai.aggregated_usage.output_tokens": sum(each.output_tokens for each in responses),
    }
    root = trace.span(f"invoke_agent {run.agent}", None, invoke, seconds=0)
    for response in responses:
        chat = {**_genai_chat(response), **agent}
        trace.span(f"chat {MODEL}", root, chat, kind=CLIENT, seconds=response.step.seconds)
        tool_spans(trace, root, response.asked, tool)
    return trace


def adk(run: Run) -> Trace:
    """Write Google's ADK as it comes: tool spans say neither arguments nor results."""
    trace = _trace(run, "gcp.vertex.agent")
    session: Attributes = {"gen_ai.conversation.id": run.session}
    agent: Attributes = {"gen_ai.agent.name": run.agent}

    def tool(asked: Asked) -> tuple[str, Attributes, list[Event]]:
        told = ("gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id")
        attributes = {key: value for key, value in _genai_tool(asked).items() if key in told}
        return f"execute_tool {asked.name}", {**attributes, **agent}, []

    flow: Attributes = {"gen_ai.operation.name": "invoke_workflow", **session}
    root = trace.span(f"invoke_workflow {run.agent}", None, flow, seconds=0)
    invoke: Attributes = {"gen_ai.operation.name": "invoke_agent", **agent, **session}
    parent = trace.span(f"invoke_agent {run.agent}", root, invoke, seconds=0)
    for response in conversation(run, GENAI):
        model: Attributes = {
            "gen_ai.operation.name": "generate_content",
            "gen_ai.request.model": GEMINI,
            "gen_ai.provider.name": "gcp.gemini",
            **agent,
            **session,
            **_genai_usage(response),
        }
        trace.span(f"generate_content {GEMINI}", parent, model, seconds=response.step.seconds)
        tool_spans(trace, parent, response.asked, tool)
    return trace


# Strands: the GenAI names, with the content in span events -------------------------------------


def _strands_plain(role: str, text: str) -> Message:
    return {"role": role, "content": [{"text": text}]}


def _strands_said(step: Step, asked: Sequence[Asked]) -> Message:
    uses = [{"toolUseId": each.id, "name": each.name, "input": each.arguments} for each in asked]
    return {
        "role": "assistant",
        "content": [{"text": step.text}, *({"toolUse": use} for use in uses)],
    }


def _strands_answered(asked: Asked) -> Message:
    status = "error" if asked.call.error else "success"
    result = {"toolUseId": asked.id, "status": status, "content": [{"text": asked.outcome}]}
    return {"role": "tool", "content": [{"toolResult": result}]}


STRANDS = Wording(_strands_plain, _strands_said, _strands_answered)


def _strands_tool(asked: Asked) -> tuple[str, Attributes, list[Event]]:
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.system": "strands-agents",
        "gen_ai.tool.name": asked.name,
        "gen_ai.tool.call.id": asked.id,
        "gen_ai.tool.status": "error" if asked.call.error else "success",
    }
    content = json.dumps(asked.arguments)
    events: list[Event] = [
        ("gen_ai.tool.message", {"role": "tool", "content": content, "id": asked.id}),
        ("gen_ai.choice", {"message": json.dumps([{"text": asked.outcome}]), "id": asked.id}),
    ]
    if asked.call.error:
        events.append(exception(*asked.error))
    return f"execute_tool {asked.name}", attributes, events


def strands(run: Run) -> Trace:
    """Write Strands: invoke_agent > execute_event_loop_cycle > chat, execute_tool."""
    trace = _trace(run, "strands.telemetry.tracer", "session.id")
    system: Attributes = {"gen_ai.system": "strands-agents"}
    invoke: Attributes = {"gen_ai.operation.name": "invoke_agent", **system}
    invoke["gen_ai.agent.name"] = run.agent
    root = trace.span(f"invoke_agent {run.agent}", None, invoke, status="ok", seconds=0)
    for response in conversation(run, STRANDS):
        name = "execute_event_loop_cycle"
        around: Attributes = {"gen_ai.operation.name": name, **system}
        cycle = trace.span(name, root, around, status="ok", seconds=0)
        events: list[Event] = [
            (f"gen_ai.{message['role']}.message", {"content": json.dumps(message["content"])})
            for message in response.messages
        ]
        events.append(("gen_ai.choice", {"message": json.dumps(response.message["content"])}))
        chat: Attributes = {"gen_ai.operation.name": "chat", **system, **_genai_usage(response)}
        trace.span("chat", cycle, chat, events, status="ok", seconds=response.step.seconds)
        tool_spans(trace, cycle, response.asked, _strands_tool, "ok")
    return trace


# OpenAI's own messages, as several dialects carry them ----------------------------------------


def _openai_said(step: Step, asked: Sequence[Asked]) -> Message:
    calls = [
        {"id": each.id, "function": {"name": each.name, "arguments": json.dumps(each.arguments)}}
        for each in asked
    ]
    return {"role": "assistant", "content": step.text, "tool_calls": calls}


OPENAI = Wording(
    lambda role, text: {"role": role, "content": text},
    _openai_said,
    lambda asked: {"role": "tool", "tool_call_id": asked.id, "content": asked.outcome},
)


# OpenInference ---------------------------------------------------------------------------------


def flat_messages(prefix: str, messages: Sequence[Message]) -> Attributes:
    """Give OpenAI's messages as the numbered attributes that OpenInference makes of them."""
    flat: Attributes = {}
    for index, message in enumerate(messages):
        path = f"{prefix}.{index}.message"
        flat |= {f"{path}.{key}": message[key] for key in message if key != "tool_calls"}
        for number, call in enumerate(message.get("tool_calls", ())):
            inner = f"{path}.tool_calls.{number}.tool_call"
            function = {
                f"{inner}.function.{key}": call["function"][key] for key in call["function"]
            }
            flat |= {f"{inner}.id": call["id"], **function}
    return flat


def _openinference_tool(asked: Asked) -> tuple[str, Attributes, list[Event]]:
    properties = {key: {"type": "string"} for key in asked.arguments}
    attributes: Attributes = {
        "input.value": json.dumps(asked.arguments),
        "input.mime_type": "application/json",
        "tool.name": asked.name,
        # The parameters are the schema; the arguments are the input.
        "tool.parameters": json.dumps({"type": "object", "properties": properties}),
        "output.value": asked.call.result,
        "output.mime_type": "text/plain",
        "openinference.span.kind": "TOOL",
    }
    return asked.name, attributes, []


def openinference(run: Run) -> Trace:
    """Write OpenInference's decorators around the OpenAI SDK: AGENT > LLM, TOOL."""
    trace = _trace(run, "openinference.instrumentation.openai", "session.id")
    agent: Attributes = {"openinference.span.kind": "AGENT", "agent.name": run.agent}
    agent["input.value"] = run.task
    root = trace.span(run.agent, None, agent, status="ok", seconds=0, scope=run.service)
    for response in conversation(run, OPENAI):
        tokens = (response.input_tokens, response.output_tokens)
        model: Attributes = {
            "llm.system": "openai",
            "llm.model_name": MODEL,
            **flat_messages("llm.input_messages", response.messages),
            **flat_messages("llm.output_messages", [response.message]),
            "llm.token_count.prompt": tokens[0],
            "llm.token_count.completion": tokens[1],
            "llm.token_count.total": sum(tokens),
            "llm.finish_reason": response.finish_reason,
            "openinference.span.kind": "LLM",
        }
        seconds = response.step.seconds
        trace.span("ChatCompletion", root, model, status="ok", seconds=seconds)
        tool_spans(trace, root, response.asked, _openinference_tool, "ok")
    return trace


# OpenLLMetry -----------------------------------------------------------------------------------


def traceloop(run: Run) -> Trace:
    """Write OpenLLMetry with Traceloop's decorators: workflow > agent > openai.chat, tool."""
    trace = _trace(run, "traceloop.tracer", "traceloop.association.properties.session_id")
    workflow: Attributes = {"traceloop.workflow.name": run.service}
    agent: Attributes = {**workflow, "gen_ai.agent.name": run.agent}

    def tool(asked: Asked) -> tuple[str, Attributes, list[Event]]:
        attributes: Attributes = {
            **agent,
            **_entity("tool", asked.name),
            "gen_ai.tool.name": asked.name,
            "traceloop.entity.input": json.dumps({"args": [], "kwargs": asked.arguments}),
        }
        if asked.call.error:
            return f"{asked.name}.tool", attributes, [exception(*asked.error)]
        outcome = {"traceloop.entity.output": json.dumps(asked.call.result)}
        return f"{asked.name}.tool", {**attributes, **outcome}, []

    around = {**workflow, **_entity("workflow", run.service)}
    root = trace.span(f"{run.service}.workflow", None, around, seconds=0)
    inside = {**agent, **_entity("agent", run.agent)}
    parent = trace.span(f"{run.agent}.agent", root, inside, seconds=0)
    for response in conversation(run, GENAI):
        trace.span(
            "openai.chat",
            parent,
            {**agent, **_genai_chat(response)},
            kind=CLIENT,
            seconds=response.step.seconds,
            scope="opentelemetry.instrumentation.openai.v1",
        )
        tool_spans(trace, parent, response.asked, tool)
    return trace


def _entity(kind: str, name: str) -> Attributes:
    return {"traceloop.span.kind": kind, "traceloop.entity.name": name}


# Langfuse --------------------------------------------------------------------------------------


def langfuse(trace: Trace, parent: str | None, run: Run, start_s: float) -> None:
    """Add one agent's observations to a trace: agent > generation, tool.

    Agents that work side by side are added one after the other, each from its own `start_s`.
    """
    whole = _observation("agent", {"args": [run.task], "kwargs": {}}, run.steps[-1].text)
    agent = trace.span(run.agent, parent, whole, seconds=0, start_s=start_s)
    for response in conversation(run, OPENAI):
        given: Message = {"args": [response.messages], "kwargs": {}}
        usage = {"input": response.input_tokens, "output": response.output_tokens}
        model = {
            **_observation("generation", given, json.dumps(response.message)),
            "langfuse.observation.model.name": MODEL,
            "langfuse.observation.usage_details": json.dumps(usage),
        }
        trace.span("llm", agent, model, seconds=response.step.seconds, start_s=start_s)
        start_s += response.step.seconds
        for asked in response.asked:
            given = {"args": [], "kwargs": asked.arguments}
            tool = _observation("tool", given, asked.call.result)
            trace.span(asked.name, agent, tool, seconds=asked.call.seconds, start_s=start_s)
            start_s += asked.call.seconds


def _observation(kind: str, given: Message, output: str) -> Attributes:
    return {
        "langfuse.observation.type": kind,
        "langfuse.observation.input": json.dumps(given),
        "langfuse.observation.output": output,
    }


# LangSmith -------------------------------------------------------------------------------------


def _langchain_said(step: Step, asked: Sequence[Asked]) -> Message:
    calls = [{"name": each.name, "args": each.arguments, "id": each.id} for each in asked]
    return {"type": "ai", "content": step.text, "tool_calls": calls}


def _langchain_answered(asked: Asked) -> Message:
    message = {"type": "tool", "content": asked.outcome, "name": asked.name}
    return {**message, "tool_call_id": asked.id, "status": "success"}


LANGCHAIN = Wording(
    lambda role, text: {"type": "human" if role == "user" else role, "content": text},
    _langchain_said,
    _langchain_answered,
)


def _constructor(message: Message) -> Message:
    path = ["langchain", "schema", "messages", LANGCHAIN_CLASSES[message["type"]]]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": message}


def langsmith(run: Run) -> Trace:
    """Write LangGraph traced by LangSmith: chain > (chain model > llm), (chain tools > tool).

    Parallel calls are one `tools` chain each. The exporter sends parents before children.
    """
    trace = _trace(run, "langsmith")
    last = {"messages": [{"type": "ai", "content": run.steps[-1].text}]}
    whole = _langsmith(run, "chain", "chain", {"messages": [["user", run.task]]}, last)
    root = trace.span(run.agent, None, whole, status="ok", seconds=0)
    for response in conversation(run, LANGCHAIN):
        update = {"output": [{"update": {"messages": [response.message]}}]}
        chain = _langsmith(run, "chain", "chain", {"messages": response.messages}, update)
        chain["langsmith.metadata.langgraph_node"] = "model"
        node = trace.span("model", root, chain, status="ok", seconds=0)
        prompt = {"messages": [[_constructor(message) for message in response.messages]]}
        generation = {"text": response.step.text, "message": _constructor(response.message)}
        model = {
            **_langsmith(run, "llm", "chat", prompt, {"generations": [[generation]]}),
            "gen_ai.request.model": MODEL,
            **_genai_usage(response),
        }
        trace.span("ChatOpenAI", node, model, status="ok", seconds=response.step.seconds)
        start_s = trace.now_s
        for asked in response.asked:
            _langsmith_tool(trace, root, run, asked, start_s)
    return trace


def _langsmith_tool(trace: Trace, root: str, run: Run, asked: Asked, start_s: float) -> None:
    call = {"name": asked.name, "args": asked.arguments, "id": asked.id}
    message = _langchain_answered(asked)
    chain = _langsmith(run, "chain", "chain", {"input": [call]}, {"messages": [message]})
    chain["langsmith.metadata.langgraph_node"] = "tools"
    node = trace.span("tools", root, chain, status="ok", seconds=0, start_s=start_s)
    tool = {
        **_langsmith(run, "tool", "execute_tool", asked.arguments, {"output": message}),
        "gen_ai.tool.name": asked.name,
        "gen_ai.tool.call.id": asked.id,
    }
    seconds = asked.call.seconds
    trace.span(asked.name, node, tool, status="ok", seconds=seconds, start_s=start_s)


def _langsmith(run: Run, kind: str, operation: str, given: object, told: object) -> Attributes:
    return {
        "langsmith.span.kind": kind,
        "gen_ai.operation.name": operation,
        "gen_ai.system": "langchain",
        "langsmith.metadata.lc_agent_name": run.agent,
        "langsmith.metadata.session_id": run.session,
        "gen_ai.prompt": compact(given),
        "gen_ai.completion": compact(told),
    }


# Vercel AI SDK ---------------------------------------------------------------------------------


def _vercel_call(asked: Asked) -> Message:
    return {"toolCallId": asked.id, "toolName": asked.name, "input": asked.arguments}


def _vercel_said(step: Step, asked: Sequence[Asked]) -> Message:
    calls = [{"type": "tool-call", **_vercel_call(each)} for each in asked]
    return {"role": "assistant", "content": [{"type": "text", "text": step.text}, *calls]}


def _vercel_answered(asked: Asked) -> Message:
    output = {"type": "text", "value": asked.outcome}
    part = {"type": "tool-result", "toolCallId": asked.id, "toolName": asked.name}
    return {"role": "tool", "content": [{**part, "output": output}]}


def _vercel_plain(role: str, text: str) -> Message:
    parts = [{"type": "text", "text": text}]
    return {"role": role, "content": text if role == "system" else parts}


VERCEL = Wording(_vercel_plain, _vercel_said, _vercel_answered)


def vercel(run: Run) -> Trace:
    """Write the Vercel AI SDK: ai.generateText > doGenerate > ai.toolCall.

    The outer span repeats the text of the last response and the sum of the tokens.
    """
    trace = _trace(run, "ai", "ai.settings.context.sessionId")

    def operation(name: str) -> Attributes:
        return {
            "operation.name": f"{name} {run.agent}",
            "ai.operationId": name,
            "ai.telemetry.functionId": run.agent,
        }

    def tool(asked: Asked) -> tuple[str, Attributes, list[Event]]:
        attributes: Attributes = {
            **operation("ai.toolCall"),
            "ai.toolCall.name": asked.name,
            "ai.toolCall.id": asked.id,
            "ai.toolCall.args": compact(asked.arguments),
            "ai.toolCall.result": compact(asked.call.result),
        }
        return "ai.toolCall", attributes, []

    responses = list(conversation(run, VERCEL))
    whole = {
        **operation("ai.generateText"),
        "ai.response.text": run.steps[-1].text,
        "ai.usage.inputTokens": sum(response.input_tokens for response in responses),
        "ai.usage.outputTokens": sum(response.output_tokens for response in responses),
    }
    root = trace.span("ai.generateText", None, whole, kind=INTERNAL, seconds=0)
    for response in responses:
        one = operation("ai.generateText.doGenerate") | _vercel_model(response)
        name, seconds = "ai.generateText.doGenerate", response.step.seconds
        tool_spans(trace, trace.span(name, root, one, seconds=seconds), response.asked, tool)
    return trace


def _vercel_model(response: Response) -> Attributes:
    calls: Attributes = {"ai.response.toolCalls": compact([*map(_vercel_call, response.asked)])}
    return {
        "ai.model.id": MODEL,
        "ai.prompt.messages": compact(response.messages),
        "gen_ai.request.model": MODEL,
        "ai.response.finishReason": "tool-calls" if response.asked else "stop",
        "ai.response.text": response.step.text,
        **(calls if response.asked else {}),
        "ai.usage.inputTokens": response.input_tokens,
        "ai.usage.outputTokens": response.output_tokens,
        **_genai_usage(response),
    }
