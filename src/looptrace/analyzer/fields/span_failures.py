"""Whether a span failed, and with what: its status, its level, its exception, its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from looptrace import semconv
from looptrace._core import says_nothing
from looptrace.analyzer.fields.field_reader import FieldColumns
from looptrace.analyzer.text.errors import error_of

STATUS_OK, STATUS_ERROR = 1, 2

_Texts: TypeAlias = Sequence[str | None]
_Flags: TypeAlias = Sequence[bool | None]
_BAD_LEVELS = frozenset({"error", "failure", "failed"})
_TYPES_THAT_SAY_NOTHING = {"", "_OTHER", "TOOL_ERROR", "Exception", "Error", "tool_error"}
_Error: TypeAlias = tuple[str | None, str | None, str | None]  # type, message and stack trace
_NO_ERROR: _Error = (None, None, None)


def levels_of(columns: FieldColumns) -> _Texts:
    """Return the level that a span gives its failure, "error" where it says that it failed.

    By the conventions only an operation that failed has a type of its error.
    """
    levels = list(columns.texts("level"))
    if "error_type" in columns:
        kinds = columns.texts("error_type")
        levels = ["error" if kind else level for kind, level in zip(kinds, levels, strict=True)]
    for name, bad in (("is_error", "true"), ("success", "false")):
        if name in columns:
            flags = columns.texts(name)
            levels = [
                "error" if (flag or "").lower() == bad else level
                for flag, level in zip(flags, levels, strict=True)
            ]
    return levels


def failed_by(
    status: int,
    level: str | None,
    says_failed: bool | None,
    result: str | None,
    events: Sequence[dict[str, Any]],
) -> bool | None:
    """Return failure by the span's status, else by the result; a later step reads its text.

    Some producers set no status. Their span has no result, and its last event is the exception; one
    that was caught before a further try has a result, or events after it.
    """
    if status == STATUS_ERROR or (level and level.lower() in _BAD_LEVELS):
        return True
    if says_failed is not None or result is not None:
        return says_failed
    if status == STATUS_OK:
        return False
    return True if events and is_exception(events[-1]) else None


def errors_of(
    row: Mapping[str, Sequence[Any]], columns: FieldColumns, failed: _Flags, results: _Texts
) -> Sequence[_Error]:
    """Return type, message and stack trace of each span's failure."""
    if True not in failed:
        return [_NO_ERROR] * len(failed)
    told = (columns.values("error"), columns.values("error_type"), results)
    sources = zip(failed, row["events"], row["status_message"], *told, strict=True)
    return [_error(*each) if has_failed else _NO_ERROR for has_failed, *each in sources]


def _error(
    events: Sequence[dict[str, Any]],
    status_message: str | None,
    told: object,
    told_type: object,
    result: str | None,
) -> _Error:
    """Return type, message and stack trace of a failure, from the first source that has any."""
    raised: dict[str, Any] = next((e["attributes"] for e in events if is_exception(e)), {})
    sources = [raised.get(semconv.EXCEPTION_MESSAGE), status_message, told, result]
    if " " in str(told_type):  # Claude Code writes a category, or the whole message.
        sources, told_type = [*sources[:3], told_type, result], None
    types = [str(t) for t in (raised.get(semconv.EXCEPTION_TYPE), told_type) if t]
    known = [t for t in types if t not in _TYPES_THAT_SAY_NOTHING]
    error_type = known[0].rsplit(".", 1)[-1] if known else None
    trace = str(raised.get(semconv.EXCEPTION_STACKTRACE) or "") or None
    for source in sources:
        if isinstance(source, str) and not says_nothing(source):
            text_type, message = error_of(source)
            return error_type or text_type, message, trace or source
    return error_type, None, trace


def is_exception(event: dict[str, Any]) -> bool:
    """Return whether an event is an exception, such as `gen_ai.execute_tool.exception`."""
    return f".{event['name']}".endswith(".exception")
