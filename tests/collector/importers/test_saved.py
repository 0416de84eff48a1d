"""Parts of saved chats that the run of the exports does not have."""

from looptrace.collector.importers.saved.agent_steps import dify_messages
from looptrace.collector.importers.saved.framework_messages import (
    ag2_chat_messages,
    ag2_messages,
    mastra_messages,
    microsoft_messages,
)
from tests.collector.importers.exported_run import models_of, spans
from tests.collector.importers.saved_exports import ag2_chat


def test_a_chat_of_ag2_is_read_as_the_agent_has_it_that_was_asked() -> None:
    """Its own messages are those of the assistant, and the task is a person's."""
    run = spans("ok")
    last = models_of(run)[-1]
    said = [message["role"] for message in ag2_chat_messages(ag2_chat(run))]
    assert said == [message["role"] for message in [*last.given, last.answer]]


def test_what_a_person_says_beside_a_result_is_read() -> None:
    """A person of AG2 who answers instead of a tool says both in one message."""
    result = {"role": "tool", "tool_call_id": "c1", "content": "USER INTERRUPTED"}
    told = {"role": "user", "content": "Stop.", "tool_responses": [result]}
    assert list(ag2_messages(told)) == [result, {"role": "user", "content": "Stop."}]


def test_a_tool_that_a_thought_calls_twice_is_one_call() -> None:
    """Dify keeps what was given and returned by the names of tools."""
    kept = '{"look": {"at": 2}}'
    thought = {"id": "t", "tool": "look;look", "tool_input": kept, "observation": '{"look": "2"}'}
    messages = dify_messages({"query": "Look.", "answer": "2", "agent_thoughts": [thought]})
    parts = [part for each in messages if each["content"] != "Look." for part in each["content"]]
    assert [part["type"] for part in parts] == ["tool_use", "tool_result", "text"]
    assert (parts[0]["input"], parts[1]["content"]) == ({"at": 2}, "2")


def test_a_mark_of_mastra_is_an_error() -> None:
    """A result that the tool's executor marked has failed, whatever it says."""
    call = {"state": "result", "toolCallId": "c1", "toolName": "look", "args": {}, "result": "7"}
    part = {"type": "tool-invocation", "toolInvocation": {**call, "isError": True}}
    message = {"role": "assistant", "content": {"format": 2, "parts": [part]}}
    (_, result) = mastra_messages(message)
    assert result["content"][0]["is_error"]


def test_what_a_failed_function_returned_is_read() -> None:
    """The Agent Framework keeps only a mark of the exception beside it."""
    marked = {"type": "function_result", "call_id": "c1", "exception": "FunctionInvocationError"}
    parts = [{**marked, "result": "Error: the disk is full"}]
    (result,) = microsoft_messages({"role": "tool", "contents": parts})
    assert result["content"][0]["content"].startswith("Error: the disk is full")
