"""Rows from the messages between Kimi's command line and its screen, `wire.jsonl` of a session.

The fields are those of MoonshotAI/kimi-cli@026ae98 src/kimi_cli/wire/types.py and, of the lines
themselves, of MoonshotAI/kimi-cli@b88bc47 src/kimi_cli/wire/file.py. A session is named by its
folder alone, and here by its first moment. Kimi Code, which came after it, has the same under other
names (MoonshotAI/kimi-code@041ae7b packages/agent-core/src/agent/context/index.ts).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import canonical
from looptrace.collector.coding_agents.session_spans import REJECTED, Agent, Usage, Word, texts_of
from looptrace.collector.coding_agents.session_thread import Thread

PRODUCT = "kimi-cli"

_NS_PER_S, _NS_PER_MS = 1_000_000_000, 1_000_000
_PROMPTS = ("TurnBegin", "SteerInput")
_INPUTS = (
    ("input_other", "inputOther"),
    ("input_cache_read", "inputCacheRead"),
    ("input_cache_creation", "inputCacheCreation"),
)


def is_line(names: Collection[str]) -> bool:
    """Return whether these field names are those of the first line, which names the protocol."""
    return {"type", "protocol_version"} <= set(names)


@dataclass(slots=True)
class _Step:
    """What an agent is about to say and to call; its pieces are lines of their own."""

    thread: Thread
    key: str
    text: str = ""
    call: dict[str, Any] | None = None
    arguments: str = ""

    def close(self, at_ns: int) -> None:
        if self.text:
            self.thread.says(self.key, at_ns, self.text, None)
        if self.call is not None:
            name, call_id = self.call["function"]["name"], self.call["id"]
            self.thread.calls(self.key, at_ns, call_id, name, self.arguments, None)
        self.text, self.call = "", None


class KimiSession:
    """The state of reading one such file, with a thread for each agent."""

    def __init__(self) -> None:
        self._trace = ""
        self._lines = 0
        self._steps: dict[str, _Step] = {}  # by agent
        self._asked: dict[str, str] = {}  # by request of approval: the call
        self._words: dict[str, Word] = {}  # by call: what a person said of it

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that a line completes."""
        self._lines += 1
        if is_line(line):
            return []
        if "time" in line:
            at_ns, told = line["time"] * _NS_PER_MS, _translated(line)
        else:
            at_ns, told = round(line["timestamp"] * _NS_PER_S), line["message"]
        self._trace = self._trace or str(at_ns)
        self._take(told, at_ns, PRODUCT)
        return [row for step in self._steps.values() for row in step.thread.taken()]

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the file completes."""
        return [row for step in self._steps.values() for row in step.thread.ended()]

    def _take(self, told: dict[str, Any], at_ns: int, name: str) -> None:
        kind, data = told["type"], told["payload"]
        if kind == "SubagentEvent":
            inner = data.get("agent_id") or data.get("parent_tool_call_id")
            self._take(data["event"], at_ns, str(inner or data.get("task_tool_call_id")))
            return
        step = self._steps.get(name)
        if step is None:
            thread = Thread(Agent(PRODUCT, "", name, self._trace))
            step = self._steps[name] = _Step(thread, str(self._lines))
        if kind == "ContentPart":
            step.text += data.get("text") or ""
            return
        if kind == "ToolCallPart":
            step.arguments += data.get("arguments_part") or ""
            return
        step.close(at_ns)
        if kind == "ToolCall":
            step.call, step.arguments = data, data["function"].get("arguments") or ""
        elif kind == "StepBegin":
            step.key = str(self._lines)
        elif kind in _PROMPTS:
            word = Word(text=texts_of(data["user_input"]))
            step.thread.hears(str(self._lines), at_ns, word)
        elif kind == "StatusUpdate" and data.get("token_usage"):
            step.thread.uses(step.key, _usage_of(data["token_usage"]))
        else:
            self._outcome(step.thread, kind, data, at_ns)

    def _outcome(self, thread: Thread, kind: str, data: dict[str, Any], at_ns: int) -> None:
        if kind == "ApprovalRequest":
            self._asked[data["id"]] = data["tool_call_id"]
        elif kind == "ApprovalResponse" and data["response"] == "reject":
            call_id = self._asked.get(data["request_id"], "")
            self._words[call_id] = Word(REJECTED, data.get("feedback") or None)
        elif kind == "ToolResult":
            value, call_id = data["return_value"], data["tool_call_id"]
            failed = bool(value["is_error"])
            texts = value.get("message") if failed else "", texts_of(value.get("output"))
            result = "\n".join(text for text in texts if text)
            thread.gets(call_id, at_ns, result, failed, self._words.pop(call_id, None))


def _translated(line: dict[str, Any]) -> dict[str, Any]:
    """Return the message that a line of Kimi Code is."""
    if line["type"] == "turn.prompt":
        return {"type": "TurnBegin", "payload": {"user_input": line.get("input")}}
    event: dict[str, Any] = line.get("event") or {}
    kind = event.get("type")
    if kind == "content.part":
        return {"type": "ContentPart", "payload": event["part"]}
    if kind == "step.end":
        return {"type": "StatusUpdate", "payload": {"token_usage": event.get("usage")}}
    if kind == "tool.call":
        call = {"name": event["name"], "arguments": canonical(event.get("args") or {})}
        return {"type": "ToolCall", "payload": {"id": event["toolCallId"], "function": call}}
    if kind == "tool.result":
        result: dict[str, Any] = event.get("result") or {}
        value = {"is_error": result.get("isError"), "output": result.get("output")}
        answer = {"tool_call_id": event["toolCallId"], "return_value": value}
        return {"type": "ToolResult", "payload": answer}
    return {"type": "StepBegin" if kind == "step.begin" else "", "payload": {}}


def _usage_of(usage: dict[str, Any]) -> Usage:
    counts = [usage.get(name, usage.get(newer)) or 0 for name, newer in _INPUTS]
    return Usage(
        input_tokens=sum(counts),
        output_tokens=usage.get("output"),
        cached_tokens=counts[1],
        cache_write_tokens=counts[2],
    )
