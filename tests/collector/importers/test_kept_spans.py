"""Spans that a tracing system keeps under fields of its own say what they said before."""

import json
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import read_spans
from tests.collector.conftest import Write

Fields = dict[str, Any]
CALL = {"name": "weigh", "arguments": '{"crate": "A"}'}
SAID = "I weigh the crate."


def _observation(number: int, **fields: Any) -> Fields:
    attributes = fields.pop("attributes", {})
    return {
        "id": f"{number:016x}",
        "traceId": "5b8aa5a2d2c872e8321cf37308d69df2",
        "startTime": f"2026-03-02T09:{number:02}:00Z",
        "endTime": f"2026-03-02T09:{number:02}:30Z",
        "parentObservationId": None,
        "type": "GENERATION",
        "name": "chat model-s",
        "model": "model-s",
        "usageDetails": {"input": 120, "output": 30},
        "metadata": {"attributes": attributes, "scope": {"name": "agent"}},
    } | fields


def _analysis(write: Write, observations: list[Fields]) -> Analysis:
    lines = "\n".join(map(json.dumps, observations))
    read = read_spans([write("export.jsonl", lines.encode())])
    assert read.skipped == ()
    return analyse(read.spans)


def _calls(analysis: Analysis) -> list[tuple[str, str, str]]:
    tools = analysis.turns.filter(pl.col("kind") == "tool")
    return list(tools.select("name", "arguments", "result").rows())


@pytest.mark.parametrize("attributes", [{}, {"gen_ai.operation.name": "chat"}])
def test_langfuse_keeps_the_events_of_messages_as_lists(write: Write, attributes: Fields) -> None:
    """Each has the role of its event, and the attributes with the texts that they are."""
    system = {"gen_ai.system": "openai"}
    asked = [{"id": "c1", "type": "function", "function": CALL}]
    first = [system | {"role": "user", "content": "Weigh crate A."}]
    second = [
        *first,
        system | {"role": "assistant", "tool_calls": json.dumps(asked)},
        system | {"role": "tool", "content": "12 kg", "id": "c1"},
    ]
    message = {"role": "assistant", "content": SAID, "tool_calls": asked}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": json.dumps(message)}
    last = {
        "index": 0,
        "finish_reason": "stop",
        "message": json.dumps({"content": "It has 12 kg."}),
    }
    analysis = _analysis(
        write,
        [
            _observation(1, input=first, output=choice, attributes=attributes),
            _observation(2, input=json.dumps(second), output=last, attributes=attributes),
        ],
    )

    models = analysis.turns.filter(pl.col("kind") == "model")
    assert models["text"].to_list() == [SAID, "It has 12 kg."]
    assert _calls(analysis) == [("weigh", '{"crate":"A"}', "12 kg")]


def test_langfuse_keeps_the_events_of_calls_as_well(write: Write) -> None:
    """Strands writes arguments and results so; a result of another tool stays as it is."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weigh"}
    given = [{"role": "tool", "content": CALL["arguments"], "id": "c1"}]
    told = {"message": '[{"text": "12 kg"}]', "id": "c1"}
    plain = {"message": "weighed", "id": "w7"}
    analysis = _analysis(
        write,
        [
            _observation(1, type="TOOL", input=given, output=told, attributes=attributes),
            _observation(2, type="TOOL", input={"crate": "B"}, output=plain, attributes=attributes),
        ],
    )

    assert [result for *_, result in _calls(analysis)] == [
        "12 kg",
        '{"id":"w7","message":"weighed"}',
    ]


def test_what_is_left_of_attributes_without_a_text_is_no_answer(write: Write) -> None:
    """Langfuse does not know `gen_ai.completion_json`, and keeps an object of its name."""
    bare: Fields = {"gen_ai": {}}
    observations = [_observation(number, input=bare, output=bare) for number in range(1, 9)]
    analysis = _analysis(write, observations)

    assert analysis.turns["text"].to_list() == [None] * 8
    assert not analysis.findings


def test_embeddings_are_no_responses_in_langfuse(write: Write) -> None:
    """They name a model, and have tokens."""
    attributes = {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "model-e"}
    analysis = _analysis(write, [_observation(1, type="EMBEDDING", attributes=attributes)])

    assert analysis.turns.is_empty()
    assert analysis.understood.structure == 1


def test_openrouter_and_trpc_are_read_in_langfuse(write: Write) -> None:
    """Their outputs have forms of their own."""
    asked = [{"id": "c1", "type": "function", "function": CALL}]
    said = json.dumps({"completion": SAID, "reasoning": "", "toolCalls": asked})
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "model-s"}
    result = {
        "object": "tool.response",
        "created": 1,
        "choices": [{"message": {"content": "12 kg"}}],
    }
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weigh"} | {
        "gen_ai.tool.call.id": "c1"
    }
    answer = _observation(1, name="LLM Generation", output=said, attributes=chat)
    call = _observation(2, type="TOOL", name="weigh", output=json.dumps(result), attributes=tool)
    answer["metadata"]["scope"]["name"] = "openrouter"
    call["metadata"]["scope"]["name"] = "trpc.agent.go"
    analysis = _analysis(write, [answer, call | {"input": CALL["arguments"]}])

    assert analysis.turns["text"].to_list()[0] == SAID
    assert _calls(analysis) == [("weigh", '{"crate":"A"}', "12 kg")]


def test_what_phoenix_makes_of_the_id_of_a_response_is_no_answer(write: Write) -> None:
    """Agents that write no messages would say the same again and again."""
    spans: list[Fields] = [
        {
            "name": "chat model-s",
            "context": {"trace_id": "5b8aa5a2d2c872e8321cf37308d69df2", "span_id": f"{n:016x}"},
            "span_kind": "LLM",
            "parent_id": None,
            "start_time": f"2026-03-02T09:{n:02}:00Z",
            "end_time": f"2026-03-02T09:{n:02}:30Z",
            "status_code": "OK",
            "status_message": "",
            "attributes": {
                "gen_ai.operation.name": "chat",
                "gen_ai.response.id": f"chatcmpl-{n}",
                "gen_ai.response.model": "model-s",
                "gen_ai.usage.output_tokens": 30,
                "output.value": json.dumps({"id": f"chatcmpl-{n}", "model": "model-s"}),
            },
            "events": [],
        }
        for n in range(1, 9)
    ]
    export = json.dumps({"data": spans, "next_cursor": None})
    analysis = analyse(read_spans([write("export.json", export.encode())]).spans)

    assert analysis.turns["text"].to_list() == [None] * 8
    assert not analysis.findings
