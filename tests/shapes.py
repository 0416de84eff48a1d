"""Turns of the notation as spans, in the three shapes in which agents are traced.

- `both`: each call has a model's span that asks for it and a span of its own;
- `tools`: calls have spans of their own, and no response asks for them;
- `models`: calls and their results stand in the messages of models only.

A response that says something has a model's span in every shape.
"""

import json
from collections import defaultdict
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, get_args

import polars as pl

from looptrace import semconv
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, STATUS_ERROR
from looptrace.analyzer.schema.turns import SILENCE

Shape = Literal["both", "tools", "models"]
SHAPES: tuple[Shape, ...] = get_args(Shape)

# A response that only asks takes this long, right before the call.
ASKING_NS = 1_000_000
_UNTOLD = "[redacted]"
_PROGRESS = {"tests_failed": "tests_failed", "tests_total": "tests_total", "coverage": "coverage"}
_PROGRESS |= {"markers": "files_created"}

Row = dict[str, Any]


def spans_in(turns: pl.DataFrame, shape: Shape) -> pl.DataFrame:
    """Return the spans (`SPAN_SCHEMA`) that agents with these turns write, a trace each task.

    Raises:
        ValueError: if a turn is a hand-off, which takes a tree of agents, or an attempt as a turn
            of its session, which takes a session of several tasks.
    """
    tasks = (list(rows) for _, rows in groupby(turns.iter_rows(named=True), itemgetter("task")))
    spans = [span for number, rows in enumerate(tasks, 1) for span in _trace(number, rows, shape)]
    return pl.DataFrame(spans, SPAN_SCHEMA, orient="row")


def _trace(number: int, rows: list[Row], shape: Shape) -> list[Row]:
    writer = _Writer(f"{number:032x}", shape)
    for _, members in groupby(enumerate(rows), key=lambda item: item[1]["step"] or item[0]):
        writer.write([row for _, row in members])
    end_ns = rows[-1]["end_ns"]
    lasts = {row["agent"]: row for row in rows if row["kind"] in ("tool", "model")}
    for row in lasts.values():
        if row["kind"] == "tool":  # What came of it is told to the model.
            writer.say(row | {"start_ns": end_ns, "end_ns": end_ns, "text": "That is all."})
    return writer.spans


