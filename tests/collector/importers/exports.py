"""One run in the form of each tracing system and agent: what its export of that run would hold.

The fields are those that the systems document or their clients write; the run is our own.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.framework_traces.run import STEPS

Fields = dict[str, Any]

START = datetime(2026, 4, 7, 8, tzinfo=UTC)
SESSION, MODEL, AGENT = "depot-4", "gpt-4.1-mini", "packer"
TRACE = "5b8aa5a2d2c872e8321cf37308d69df2"
US_PER_S, NS_PER_S = 1_000_000, 1_000_000_000


@dataclass
class Span:
    """A span of the run: an agent, its responses, and the calls that they ask for."""

    number: int
    kind: str
    name: str
    start_s: float
    end_s: float
    given: list[Fields] = field(default_factory=list)
    answer: Fields = field(default_factory=dict)
    call_id: str = ""
    arguments: Fields = field(default_factory=dict)
    result: str = ""
    error: str = ""

    @property
    def id(self) -> str:
        """Return the id in hex."""
        return f"{self.number:016x}"

    @property
    def parent(self) -> str | None:
        """Return the id of the parent, the agent's span."""
        return None if self.kind == "agent" else f"{1:016x}"

    def at(self, s: float) -> str:
        """Return a second of the run as a time."""
        return (START + timedelta(seconds=s)).isoformat().replace("+00:00", "Z")

    @property
    def start(self) -> str:
        """Return the time of the start."""
        return self.at(self.start_s)

    @property
    def end(self) -> str:
        """Return the time of the end."""
        return self.at(self.end_s)

    def uuid(self, number: int | None = None) -> str:
        """Return an id as a UUID."""
        return str(UUID(int=(number or self.number) << 64 | 7))

    def ns(self, s: float) -> int:
        """Return a second of the run in nanoseconds since 1970."""
        return int(START.timestamp()) * NS_PER_S + round(s * NS_PER_S)


def spans(end: str) -> list[Span]:
    """Return the spans of the looping run, or of the healthy one; the agent's comes last."""
    made: list[Span] = []
    messages: list[Fields] = [{"role": "user", "content": "Get order A17 ready."}]
    now, number = 0.0, 2
    for step in STEPS[end]:
        calls = [(f"call_{number + i}", call) for i, call in enumerate(step.calls, 1)]
        answer: Fields = {"role": "assistant", "content": step.text}
        if calls:
            answer["tool_calls"] = [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                }
                for call_id, call in calls
            ]
        made.append(Span(number, "model", f"chat {MODEL}", now, now + 2, list(messages), answer))
        now, number, messages = now + 2, number + 1, [*messages, answer]
        for call_id, call in calls:
            result = call.result or f"Error: {call.error}"
            made.append(
                Span(
                    number, "tool", call.name, now, now + 1,
                    call_id=call_id, arguments=dict(call.arguments), result=call.result,
                    error=call.error,
                )
            )  # fmt: skip
            messages.append({"role": "tool", "tool_call_id": call_id, "content": result})
            now, number = now + 1, number + 1
    return [*made, Span(1, "agent", AGENT, 0.0, now)]


def genai(span: Span) -> Fields:
    """Return the attributes of a span in OpenTelemetry's convention."""
    if span.kind == "tool":
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": span.name,
            "gen_ai.tool.call.id": span.call_id,
            "gen_ai.tool.call.arguments": json.dumps(span.arguments),
            "gen_ai.tool.call.result": span.result,
            "gen_ai.conversation.id": SESSION,
        }
    if span.kind == "model":
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": MODEL,
            "gen_ai.input.messages": json.dumps(span.given),
            "gen_ai.output.messages": json.dumps([span.answer]),
            "gen_ai.conversation.id": SESSION,
        }
    return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": AGENT}


def _otlp_span(span: Span, encode: Callable[[str], str]) -> Fields:
    return {
        "traceId": encode(TRACE),
        "spanId": encode(span.id),
        **({"parentSpanId": encode(span.parent)} if span.parent else {}),
        "name": span.name,
        "kind": "SPAN_KIND_INTERNAL",
        "startTimeUnixNano": str(span.ns(span.start_s)),
        "endTimeUnixNano": str(span.ns(span.end_s)),
        "attributes": [
            {"key": key, "value": {"stringValue": value}} for key, value in genai(span).items()
        ],
        "status": {"code": "STATUS_CODE_ERROR", "message": span.error} if span.error else {},
    }


