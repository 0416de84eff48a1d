"""Messages in the forms of single producers."""

import json

import pytest

from looptrace.analyzer.schema.message import ToolCall
from tests.fields import fields_of, messages_of, result_of

ASKED = ToolCall("c1", "open_gate", '{"gate":"north"}')


def test_calls_that_are_the_text_of_a_message() -> None:
    """Koog writes the calls of an answer as JSON into its text, and such a text is no answer."""
    function = {"name": "open_gate", "arguments": '{"gate": "north"}'}
    text = json.dumps([{"function": function, "id": "c1", "type": "function"}])

    (asked,) = messages_of([{"role": "assistant", "content": text}], "assistant")
    (again,) = messages_of(json.dumps([{"role": "assistant", "content": text}]), "assistant")
    (person,) = messages_of([{"role": "user", "content": text}], "user")

    assert (asked.text, asked.calls) == (again.text, again.calls) == ("", (ASKED,))
    assert (person.text, person.calls) == (text, ())


@pytest.mark.parametrize("text", ['["north", "south"]', '[{"gate": "north"}]', "[north]", "[]"])
def test_other_lists_in_a_text_are_text(text: str) -> None:
    """A list that an agent answers with is its answer."""
    (said,) = messages_of([{"role": "assistant", "content": text}], "assistant")

    assert (said.text, said.calls) == (text, ())


def test_an_answer_in_pieces_is_one_message() -> None:
    """Gemini CLI writes what was streamed; where a text was cut says nothing, nor does thinking."""
    call = {"functionCall": {"id": "c1", "name": "open_gate", "args": {"gate": "north"}}}
    pieces = [[{"text": "Hm.", "thought": True}], [{"text": "I op"}], [{"text": "en it."}, call]]
    streamed = json.dumps([*({"role": "model", "parts": parts} for parts in pieces), None])

    (said,) = messages_of(streamed, "assistant")

    assert (said.role, said.text, said.calls) == ("assistant", "I open it.", (ASKED,))


def test_a_history_is_no_answer_in_pieces() -> None:
    """Messages of several roles stay apart."""
    history = [{"role": role, "parts": [{"text": role}]} for role in ("model", "user", "model")]

    assert [said.text for said in messages_of(history, "assistant")] == ["model", "user", "model"]


@pytest.mark.parametrize("key", ["functionResponse", "function_response"])
def test_a_response_of_google_is_unwrapped(key: str) -> None:
    """Its id differs from call to call, and does not belong to the result."""
    parts = [{key: {"id": "c1", "name": "open_gate", "response": {"output": "open"}}}]
    failed = {key: {"id": "c2", "name": "open_gate", "response": {"error": "motor is stuck"}}}

    assert result_of(json.dumps(parts)) == ("open", None)
    assert result_of([failed]) == ("motor is stuck", True)


def flat(value: object, key: str) -> dict[str, object]:
    """Return a structure as a collector flattens it (`flatten` of its transform processor)."""
    if isinstance(value, dict):
        parts = [flat(item, f"{key}.{name}") for name, item in value.items()]
    elif isinstance(value, list):
        parts = [flat(item, f"{key}.{place}") for place, item in enumerate(value)]
    else:
        return {key: value}
    return {name: item for part in parts for name, item in part.items()}


def test_structures_that_a_collector_flattened_are_read() -> None:
    """Messages, arguments and results are then many attributes."""
    call = {"type": "tool_call", "id": "c1", "name": "open_gate", "arguments": {"gate": "north"}}
    asked = flat([{"role": "assistant", "parts": [call]}], "gen_ai.output.messages")
    told = flat([{"role": "user", "parts": [{"content": "Go."}]}], "gen_ai.input.messages")
    response = fields_of({"gen_ai.operation.name": "chat"} | asked | told)
    assert [each.calls for each in response.answer or ()] == [(ASKED,)]
    assert [each.text for each in response.given or ()] == ["Go."]

    arguments = flat({"gate": "north"}, "gen_ai.tool.call.arguments")
    result = flat({"motor": {"state": "stuck"}}, "gen_ai.tool.call.result")
    made = fields_of({"gen_ai.tool.name": "open_gate"} | arguments | result)
    assert (made.arguments, made.result) == ('{"gate":"north"}', '{"motor":{"state":"stuck"}}')


def test_a_response_may_name_its_call_in_the_keys_of_a_call() -> None:
    """OpenLIT does, also where the name of its scope was lost on the way."""
    asked = {"gen_ai.operation.name": "chat", "gen_ai.tool.name": "open_gate"}
    assert fields_of(asked | {"gen_ai.tool.call.id": "c1"}).kind == "model"
