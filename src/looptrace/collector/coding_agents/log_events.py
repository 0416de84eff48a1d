"""Rows from the log events of Claude Code, Codex and Gemini CLI.

These agents write no spans, or spans without content; `claude_code.tool_result`,
`codex.tool_result` and `gemini_cli.tool_call` are a tool call each. Each event is read alone,
because they come in any order and in any number of requests. The agent's own settings decide how
much content they hold.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.coding_agents import codex
from looptrace.collector.coding_agents.session_spans import (
    REJECTED,
    Agent,
    Usage,
    Word,
    answer_row,
    model_row,
    person_row,
    tool_row,
)
from looptrace.collector.otlp.span_rows import time_ns_of

NS_PER_MS = 1_000_000
HTTP_ERROR_MIN = 400
DIGITS_MAX = 18  # The digits that fit 64 bits; Python refuses to read some thousands of them.

_PRODUCTS = {"claude_code": "claude-code", "codex": "codex", "gemini_cli": "gemini-cli"}
_QWEN = "qwen-code"
_PRODUCTS |= {_QWEN: _QWEN}
_SESSION = ("session.id", "conversation.id")
_AGENT = ("agent.id", "agent_id", "agent.name", "agent_name")
_TOOL = ("tool_name", "function_name")
_ARGUMENTS = ("tool_input", "tool_parameters", "arguments", "function_args")
# Claude Code names a tool of a server in the parameters, and otherwise as it does in its spans
# (2.1.332, recorded).
_MCP_TOOL, _MCP_NAMES = "mcp_tool", ("mcp_server_name", "mcp_tool_name")
_CALL_ID = ("tool_use_id", "call_id")
_PROMPT = ("prompt.id", "prompt_id")
# Claude Code tells the text and the tokens of a response in two events of one request (2.1.193;
# code.claude.com/docs/en/monitoring-usage).
_REQUEST, _ANSWER = ("request_id",), ("response",)
_REDACTED = "<REDACTED>"
_ERROR = ("error", "error.message", "error_message")
_STATUS = ("status_code", "http.response.status_code")
_INPUT_TOKENS = ("input_tokens", "input_token_count")
_OUTPUT_TOKENS = ("output_tokens", "output_token_count")
_CACHED_TOKENS = ("cache_read_tokens", "cached_token_count", "cached_content_token_count")
_CACHE_WRITE_TOKENS = ("cache_creation_tokens", "cache_write_token_count")
_REASONING_TOKENS = ("reasoning_token_count", "thoughts_token_count")
# These are counted beside the rest of the input (Claude Code) and of the output (Gemini CLI), but
# for Qwen Code, whose providers count them within.
_BESIDE = ("cache_read_tokens", "cache_creation_tokens"), ("thoughts_token_count",)
_REFUSALS = ("reject", "denied", "abort")
_CODEX_ROOT = "/root"  # The path of the session's own agent (0.171), which only its calls name.


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A log record as it was sent: times in nanoseconds since 1970, 0 where it has none.

    `span` has the ids of the trace and the span that it names, in hex.
    """

    time_ns: int
    observed_ns: int
    event_name: str
    body: Any
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    span: tuple[str, str] = ("", "")
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class _Event:
    """An agent's event: its agent, its end, and its attributes."""

    agent: Agent
    at_ns: int
    attributes: Mapping[str, Any]

    def first(self, names: tuple[str, ...]) -> Any:
        """Return the first of some attributes that is there and not empty."""
        return _first(self.attributes, names)

    def number(self, names: tuple[str, ...]) -> int | None:
        """Return an attribute as a number, which some agents write as text."""
        return _number(self.first(names))

    @property
    def start_ns(self) -> int:
        """The start of the operation that the event reports."""
        return self.at_ns - (self.number(("duration_ms",)) or 0) * NS_PER_MS

    @property
    def key(self) -> str:
        """The identity of the event among others of its kind; the same when it is sent again."""
        return f"{self.at_ns} {self.first(_CALL_ID)} {self.first(_ARGUMENTS)}"

    @property
    def call(self) -> tuple[str, Any]:
        """The name of the tool that was called, and its arguments."""
        tool, arguments = str(self.first(_TOOL)), self.first(_ARGUMENTS)
        named = parsed(self.attributes.get("tool_parameters"))
        if tool != _MCP_TOOL or not isinstance(named, dict) or not named.keys() >= {*_MCP_NAMES}:
            return tool, arguments
        name = "__".join(("mcp", *(str(named[part]) for part in _MCP_NAMES)))
        return name, self.attributes.get("tool_input")

    @property
    def is_refused(self) -> bool:
        """Whether a person refused the call."""
        decision = str(self.first(("decision", "decision_type"))).lower()
        source = str(self.first(("source", "decision_source")) or "user").lower()
        return decision.startswith(_REFUSALS) and source.startswith("user")


def event_row(record: LogRecord) -> SpanRow | None:
    """Return the row of an agent's event; None for any other log record.

    Raises BadSpanError for an impossible time.
    """
    name = _name(record)
    attributes = record.attributes
    session = _first(attributes, _SESSION) or _first(record.resource, _SESSION)
    if name is None or session is None:
        return None
    product = _PRODUCTS[name.partition(".")[0]]
    own = _first(attributes, _AGENT)
    agent = Agent(
        product,
        session=str(session),
        name=str(product if own in (None, _CODEX_ROOT) else own),
        trace=str(_first(attributes, _PROMPT) or ""),
        is_exported=True,
        span=record.span,
    )
    return _READERS[name](_Event(agent, _time_ns(record), attributes))