def _base64(text: str) -> str:
    return b64encode(bytes.fromhex(text)).decode()


def tempo(run: Sequence[Span]) -> Fields:
    """Return `GET /api/traces/ID`: batches, with base64 ids."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "depot"}}]}
    scope = {"scope": {"name": "agent"}, "spans": [_otlp_span(span, _base64) for span in run]}
    return {"batches": [{"resource": resource, "scopeSpans": [scope]}]}


def tempo_2(run: Sequence[Span]) -> Fields:
    """Return `GET /api/v2/traces/ID`."""
    return {"trace": {"resourceSpans": tempo(run)["batches"]}}


def jaeger_3(run: Sequence[Span]) -> Fields:
    """Return `GET /api/v3/traces/ID` of Jaeger: OTLP in an envelope, with hex ids."""
    scope = {"scope": {"name": "agent"}, "spans": [_otlp_span(span, str) for span in run]}
    return {"result": {"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}}


def jaeger(run: Sequence[Span]) -> Fields:
    """Return the download of Jaeger's page, and `GET /api/traces/ID`."""
    return {
        "data": [
            {
                "traceID": TRACE,
                "processes": {"p1": {"serviceName": "depot", "tags": []}},
                "spans": [_jaeger_span(span) for span in run],
            }
        ],
        "total": 0,
        "errors": None,
    }


def _jaeger_span(span: Span) -> Fields:
    tags = [{"key": key, "type": "string", "value": value} for key, value in genai(span).items()]
    if span.error:
        tags.append({"key": "error", "type": "bool", "value": True})
        tags.append({"key": "otel.status_code", "type": "string", "value": "ERROR"})
        tags.append({"key": "otel.status_description", "type": "string", "value": span.error})
    reference = {"refType": "CHILD_OF", "traceID": TRACE, "spanID": span.parent}
    return {
        "traceID": TRACE,
        "spanID": span.id,
        "operationName": span.name,
        "references": [reference] if span.parent else [],
        "startTime": span.ns(span.start_s) // 1000,
        "duration": int((span.end_s - span.start_s) * US_PER_S),
        "tags": tags,
        "logs": [],
        "processID": "p1",
        "warnings": None,
    }


def zipkin(run: Sequence[Span]) -> list[list[Fields]]:
    """Return `GET /api/v2/traces`: an array of traces."""
    return [
        [
            {
                "traceId": TRACE,
                "id": span.id,
                **({"parentId": span.parent} if span.parent else {}),
                "name": span.name,
                "timestamp": span.ns(span.start_s) // 1000,
                "duration": int((span.end_s - span.start_s) * US_PER_S),
                "localEndpoint": {"serviceName": "depot"},
                "tags": genai(span) | ({"error": span.error} if span.error else {}),
            }
            for span in run
        ]
    ]


def langfuse(run: Sequence[Span]) -> Fields:
    """Return `GET /api/public/traces/ID`."""
    types = {"agent": "AGENT", "model": "GENERATION", "tool": "TOOL"}
    return {
        "id": TRACE,
        "name": AGENT,
        "sessionId": SESSION,
        "observations": [
            {
                "id": span.id,
                "traceId": TRACE,
                "type": types[span.kind],
                "name": span.name,
                "startTime": span.start,
                "endTime": span.end,
                "parentObservationId": span.parent,
                "model": MODEL if span.kind == "model" else None,
                "input": span.given or span.arguments,
                "output": span.answer or span.result or None,
                "usageDetails": {"input": 120, "output": 9} if span.kind == "model" else {},
                "level": "ERROR" if span.error else "DEFAULT",
                "statusMessage": span.error or None,
            }
            for span in run
        ],
    }


def langfuse_page(run: Sequence[Span]) -> Fields:
    """Return the download of a trace from Langfuse's page."""
    trace = langfuse(run)
    observations = trace.pop("observations")
    return {"trace": trace, "observations": observations}


def langfuse_tree(run: Sequence[Span]) -> Fields:
    """Return a trace whose observations are within each other."""
    trace = langfuse(run)
    *children, root = trace["observations"]
    for child in children:
        del child["parentObservationId"], child["traceId"]
    return trace | {"observations": [root | {"children": children}]}


