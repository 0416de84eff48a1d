"""Makes up traces of an agent that have all that joins spans: calls, results, parents, names."""

import json
import random
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from looptrace import semconv
from looptrace.analyzer.schema.spans import SPAN_SCHEMA

START_NS = 1_767_225_600_000_000_000
MS = 1_000_000
NAMES = ("ls", "read", "run")
TRACES = ("a" * 32, "b" * 32)


@dataclass
class Story:
    """An agent at work: its spans so far, the calls that wait, and what its models were given."""

    rng: random.Random
    has_ids: bool
    depth: float  # share of spans with a parent
    rows: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    now: int = 0
    ids: int = 0

    def span(self, attributes: dict[str, Any], took: int = 1) -> None:
        """Add a span that starts now, or that began before some others."""
        rng, place = self.rng, len(self.rows)
        self.now += took + rng.choice([0, 0, 1, 3])
        names = {
            semconv.SESSION_ID: rng.choice(["s1", "s2"]),
            semconv.TASK_ID: rng.choice(["t1", "t2", "t3"]),
            semconv.TASK_PARENT_ID: rng.choice(["t2", "t4"]),
            semconv.PHASE: rng.choice(["p1", "p2"]),
            semconv.GEN_AI_AGENT_NAME: rng.choice(["lead", "helper"]),
            semconv.TASK_STATUS: rng.choice(["done", "blocked"]),
            semconv.ITERATION: "1",
        }
        attributes |= {key: value for key, value in names.items() if rng.random() < self.depth / 10}
        parent = None
        if rng.random() < self.depth:
            parent = rng.choice([place + 1, place + 2, rng.randrange(place + 4)])
        linked = [{"trace_id": rng.choice(TRACES), "span_id": "f" * 16}]
        self.rows.append(
            dict.fromkeys(SPAN_SCHEMA, None)
            | {
                "trace_id": TRACES[rng.random() < 0.1],
                "span_id": f"{place:016x}",
                "parent_span_id": None if parent is None else f"{parent:016x}",
                "name": "span",
                "start_ns": START_NS + (self.now - took) * MS,
                "end_ns": START_NS + self.now * MS,
                "status": rng.choice([0, 0, 1, 2]),
                "attributes": json.dumps(attributes),
                "events": "[]",
                "links": json.dumps(linked) if rng.random() < 0.02 else "[]",
            }
        )

    def model(self) -> None:
        """Let a model ask for some calls."""
        rng, asked = self.rng, []
        if rng.random() < 0.1:
            self.history = self.history[rng.randrange(len(self.history) + 1) :]
        if rng.random() < 0.2:
            text = [{"type": "text", "content": rng.choice(["go on", "mend it"])}]
            self.history.append({"role": "user", "parts": text})
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            self.ids += 1
            named = f"c{self.ids if rng.random() < 0.97 else 1}"
            call: dict[str, Any] = {"type": "tool_call", "name": rng.choice(NAMES)}
            if rng.random() < 0.9:
                call["arguments"] = {"p": rng.choice("xy")}
            asked.append(call | ({"id": named} if self.has_ids or rng.random() < 0.1 else {}))
        parts = asked or [{"type": "text", "content": rng.choice(["done", "so"])}]
        answer = {"role": "assistant", "parts": parts}
        attributes = {semconv.GEN_AI_OPERATION_NAME: "chat"}
        if rng.random() < 0.9:
            attributes[semconv.GEN_AI_INPUT_MESSAGES] = json.dumps(self.history)
        if rng.random() < 0.95:
            attributes[semconv.GEN_AI_OUTPUT_MESSAGES] = json.dumps([answer])
        self.span(attributes, rng.choice([0, 1, 5]))
        self.history.append(answer)
        self.calls += asked

    def tool(self) -> None:
        """Let a tool do what was asked for, or anything."""
        rng = self.rng
        call: dict[str, Any] = {"name": rng.choice(NAMES)}
        if self.calls and rng.random() < 0.9:
            call = self.calls.pop(rng.choice([0, -1]))
        said = json.dumps(call.get("arguments", {"p": "z"}))
        bare = call.get("arguments", {}).get("p", "z")
        attributes = {
            semconv.GEN_AI_TOOL_NAME: call["name"],
            semconv.GEN_AI_TOOL_CALL_ARGUMENTS: rng.choice([said, said, bare, None]),
            semconv.GEN_AI_TOOL_CALL_ID: call.get("id") if rng.random() < 0.6 else None,
            semconv.GEN_AI_TOOL_CALL_RESULT: rng.choice(["fine", None]),
        }
        if "id" in call and rng.random() < 0.8:
            given = {"type": "tool_call_response", "id": call["id"], "response": "found it"}
            self.history.append({"role": "tool", "parts": [given]})
        if rng.random() < 0.8:
            attributes = {key: value for key, value in attributes.items() if value is not None}
            attributes[semconv.GEN_AI_OPERATION_NAME] = "execute_tool"
            self.span(attributes, rng.choice([1, 1, 4]))

    def other(self) -> None:
        """Add an agent's span, one that says nothing, or a model's that is not told of."""
        rng, attributes = self.rng, dict[str, Any]()
        kind = rng.choice(["invoke_agent", None, None, "chat"])
        if kind:
            attributes[semconv.GEN_AI_OPERATION_NAME] = kind
        if kind == "invoke_agent" and rng.random() < 0.7:
            words = rng.choice(["go on", "mend it", "so: done", ""])
            attributes[semconv.GEN_AI_INPUT_MESSAGES] = words
            attributes[semconv.GEN_AI_OUTPUT_MESSAGES] = rng.choice(["done", "so"])
        self.span(attributes, 10)


def random_spans(seed: int) -> pl.DataFrame:
    """Return spans (`SPAN_SCHEMA`) in the order of their ends, or nearly so."""
    rng = random.Random(seed)
    story = Story(rng, has_ids=rng.random() < 0.6, depth=rng.choice([0, 0.03, 0.1, 0.6]))
    for _ in range(rng.choice([10, 25, 60])):
        rng.choice([story.model, story.tool, story.tool, story.other])()
    rows = story.rows
    if seed % 3 == 0:
        _without_kinds(rows, random.Random(seed))
    if rng.random() < 0.3:
        rows = sorted(rows, key=lambda row: row["end_ns"] + rng.choice([0, 0, 0, 7]) * MS)
    return pl.DataFrame(rows, SPAN_SCHEMA)


def _without_kinds(rows: list[dict[str, Any]], rng: random.Random) -> None:
    """Let some spans of tools not say that they are, and others be within them."""
    tools = [row for row in rows if semconv.GEN_AI_TOOL_NAME in row["attributes"]]
    for row in rng.sample(tools, len(tools) // 2):
        said = json.loads(row["attributes"])
        row["name"] = said[semconv.GEN_AI_TOOL_NAME]
        arguments = said.get(semconv.GEN_AI_TOOL_CALL_ARGUMENTS)
        row["attributes"] = json.dumps({"input.value": arguments, "output.value": "fine"})
        if rng.random() < 0.2:
            row["parent_span_id"] = rng.choice(tools)["span_id"]
