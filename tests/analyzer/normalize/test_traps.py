"""Oddities of frameworks of which no trace is at hand are read right, from a file onwards.

`tests/test_framework_traps.py` has the oddities that recorded traces show. The shapes here were
checked against traces that the frameworks wrote; tasks, tools and words are our own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from examples import dialects
from examples.dialects import Attributes, Message
from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import read_spans
from tests.otlp import CLIENT, Trace

Requests: TypeAlias = list[dict[str, Any]]
Row: TypeAlias = tuple[Any, ...]

SCHEMA = '{"type": "object", "properties": {"level": {"type": "integer"}}}'


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of a trap's requests."""

    turns: pl.DataFrame

    def of(self, kind: str, task: str, *columns: str) -> list[Row]:
        """Return columns of a task's turns of one kind, in order; arguments as Python values."""
        mine = self.turns.filter(pl.col("session") == task, pl.col("kind") == kind)
        rows = mine.select(columns).iter_rows()
        return [tuple(map(_value, columns, row)) for row in rows]

    def calls(self, task: str) -> list[Row]:
        """Return name, arguments, result and failure of a task's tool turns."""
        return self.of("tool", task, "name", "arguments", "result", "failed")

    def texts(self, task: str) -> list[str]:
        """Return what the model said in a task."""
        return [text for (text,) in self.of("model", task, "text")]

    def kinds(self, task: str) -> set[str]:
        """Return the kinds of turns that a task has."""
        return set(self.turns.filter(pl.col("session") == task)["kind"])

    def agents(self, task: str) -> set[str]:
        """Return the agents of a task's tool and model turns."""
        return {name for kind in ("tool", "model") for (name,) in self.of(kind, task, "agent")}


def _value(column: str, value: Any) -> Any:
    return json.loads(value) if column == "arguments" and value is not None else value


def reading(folder: Path, requests: Requests) -> Reading:
    """Write requests to a file as JSON lines, read it, and analyse it."""
    path = folder / "trap.jsonl"
    path.write_text("".join(json.dumps(request) + "\n" for request in requests), encoding="utf-8")
    read = read_spans([str(path)])
    analysis = analyse(read.spans, read.skipped)
    assert analysis.skipped == ()
    return Reading(analysis.turns)


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


def _openai(text: str, *calls: tuple[str, str, Mapping[str, str]]) -> Message:
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


def _tool_message(content: str, call_id: str) -> str:
    message = {"content": content, "type": "tool", "tool_call_id": call_id, "status": "success"}
    path = ["langchain", "schema", "messages", "ToolMessage"]
    output = {"lc": 1, "type": "constructor", "id": path, "kwargs": message}
    return json.dumps({"output": output, "kwargs": {"color": "green"}})


def llamaindex_doubles() -> Requests:
    """LlamaIndex: two model spans a call, of which one only prepares it."""
    texts, sweep = ("I sweep.", "Again."), {"room": "hall"}
    trace = Trace("llama_openinference", session_key="session.id")
    root = trace.span("Agent.run", None, {"openinference.span.kind": "CHAIN"}, seconds=0)
    said: list[Message] = [{"role": "user", "content": "Sweep the hall."}]
    for index, text in enumerate(texts):
        answer = _openai(text, (f"call_{index}", "sweep", sweep))
        _llamaindex_model(trace, root, said, answer)
        tool = _openinference("sweep", {"kwargs": sweep}, "swept", SCHEMA)
        node = {"openinference.span.kind": "CHAIN"}
        step = trace.span("Agent.call_tool", root, node, status="ok", seconds=0)
        trace.span("FunctionTool.acall", step, tool, status="ok")
        heard = {"role": "tool", "content": "swept", "tool_call_id": f"call_{index}"}
        said += [answer, heard]
    _llamaindex_model(trace, root, said, _openai("Clean."))
    return trace.requests()


def _llamaindex_model(trace: Trace, root: str, given: list[Message], answer: Message) -> None:
    kind = {"openinference.span.kind": "LLM", "llm.model_name": "small-1"}
    both = {**kind, "input.value": '{"tools": []}', "output.value": '{"messages": []}'}
    trace.span("Model._prepare_chat_with_tools", root, both, status="ok")
    trace.span("Model.achat", root, _llm(given, answer), status="ok")


def _task(name: str, kind: str = "task") -> dict[str, Any]:
    return {"traceloop.span.kind": kind, "traceloop.entity.name": f"{name}.{kind}"}


def test_llamaindex_doubles(tmp_path: Path) -> None:
    """A span that only prepares a response is none."""
    read = reading(tmp_path, llamaindex_doubles())

    assert read.calls("llama_openinference") == [("sweep", {"room": "hall"}, "swept", False)] * 2
    assert read.texts("llama_openinference") == ["I sweep.", "Again.", "Clean."]


def openllmetry_langgraph() -> Requests:
    """LangGraph with OpenLLMetry: many spans around few turns, and an agent's making."""
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


def test_openllmetry_langgraph(tmp_path: Path) -> None:
    """Middleware and the making of an agent are no turns, and a workflow takes no hand-off."""
    read = reading(tmp_path, openllmetry_langgraph())

    assert set(read.turns["task"]) == {"graph"}
    assert read.calls("graph") == [
        ("cut_hedge", {"side": side}, "cut", False) for side in ("left", "right")
    ]
    assert read.texts("graph") == ["Left.", "Right.", "Neat."]
    assert read.agents("graph") == {"gardener"}
    assert read.kinds("graph") == {"user", "model", "tool"}