def langfuse_otel(run: Sequence[Span]) -> Fields:
    """Return a trace that came over OTLP: what each span was is in its metadata."""
    trace = langfuse(run)
    for observation, span in zip(trace["observations"], run, strict=True):
        kept = {key: value for key, value in genai(span).items() if "messages" not in key}
        scope = {"name": "agent", "attributes": {}}
        observation |= {"type": "SPAN", "metadata": {"attributes": kept, "scope": scope}}
        if span.kind == "tool":  # Their content is in the metadata only.
            observation |= {"name": "step", "input": None, "output": None}
    return trace


def langfuse_export(run: Sequence[Span]) -> list[Fields]:
    """Return lines of an export to a blob storage."""
    names = {
        "traceId": "trace_id", "startTime": "start_time", "endTime": "end_time",
        "parentObservationId": "parent_observation_id", "usageDetails": "usage_details",
        "statusMessage": "status_message",
    }  # fmt: skip
    return [
        {names.get(name, name): value for name, value in each.items()} | {"session_id": SESSION}
        for each in langfuse(run)["observations"]
    ]


def _openinference(span: Span) -> Fields:
    """Return the attributes of a span in OpenInference, with messages in lists."""
    if span.kind == "tool":
        return {
            "session.id": SESSION,
            "tool.name": span.name,
            "input.value": json.dumps(span.arguments),
            "output.value": span.result or None,
        }
    if span.kind == "agent":
        return {"session.id": SESSION}
    return {
        "session.id": SESSION,
        "llm.model_name": MODEL,
        "llm.input_messages": [_openinference_message(each) for each in span.given],
        "llm.output_messages": [_openinference_message(span.answer)],
    }


def _openinference_message(message: Fields) -> Fields:
    calls = [
        {
            "tool_call.id": call["id"],
            "tool_call.function.name": call["function"]["name"],
            "tool_call.function.arguments": call["function"]["arguments"],
        }
        for call in message.get("tool_calls", ())
    ]
    return {
        "message.role": message["role"],
        "message.content": message["content"],
        **({"message.tool_calls": calls} if calls else {}),
        **({"message.tool_call_id": message["tool_call_id"]} if "tool_call_id" in message else {}),
    }


_OPENINFERENCE = {"agent": "AGENT", "model": "LLM", "tool": "TOOL"}


def phoenix(run: Sequence[Span]) -> Fields:
    """Return `GET /v1/projects/NAME/spans`."""
    return {
        "data": [
            {
                "name": span.name,
                "context": {"trace_id": TRACE, "span_id": span.id},
                "span_kind": _OPENINFERENCE[span.kind],
                "parent_id": span.parent,
                "start_time": span.start,
                "end_time": span.end,
                "status_code": "ERROR" if span.error else "OK",
                "status_message": span.error,
                "attributes": _openinference(span),
                "events": [],
            }
            for span in run
        ],
        "next_cursor": None,
    }


def phoenix_frame(run: Sequence[Span]) -> list[Fields]:
    """Return lines of a data frame of spans."""
    return [
        {
            **{
                name: value for name, value in each.items() if name not in ("context", "attributes")
            },
            **{f"context.{name}": value for name, value in each["context"].items()},
            **{f"attributes.{name}": value for name, value in each["attributes"].items()},
        }
        for each in phoenix(run)["data"]
    ]


def langsmith(run: Sequence[Span]) -> list[Fields]:
    """Return runs as the client writes them, a line each."""
    types = {"agent": "chain", "model": "llm", "tool": "tool"}
    return [
        {
            "id": span.uuid(),
            "trace_id": span.uuid(1),
            "parent_run_id": span.uuid(1) if span.parent else None,
            "name": span.name,
            "run_type": types[span.kind],
            "start_time": span.start,
            "end_time": span.end,
            "extra": {"metadata": {"thread_id": SESSION, "ls_model_name": MODEL}},
            "inputs": {"messages": span.given} if span.given else {"input": span.arguments},
            "outputs": {"generations": [[{"message": span.answer}]]}
            if span.answer
            else {"output": span.result},
            "error": span.error or None,
            "session_name": "depot",
        }
        for span in run
    ]


def langsmith_tree(run: Sequence[Span]) -> Fields:
    """Return `Client.read_run(ID, load_child_runs=True)`: the runs below a run are within it."""
    *children, root = langsmith(run)
    for child in children:  # As older clients write them.
        del child["trace_id"], child["parent_run_id"]
    # One run lies deeper than the others.
    children[0]["child_runs"] = [children.pop(1)]
    return root | {"child_runs": children}


