"""Rows from sessions that `opencode export` prints: messages with parts, which hold their results.

The fields are those of opencode's packages/opencode/src/session/message-v2.ts.
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.coding_agents.session_spans import Agent, Thread, Usage, Word
from looptrace.collector.importers.spans import mapping, time_ns

PRODUCT = "opencode"
_FAILED = {"error": True, "completed": False}


def rows_of(record: dict[str, Any]) -> list[SpanRow]:
    """Return the rows of a session. Raises BadSpanError for a bad time."""
    thread = Thread(Agent(PRODUCT, str(record["info"]["id"]), PRODUCT))
    for message in record["messages"]:
        _read(thread, message["info"], message["parts"])
    return thread.ended(is_whole=True)


def _read(thread: Thread, info: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    key, at_ns = str(info["id"]), time_ns(mapping(info.get("time")).get("created"))
    texts = [str(part["text"]) for part in parts if part["type"] == "text" and part.get("text")]
    if info["role"] == "user":
        thread.hears(key, at_ns, Word(text="\n".join(texts)))
        return
    model = info.get("modelID")
    calls = [part for part in parts if part["type"] == "tool"]
    for text in texts:
        thread.says(key, at_ns, text, model)
    for call in calls:
        state = call["state"]
        thread.calls(key, at_ns, str(call["callID"]), call["tool"], state.get("input"), model)
    tokens = mapping(info.get("tokens"))
    cache = mapping(tokens.get("cache"))
    if tokens:
        thread.uses(
            key,
            Usage(
                sum(map(int, (tokens["input"], cache.get("read", 0), cache.get("write", 0)))),
                int(tokens["output"]) + int(tokens.get("reasoning") or 0),
                cached_tokens=cache.get("read"),
                cache_write_tokens=cache.get("write"),
                reasoning_tokens=tokens.get("reasoning"),
            ),
        )
    for call in calls:
        state = call["state"]
        failed = _FAILED.get(str(state.get("status")))
        if failed is not None:
            end_ns = time_ns(mapping(state.get("time")).get("end")) or at_ns
            result = state.get("error") if failed else state.get("output")
            thread.gets(str(call["callID"]), end_ns, result, failed, None)
