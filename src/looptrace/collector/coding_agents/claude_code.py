"""Rows from the session logs of Claude Code, `~/.claude/projects/<folder>/<session>.jsonl`.

The format is not documented; the fields that are read were the same in versions 1.0 to 2.1. Each
line is a message with its content parts: an assistant's texts and `tool_use`, a user's
`tool_result` or text. One response may be split over several lines with one message id, each with
the usage so far. Sub-agents ("sidechains") are in the same file or in files of their own beside it.
"""

from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.coding_agents.hook.asking import OWN_TEXTS
from looptrace.collector.coding_agents.session_spans import (
    ANSWERED,
    INTERRUPTED,
    NO_USAGE,
    REJECTED,
    Agent,
    Usage,
    Word,
    texts_of,
)
from looptrace.collector.coding_agents.session_thread import Thread
from looptrace.collector.otlp.span_rows import time_ns_of

PRODUCT = "claude-code"

# What was cached is counted beside the rest of the input.
_COUNTS = (
    *("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    "output_tokens",
)
_NO_MODEL = "<synthetic>"  # The model of a response that the program wrote itself.
_INTERRUPTED = "[Request interrupted by user"
# The result of a refused call begins like this, and the person's words follow these markers.
_REJECTED = ("The user doesn't want to proceed with this", "The user doesn't want to take this")
_SAID = ("the user said:\n", "provided the following reason for the rejection:")
_ASKING = ("AskUserQuestion", "ExitPlanMode", "exit_plan_mode")  # Tools that a person answers.
_OWN_LINES = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
_SHOWN_ID_CHARS = 8


def is_line(names: Collection[str]) -> bool:
    """Return whether these field names are those of a line of such a log, or of one beside it."""
    fields = set(names)
    is_message = "type" in fields and bool(fields & {"sessionId", "leafUuid"})
    is_message &= "traceId" not in fields  # An observation of Langfuse has the others.
    is_snapshot = {"type", "messageId", "snapshot"} <= fields
    is_index = {
        "version",
        "entries",
    } <= fields and "creator" not in fields  # An HTTP archive has it.
    return is_message or is_snapshot or is_index or "agentType" in fields


class ClaudeCodeLog:
    """The state of reading one log, with a thread for each agent in it."""

    def __init__(self, product: str = PRODUCT) -> None:
        self._product = product
        self._threads: dict[tuple[str, str], Thread] = {}
        self._roots: dict[str, str] = {}  # by line, for sub-agents that have no id
        self._last_ns = 0
        self._run_ended = False

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that a line completes. Raises BadSpanError for a bad time."""
        kind, message = line.get("type"), line.get("message")
        if kind == "attachment":
            line, message = line | _queued(line), _queued(line)
        elif kind not in ("user", "assistant"):
            return []
        if not isinstance(message, dict) or "content" not in message:
            return []
        self._last_ns = time_ns_of(line.get("timestamp")) or self._last_ns
        thread = self._thread(line)
        if kind == "assistant":
            _respond(thread, line, message, self._last_ns)
        else:
            _hear(thread, line, message, self._last_ns)
        return thread.taken()

    def rest(self, *, is_whole: bool = False) -> list[SpanRow]:
        """Return the rows that the end of the log completes, which may be `whole`."""
        threads = self._threads.values()
        return [row for thread in threads for row in thread.ended(is_whole=is_whole)]

    def end_run(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rest of a run that a line ends, of which it gives the usage.

        Some versions write the few tokens with which each response began. The larger sum counts;
        what is missing is added to the last response. A later run may be without the earlier ones.
        """
        usage = line.get("usage")
        said = _usage(usage if isinstance(usage, dict) else {}, None)
        spent = [thread.spent for thread in self._threads.values()]
        missing = (
            (said.input_tokens or 0) - sum(given for given, _ in spent),
            (said.output_tokens or 0) - sum(gave for _, gave in spent),
        )
        if self._run_ended or said == NO_USAGE:
            missing = max(0, missing[0]), max(0, missing[1])
        self._run_ended = True
        self._thread(line).lacks(*missing)
        return self.rest(is_whole=True)

    def _thread(self, line: dict[str, Any]) -> Thread:
        session, name = str(line.get("sessionId", "")), self._agent_name(line)
        thread = self._threads.get((session, name))
        if thread is None:
            thread = self._threads[session, name] = Thread(Agent(self._product, session, name))
        return thread

    def _agent_name(self, line: dict[str, Any]) -> str:
        """Return the agent's name; a sub-agent without an id is named after its first line."""
        if not line.get("isSidechain"):
            return self._product
        if line.get("agentId"):
            return f"agent-{line['agentId']}"
        own, parent = str(line.get("uuid")), str(line.get("parentUuid"))
        root = self._roots[own] = self._roots.get(parent, own)
        return f"agent-{root[:_SHOWN_ID_CHARS]}"


def _queued(line: dict[str, Any]) -> dict[str, Any]:
    """Return the message that a person wrote while the agent worked, {} where there is none."""
    attached = line.get("attachment")
    if not isinstance(attached, dict) or attached.get("type") != "queued_command":
        return {}
    if attached.get("commandMode", "prompt") != "prompt":
        return {}
    own = {name: attached[name] for name in ("origin", *_OWN_LINES) if name in attached}
    return {**own, "content": attached.get("prompt")}


def _respond(thread: Thread, line: dict[str, Any], message: dict[str, Any], at_ns: int) -> None:
    """Add the parts of a response from a line."""
    key = str(message.get("id") or line.get("uuid"))
    model = message.get("model")
    parts = _parts(message)
    if line.get("isApiErrorMessage"):
        thread.fails(key, at_ns, _text(parts), None)
        return
    if model == _NO_MODEL:
        return
    model = model if isinstance(model, str) else None
    for part in parts:
        if part.get("type") == "text" and part.get("text"):
            thread.says(key, at_ns, str(part["text"]), model)
        elif part.get("type") == "tool_use":
            call_id, tool = part.get("id"), str(part.get("name") or "")
            asked = None if call_id is None else str(call_id)
            thread.calls(key, at_ns, asked, tool, part.get("input"), model)
    usage = message.get("usage")
    if isinstance(usage, dict):
        thread.uses(key, _usage(usage, message.get("stop_reason")))


def _usage(usage: dict[str, Any], reason: object) -> Usage:
    own, written, cached, output = (
        value if isinstance(value := usage.get(name), int) else None for name in _COUNTS
    )
    counts = [count for count in (own, written, cached) if count is not None]
    return Usage(
        sum(counts) if counts else None,
        output,
        cached_tokens=cached,
        cache_write_tokens=written,
        finish_reason=reason if isinstance(reason, str) else None,
    )


def _hear(thread: Thread, line: dict[str, Any], message: dict[str, Any], at_ns: int) -> None:
    """Add the results of calls from a line, or else the words of a person."""
    parts = _parts(message)
    results = [part for part in parts if part.get("type") == "tool_result"]
    for part in results:
        call_id, text, failed = str(part.get("tool_use_id")), _result(part), part.get("is_error")
        word = _rejection(text or "") if failed else None
        if not failed and thread.tool_of(call_id) in _ASKING:
            word = Word(ANSWERED, text)
        thread.gets(call_id, at_ns, text, True if failed and not word else None, word)
    # A document or a picture that a tool attached comes as a message of its own.
    is_attached = thread.has_results and all(part.get("type") != "text" for part in parts)
    if not results and not is_attached and not line.get("isSidechain"):
        word = _word(line, _text(parts))
        if word is not None:
            thread.hears(str(line.get("uuid")), at_ns, word)


def _rejection(result: str) -> Word | None:
    """Return the words with which a person refused a call; None where it ran."""
    if not result.startswith(_REJECTED):
        return None
    said = next((result.partition(mark)[2].strip() for mark in _SAID if mark in result), "")
    return Word(REJECTED, said or None)


def _word(line: dict[str, Any], text: str) -> Word | None:
    """Return a person's words or decision from a line; None where the program wrote it."""
    origin = line.get("origin")
    by_person = not isinstance(origin, dict) or origin.get("kind", "human") == "human"
    if not text or not by_person or any(line.get(name) for name in _OWN_LINES):
        return None
    if text.startswith(OWN_TEXTS):
        return None
    return Word(INTERRUPTED) if text.startswith(_INTERRUPTED) else Word(text=text)


def _result(part: dict[str, Any]) -> str | None:
    content = part.get("content")
    return content if content is None or isinstance(content, str) else _text(content)


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a message's content, which may be one text."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _text(content: object) -> str:
    return texts_of(content, shows_kinds=True).strip()
