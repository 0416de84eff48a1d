"""Log records of agents as Loki, Grafana and ClickHouse keep them.

- Loki: results of `query_range`, lines of `logcli -o jsonl`; attributes are labels, with
  underscores for dots (grafana.com/docs/loki/latest/reference/loki-http-api and send-data/otel)
- Grafana: the download of logs as JSON, `{"line", "timestamp", "fields"}`
- ClickHouse: rows of `otel_logs` (open-telemetry/opentelemetry-collector-contrib
  exporter/clickhouseexporter/internal/sqltemplates/logs_table.sql)

They are read as records of OTLP: coding agents write their work into them.
"""

from collections.abc import Iterator
from functools import reduce
from typing import Any

from looptrace.collector.importers.console import printed
from looptrace.collector.importers.platforms.spans_and_logs import LogOf
from looptrace.collector.importers.rows.underscores import with_dots
from looptrace.collector.importers.spans import mapping, time_ns
from looptrace.collector.otlp.span_rows import SERVICE_NAME, DecodedSpans


def read(record: dict[str, Any], where: str) -> DecodedSpans:
    """Return the rows of the work that log records tell. Raises one of RECORD_ERRORS."""
    decoded = (printed.read(log.record, where) for log in _logs_of(record))
    return reduce(DecodedSpans.with_more, decoded, DecodedSpans())


def _logs_of(record: dict[str, Any]) -> Iterator[LogOf]:
    if "Body" in record:
        ids = {"trace": record.get("TraceId"), "span": record.get("SpanId")}
        attributes, resource = (
            mapping(record.get(f"{of}Attributes")) for of in ("Log", "Resource")
        )
        resource = {SERVICE_NAME: record.get("ServiceName"), **resource}
        yield LogOf(time_ns(record["Timestamp"]), record["Body"], attributes, resource, **ids)
        return
    if "values" not in record:
        labels = record.get("fields", record.get("labels"))
        yield _labeled(record["timestamp"], record["line"], labels)
        return
    for at, line, *more in record["values"]:
        held = mapping(more[0]) if more else {}
        # Loki may tell the labels of a record and what it found in the line apart.
        own = {**mapping(held.get("structuredMetadata")), **mapping(held.get("parsed"))} or held
        yield _labeled(at, line, {**record["stream"], **own})


def _labeled(at: object, line: object, labels: object) -> LogOf:
    held = mapping(labels)
    ids = {"trace": held.get("trace_id"), "span": held.get("span_id")}
    resource = {SERVICE_NAME: held.get("service_name")}
    return LogOf(time_ns(at), line, with_dots(held), resource, **ids)
