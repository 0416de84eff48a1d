"""Traces of MLflow: from `Trace.to_json()`, its API and its artifacts (`traces.json`).

Since MLflow 3 the fields of a span are those of OTLP, with base64 ids; earlier versions had names
of their own. The value of each attribute is JSON.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.records import Part
from looptrace.collector.importers.spans import (
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)
from looptrace.collector.otlp.span_rows import SERVICE_NAME

_SESSION = "mlflow.trace.session"
_TYPE, _INPUTS, _OUTPUTS = "mlflow.spanType", "mlflow.spanInputs", "mlflow.spanOutputs"
_USAGE = "mlflow.chat.tokenUsage"
_KINDS = {"CHAT_MODEL": "LLM"}
_KIND = "openinference.span.kind"
_OWN = "mlflow."
# Of its own attributes these are read as they are (`dialects.toml`).
_KEPT = frozenset({_USAGE, "mlflow.message.format"})


def parts(trace: dict[str, Any]) -> Iterator[Part]:
    """Yield the spans of a trace, each with its place."""
    if "info" not in trace:
        trace = mapping(trace["trace"])  # A row of `search_traces`, which has it as JSON.
    info = mapping(trace["info"])
    metadata = mapping(info.get("trace_metadata")) or mapping(info.get("request_metadata"))
    for index, span in enumerate(mapping(trace["data"])["spans"] or ()):
        yield f"data.spans[{index}]", partial(_row, span, metadata)


def _row(span: dict[str, Any], metadata: dict[str, Any]) -> SpanRow:
    context = mapping(span.get("context"))
    attributes = {name: parsed(value) for name, value in mapping(span.get("attributes")).items()}
    kind = str(attributes.get(_TYPE) or "UNKNOWN")
    kind = _KINDS.get(kind, kind)
    given, answer = attributes.get(_INPUTS), attributes.get(_OUTPUTS)
    code, message = _status(span)
    own = {
        _KIND: attributes.get(_KIND) if kind == "UNKNOWN" else kind,
        "tool.name": span.get("name") if kind == "TOOL" else None,
        "input.value": text_of(given),
        "output.value": text_of(answer),
        "llm.model_name": attributes.get("mlflow.llm.model") or mapping(given).get("model"),
        **session_attributes(metadata.get(_SESSION) or attributes.get("session.id")),
    }
    return foreign_row(
        trace=span.get("trace_id") or context["trace_id"],
        span=span.get("span_id") or context["span_id"],
        parent=span.get("parent_span_id") or span.get("parent_id"),
        name=span.get("name"),
        start_ns=time_ns(span.get("start_time_unix_nano") or span.get("start_time")),
        end_ns=time_ns(span.get("end_time_unix_nano") or span.get("end_time")),
        failed={"ERROR": True, "OK": False}.get(code),
        error=message,
        service=attributes.get(SERVICE_NAME),
        attributes={
            name: text_of(value) if name in _KEPT else value
            for name, value in attributes.items()
            if name in _KEPT or not name.startswith(_OWN)
        }
        | {name: told for name, told in own.items() if told is not None},
        events=[
            (
                str(event["name"]),
                time_ns(event.get("time_unix_nano") or event.get("timestamp")),
                mapping(event.get("attributes")),
            )
            for event in span.get("events") or ()
        ],
    )


def _status(span: dict[str, Any]) -> tuple[str, str | None]:
    status = mapping(span.get("status"))
    code = str(status.get("code") or span.get("status_code") or "")
    return code.removeprefix("STATUS_CODE_"), status.get("message") or span.get("status_message")
