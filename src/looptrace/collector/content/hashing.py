"""Spans without any content: the fields that turns need, with a keyed hash for every text.

Only the fields listed here are kept, so that new or unknown ones stay out: ids, names, kinds,
times, token counts and figures as they are, and users, calls, results, errors and messages as
hashes. They are written in the GenAI conventions, whatever the dialect of the span.

A text is hashed in the form in which it is compared: the arguments of a call as they are, value by
value, and the results of calls without their volatile parts.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec
import polars as pl
from msgspec.structs import replace

from looptrace import semconv
from looptrace._core import (
    call_in_event,
    kind_of_failure,
    says_failed,
    says_nothing,
    type_of_failure,
)
from looptrace.analyzer.fields.dialect_table import DialectTable
from looptrace.analyzer.fields.span_fields import span_fields_of
from looptrace.analyzer.schema.message import Message, ToolCall, ToolResult
from looptrace.analyzer.schema.service_versions import version_in, with_versions
from looptrace.analyzer.schema.span_fields import ProgressFigures, SpanFields
from looptrace.analyzer.schema.spans import LOGGED, STATUS_ERROR, STATUS_OK
from looptrace.analyzer.text.payloads import canonical, parsed
from looptrace.collector.content.keyed_hashes import hash_of, masked_texts

# The forms in which texts are compared: as they are, or without volatile parts, of which an error
# has more.
HashedForm = Literal["exact", "result", "error"]
Hash = Callable[[HashedForm, str], str]

_COLUMNS = ("name", "status", "status_message", "attributes", "events")
_OPERATIONS = {"tool": "execute_tool", "model": "chat", "agent": "invoke_agent"}
_NAME_KEYS = {"tool": semconv.GEN_AI_TOOL_NAME, "model": semconv.GEN_AI_REQUEST_MODEL}
# Anything that is not a name is content; sentences do not match this.
_NAME = re.compile(r"[\w.:/@$-]{1,128}")
_DEPTH_MAX = 20
# The suffixes that keep the kind of a failure, known from its text, in the type of error.
_KIND_WORDS = {"network": "connection", "dependency": "importerror", "logic": "assert"}


def hash_content(spans: pl.DataFrame, key: bytes, dialects: DialectTable) -> pl.DataFrame:
    """Return spans (`SPAN_SCHEMA`) with hashes for all content."""
    events = spans["events"].to_list()
    logged = [
        text if status == LOGGED else ""
        for status, text in zip(spans["status"], events, strict=True)
    ]
    fields = _with_kinds(span_fields_of(_as_spans(spans), dialects))
    seen: dict[HashedForm, dict[str, str]] = {"exact": {}, "result": {}, "error": {}}
    for span, event in zip(fields, logged, strict=True):
        _row(span, event, lambda form, text: seen[form].setdefault(text, ""))
    known = {
        "exact": {text: hash_of(text, key) for text in seen["exact"]},
        **{
            form: {
                text: hash_of(without, key)
                for text, without in masked_texts(seen[form], error=form == "error").items()
            }
            for form in ("result", "error")
        },
    }
    columns = [
        _row(span, event, lambda form, text: known[form][text])
        for span, event in zip(fields, logged, strict=True)
    ]
    versions = [version_in(attributes) for attributes in spans["attributes"]]
    hashed = spans.with_columns(
        pl.DataFrame(columns, schema={name: spans.schema[name] for name in _COLUMNS}, orient="row")
    )
    return with_versions(hashed, [v if v and _NAME.fullmatch(v) else None for v in versions])


def _as_spans(spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans; an event of a log record is read as a response that failed with it."""
    is_logged = pl.col("status") == LOGGED
    told = pl.lit(f'{{"{semconv.GEN_AI_OPERATION_NAME}":"{_OPERATIONS["model"]}"}}')
    return spans.with_columns(
        attributes=pl.when(is_logged).then(told).otherwise("attributes"),
        status=pl.when(is_logged).then(pl.lit(STATUS_ERROR)).otherwise("status"),
    )


def _row(span: SpanFields, event: str, texts: Hash) -> tuple[str, int | None, str | None, str, str]:
    """Return the written parts of a span, or of the event of a log record."""
    if not event:
        return _columns(span, texts)
    (said,) = msgspec.json.decode(event)
    name, attributes = _hashed_event(span, said, texts)
    known = {key: value for key, value in attributes.items() if value is not None}
    return "", LOGGED, None, "{}", _json([{**said, "name": name, "attributes": known}])


