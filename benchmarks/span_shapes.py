"""Synthetic spans from a seed, as OTLP/protobuf: agents that call tools, in three shapes.

They differ in what a model's span says of the conversation. *Short* has the last message, *history*
has all of it as JSON (GenAI), and *flat* has all of it as numbered keys (OpenInference).
"""

import base64
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from benchmarks.generate import EPOCH_S, TOOLS, WORDS
from looptrace import semconv
from looptrace.rules.vocabulary import NS_PER_S

SHAPES = ("short", "history", "flat")

# A session is an agent's span, and a model's and a tool's for each of so many calls.
CALLS = 16
LOOP_SHARE = 0.1  # sessions whose calls and results are all the same from the middle on
FAILURE_SHARE = 0.1
# What exporters send at once by default.
BODY_SPANS = 512
FILES = 8
SEED = 1
SYSTEM_WORDS = 120
RESULT_WORDS = 40
INPUT_TOKENS, OUTPUT_TOKENS = 900, 40
ERROR = 2

_IDS = {"traceId", "spanId", "parentSpanId"}

Attributes: TypeAlias = dict[str, str | int]


def requests(shape: str, spans: int, seed: int, calls: int = CALLS) -> Iterator[bytes]:
    """Return requests of a session each, of about so many spans in all; joined they are one."""
    drawn = random.Random(seed)
    for number in range(max(1, spans // (1 + 2 * calls))):
        yield _Session(shape, number, drawn, calls).request().SerializeToString()


def bodies(shape: str, spans: int, seed: int, calls: int = CALLS) -> Iterator[bytes]:
    """Return the same as requests of several sessions each, of the size that exporters send."""
    sessions = max(1, BODY_SPANS // (1 + 2 * calls))
    every = requests(shape, spans, seed, calls)
    while body := b"".join(islice(every, sessions)):
        yield body


def write_files(folder: Path, shape: str, spans: int, *, as_json: bool = False) -> list[str]:
    """Write files as the Collector's file exporter does, unless they are there; returns them.

    They hold a message after its length, or a line of JSON, for each request.
    """
    if not folder.exists():
        folder.mkdir(parents=True)
        paths = [folder / f"{n}.{'jsonl' if as_json else 'pb'}" for n in range(FILES)]
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("wb")) for path in paths]
            for body, file in zip(bodies(shape, spans, SEED), cycle(files), strict=False):
                file.write(_json_line(body) if as_json else len(body).to_bytes(4, "big") + body)
    return [str(path) for path in sorted(folder.iterdir()) if path.stat().st_size]


def _json_line(body: bytes) -> bytes:
    """Write a message as OTLP/JSON, whose ids are hexadecimal."""
    message = MessageToDict(TracesData.FromString(body), use_integers_for_enums=True)
    for resource in message["resourceSpans"]:
        for span in resource["scopeSpans"][0]["spans"]:
            for name in _IDS & span.keys():
                span[name] = base64.b64decode(span[name]).hex()
    return json.dumps(message).encode() + b"\n"


class _Session:
    """One trace while it is written."""

    def __init__(self, shape: str, number: int, drawn: random.Random, calls: int) -> None:
        self.shape, self.number, self.drawn, self.calls = shape, number, drawn, calls
        self.ids = 0
        self.now_ns = (EPOCH_S + number) * NS_PER_S
        self.messages: list[dict[str, Any]] = []
        self.data = TracesData()
        resource = self.data.resource_spans.add()
        resource.resource.attributes.append(_pair("service.name", "agents"))
        self.scope = resource.scope_spans.add()

    def request(self) -> TracesData:
        """Write the spans of the session."""
        began, loops = self.now_ns, self.drawn.random() < LOOP_SHARE
        self.messages = [
            {"role": "system", "content": self._words(SYSTEM_WORDS)},
            {"role": "user", "content": self._words(RESULT_WORDS)},
        ]
        for call in range(self.calls):
            if call == 0 or not loops or call < self.calls // 2:
                name = self.drawn.choice(TOOLS)
                arguments = {"path": self._words(2), "lines": 40}
                result = f"{self.drawn.randrange(10**9)} {self._words(RESULT_WORDS)}"
                failed = self.drawn.random() < FAILURE_SHARE
            self._round(f"call_{self.number}_{call}", name, arguments, result, failed=failed)
        self._span("invoke_agent", "agent", {"agent": "coder"}, began, root=True)
        return self.data

    def _round(
        self, call_id: str, name: str, arguments: dict[str, Any], result: str, *, failed: bool
    ) -> None:
        """Write a model's span that asks for a call, and the tool's."""
        asked = {"id": call_id, "name": name, "arguments": arguments}
        answer = {"role": "assistant", "content": self._words(10), "call": asked}
        given = self.messages[-1:] if self.shape == "short" else self.messages
        began = self._later(2)
        self._span("chat", "model", {"given": given, "answer": [answer]}, began)
        began = self._later(1)
        self._span(f"execute_tool {name}", "tool", asked | {"result": result}, began, failed=failed)
        self.messages += [answer, {"role": "tool", "content": result, "id": call_id}]

    def _later(self, seconds: float) -> int:
        began = self.now_ns
        self.now_ns += int(seconds * NS_PER_S)
        return began

    def _words(self, count: int) -> str:
        return " ".join(self.drawn.choices(WORDS, k=count))

    def _span(
        self,
        name: str,
        kind: str,
        said: dict[str, Any],
        began: int,
        *,
        root: bool = False,
        failed: bool = False,
    ) -> None:
        span = self.scope.spans.add()
        self.ids += 1
        root_id = (1).to_bytes(8, "big")
        span.trace_id = (self.number + 1).to_bytes(16, "big")
        span.span_id = root_id if root else (self.ids + 1).to_bytes(8, "big")
        span.parent_span_id = b"" if root else root_id
        span.name, span.start_time_unix_nano, span.end_time_unix_nano = name, began, self.now_ns
        if failed:
            span.status.code = ERROR
            span.status.message = f"FileNotFoundError: no file {said['result'].split()[-1]}"
        written = _FLAT[kind](said) if self.shape == "flat" else _GEN_AI[kind](said)
        written |= {_SESSIONS[self.shape == "flat"]: f"session-{self.number}"}
        span.attributes.extend(_pair(key, value) for key, value in written.items())


def _pair(key: str, value: str | int) -> KeyValue:
    if isinstance(value, str):
        return KeyValue(key=key, value=AnyValue(string_value=value))
    return KeyValue(key=key, value=AnyValue(int_value=value))


_SESSIONS = (semconv.GEN_AI_CONVERSATION_ID, semconv.SESSION_ID)


def _gen_ai_agent(said: dict[str, Any]) -> Attributes:
    return {semconv.GEN_AI_OPERATION_NAME: "invoke_agent", semconv.GEN_AI_AGENT_NAME: said["agent"]}


def _gen_ai_tool(said: dict[str, Any]) -> Attributes:
    return {
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
        semconv.GEN_AI_TOOL_NAME: said["name"],
        semconv.GEN_AI_TOOL_CALL_ID: said["id"],
        semconv.GEN_AI_TOOL_CALL_ARGUMENTS: json.dumps(said["arguments"]),
        semconv.GEN_AI_TOOL_CALL_RESULT: said["result"],
    }


def _gen_ai_model(said: dict[str, Any]) -> Attributes:
    return {
        semconv.GEN_AI_OPERATION_NAME: "chat",
        semconv.GEN_AI_REQUEST_MODEL: "model-large",
        semconv.GEN_AI_INPUT_MESSAGES: json.dumps([_gen_ai_message(m) for m in said["given"]]),
        semconv.GEN_AI_OUTPUT_MESSAGES: json.dumps([_gen_ai_message(m) for m in said["answer"]]),
        semconv.GEN_AI_USAGE_INPUT_TOKENS: INPUT_TOKENS,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: OUTPUT_TOKENS,
    }


def _gen_ai_message(message: dict[str, Any]) -> dict[str, Any]:
    part = {"type": "text", "content": message["content"]}
    if message["role"] == "tool":
        part = {"type": "tool_call_response", "id": message["id"], "response": message["content"]}
    calls = [{"type": "tool_call", **message["call"]}] if "call" in message else []
    return {"role": message["role"], "parts": [part, *calls]}


def _flat_agent(said: dict[str, Any]) -> Attributes:
    return {"openinference.span.kind": "AGENT", "agent.name": said["agent"]}


def _flat_tool(said: dict[str, Any]) -> Attributes:
    return {
        "openinference.span.kind": "TOOL",
        "tool.name": said["name"],
        "tool_call.id": said["id"],
        "input.value": json.dumps(said["arguments"]),
        "output.value": said["result"],
    }


def _flat_model(said: dict[str, Any]) -> Attributes:
    return {
        "openinference.span.kind": "LLM",
        "llm.model_name": "model-large",
        **_flat_messages("llm.input_messages", said["given"]),
        **_flat_messages("llm.output_messages", said["answer"]),
        "llm.token_count.prompt": INPUT_TOKENS,
        "llm.token_count.completion": OUTPUT_TOKENS,
    }


def _flat_messages(prefix: str, messages: list[dict[str, Any]]) -> Attributes:
    written: Attributes = {}
    for place, message in enumerate(messages):
        key = f"{prefix}.{place}.message"
        written |= {f"{key}.role": message["role"], f"{key}.content": message["content"]}
        if "id" in message:
            written[f"{key}.tool_call_id"] = message["id"]
        if call := message.get("call"):
            below = f"{key}.tool_calls.0.tool_call"
            written |= {f"{below}.id": call["id"], f"{below}.function.name": call["name"]}
            written[f"{below}.function.arguments"] = json.dumps(call["arguments"])
    return written


_GEN_AI = {"agent": _gen_ai_agent, "tool": _gen_ai_tool, "model": _gen_ai_model}
_FLAT = {"agent": _flat_agent, "tool": _flat_tool, "model": _flat_model}
