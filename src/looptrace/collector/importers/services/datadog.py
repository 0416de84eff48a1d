"""Spans of Datadog: of LLM Observability, as its SDK and its API have them, and of APM; its logs.

The fields are those of `LLMObsSpanEvent` in ddtrace 3.12.0 ddtrace/llmobs/_llmobs.py, and those of
`LLMObsSpanAttributes`, `SpansAttributes` and `LogAttributes` in datadog-api-client 2
(datadog_api_client/v2/model, also `LLMObsSpanMessage` with calls and results).
"""

from collections.abc import Iterator
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.console import printed
from looptrace.collector.importers.platforms.spans_and_logs import LogOf
from looptrace.collector.importers.spans import (
    flat_attributes,
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)
from looptrace.collector.otlp.span_rows import SERVICE_NAME, DecodedSpans

_KINDS = {"tool": "TOOL", "retrieval": "RETRIEVER", "llm": "LLM", "agent": "AGENT"}
_NO_PARENTS = ("undefined", "0")
_SESSION = "session_id:"
_LOG = "log"


def read_event(record: dict[str, Any], where: str) -> DecodedSpans:
    """Return the rows of a span or a log record that an API wraps. Raises one of RECORD_ERRORS."""
    if record["type"] == _LOG:
        return printed.read(_log_of(mapping(record["attributes"])).record, where)
    return DecodedSpans([row_of_event(record)])


def _log_of(log: dict[str, Any]) -> LogOf:
    """Return a log record, whose attributes are nested by their dots."""
    held = dict(flat_attributes(mapping(log.get("attributes"))))
    at_ns = time_ns(held.get("otel.timestamp") or log["timestamp"])
    ids = {name: held.get(f"otel.{name}_id") for name in ("trace", "span")}
    return LogOf(at_ns, log.get("message"), held, {SERVICE_NAME: log.get("service")}, **ids)


def row_of_event(event: dict[str, Any]) -> SpanRow:
    """Return the row of a span that an API wraps."""
    span = mapping(event["attributes"])
    if "start_timestamp" in span:
        return _apm_row(span)
    names = ("input", "output", "model_name")
    meta = {"span.kind": span["span_kind"], **{name: span.get(name) for name in names}}
    tags = span.get("tags") or ()
    session = next((tag.removeprefix(_SESSION) for tag in tags if tag.startswith(_SESSION)), None)
    return row_of({"session_id": session, **span, "meta": meta, "service": span.get("ml_app")})


def _apm_row(span: dict[str, Any]) -> SpanRow:
    """Return the row of a span of APM, whose attributes are nested by their dots."""
    told = {**mapping(span.get("attributes")), **mapping(span.get("custom"))}
    held = dict(flat_attributes(told))
    failed = span.get("status") == "error" or held.get("error.message") is not None
    return foreign_row(
        trace=span["trace_id"],
        span=span["span_id"],
        parent=_parent_of(span),
        name=span.get("resource_name"),
        start_ns=time_ns(span["start_timestamp"]),
        end_ns=time_ns(span.get("end_timestamp")),
        failed=True if failed else None,
        error=held.get("error.message"),
        service=span.get("service"),
        scope=held.get("otel.scope.name") or held.get("otel.library.name"),
        attributes=held,
        events=[
            (
                str(event.get("name")),
                time_ns(event.get("time_unix_nano")),
                mapping(event.get("attributes")),
            )
            for event in map(mapping, parsed(mapping(span.get("custom")).get("events")) or ())
        ],
    )


def _parent_of(span: dict[str, Any]) -> object:
    parent = span.get("parent_id")
    return None if parent in _NO_PARENTS else parent


def _messages(held: dict[str, Any]) -> list[dict[str, Any]]:
    """Return messages as OpenAI has them; Datadog's calls and results have fields of their own."""
    return [plain for message in held.get("messages") or () for plain in _plain(mapping(message))]


def _plain(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    calls = [_call(mapping(call)) for call in message.get("tool_calls") or ()]
    results = [mapping(result) for result in message.get("tool_results") or ()]
    rest = {name: v for name, v in message.items() if name not in ("tool_calls", "tool_results")}
    if calls or not results or rest.get("content"):
        yield rest | ({"tool_calls": calls} if calls else {})
    for result in results:
        call_id, content = result.get("tool_id"), result.get("result")
        yield {"role": "tool", "tool_call_id": call_id, "content": text_of(content)}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    if "function" in call:
        return call
    told = {"name": call.get("name"), "arguments": text_of(call.get("arguments"))}
    return {"id": call.get("tool_id"), "type": "function", "function": told}


def row_of(span: dict[str, Any]) -> SpanRow:
    """Return the row of a span."""
    meta, metrics = mapping(span["meta"]), mapping(span.get("metrics"))
    kind = _KINDS.get(str(meta.get("span.kind") or meta.get("kind")), "CHAIN")
    given, answer = mapping(meta.get("input")), mapping(meta.get("output"))
    start_ns = time_ns(span["start_ns"])
    return foreign_row(
        trace=span["trace_id"],
        span=span["span_id"],
        parent=_parent_of(span),
        name=span.get("name"),
        start_ns=start_ns,
        end_ns=start_ns + int(span["duration"]),
        failed=True if span.get("status") == "error" else None,
        error=meta.get("error.message"),
        service=span.get("service"),
        scope="datadog",
        attributes={
            "openinference.span.kind": kind,
            "agent.name": span.get("name") if kind == "AGENT" else None,
            "tool.name": span.get("name") if kind == "TOOL" else None,
            "input.value": text_of(_messages(given) or given.get("value")),
            "output.value": text_of(
                _messages(answer) or answer.get("documents") or answer.get("value")
            ),
            "error.type": meta.get("error.type"),
            "llm.model_name": meta.get("model_name"),
            "llm.token_count.prompt": metrics.get("input_tokens"),
            "llm.token_count.completion": metrics.get("output_tokens"),
            "llm.token_count.prompt_details.cache_read": metrics.get("cache_read_input_tokens"),
            "llm.token_count.prompt_details.cache_write": metrics.get("cache_write_input_tokens"),
            **session_attributes(span.get("session_id")),
        },
    )