def _hashed_event(
    span: SpanFields, event: dict[str, Any], texts: Hash
) -> tuple[str, dict[str, Any]]:
    """Return the name and the attributes of an event that was read as a span, with hashes."""
    name = event["name"]
    if f".{name}".endswith(".exception"):
        error = None if span.error is None else texts("error", span.error)
        return name, next((e["attributes"] for e in _exceptions(span, error, texts)), {})
    given = _messages(span.given, "result", texts) or []
    answer = _messages(span.answer, "exact", texts) or []
    if name == semconv.CHOICE_EVENT:
        message = answer[0] if answer else None
        return name, {"message": message, "finish_reason": span.finish_reason}
    if name in semconv.MESSAGE_EVENTS:
        return name, given[0] if given else {}
    arguments, result, failed = call_in_event(_json([event]))
    return semconv.DETAILS_EVENT, {
        **dict(_attributes(span, None, texts)),
        semconv.GEN_AI_OPERATION_NAME: None,
        semconv.GEN_AI_TOOL_CALL_ARGUMENTS: _arguments(arguments, texts),
        semconv.GEN_AI_TOOL_CALL_RESULT: _result(result, failed or _reads_failed(result), texts),
    }


def _with_kinds(fields: list[SpanFields]) -> list[SpanFields]:
    """Set the type of an error from its text, because the text itself is not kept."""
    return [span if (kind := _kind_of(span)) is None else _typed(span, kind) for span in fields]


def _kind_of(span: SpanFields) -> str | None:
    """Return the kind of a failed call; None where its type already says it, or nothing does."""
    failed = span.failed or _reads_failed(span.result, span.name, span.arguments)
    if span.kind != "tool" or not failed or kind_of_failure(span.error_type or ""):
        return None
    told = filter(None, (span.error_type, span.error or span.result))
    return kind_of_failure(": ".join(told))


def _typed(span: SpanFields, kind: str) -> SpanFields:
    error_type = span.error_type or _type_in(span.result) or "Error"
    return replace(span, error_type=f"{error_type}_{_KIND_WORDS.get(kind, kind)}")


def _columns(span: SpanFields, texts: Hash) -> tuple[str, int | None, str | None, str, str]:
    """Return the written parts of a span: name, status, message, attributes, events."""
    by_text = _reads_failed(span.result, span.name, span.arguments)
    failed = span.failed or (None if span.failed is False else by_text)
    error = None if span.error is None else texts("error", span.error)
    return (
        span.name,
        STATUS_ERROR if failed else STATUS_OK if span.failed is False else 0,
        error,
        _json({key: value for key, value in _attributes(span, failed, texts) if value is not None}),
        _json([*_exceptions(span, error, texts), *_interventions(span, texts)]),
    )


def _attributes(span: SpanFields, failed: bool | None, texts: Hash) -> Iterable[tuple[str, object]]:
    yield semconv.GEN_AI_OPERATION_NAME, _OPERATIONS.get(span.kind or "")
    yield semconv.GEN_AI_CONVERSATION_ID, span.session
    yield semconv.PAYER, span.payer
    yield semconv.MCP_SESSION_ID, span.connection
    yield semconv.USER_ID, None if span.user_id is None else texts("exact", span.user_id)
    yield semconv.GEN_AI_AGENT_NAME, span.agent
    yield semconv.TASK_ID, span.task
    yield semconv.TASK_PARENT_ID, span.task_parent
    yield semconv.TASK_KIND, span.task_kind
    yield semconv.PHASE, span.phase
    yield semconv.PHASE_START_NS, span.phase_start_ns
    yield semconv.ITERATION, span.iteration
    yield semconv.TASK_STATUS, span.status
    yield semconv.BLOCKERS, _value(parsed(span.blockers), texts)
    yield semconv.COMPLETED_WORK, _value(parsed(span.completed_work), texts)
    yield from _figures(span.figures)
    if span.kind in _NAME_KEYS:
        yield _NAME_KEYS[span.kind], span.name
    yield semconv.GEN_AI_TOOL_CALL_ID, span.call_id
    yield semconv.ERROR_TYPE, span.error_type or (_type_in(span.result) if failed else None)
    yield semconv.GEN_AI_TOOL_CALL_ARGUMENTS, _arguments(span.arguments, texts)
    yield semconv.GEN_AI_TOOL_CALL_RESULT, _result(span.result, failed, texts)
    form: HashedForm = "exact" if span.kind == "agent" else "result"
    yield semconv.GEN_AI_INPUT_MESSAGES, _messages(span.given, form, texts)
    yield semconv.GEN_AI_OUTPUT_MESSAGES, _messages(span.answer, "exact", texts)
    yield semconv.GEN_AI_RESPONSE_FINISH_REASONS, span.finish_reason
    yield semconv.OPENAI_RESPONSE_SERVICE_TIER, span.service_tier
    yield semconv.GEN_AI_CONVERSATION_COMPACTED, span.compacted
    yield semconv.GEN_AI_USAGE_INPUT_TOKENS, span.input_tokens
    yield semconv.GEN_AI_USAGE_OUTPUT_TOKENS, span.output_tokens
    yield semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, span.cached_tokens
    yield semconv.GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS, span.cache_write_tokens
    yield semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS, span.reasoning_tokens
    yield semconv.DIFFERING_TOKENS, span.differing_tokens
    yield semconv.RECORD, span.is_record or None


