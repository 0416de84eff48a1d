"""The spans of one run, looping or healthy, that each tracing system and agent exports."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import SpansRead
from tests.framework_traces.run import STEPS
from tests.otlp import tool_call

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
        return tool_call(
            span.name, json.dumps(span.arguments), result=span.result, call_id=span.call_id
        ) | {"gen_ai.conversation.id": SESSION}
    if span.kind == "model":
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": MODEL,
            "gen_ai.input.messages": json.dumps(span.given),
            "gen_ai.output.messages": json.dumps([span.answer]),
            "gen_ai.conversation.id": SESSION,
        }
    return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": AGENT}


def models_of(run: Sequence[Span]) -> list[Span]:
    """Return the responses of a run."""
    return [span for span in run if span.kind == "model"]


def anthropic_messages(messages: list[Fields]) -> Any:
    """Return messages as Anthropic's API has them."""
    out = []
    for m in messages:
        if m["role"] == "tool":
            out.append(
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": m["tool_call_id"],
                            "content": m["content"],
                            **({"is_error": True} if m["content"].startswith("Error") else {}),
                        }
                    ],
                }
            )
        elif m["role"] == "assistant":
            out.append(
                {
                    "role": "assistant",
                    "content": (
                        [{"type": "text", "text": m["content"]}] if m.get("content") else []
                    )
                    + [
                        {
                            "type": "tool_use",
                            "id": c["id"],
                            "name": c["function"]["name"],
                            "input": json.loads(c["function"]["arguments"]),
                        }
                        for c in m.get("tool_calls", ())
                    ],
                }
            )
        else:
            out.append({"role": "user", "content": m["content"]})
    return out


def silent_analysis(read: SpansRead) -> Analysis:
    """Return the analysis of the healthy run, whose six calls are all read and fire no rule."""
    analysis = analyse(read.spans)
    assert (read.skipped, analysis.findings) == ((), ())
    tools = analysis.turns.filter(kind="tool")
    assert tools.height == 6
    assert tools["outcome"].is_not_null().all()
    return analysis
