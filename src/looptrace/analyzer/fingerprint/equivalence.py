"""Declared equivalence, and the arguments that make two calls the same.

Besides declared keys, a few keys are dropped by their names: clients send a fresh token in them
with every call. All other arguments count, because a different id is different work. Their notation
does not count: a key without a value equals a missing key, and "16" is the number 16.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import polars as pl
from msgspec import Meta

from looptrace.analyzer.text.names import Name
from looptrace.analyzer.text.payloads import canonical, parsed
from looptrace.analyzer.text.session_names import session_name

PATTERN_CHARS_MAX = 500
TOOL_KEYS_MAX = 50

# Keys that exist to carry a new value with every call; in any letter case, with "_", "-" or nothing
# between words. A call without other arguments looks the value up, so the value counts there.
VOLATILE_KEYS = frozenset(
    {
        *("requestid", "correlationid", "idempotencykey", "nonce"),
        *("toolcallid", "traceid", "traceparent", "timestamp"),
    }
)
# Keys with a new value in every result: its time, its duration, its number.
VOLATILE_RESULT_KEYS = frozenset(
    {
        *("duration", "duration_ms", "duration_s", "duration_seconds", "elapsed", "elapsed_ms"),
        *("elapsed_s", "elapsed_seconds", "elapsed_time", "execution_time", "latency_ms", "took"),
        *("ts", "timestamp", "created_at", "sent_at", "started_at", "finished_at"),
        *("message_id", "run_id", "request_id", "response_id", "correlation_id", "trace_id"),
        *("span_id", "execution_id", "event_id", "execution_count", "etag", "nonce"),
    }
)
_MAY_BE_VOLATILE = (
    r'(?i)"(?:request|correlation|tool[_-]?call|trace)[_-]?id"|"idempotency[_-]?key"'
    r'|"nonce"|"traceparent"|"timestamp"'
)
# Without leading zeros, which codes have, and short enough that no JSON reader rounds them.
_WHOLE_NUMBER = r"-?(?:0|[1-9][0-9]{0,14})"
_MAY_BE_LOOSE = rf':\s*(?:null|""|\[\]|\{{\}}|"{_WHOLE_NUMBER}")'


@dataclass(frozen=True, slots=True)
class Tool:
    """Declarations about one tool; a key is at the top level, or a path with dots.

    If `same_call` names the only keys that count, no key is volatile by its name. The calls of a
    `polling` tool are unknown as calls and have no signature, so no rule sees them repeat. Their
    failures still count.
    """

    volatile_keys: Annotated[
        tuple[Name, ...],
        Meta(
            max_length=TOOL_KEYS_MAX,
            description="Arguments that do not count, by key or path with dots.",
        ),
    ] = ()
    same_call: Annotated[
        tuple[Name, ...],
        Meta(
            max_length=TOOL_KEYS_MAX,
            description="The only arguments that count, instead of volatile_keys.",
        ),
    ] = ()
    polling: Annotated[
        bool,
        Meta(description="Whether the tool is meant to be polled, so that its calls never repeat."),
    ] = False


@dataclass(frozen=True, slots=True)
class TextMask:
    """A part of results and errors that is not compared, and the placeholder for it."""

    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=PATTERN_CHARS_MAX,
            description="A regular expression in the syntax of Rust's regex, which runs in linear "
            "time.",
        ),
    ]
    name: Annotated[Name, Meta(description="The placeholder of the part.")]


@dataclass(frozen=True, slots=True)
class Results:
    """The keys in results with values that are not compared."""

    volatile_keys: Annotated[
        tuple[Name, ...],
        Meta(
            max_length=TOOL_KEYS_MAX,
            description="Further keys whose values are new with every result: ids, times, "
            "durations and counters.",
        ),
    ] = ()
    telling_keys: Annotated[
        tuple[Name, ...],
        Meta(
            max_length=TOOL_KEYS_MAX,
            description="Keys that looptrace ignores by default but that do count: of what a call "
            "sends or makes, of counters of calls, or of these: "
            f"{', '.join(sorted(VOLATILE_RESULT_KEYS))}.",
        ),
    ] = ()

    @property
    def keys(self) -> frozenset[str]:
        """All keys that are volatile in results."""
        return (VOLATILE_RESULT_KEYS | {*self.volatile_keys}) - {*self.telling_keys}


@dataclass(frozen=True, slots=True)
class Sessions:
    """When the sessions of two spans are the same."""

    join_services: Annotated[
        bool,
        Meta(
            description="Whether the same session id of several services is one task even if they "
            "share no trace."
        ),
    ] = False

    def name_of(self, session: str, service: str | None) -> str:
        """Return the name of a session's task, for a span of a service."""
        return session_name(session, None if self.join_services else service)