def mlflow(run: Sequence[Span]) -> Fields:
    """Return `Trace.to_json()` of MLflow 3."""
    types = {"agent": "AGENT", "model": "CHAT_MODEL", "tool": "TOOL"}
    return {
        "info": {"trace_id": f"tr-{TRACE}", "trace_metadata": {"mlflow.trace.session": SESSION}},
        "data": {
            "spans": [
                {
                    "trace_id": _base64(TRACE),
                    "span_id": _base64(span.id),
                    "parent_span_id": _base64(span.parent) if span.parent else None,
                    "name": span.name,
                    "start_time_unix_nano": span.ns(span.start_s),
                    "end_time_unix_nano": span.ns(span.end_s),
                    "status": {
                        "code": f"STATUS_CODE_{'ERROR' if span.error else 'OK'}",
                        "message": span.error,
                    },
                    "attributes": {
                        name: json.dumps(value)
                        for name, value in {
                            "mlflow.spanType": types[span.kind],
                            "mlflow.spanInputs": {"model": MODEL, "messages": span.given}
                            if span.given
                            else span.arguments,
                            "mlflow.spanOutputs": {"choices": [{"message": span.answer}]}
                            if span.answer
                            else span.result,
                        }.items()
                    },
                    "events": [],
                }
                for span in run
            ]
        },
    }


def mlflow_2(run: Sequence[Span]) -> Fields:
    """Return the same of MLflow 2."""
    trace = mlflow(run)
    for span, made in zip(trace["data"]["spans"], run, strict=True):
        for name in ("trace_id", "span_id", "parent_span_id", "status"):
            del span[name]
        span |= {
            "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{made.id}"},
            "parent_id": f"0x{made.parent}" if made.parent else None,
            "start_time": span.pop("start_time_unix_nano"),
            "end_time": span.pop("end_time_unix_nano"),
            "status_code": "ERROR" if made.error else "OK",
            "status_message": made.error,
        }
    info = {"request_id": TRACE, "request_metadata": trace["info"]["trace_metadata"]}
    return {"info": info, "data": trace["data"]}


def braintrust(run: Sequence[Span]) -> Fields:
    """Return `POST /v1/project_logs/ID/fetch`."""
    types = {"agent": "task", "model": "llm", "tool": "tool"}
    return {
        "events": [
            {
                "id": span.uuid(),
                "span_id": span.uuid(),
                "root_span_id": span.uuid(1),
                "span_parents": [span.uuid(1)] if span.parent else None,
                "created": span.start,
                "span_attributes": {"name": span.name, "type": types[span.kind]},
                "input": span.given or span.arguments,
                "output": [{"message": span.answer}] if span.answer else span.result,
                "error": span.error or None,
                "metadata": {"model": MODEL, "session_id": SESSION},
                "metrics": {
                    "start": START.timestamp() + span.start_s,
                    "end": START.timestamp() + span.end_s,
                },
            }
            for span in run
        ],
        "cursor": None,
    }


def weave(run: Sequence[Span]) -> list[Fields]:
    """Return calls as the API streams them, a line each."""
    names = {"model": "openai.chat.completions.create"}
    return [
        {
            "id": span.uuid(),
            "trace_id": span.uuid(1),
            "parent_id": span.uuid(1) if span.parent else None,
            "project_id": "yard/depot",
            "op_name": f"weave:///yard/depot/op/{names.get(span.kind, span.name)}:v1",
            "started_at": span.start,
            "ended_at": span.end,
            "attributes": {} if span.kind == "model" else {"weave": {"kind": span.kind}},
            "inputs": {"model": MODEL, "messages": span.given} if span.given else span.arguments,
            "output": {"choices": [{"message": span.answer}]} if span.answer else span.result,
            "exception": span.error or None,
            "summary": {"usage": {MODEL: {"prompt_tokens": 120, "completion_tokens": 9}}},
            "thread_id": SESSION,
        }
        for span in run
    ]