class _Writer:
    """Writes the spans of one turn after the other, and keeps each agent's conversation."""

    def __init__(self, trace_id: str, shape: Shape) -> None:
        self.trace_id = trace_id
        self.shape = shape
        self.spans: list[Row] = []
        self.talks: dict[str, list[Row]] = defaultdict(lambda: [_message("system", "Help.")])

    def write(self, rows: list[Row]) -> None:
        """Write the calls of one step, or another turn."""
        first = rows[0]
        if first["kind"] == "tool":
            self._call(rows)
        elif first["kind"] == "model":
            self.say(first)
        elif first["kind"] == "user" and first["arguments"]:
            self._remind(first)
        elif first["kind"] == "user":
            event = {"name": semconv.INTERVENTION_EVENT, "time_ns": first["end_ns"]}
            self._span(first, {}, events=[event | {"attributes": {semconv.NOTE: first["text"]}}])
        elif first["kind"] == "progress":
            figures = {key: first[name] for name, key in _PROGRESS.items()}
            told = {semconv.PROGRESS_PREFIX + k: v for k, v in figures.items()}
            metrics = json.loads(first["metrics"] or "{}")
            self._span(first, told | {semconv.METRIC_PREFIX + k: v for k, v in metrics.items()})
        elif first["kind"] == "attempt":
            done = {semconv.TASK_STATUS: first["name"], semconv.BLOCKERS: first["arguments"]}
            self._span(first, done | {semconv.COMPLETED_WORK: first["result"]})
        else:
            raise ValueError(f"a turn of the kind {first['kind']} is no span of one agent and task")

    def _remind(self, row: Row) -> None:
        """Put a message that came before into the conversation, for the next response."""
        talk, message = self.talks[row["agent"]], _message("user", row["text"])
        if all(each["role"] != "user" for each in talk):
            talk += [message, _message("assistant", "Yes.")]
        talk.append(message)

    def say(self, row: Row) -> None:
        """Write a response with a text; `arguments` is what the model was given before it."""
        talk = self.talks[row["agent"]]
        news = row["arguments"] if row["kind"] == "model" else ""
        asked = talk[-1]["role"] == "user"
        if news is not None:
            talk += [_message("tool", news)] if news else []
            given = talk if row["talks_on"] or row["kind"] == "tool" else [*talk[:1], talk[-1]]
        said = [_message("assistant", row["text"])] if row["text"] is not None else None
        if row["response"] == SILENCE:
            said = [{"role": "assistant", "parts": []}]
        self._chat(row, talk if asked else given if news is not None else None, said)
        talk += said or []

    def _call(self, rows: list[Row]) -> None:
        talk = self.talks[rows[0]["agent"]]
        ids = [f"call-{row['span_id']}" for row in rows]
        asked = [_call_part(i, row) for i, row in zip(ids, rows, strict=True)]
        if self.shape != "tools":
            start_ns = rows[0]["start_ns"]
            times = {"start_ns": start_ns - ASKING_NS, "end_ns": start_ns}
            answer = [{"role": "assistant", "parts": asked}]
            self._chat(rows[0] | times, talk, answer)
            talk += answer
            parts = [_result_part(i, row) for i, row in zip(ids, rows, strict=True)]
            talk += [{"role": "tool", "parts": [part]} for part in parts]
        if self.shape != "models":
            for call_id, row in zip(ids, rows, strict=True):
                self._tool(call_id, row)

    def _tool(self, call_id: str, row: Row) -> None:
        attributes = {
            semconv.GEN_AI_OPERATION_NAME: "execute_tool",
            semconv.GEN_AI_TOOL_NAME: row["name"],
            semconv.GEN_AI_TOOL_CALL_ID: call_id if self.shape == "both" else None,
            semconv.GEN_AI_TOOL_CALL_ARGUMENTS: row["arguments"],
            semconv.GEN_AI_TOOL_CALL_RESULT: row["result"],
        }
        status = STATUS_ERROR if row["failed"] else 0
        self._span(row, attributes, status=status, status_message=row["error"] or "")

    def _chat(self, row: Row, given: list[Row] | None, answer: list[Row] | None) -> None:
        messages = {semconv.GEN_AI_INPUT_MESSAGES: given, semconv.GEN_AI_OUTPUT_MESSAGES: answer}
        texts = {key: json.dumps(value) for key, value in messages.items() if value is not None}
        reason = row["finish_reason"]
        attributes = {
            semconv.GEN_AI_OPERATION_NAME: "chat",
            semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 100,
            semconv.GEN_AI_RESPONSE_FINISH_REASONS: reason and [reason],
            semconv.GEN_AI_CONVERSATION_COMPACTED: row["compacted"],
        }
        failed = row["kind"] == "model" and row["failed"]
        status = STATUS_ERROR if failed else 0
        message = (row["error"] if failed else None) or ""
        self._span(row, attributes | texts, status=status, status_message=message)

    def _span(
        self,
        row: Row,
        attributes: Row,
        events: list[Row] | None = None,
        status: int = 0,
        status_message: str = "",
    ) -> None:
        parent = row["task"] if row["subtask"] else None
        shared = {
            semconv.GEN_AI_CONVERSATION_ID: row["task"],
            semconv.GEN_AI_AGENT_NAME: row["agent"] or None,
            semconv.PHASE: row["phase"],
            semconv.PHASE_START_NS: row["phase_start_ns"],
            semconv.ITERATION: row["iteration"],
            semconv.TASK_ID: row["subtask"],
            semconv.TASK_PARENT_ID: parent,
        }
        told = {key: value for key, value in (shared | attributes).items() if value is not None}
        self.spans.append(
            {
                "trace_id": self.trace_id,
                "span_id": f"{len(self.spans) + 1:016x}",
                "parent_span_id": None,
                "name": "span",
                "start_ns": row["start_ns"],
                "end_ns": row["end_ns"],
                "status": status,
                "status_message": status_message,
                "service": None,
                "scope": None,
                "attributes": json.dumps(told),
                "events": json.dumps(events or []),
                "links": "[]",
            }
        )


def _message(role: str, text: str) -> Row:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _call_part(call_id: str, row: Row) -> Row:
    part = {"type": "tool_call", "id": call_id, "name": row["name"]}
    return part if row["arguments"] is None else part | {"arguments": row["arguments"]}


def _result_part(call_id: str, row: Row) -> Row:
    text = row["error"] if row["failed"] else row["result"]
    part = {"type": "tool_call_response", "id": call_id}
    part["response"] = _UNTOLD if text is None else text
    return part | ({"is_error": True} if row["failed"] else {})
