"""Rows from sessions of opencode: messages with parts, which hold their results.

`opencode export` prints a session, with the fields of opencode's packages/opencode/src/session/
message-v2.ts; `opencode run --format json` a part a line (anomalyco/opencode@00f9806 packages/
opencode/src/cli/cmd/run.ts, src/tool/shell.ts for the exit code; seen with 1.18.33).
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.coding_agents.session_spans import Agent, Usage, Word
from looptrace.collector.coding_agents.session_thread import Thread
from looptrace.collector.importers.spans import mapping, time_ns

PRODUCT = "opencode"
_FAILED = {"error": True, "completed": False}
_NO_OUTPUT = "(no output)"  # of a command that printed nothing


class OpencodeStream:
    """The state of reading the parts of sessions, a line each."""

    def __init__(self) -> None:
        self._sessions: dict[str, dict[str, dict[str, Any]]] = {}  # messages by their ids

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Keep a part, or an error of the session. Raises one of RECORD_ERRORS."""
        part = mapping(line.get("part"))
        messages = self._sessions.setdefault(str(line["sessionID"]), {})
        key = str(part.get("messageID") or line["timestamp"])
        info = {"id": key, "role": "assistant", "time": {"created": line["timestamp"]}}
        message = messages.setdefault(key, {"info": info, "parts": []})
        if "error" in line:
            info["error"] = line["error"]
        if part.get("type") == "step-finish":
            message["info"]["tokens"] = part["tokens"]
        message["parts"] += [part] if part else []
        rows_of({"info": {"id": ""}, "messages": [message]})
        return []

    def rest(self) -> list[SpanRow]:
        """Return the rows of the sessions."""
        return [
            row
            for session, messages in self._sessions.items()
            for row in rows_of({"info": {"id": session}, "messages": list(messages.values())})
        ]


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
        is_error = _FAILED.get(str(state.get("status")))
        if is_error is not None:
            end_ns = time_ns(mapping(state.get("time")).get("end")) or at_ns
            result = state.get("error") if is_error else state.get("output")
            # A command that failed has completed.
            failed = is_error or bool(mapping(state.get("metadata")).get("exit"))
            result = "" if failed and result == _NO_OUTPUT else result
            thread.gets(str(call["callID"]), end_ns, result, failed, None)
    error = mapping(info.get("error"))
    if error:
        told = mapping(error.get("data")).get("message") or error.get("name")
        thread.fails(f"{key} error", at_ns, str(told), model)
