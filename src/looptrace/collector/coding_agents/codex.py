"""Rows from the session logs of Codex, `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`.

Since 0.32 each line is `{timestamp, type, payload}`: the input and output of the model
(`response_item`), and the contents of the screen (`event_msg`), of which only a person's messages,
interruptions and the tokens are read. Before, a line was the bare item, without a time.
"""

import re
from functools import partial
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.coding_agents.session_spans import (
    ANSWERED,
    INTERRUPTED,
    REJECTED,
    Agent,
    Usage,
    Word,
    texts_of,
)
from looptrace.collector.coding_agents.session_thread import Thread
from looptrace.collector.otlp.span_rows import time_ns_of

PRODUCT = "codex"
_text = partial(texts_of, shows_kinds=True)
# The distance between lines in a log without times.
STEP_NS = 1_000_000

# The header above the output of a command; its times differ with every run.
_HEADER_LINE = (
    r"(?:Exit code: -?\d+|Process exited with code -?\d+|Process running with session ID \d+"
    r"|Chunk ID: \S*|Wall time: [\d.]+ seconds|(?:Original token count|Total output lines): \d+)"
)
_HEADER = re.compile(rf"(?:{_HEADER_LINE}\s*\n)+Output:\n?")
_RUNS_ON = "Process running"
_EXIT_CODE = re.compile(r"(?:Exit code:|exited with code) (-?\d{1,18})")
_REJECTED = re.compile(
    r"(?:exec command |patch )?(?:rejected|denied) by (?:the )?user", re.IGNORECASE
)
_ABORTED = re.compile(r"(?:command was )?aborted by (?:the )?user", re.IGNORECASE)
# The program writes these texts, although the log has them as the user's.
_OWN_TEXT = re.compile(
    r"\s*(?:<([A-Za-z][\w -]*)>.*</\1>\s*$|# AGENTS\.md instructions)", re.DOTALL
)
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
# In the order of `Usage`.
_COUNTS = (
    *("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens"),
    "reasoning_output_tokens",
)
_ASKING = "request_user_input"  # The tool that a person answers.
_SHOWN_ID_CHARS = 8


def usage_of(usage: dict[str, Any]) -> Usage:
    """Return usage in the words of Codex; what was cached or thought is within the rest."""
    return Usage(*map(usage.get, _COUNTS))


