"""Inputs of hooks of Claude Code and Cursor, as hooks log them, a line each.

The fields are those of code.claude.com/docs/en/hooks and cursor.com/docs/agent/hooks. Cursor tells
of a call to hooks of each kind of tool, and to those of all tools, where it has both.
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.coding_agents.session_spans import (
    Agent,
    Word,
    model_row,
    person_row,
    times_in_order,
    tool_row,
)
from looptrace.collector.importers.spans import NS_PER_MS, text_of, time_ns
from looptrace.collector.otlp.span_rows import DecodedSpans

_STEP_NS = NS_PER_MS
_TIMES = ("timestamp", "ts", "time", "logged_at")
_EVENT = "hook_event_name"
SESSIONS = ("session_id", "conversation_id")
# Of all tools, in both spellings.
_CALLS = {"posttooluse", "posttoolusefailure"}
_ERRORS = ("error", "error_message")
_RESULTS = ("tool_response", "tool_output", "tool_result")
# Of one kind of tool: its name, its arguments, its result.
_KINDS = {
    "aftershellexecution": ("Shell", ("command", "cwd"), "output"),
    "aftermcpexecution": ("", (), "result_json"),
    "afterfileedit": ("Write", ("file_path", "edits"), ""),
}
_PROMPTS = {"userpromptsubmit", "beforesubmitprompt"}


class HookInputsReader:
    """The reader of inputs; which calls to take is known at the end."""

    def __init__(self) -> None:
        self._inputs: list[dict[str, Any]] = []

    def read(self, record: dict[str, Any], _where: str) -> DecodedSpans:
        """Keep an input. Raises one of RECORD_ERRORS."""
        _row(record, "", _time_of(record))  # What is no input is refused here, not at the end.
        self._inputs.append(record)
        return DecodedSpans()

    def rest(self) -> list[SpanRow]:
        """Return the rows of all inputs, in their order."""
        times = times_in_order([_time_of(each) or None for each in self._inputs], _STEP_NS)
        whole = {_session(each) for each in self._inputs if _event(each) in _CALLS}
        found = []
        for number, (each, at_ns) in enumerate(zip(self._inputs, times, strict=True)):
            if _event(each) in _KINDS and _session(each) in whole:
                continue
            if row := _row(each, str(number), at_ns):
                found.append(row)
        return found


def _event(record: dict[str, Any]) -> str:
    return str(record[_EVENT]).lower()


def _session(record: dict[str, Any]) -> str:
    return str(next((record[name] for name in SESSIONS if name in record), ""))


def _time_of(record: dict[str, Any]) -> int:
    return time_ns(next((record[name] for name in _TIMES if record.get(name)), None))


def _row(record: dict[str, Any], key: str, at_ns: int) -> SpanRow | None:
    product = "cursor" if "conversation_id" in record else "claude-code"
    agent = Agent(product, _session(record), str(record.get("agent_type") or product))
    event = _event(record)
    if event in _PROMPTS:
        return person_row(agent, key, at_ns, Word(text=text_of(record.get("prompt"))))
    if event == "afteragentresponse":
        said = [{"type": "text", "content": record.get("text")}]
        return model_row(agent, key, at_ns, at_ns, model=record.get("model"), answer=said)
    if event not in _CALLS and event not in _KINDS:
        return None
    named, given, result = _KINDS.get(event, ("", (), ""))
    arguments = parsed(record.get("tool_input"))
    told = next((record[name] for name in (result, *_RESULTS) if name in record), None)
    error = next((record[name] for name in _ERRORS if record.get(name)), None)
    lasted_ns = round(float(record.get("duration") or record.get("duration_ms") or 0) * NS_PER_MS)
    return tool_row(
        agent,
        key,
        at_ns - min(lasted_ns, at_ns),
        at_ns,
        tool=named or str(record.get("tool_name")),
        call_id=record.get("tool_use_id"),
        arguments={name: record.get(name) for name in given} if given else arguments,
        result=text_of(told),
        failed=True if error or event.endswith("failure") else None,
        error=text_of(error) or "",
    )