def _figures(figures: ProgressFigures) -> Iterable[tuple[str, object]]:
    """Return recorded progress; files, dependencies and code become one count, without loss."""
    for name in ("tests_failed", "tests_total", "coverage"):
        yield f"{semconv.PROGRESS_PREFIX}{name}", getattr(figures, name)
    yield f"{semconv.PROGRESS_PREFIX}files_created", figures.markers
    metrics = {} if figures.metrics is None else msgspec.json.decode(figures.metrics)
    for name, value in metrics.items():
        yield f"{semconv.METRIC_PREFIX}{name}", value


def _exceptions(span: SpanFields, error: str | None, texts: Hash) -> Iterable[dict[str, Any]]:
    if span.stacktrace is None:
        return
    figures = {
        semconv.EXCEPTION_TYPE: span.error_type,
        semconv.EXCEPTION_MESSAGE: error,
        semconv.EXCEPTION_STACKTRACE: texts("error", span.stacktrace),
    }
    known = {key: value for key, value in figures.items() if value is not None}
    yield {"name": "exception", "time_ns": span.end_ns, "attributes": known}


def _interventions(span: SpanFields, texts: Hash) -> Iterable[dict[str, Any]]:
    for done in span.interventions:
        outputs = {
            semconv.DECISION: _named(done.decision, texts),
            semconv.NOTE: None if done.note is None else texts("exact", done.note),
        }
        known = {key: value for key, value in outputs.items() if value is not None}
        yield {"name": semconv.INTERVENTION_EVENT, "time_ns": done.at_ns, "attributes": known}


def _messages(
    messages: tuple[Message, ...] | None, form: HashedForm, texts: Hash
) -> list[dict[str, Any]] | None:
    if messages is None:
        return None
    return [
        {
            "role": message.role,
            "parts": [
                *_text(message, "exact" if message.role == "assistant" else form, texts),
                *(_call(call, texts) for call in message.calls),
                *(_answer(result, texts) for result in message.results),
            ],
        }
        for message in messages
    ]


def _text(message: Message, form: HashedForm, texts: Hash) -> Iterable[dict[str, str]]:
    if message.text is None:
        yield {"type": "text", "content": "[redacted]"}
    elif message.text:
        yield {"type": "text", "content": texts(form, message.text)}
    elif not (message.silent or message.calls or message.results):
        yield {"type": "text"}  # A message without parts would show that it was empty.


def _call(call: ToolCall, texts: Hash) -> dict[str, Any]:
    known = {"id": call.call_id, "arguments": _arguments(call.arguments, texts)}
    fields = {key: value for key, value in known.items() if value is not None}
    return {"type": "tool_call", "name": call.name, **fields}


def _answer(result: ToolResult, texts: Hash) -> dict[str, Any]:
    failed = _reads_failed(result.text) if result.failed is None else result.failed
    known = {"id": result.call_id, "response": _result(result.text, failed, texts)}
    fields = {key: value for key, value in known.items() if value is not None}
    return {"type": "tool_call_response", **fields}


def _arguments(arguments: str | None, texts: Hash) -> object:
    return None if arguments is None else _value(parsed(arguments), texts)


def _value(value: Any, texts: Hash, depth: int = 0) -> Any:
    """Hash each value on its own; the names of arguments, and values without content, stay."""
    if value is None or isinstance(value, bool) or value in ("", [], {}):
        return value
    if isinstance(value, dict) and depth < _DEPTH_MAX:
        return {_named(k, texts): _value(item, texts, depth + 1) for k, item in value.items()}
    if isinstance(value, list) and depth < _DEPTH_MAX:
        return [_value(item, texts, depth + 1) for item in value]
    return texts("exact", canonical(value))


def _result(result: str | None, failed: bool | None, texts: Hash) -> object:
    if result is None:
        return None
    form: HashedForm = "error" if failed else "result"
    content = result if not result or says_nothing(result) else texts(form, result)
    return content if failed is None else {"isError": failed, "content": content}


def _named(name: str | None, texts: Hash) -> str | None:
    return name if name is None or _NAME.fullmatch(name) else texts("exact", name)


def _reads_failed(
    result: str | None, tool: str | None = None, arguments: str | None = None
) -> bool | None:
    """Return True if a result says that its call failed, because its hash does not; else None."""
    if result is None:
        return None
    return True if says_failed(result, tool, arguments) else None


def _type_in(result: str | None) -> str | None:
    return type_of_failure(result or "")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