PER_SERVICE = Sessions()


@dataclass(frozen=True, slots=True)
class Sameness:
    """The declarations of a team: tools by name, masks in their order, results, sessions."""

    tools: Mapping[str, Tool] = field(default_factory=dict)
    masks: tuple[TextMask, ...] = ()
    results: Results = field(default_factory=Results)
    sessions: Sessions = PER_SERVICE


NOTHING = Sameness()


def check_pattern(pattern: str) -> None:
    """Check a pattern for a mask.

    Raises:
        ValueError: in one line, if it is empty, too long, or refused by the linear-time engine.
    """
    if not 1 <= len(pattern) <= PATTERN_CHARS_MAX:
        raise ValueError(f"a pattern has 1 to {PATTERN_CHARS_MAX} characters, not {len(pattern)}")
    try:
        empty = pl.Series([""]).str.contains(pattern)[0]
    except pl.exceptions.ComputeError as error:
        lines = str(error).splitlines()
        message = next((line for line in lines if line.startswith("error: ")), lines[0])
        reason = message.removeprefix("regex error: ").removeprefix("error: ")
        raise ValueError(f"cannot compile {pattern!r}: {reason}") from error
    if empty:
        raise ValueError(f"{pattern!r} matches an empty text, so it would match everywhere")


def compared_arguments(turns: pl.DataFrame, sameness: Sameness) -> pl.Series:
    """Return the arguments (canonical JSON or text) that make the calls of turns the same.

    Arguments that are not a JSON object stay as they are.
    """
    declared = pl.col("name").is_in([n for n, t in sameness.tools.items() if _reduces(t)])
    may_differ = pl.col("arguments").str.starts_with("{") & (
        declared
        | pl.col("arguments").str.contains(_MAY_BE_VOLATILE)
        | pl.col("arguments").str.contains(_MAY_BE_LOOSE)
    )
    rows = turns.select((pl.col("kind") == "tool") & may_differ).to_series().arg_true()
    if rows.is_empty():
        return turns["arguments"]
    pairs = zip(turns["name"].gather(rows), turns["arguments"].gather(rows), strict=True)
    reduced = [_reduce(text, sameness.tools.get(name, Tool())) for name, text in pairs]
    return turns["arguments"].clone().scatter(rows, reduced)


def _reduces(tool: Tool) -> bool:
    return bool(tool.volatile_keys or tool.same_call)


def _reduce(arguments: str, tool: Tool) -> str:
    value = parsed(arguments)
    if not isinstance(value, dict):
        return arguments
    if tool.same_call:
        return canonical(_strict({path: _at(value, path.split(".")) for path in tool.same_call}))
    for path in tool.volatile_keys:
        _drop(value, path.split("."))
    stays = _strict({key: item for key, item in value.items() if not _is_volatile(key)})
    return canonical(stays or value)


def _strict(value: Any) -> Any:
    """Return the canonical form of a value: without empty keys, whole numbers as numbers."""
    if isinstance(value, str) and re.fullmatch(_WHOLE_NUMBER, value):
        return int(value)
    if isinstance(value, list):
        return [_strict(item) for item in value]
    if not isinstance(value, dict):
        return value
    items = ((key, _strict(item)) for key, item in value.items())
    return {key: item for key, item in items if item not in (None, "", [], {})}


def _is_volatile(key: str) -> bool:
    return key.replace("_", "").replace("-", "").lower() in VOLATILE_KEYS


def _at(value: Any, path: Iterable[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _drop(value: dict[str, Any], path: list[str]) -> None:
    *above, last = path
    holder = _at(value, above)
    if isinstance(holder, dict):
        holder.pop(last, None)
