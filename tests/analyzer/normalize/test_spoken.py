"""Calls in the texts of messages, and calls whose results another trace shows."""

import json

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.normalize.turn_builder import turns_of
from tests.collector.store.stored import spans_of
from tests.otlp import Trace

TASK = {"role": "user", "parts": [{"type": "text", "content": "Ring the bell."}]}
SAID = {
    "tags": "I ring.\n<execute_command>\n<command>ring deck 3</command>\n</execute_command>",
    "parameters": "<function=bash>\n<parameter=command>ring deck 3</parameter>\n</function>",
    "objects": '<tool_call>{"name": "bash", "arguments": {"command": "ring deck 3"}}</tool_call>',
    "commands": "THOUGHT: I ring.\n\n```bash\nring deck 3\n```",
}
HEARD = {
    "tags": "[execute_command for 'ring deck 3'] Result:\nThe bell has no rope.",
    "parameters": "EXECUTION RESULT of [bash]:\nThe bell has no rope.",
    "objects": "<tool_response>\nThe bell has no rope.\n</tool_response>",
    "commands": "<returncode>0</returncode>\n<output>\nThe bell has no rope.\n</output>",
}


def chats(form: str, heard: str, *, count: int, traces: bool, gap_s: float = 0) -> pl.DataFrame:
    """Return the spans of requests, each with the conversation so far, in one trace or many."""
    history, found, end_s = [TASK], list[Trace](), 0.0
    for number in range(count):
        trace = Trace("s", name=str(number) if traces else "") if traces or not found else found[0]
        answer = {"role": "assistant", "parts": [{"type": "text", "content": SAID[form]}]}
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(history),
            "gen_ai.output.messages": json.dumps([answer]),
        }
        trace.span("chat", attributes=attributes, start_s=end_s, end_s=end_s + 2)
        end_s += 2 + gap_s
        told = {"role": "user", "parts": [{"type": "text", "content": heard.format(n=number)}]}
        history = [*history, answer, told]
        found = [*found, trace] if traces or not found else found
    return spans_of(*found)


@pytest.mark.parametrize("form", SAID)
@pytest.mark.parametrize("traces", [False, True])
def test_calls_in_texts_are_calls(form: str, traces: bool) -> None:
    """A model that has no tools asks for them in a text; who answers is no person."""
    spans = chats(form, HEARD[form], count=6, traces=traces)
    turns = turns_of(spans)[0]
    tools = turns.filter(kind="tool")
    assert tools.height == 6
    assert set(tools["arguments"]) == {'{"command":"ring deck 3"}'}
    assert tools["result"].str.contains("no rope").sum() == 5
    assert turns.filter(kind="user").height == 1
    assert "repeated_call" in {each.rule for each in analyse(spans).findings}


@pytest.mark.parametrize("form", SAID)
def test_calls_in_texts_with_news_are_silent(form: str) -> None:
    """Each result is another one, so that the same command gets on."""
    heard = HEARD[form].replace("no rope", "{n} ropes")
    assert analyse(chats(form, heard, count=9, traces=False)).findings == ()


def test_a_call_lasts_until_a_model_is_asked_with_its_result() -> None:
    """The request with the result is a trace of its own; the time before it is no pause."""
    spans = chats("objects", HEARD["objects"], count=6, traces=True, gap_s=16)
    tools = turns_of(spans)[0].filter(kind="tool").sort("start_ns")
    seconds = (tools["end_ns"] - tools["start_ns"]) / 1e9
    assert seconds.to_list() == [16.0] * 5 + [0.0]
    assert "repeated_call" in {each.rule for each in analyse(spans).findings}
