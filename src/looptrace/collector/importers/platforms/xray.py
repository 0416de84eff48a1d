"""Traces of AWS X-Ray, as `aws xray batch-get-traces` prints them, and segment documents alone.

The fields are those of segment documents (docs.aws.amazon.com/xray/latest/devguide/
xray-api-segmentdocuments.html). The Collector's exporter keeps the names of attributes in
`metadata.default`, and writes indexed ones into `annotations`, with underscores (open-telemetry/
opentelemetry-collector-contrib exporter/awsxrayexporter/internal/translator/segment.go).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.records import Part
from looptrace.collector.importers.rows.underscores import with_dots
from looptrace.collector.importers.spans import foreign_row, mapping, time_ns
from looptrace.collector.otlp.span_rows import SERVICE_NAME

_RESOURCE = f"otel.resource.{SERVICE_NAME}"


def parts(trace: dict[str, Any]) -> Iterator[Part]:
    """Yield the segments of a trace and those below them, each with its place."""
    if "Segments" not in trace:
        yield from _segments("", trace, trace["trace_id"], trace.get("parent_id"))
        return
    for index, held in enumerate(trace["Segments"]):
        segment = mapping(held["Document"])
        whole = segment.get("trace_id") or trace["Id"]
        yield from _segments(f"Segments[{index}]", segment, whole, segment.get("parent_id"))


def _segments(place: str, segment: dict[str, Any], trace: object, parent: object) -> Iterator[Part]:
    yield place, partial(_row, segment, trace, parent)
    for index, below in enumerate(segment.get("subsegments") or ()):
        where = f"{place}.subsegments[{index}]".lstrip(".")
        yield from _segments(where, below, trace, segment.get("id"))


def _row(segment: dict[str, Any], trace: object, parent: object) -> SpanRow:
    held = mapping(segment.get("metadata")).values()
    metadata = {name: value for each in held for name, value in mapping(each).items()}
    end_ns = time_ns(segment.get("end_time"))
    exceptions = mapping(segment.get("cause")).get("exceptions") or ()
    return foreign_row(
        trace=str(trace).removeprefix("1-"),
        span=segment["id"],
        parent=parent,
        name=segment.get("name"),
        start_ns=time_ns(segment["start_time"]),
        end_ns=end_ns,
        failed=True if any(segment.get(each) for each in ("fault", "error")) else None,
        service=metadata.get(_RESOURCE),
        attributes={**with_dots(mapping(segment.get("annotations"))), **metadata},
        events=[
            (
                "exception",
                end_ns,
                {"exception.type": each.get("type"), "exception.message": each.get("message")},
            )
            for each in map(mapping, exceptions)
        ],
    )
