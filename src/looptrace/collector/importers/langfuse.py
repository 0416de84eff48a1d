"""Observations of Langfuse, from its API or an export, alone or within their trace.

The API writes names like `startTime`, an export to a blob storage writes `start_time`. The page's
download of a trace is `{"trace": ..., "observations": [...]}`. What came as a span of OpenTelemetry
has its attributes in `metadata` (`attributes`, `scope`, `resourceAttributes`), without those that
became fields of Langfuse (langfuse/langfuse packages/shared/src/server/otel).
"""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.records import Nesting, Part, snake_case
from looptrace.collector.importers.spans import (
    foreign_row,
    mapping,
    plain_attributes,
    text_of,
    time_ns,
)
from looptrace.collector.otlp.span_rows import SERVICE_NAME, BadSpanError

_OBSERVATION = {"id", "trace_id", "start_time", "type"}
_TRACES = ({"id", "observations"}, {"trace", "observations"})
NESTING = Nesting("trace_id", "id", "parent_observation_id", lists=("observations",))
# Attributes that say what a span is, of which Langfuse's type is a guess.
_MARKERS = frozenset(
    {
        *("gen_ai.operation.name", "gen_ai.tool.name", "openinference.span.kind"),
        *("traceloop.span.kind", "langsmith.span.kind", "ai.operationId", "llm.request.type"),
    }
)
_ONLY_IDS = "it has only the ids of observations; export each trace, or the observations"


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of an observation, or of a trace with some."""
    known = set(map(snake_case, names))
    return known >= _OBSERVATION or any(known >= trace for trace in _TRACES)


def parts(record: dict[str, Any]) -> Iterator[Part]:
    """Yield the observations of a record, each with its place."""
    record = _fields(record)
    if "observations" not in record:
        yield "", partial(_row, record, None)
        return
    trace = _fields(mapping(record.get("trace"))) or record
    for index, observation in enumerate(record["observations"] or ()):
        read = partial(_row, observation, trace.get("session_id"), trace.get("id"))
        yield f"observations[{index}]", read


def _row(observation: Any, session: object, trace: object = None) -> SpanRow:
    if isinstance(observation, str):
        raise BadSpanError(_ONLY_IDS)
    fields = _fields(observation)
    level = str(fields.get("level") or "")
    usage = mapping(fields.get("usage_details")) or mapping(fields.get("usage"))
    metadata = mapping(fields.get("metadata"))
    original = plain_attributes(mapping(metadata.get("attributes")))
    resource = mapping(metadata.get("resourceAttributes"))
    own = {
        "langfuse.observation.type": str(fields["type"]).lower()
        if _MARKERS.isdisjoint(original)
        else None,
        "langfuse.observation.input": text_of(fields.get("input")),
        "langfuse.observation.output": text_of(fields.get("output")),
        "langfuse.observation.model.name": fields.get("provided_model_name") or fields.get("model"),
        "langfuse.observation.usage_details": text_of(usage) if usage else None,
        "langfuse.observation.level": level or None,
        "langfuse.observation.status_message": fields.get("status_message"),
        "langfuse.session.id": session or fields.get("session_id"),
    }
    return foreign_row(
        trace=fields.get("trace_id") or trace,
        span=fields["id"],
        parent=fields.get("parent_observation_id"),
        name=fields.get("name"),
        start_ns=time_ns(fields["start_time"]),
        end_ns=time_ns(fields.get("end_time")),
        failed=True if level == "ERROR" else None,
        error=fields.get("status_message"),
        service=fields.get("release") or resource.get(SERVICE_NAME),
        scope=mapping(metadata.get("scope")).get("name") or "langfuse",
        attributes=original | {name: told for name, told in own.items() if told is not None},
    )


def _fields(record: dict[str, Any]) -> dict[str, Any]:
    return {snake_case(name): value for name, value in record.items()}
