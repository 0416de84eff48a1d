"""Observations of Langfuse, from its API or an export, alone or within their trace.

The API writes names like `startTime`, an export to a blob storage writes `start_time`. The page's
download of a trace is `{"trace": ..., "observations": [...]}`. What came as a span of OpenTelemetry
has its attributes in `metadata` (`attributes`, `scope`, `resourceAttributes`), without those that
became fields of Langfuse (langfuse/langfuse packages/shared/src/server/otel). So did messages in
events of a span: an input is a list of them, each with the role that its event's name had, and an
output what `gen_ai.choice` had. They become events again.
"""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
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
_ROLES = frozenset({"system", "user", "assistant", "tool"})
_CHOICE = "gen_ai.choice"
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
    given, answer = parsed(fields.get("input")), parsed(fields.get("output"))
    start_ns, end_ns = time_ns(fields["start_time"]), time_ns(fields.get("end_time"))
    events = list(_events(given, answer, start_ns, end_ns))
    kind = str(fields["type"]).lower()
    model = fields.get("provided_model_name") or fields.get("model")
    own = {
        "langfuse.observation.type": kind if _MARKERS.isdisjoint(original) else None,
        "langfuse.observation.input": None if events else _told(fields.get("input"), given),
        "langfuse.observation.output": None if events else _told(fields.get("output"), answer),
        # What names a model is a response, if no marker says more.
        "langfuse.observation.model.name": None if kind == "embedding" else model,
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
        start_ns=start_ns,
        end_ns=end_ns,
        failed=True if level == "ERROR" else None,
        error=fields.get("status_message"),
        service=fields.get("release") or resource.get(SERVICE_NAME),
        scope=mapping(metadata.get("scope")).get("name") or "langfuse",
        attributes=original | {name: told for name, told in own.items() if told is not None},
        events=events,
    )


def _events(
    given: object, answer: object, start_ns: int, end_ns: int
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the events that an input and an output were made of, if they were."""
    messages = given if isinstance(given, list) else []
    said = answer if isinstance(answer, list) else [answer] if answer else []
    choices = [mapping(choice) for choice in said]
    if not messages or not all(map(_is_message, messages)) or not all(choices):
        return
    has_said = any(isinstance(choice.get("message"), str) for choice in choices)
    if has_said or any(map(_is_of_event, messages)):
        for message in messages:
            yield f"gen_ai.{message['role']}.message", start_ns, plain_attributes(message)
        for choice in choices:
            yield _CHOICE, end_ns, plain_attributes(choice)


def _is_message(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") in _ROLES


def _is_of_event(message: dict[str, Any]) -> bool:
    """Return whether a message has what only an attribute has: a name with dots, JSON for calls."""
    return isinstance(message.get("tool_calls"), str) or any("." in name for name in message)


def _told(value: object, read: object) -> str | None:
    """Return what an input or output says; None for what is left of attributes without a text."""
    return None if _is_bare(read) else text_of(value)


def _is_bare(value: object) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(held == {} or _is_bare(held) for held in value.values())
    )


def _fields(record: dict[str, Any]) -> dict[str, Any]:
    return {snake_case(name): value for name, value in record.items()}