def _first(attributes: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next(
        (attributes[name] for name in names if attributes.get(name) not in (None, "")), None
    )


def _number(value: Any) -> int | None:
    """Return a number, also one in text; None for anything else, or for an absurd one."""
    text = str(value) if isinstance(value, int | str) else ""
    return int(text) if len(text) <= DIGITS_MAX and text.isdecimal() else None


def _name(record: LogRecord) -> str | None:
    """Return the full name of an agent's event, whichever field holds it; None for any other."""
    short = record.attributes.get("event.name")
    names = (record.event_name, short, record.body)
    return next((name for name in names if isinstance(name, str) and name in _READERS), None)


def _time_ns(record: LogRecord) -> int:
    """Return the time of an event; events of one millisecond are ordered by their numbers."""
    stamp = time_ns_of(record.attributes.get("event.timestamp"))
    time_ns = record.time_ns or stamp or record.observed_ns
    number = _number(record.attributes.get("event.sequence"))
    if time_ns % NS_PER_MS == 0 and number is not None:
        time_ns += number % NS_PER_MS
    return time_ns


def _tool(event: _Event) -> SpanRow:
    success = event.attributes.get("success")
    failed = None if success is None else str(success).lower() != "true"
    result = event.attributes.get("output")
    if event.agent.product == codex.PRODUCT and result is not None:
        result, has_failed = codex.outcome_of(result)
        failed = has_failed or failed  # A command that failed was run with success.
    error = event.first(_ERROR) if failed else None
    tool, arguments = event.call
    return tool_row(
        event.agent,
        event.key,
        event.start_ns,
        event.at_ns,
        tool=tool,
        call_id=event.first(_CALL_ID),
        arguments=arguments,
        result=result,
        failed=None if event.is_refused else failed,
        error="" if error is None else str(error),
        error_type=event.attributes.get("error_type"),
        word=Word(REJECTED) if event.is_refused else None,
    )


def _prompt(event: _Event) -> SpanRow:
    return person_row(
        event.agent, event.key, event.at_ns, Word(text=event.attributes.get("prompt"))
    )


def _decision(event: _Event) -> SpanRow | None:
    """Return a person's decision on a call that was refused."""
    if not event.is_refused:
        return None
    return person_row(event.agent, event.key, event.at_ns, Word(REJECTED))


def _response(event: _Event) -> SpanRow:
    apart = ((), ()) if event.agent.product == _QWEN else _BESIDE
    given, said = (
        None if own is None else own + sum(event.number((name,)) or 0 for name in beside)
        for own, beside in zip(
            map(event.number, (_INPUT_TOKENS, _OUTPUT_TOKENS)), apart, strict=True
        )
    )
    cached, written, thought = map(
        event.number, (_CACHED_TOKENS, _CACHE_WRITE_TOKENS, _REASONING_TOKENS)
    )
    return model_row(
        event.agent,
        str(event.first(_REQUEST) or event.key),
        event.start_ns,
        event.at_ns,
        model=event.attributes.get("model"),
        usage=Usage(given, said, cached, written, thought),
    )


def _answer(event: _Event) -> SpanRow | None:
    """Return the text of a response; None where it was not captured, or names no request.

    An agent that exports spans, too, has its turns from these, and a record's ids would be others.
    """
    request, text = event.first(_REQUEST), event.first(_ANSWER)
    if request is None or text in (None, _REDACTED) or all(event.agent.span):
        return None
    model = event.attributes.get("model")
    return answer_row(event.agent, str(request), event.at_ns, model=model, text=str(text))


def _error(event: _Event) -> SpanRow:
    status = event.number(_STATUS)
    message = event.first((*_ERROR, "error_type"))
    error = " ".join(str(part) for part in (status, message) if part is not None)
    return model_row(
        event.agent,
        event.key,
        event.start_ns,
        event.at_ns,
        model=event.attributes.get("model"),
        failed=True,
        error=error,
    )


def _part(event: _Event) -> SpanRow | None:
    """Return the row of a response of Codex, of which only the last part has the tokens."""
    return None if event.number(_OUTPUT_TOKENS) is None else _response(event)


def _request(event: _Event) -> SpanRow | None:
    """Return the row of a request of Codex that was refused."""
    is_refused = (event.number(_STATUS) or 0) >= HTTP_ERROR_MIN or event.first(_ERROR)
    return _error(event) if is_refused else None


_READERS: Mapping[str, Callable[[_Event], SpanRow | None]] = {
    "claude_code.user_prompt": _prompt,
    "claude_code.tool_result": _tool,
    "claude_code.tool_decision": _decision,
    "claude_code.api_request": _response,
    "claude_code.assistant_response": _answer,
    "claude_code.api_error": _error,
    "codex.user_prompt": _prompt,
    "codex.tool_result": _tool,
    "codex.tool_decision": _decision,
    "codex.sse_event": _part,
    "codex.api_request": _request,
    "gemini_cli.user_prompt": _prompt,
    "gemini_cli.tool_call": _tool,
    "gemini_cli.api_response": _response,
    "gemini_cli.api_error": _error,
    # It is made of Gemini CLI (QwenLM/qwen-code@168b4d1 packages/core/src/telemetry/constants.ts).
    "qwen-code.user_prompt": _prompt,
    "qwen-code.tool_call": _tool,
    "qwen-code.api_response": _response,
    "qwen-code.api_error": _error,
}
