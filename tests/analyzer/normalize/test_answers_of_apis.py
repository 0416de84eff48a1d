"""Requests and responses of APIs are read as they are: whatever holds messages, calls and texts."""

import json
from typing import Any

import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.normalize.turn_builder import turns_of
from tests.collector.store.stored import spans_of
from tests.fields import messages_of
from tests.otlp import Trace, tool_call

ASKED = ("weigh", '{"crate":7}')
FUNCTION = {"name": "weigh", "arguments": '{"crate": 7}'}
CALL = {"id": "c1", "type": "function", "function": FUNCTION}
LISTED = json.dumps([{"function": FUNCTION, "id": "c1", "type": "function"}])

ANSWERS: dict[str, Any] = {
    "openai_chat": {"id": "x", "choices": [{"index": 0, "message": {
        "role": "assistant", "content": None, "tool_calls": [CALL],
    }}]},
    "openai_responses": {"object": "response", "output": [
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", **FUNCTION},
    ]},
    "openai_legacy": {"role": "assistant", "content": None, "function_call": FUNCTION},
    "google_candidates": {"candidates": [{"content": {"role": "model", "parts": [
        {"functionCall": {"name": "weigh", "args": {"crate": 7}}},
    ]}, "finishReason": "STOP"}]},
    "google_adk": {"content": {"role": "model", "parts": [
        {"function_call": {"name": "weigh", "args": {"crate": 7}, "id": "c1"}},
    ]}, "finish_reason": "STOP"},
    "anthropic": {"type": "message", "role": "assistant", "content": [
        {"type": "tool_use", "id": "c1", "name": "weigh", "input": {"crate": 7}},
    ]},
    "langchain_beside": {"role": "assistant", "content": "", "additional_kwargs": {
        "tool_calls": [CALL], "refusal": None,
    }},
    "langchain_both": {"type": "ai", "content": "", "additional_kwargs": {"tool_calls": [CALL]},
        "tool_calls": [{"name": "weigh", "args": {"crate": 7}, "id": "c1", "type": "tool_call"}],
    },
    "langchain_old": {"type": "ai", "content": "", "additional_kwargs": {
        "function_call": FUNCTION,
    }},
    "vercel": [{"toolCallId": "c1", "toolName": "weigh", "input": '{"crate": 7}'}],
    "koog": [{"role": "assistant", "content": LISTED}],
    "text_of_koog": {"role": "assistant", "content": LISTED},
    "outputs": {"output": {"role": "assistant", "content": "", "tool_calls": [CALL]}},
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_the_call_of_an_answer_is_read_once(name: str) -> None:
    """Also where the answer has it twice; its id is the one that results name."""
    for value in (ANSWERS[name], json.dumps(ANSWERS[name])):
        messages = messages_of(value, "assistant")
        calls = [call for message in messages for call in message.calls]
        assert [(call.name, call.arguments) for call in calls] == [ASKED]
        assert {call.call_id for call in calls} <= {"c1", None}
        assert not any(message.text for message in messages)
        assert not any(message.results for message in messages)


REQUESTS: dict[str, Any] = {
    "google": {"model": "m", "contents": [{"role": "user", "parts": [{"text": "go"}]}]},
    "responses": {"model": "m", "input": [{"role": "user", "content": "go"}]},
    "responses_text": {"model": "m", "input": "go"},
    "vercel": {"prompt": "go"},
    "vercel_messages": {"prompt": [{"role": "user", "content": "go"}]},
    "chat": {"messages": [{"role": "user", "content": "go"}], "tools": [{"name": "weigh"}]},
    "with_definitions": [
        {"role": "user", "content": "go"},
        {"role": "tool", "content": {"type": "function", "function": {
            "name": "weigh", "description": "Weigh.", "parameters": {"type": "object"},
        }}},
        {"role": "tool", "content": json.dumps({"name": "weigh", "input_schema": {}})},
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_the_message_of_a_request_is_read(name: str) -> None:
    """Definitions of tools are neither results nor calls."""
    for value in (REQUESTS[name], json.dumps(REQUESTS[name])):
        messages = messages_of(value, "user")
        assert [(m.role, m.text, m.calls, m.results) for m in messages] == [("user", "go", (), ())]


TEXTS = (
    {"role": "assistant", "content": '[{"name": "a crate", "weight": 7}]'},
    {"role": "assistant", "content": '[{"function": "to weigh"}]'},
    {"role": "user", "content": LISTED},
)


@pytest.mark.parametrize("message", TEXTS, ids=str)
def test_a_list_in_a_text_stays_a_text(message: dict[str, Any]) -> None:
    """An agent may answer with JSON, and a person may paste calls."""
    (found,) = messages_of([message], message["role"])
    assert (found.text, found.calls) == (message["content"], ())


def test_a_call_without_a_name_is_not_lost() -> None:
    """It is a call all the same, if it has an id or arguments."""
    parts = [{"type": "tool_use", "id": "c1"}, {"type": "tool_use", "input": {"crate": 7}}]
    (message,) = messages_of(
        [{"role": "assistant", "content": [*parts, {"type": "tool_use"}]}], "assistant"
    )
    assert [(call.name, call.call_id, call.arguments) for call in message.calls] == [
        ("unnamed", "c1", None),
        ("unnamed", None, '{"crate":7}'),
    ]


def _trace(*tools: dict[str, Any], call: dict[str, Any], rounds: int = 1) -> Trace:
    """Return a model's answers that ask for a call, each with some spans after it."""
    trace = Trace()
    for number in range(rounds):
        part = {"type": "tool_call", **call}
        if "id" in call:
            part["id"] = f"{call['id']}{number}"
        asked = {"role": "assistant", "parts": [part]}
        answer = {"gen_ai.output.messages": json.dumps([asked])}
        trace.span("chat", attributes={"gen_ai.operation.name": "chat"} | answer)
        above = ""
        for tool in tools:
            above = trace.span(tool["name"], above, tool["attributes"])
    return trace


NAMED = {"name": "weigh", "id": "c", "arguments": {"crate": 7}}
BARE = {"name": "weigh", "attributes": {"input.value": "{'crate': 7}", "output.value": "Error: no"}}
STEP = {"name": "tools", "attributes": {"input.value": '{"crate": 7}', "output.value": "{}"}}
OTHER = {"name": "weigh", "attributes": {"input.value": '{"crate": 8}', "output.value": "{}"}}
OWN = {"name": "weigh", "attributes": tool_call("weigh", '{"crate": 7}', result="Error: no")}
WITH_ID = {"name": "weigh", "attributes": tool_call("weigh", result="Error: no", call_id="x-1")}
WITHOUT_ID = {"name": "weigh", "arguments": {"crate": 7}}

SPANS = {
    "a span of no kind": ((BARE,), NAMED, "Error: no"),
    "within a step": ((STEP, BARE), NAMED, "Error: no"),
    "other arguments": ((OTHER,), NAMED, None),
    "another name": ((STEP,), NAMED, None),
    "around the call's own": ((BARE, OWN), NAMED, "Error: no"),
    "within the call's own": ((OWN, BARE), NAMED, "Error: no"),
    "twice": ((BARE, BARE), NAMED, "Error: no"),
    "a call without an id": ((WITH_ID,), WITHOUT_ID, "Error: no"),
}


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("name", SPANS)
def test_each_call_is_one_turn(name: str, rounds: int) -> None:
    """It has the result of the span that is the call, whatever other spans are around it."""
    tools, call, result = SPANS[name]
    turns, _ = turns_of(spans_of(_trace(*tools, call=call, rounds=rounds)))
    calls = turns.filter(kind="tool")
    assert calls["result"].to_list() == [result] * rounds


def test_a_loop_of_spans_without_a_kind_is_found() -> None:
    """Eight equal calls fail; what they are is only said by the model that asked for them."""
    found = analyse(spans_of(_trace(BARE, call=NAMED, rounds=8))).findings
    assert {finding.attempts for finding in found if finding.rule == "repeated_call"} == {8}