class CodexLog:
    """The state of reading one log: the thread of its agent."""

    def __init__(self) -> None:
        self._thread = Thread(Agent(PRODUCT, "", PRODUCT))
        self._has_header = False
        self._is_sub_agent = False
        self._model: str | None = None
        self._last_ns = 0
        self._items = 0
        self._response = ""  # key of the last response
        self._is_over = True  # that response
        self._prompt: str | None = None  # a person's message that may come a second time

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that a line completes. Raises BadSpanError for a bad time."""
        payload = line.get("payload")
        kind = line.get("type")
        time_ns = time_ns_of(line.get("timestamp"))
        self._last_ns = self._last_ns + STEP_NS if time_ns is None else time_ns
        self._items += 1
        if not isinstance(payload, dict):
            kind, payload = ("response_item" if kind else "session_meta"), line
        if kind == "session_meta":
            self._begin(payload)
        elif kind == "turn_context" and isinstance(payload.get("model"), str):
            self._model = payload["model"]
        elif kind == "response_item":
            self._item(payload)
        elif kind == "event_msg":
            self._event(payload)
        return self._thread.taken()

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the log completes."""
        return self._thread.ended()

    def _begin(self, meta: dict[str, Any]) -> None:
        """Read the session's id and agent; a log that continues another repeats its header."""
        if self._has_header or "id" not in meta:
            return
        self._has_header = True
        own = str(meta["id"])
        source = meta.get("source")
        spawned = source.get("subagent") if isinstance(source, dict) else None
        self._is_sub_agent = spawned is not None
        within = spawned.get("thread_spawn") if isinstance(spawned, dict) else None
        parent = within.get("parent_thread_id") if isinstance(within, dict) else None
        name = f"agent-{own[-_SHOWN_ID_CHARS:]}" if self._is_sub_agent else PRODUCT
        self._thread = Thread(Agent(PRODUCT, str(parent or own), name))

    def _item(self, item: dict[str, Any]) -> None:
        kind = item.get("type")
        if kind in _CALLS:
            self._call(item)
        elif kind in _OUTPUTS:
            self._output(item)
        elif kind == "message":
            text = _text(item.get("content"))
            if item.get("role") == "assistant" and text:
                self._thread.says(self._key(), self._last_ns, text, self._model)
            elif item.get("role") == "user" and not self._is_own(item, text):
                self._hear(Word(text=text))

    def _is_own(self, item: dict[str, Any], text: str) -> bool:
        """Return whether the program wrote a text, or a tool attached a picture to its result."""
        parts = item.get("content")
        has_text = not isinstance(parts, list) or any("text" in p for p in parts)
        return bool(_OWN_TEXT.match(text)) or (self._thread.has_results and not has_text)

    def _call(self, item: dict[str, Any]) -> None:
        kind, call_id = item["type"], item.get("call_id") or item.get("id")
        tool = {"local_shell_call": "local_shell", "web_search_call": "web_search"}.get(kind)
        arguments = next((item[k] for k in ("arguments", "input", "action") if k in item), None)
        self._thread.calls(
            self._key(),
            self._last_ns,
            str(call_id) if call_id else None,
            tool or str(item.get("name") or ""),
            parsed(arguments),
            self._model,
        )

    def _output(self, item: dict[str, Any]) -> None:
        call_id, (text, failed) = str(item.get("call_id")), outcome_of(item.get("output"))
        word = _verdict(_text(item.get("output")))
        if self._thread.tool_of(call_id) == _ASKING:
            word = Word(ANSWERED, text)
        self._thread.gets(call_id, self._last_ns, text, None if word else failed, word)
        self._is_over, self._prompt = True, None

    def _event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "user_message":
            self._hear(Word(text=str(event.get("message", ""))))
        elif kind == "turn_aborted" and event.get("reason") == "interrupted":
            self._hear(Word(INTERRUPTED))
        elif kind == "token_count":
            info = event.get("info")
            usage = info.get("last_token_usage") if isinstance(info, dict) else None
            if isinstance(usage, dict):
                self._thread.uses(self._response, usage_of(usage))

    def _hear(self, word: Word) -> None:
        """Add a person's message, which the log may have twice: as an item and as an event."""
        text = word.text.strip() if word.text else word.decision
        if self._is_sub_agent or text == self._prompt:
            return
        self._prompt, self._is_over = text, True
        self._thread.hears(str(self._items), self._last_ns, word)

    def _key(self) -> str:
        """Return the key of an item's response; items without a result in between share one."""
        if self._is_over:
            self._response = str(self._items)
        self._is_over, self._prompt = False, None
        return self._response


def _verdict(output: str) -> Word | None:
    """Return the decision of a person who refused or interrupted a call."""
    if _REJECTED.match(output):
        return Word(REJECTED)
    return Word(INTERRUPTED) if _ABORTED.match(output) else None


def outcome_of(output: Any) -> tuple[str | None, bool | None]:
    """Return the output of a call without its header, and whether the call failed."""
    value = parsed(output)
    failed = None
    if isinstance(value, dict) and ("output" in value or "content" in value):
        metadata = value.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("exit_code"), int):
            failed = metadata["exit_code"] != 0
        elif value.get("success") is False:
            failed = True
        output = value.get("output", value.get("content"))
    text = _text(output)
    header = _HEADER.match(text)
    if header is None:
        return text, failed
    code = _EXIT_CODE.search(header[0])
    failed = int(code[1]) != 0 if code else failed
    text = text[header.end() :]
    # A process that runs on and has printed nothing since tells nothing new.
    return text if text or _RUNS_ON not in header[0] else None, failed
