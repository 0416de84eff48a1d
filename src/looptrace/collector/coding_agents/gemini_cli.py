"""Rows from the recorded chats of Gemini CLI, `~/.gemini/tmp/*/chats/session-*.json`."""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.times import time_ns_of
from looptrace.collector.coding_agents.session_spans import Agent, Thread, Usage, Word, texts_of

PRODUCT = "gemini-cli"
_FAILED = {"error": True, "success": False}


def rows_of(record: dict[str, Any]) -> list[SpanRow]:
    """Return the rows of a chat. Raises BadSpanError for a bad time."""
    thread = Thread(Agent(PRODUCT, str(record["sessionId"]), PRODUCT))
    last_ns = time_ns_of(record.get("startTime")) or 0
    for message in record["messages"]:
        last_ns = time_ns_of(message.get("timestamp")) or last_ns
        _read(thread, message, last_ns)
    return thread.ended()


def _read(thread: Thread, message: dict[str, Any], at_ns: int) -> None:
    key, kind = str(message.get("id")), message.get("type")
    text = texts_of(message.get("content"))
    if kind == "user":
        thread.hears(key, at_ns, Word(text=text))
    elif kind == "error":
        thread.fails(key, at_ns, text, None)
    elif kind == "gemini":
        model, calls = message.get("model"), message.get("toolCalls") or ()
        done_ns = [time_ns_of(call.get("timestamp")) or at_ns for call in calls]
        # A message may be recorded after its calls, but a response comes before what it asks for.
        at_ns = min(at_ns, *done_ns) if calls else at_ns
        if text:
            thread.says(key, at_ns, text, model)
        # Older chats have calls without ids.
        ids = [str(call.get("id") or f"{key}-{number}") for number, call in enumerate(calls)]
        for call_id, call in zip(ids, calls, strict=True):
            tool, arguments = str(call.get("name") or ""), call.get("args")
            thread.calls(key, at_ns, call_id, tool, arguments, model)
        tokens = message.get("tokens") or {}
        usage = Usage(
            tokens.get("input"),
            _written(tokens),
            cached_tokens=tokens.get("cached"),
            reasoning_tokens=tokens.get("thoughts"),
        )
        thread.uses(key, usage)
        for call_id, call, ended_ns in zip(ids, calls, done_ns, strict=True):
            failed = _FAILED.get(str(call.get("status")))
            thread.gets(call_id, ended_ns, _result(call.get("result")), failed, None)


def _written(tokens: dict[str, Any]) -> int | None:
    """Return the tokens that a model wrote, with its thoughts, which are counted apart."""
    counted = [tokens[name] for name in ("output", "thoughts") if tokens.get(name) is not None]
    return sum(counted) if counted else None


def _result(result: object) -> str | None:
    """Return the response of a function from a list of parts in the form of the API."""
    parts = result if isinstance(result, list) else [result]
    responses = [
        part["functionResponse"].get("response")
        for part in parts
        if isinstance(part, dict) and isinstance(part.get("functionResponse"), dict)
    ]
    said = [
        str(response.get("output") or response.get("error") or response)
        if isinstance(response, dict)
        else str(response)
        for response in responses
    ]
    return "\n".join(said) if said else None if result is None else str(result)
