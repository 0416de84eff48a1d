"""Documents of OpenSearch's Data Prepper, from its index `otel-v1-apm-span`.

The fields are those of opensearch-project/data-prepper@0bcc113 docs/schemas/trace-analytics/
otel-v1-apm-span-index-template.md. Attributes are fields of their own, with `@` for the dots in
their names, as `span.attributes.gen_ai@tool@name`.
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.spans import foreign_row, mapping, time_ns

_ATTRIBUTES = "span.attributes."
_FAILED = {"2": True, "1": False}


def row_of(document: dict[str, Any]) -> SpanRow:
    """Return the row of a span."""
    status = mapping(document.get("status"))
    code, message = (document.get(f"status.{n}", status.get(n)) for n in ("code", "message"))
    own = {
        name.removeprefix(_ATTRIBUTES).replace("@", "."): value
        for name, value in document.items()
        if name.startswith(_ATTRIBUTES)
    }
    return foreign_row(
        trace=document["traceId"],
        span=document["spanId"],
        parent=document.get("parentSpanId"),
        name=document.get("name"),
        start_ns=time_ns(document["startTime"]),
        end_ns=time_ns(document.get("endTime")),
        failed=_FAILED.get(str(code)),
        error=message,
        service=document.get("serviceName"),
        scope=document.get("instrumentationScope.name"),
        attributes={**mapping(document.get("attributes")), **own},
        events=[
            (str(event.get("name")), time_ns(event.get("time")), mapping(event.get("attributes")))
            for event in map(mapping, parsed(document.get("events")) or ())
        ],
    )