def weave_otel(run: Sequence[Span]) -> list[Fields]:
    """Return calls that came over OTLP: the attributes are nested by their dots in a dump."""
    calls = weave(run)
    for call, span in zip(calls, run, strict=True):
        nested: Fields = {}
        for key, value in genai(span).items():
            *above, last = key.split(".")
            held = nested
            for part in above:
                held = held.setdefault(part, {})
            held[last] = value
        call |= {"op_name": "step", "attributes": {}, "inputs": {}, "output": None}
        call["otel_dump"] = {"name": span.name, "attributes": nested}
    return calls


def braintrust_otel(run: Sequence[Span]) -> Fields:
    """Return spans that came over OTLP: the attributes are in the metadata."""
    fetched = braintrust(run)
    for event, span in zip(fetched["events"], run, strict=True):
        event |= {"span_attributes": {"name": "step"}, "input": None, "output": None}
        event["metadata"] = genai(span)
    return fetched


# Agents ----------------------------------------------------------------------------------------


def _steps(run: Sequence[Span]) -> Iterator[tuple[Span, Span | None]]:
    tools = {span.call_id: span for span in run if span.kind == "tool"}
    for span in run:
        if span.kind == "model":
            calls = span.answer.get("tool_calls", ())
            yield span, tools[calls[0]["id"]] if calls else None


def _command(tool: Span) -> str:
    return " ".join([tool.name, *map(str, tool.arguments.values())])


def swe_agent(run: Sequence[Span]) -> Fields:
    """Return a `.traj` of SWE-agent."""
    return {
        "environment": "depot",
        "trajectory": [
            {
                "thought": model.answer["content"],
                "response": model.answer["content"],
                "action": _command(tool) if tool else "",
                "observation": (tool.result or f"Error: {tool.error}") if tool else "",
                "execution_time": 0.25,
                "state": {},
            }
            for model, tool in _steps(run)
        ],
        "history": [],
        "info": {"exit_status": "submitted"},
    }


def mini_swe_agent(run: Sequence[Span]) -> Fields:
    """Return a `.traj.json` of mini-swe-agent."""
    messages: list[Fields] = [{"role": "user", "content": "Get order A17 ready."}]
    for model, tool in _steps(run):
        text = model.answer["content"]
        if tool:
            text += f"\n\n```bash\n{_command(tool)}\n```"
        messages.append({"role": "assistant", "content": text})
        if tool:
            code, output = (1, f"Error: {tool.error}") if tool.error else (0, tool.result)
            said = f"<returncode>{code}</returncode>\n<output>\n{output}\n</output>"
            messages.append({"role": "user", "content": said})
    info = {"config": {"model": {"model_name": MODEL}}}
    return {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1"}


def openhands(run: Sequence[Span]) -> list[Fields]:
    """Return the events of a session before version 1."""
    events: list[Fields] = [
        {
            "id": 0, "timestamp": run[0].start, "source": "user", "action": "message",
            "args": {"content": "Get order A17 ready."}, "message": "Get order A17 ready.",
        }
    ]  # fmt: skip
    for model, tool in _steps(run):
        about = {"id": len(events), "timestamp": model.end, "source": "agent"}
        if tool is None:
            events.append({**about, "action": "finish", "args": {}, "message": "Done."})
            continue
        args = {"command": _command(tool), "thought": model.answer["content"]}
        events.append({**about, "action": "run", "args": args})
        events.append(
            {
                "id": len(events),
                "timestamp": tool.end,
                "source": "agent",
                "cause": about["id"],
                "observation": "run",
                "content": tool.result or f"Error: {tool.error}",
                "extras": {"metadata": {"exit_code": 1 if tool.error else 0}},
            }
        )
    return events


def openhands_1(run: Sequence[Span]) -> list[Fields]:
    """Return the events of a conversation since version 1."""
    events: list[Fields] = []
    for model, tool in _steps(run):
        if tool is None:
            continue
        about = {"timestamp": model.end, "tool_name": "terminal", "tool_call_id": tool.call_id}
        command = _command(tool)
        events.append(
            {
                **about,
                "id": model.uuid(),
                "kind": "ActionEvent",
                "source": "agent",
                "thought": [{"type": "text", "text": model.answer["content"]}],
                "action": {"kind": "ExecuteBashAction", "command": command},
                "llm_response_id": f"chatcmpl-{model.number}",
            }
        )
        seen = {
            "content": [{"type": "text", "text": tool.result or f"Error: {tool.error}"}],
            "exit_code": 1 if tool.error else 0,
        }
        events.append(
            {
                **about,
                "id": tool.uuid(),
                "timestamp": tool.end,
                "kind": "ObservationEvent",
                "source": "environment",
                "observation": seen,
            }
        )
    return events


def claude_stream(run: Sequence[Span]) -> list[Fields]:
    """Return `claude -p --output-format stream-json --verbose`."""
    about = {"session_id": SESSION, "parent_tool_use_id": None}
    lines: list[Fields] = [{"type": "system", "subtype": "init", **about}]
    for model, tool in _steps(run):
        content: list[Fields] = [{"type": "text", "text": model.answer["content"]}]
        if tool:
            content.append(
                {"type": "tool_use", "id": tool.call_id, "name": tool.name, "input": tool.arguments}
            )
        message = {"id": f"msg_{model.number}", "role": "assistant", "content": content}
        lines.append({"type": "assistant", "message": message, "uuid": model.uuid(), **about})
        if tool:
            result = {
                "type": "tool_result",
                "tool_use_id": tool.call_id,
                "content": tool.result or f"Error: {tool.error}",
                "is_error": bool(tool.error),
            }
            said = {"role": "user", "content": [result]}
            lines.append({"type": "user", "message": said, "uuid": tool.uuid(), **about})
    return [*lines, {"type": "result", "subtype": "success", **about}]


def codex_exec(run: Sequence[Span]) -> list[Fields]:
    """Return `codex exec --json`."""
    lines: list[Fields] = [{"type": "thread.started", "thread_id": SESSION}]
    for model, tool in _steps(run):
        item: Fields = {"id": f"item_{model.number}", "type": "agent_message"}
        lines.append({"type": "item.completed", "item": item | {"text": model.answer["content"]}})
        if tool:
            item = {
                "id": f"item_{tool.number}",
                "type": "command_execution",
                "command": _command(tool),
                "aggregated_output": tool.result or f"Error: {tool.error}",
                "exit_code": 1 if tool.error else 0,
                "status": "failed" if tool.error else "completed",
            }
            lines.append({"type": "item.completed", "item": item})
    usage = {"input_tokens": 120, "output_tokens": 9}
    return [*lines, {"type": "turn.completed", "usage": usage}]


def gemini_cli(run: Sequence[Span]) -> Fields:
    """Return a recorded chat of Gemini CLI."""
    messages: list[Fields] = []
    for model, tool in _steps(run):
        message = {
            "id": model.uuid(), "timestamp": model.end, "type": "gemini", "model": "gemini-2.5-pro",
            "content": model.answer["content"], "tokens": {"input": 120, "output": 9},
        }  # fmt: skip
        if tool:
            said = {"error": tool.error} if tool.error else {"output": tool.result}
            part = {"functionResponse": {"id": tool.call_id, "name": tool.name, "response": said}}
            message["toolCalls"] = [
                {
                    "id": tool.call_id,
                    "name": tool.name,
                    "args": tool.arguments,
                    "status": "error" if tool.error else "success",
                    "result": [part],
                    "timestamp": tool.end,
                }
            ]
        messages.append(message)
    return {"sessionId": SESSION, "startTime": run[0].start, "messages": messages}


EXPORTS: Mapping[str, Callable[[Sequence[Span]], Any]] = {
    write.__name__: write
    for write in (
        *(tempo, tempo_2, jaeger, jaeger_3, zipkin, langfuse, langfuse_page, langfuse_tree),
        *(langfuse_otel, weave_otel, braintrust_otel),
        *(
            langfuse_export,
            phoenix,
            phoenix_frame,
            langsmith,
            langsmith_tree,
            mlflow,
            mlflow_2,
            braintrust,
            weave,
            swe_agent,
        ),
        *(mini_swe_agent, openhands, openhands_1, claude_stream, codex_exec, gemini_cli),
    )
}
# Streams and exports that are a record a line.
IN_LINES = {
    *(
        "langfuse_export",
        "phoenix_frame",
        "langsmith",
        "weave",
        "weave_otel",
        "claude_stream",
        "codex_exec",
    ),
}


def text_of(name: str, end: str) -> bytes:
    """Return an export of a run as its system writes it."""
    export = EXPORTS[name](spans(end))
    if name in IN_LINES:
        return "".join(json.dumps(line) + "\n" for line in export).encode()
    return json.dumps(export, indent=2).encode()
