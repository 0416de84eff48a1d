"""Rows of Azure Monitor: the answer of a query, or rows as objects, as `az monitor` prints them.

Application Insights names the columns of `dependencies`, `requests`, `exceptions` and `traces`
otherwise than Log Analytics those of `AppDependencies` and so on (learn.microsoft.com,
azure-monitor/reference/tables). Attributes are texts in one column, up to 8,192 characters each.
"""

from collections.abc import Collection, Iterator
from typing import Any

from looptrace.collector.importers.platforms.spans_and_logs import (
    LogOf,
    SpanOrLog,
    exception_of,
    rows_of,
)
from looptrace.collector.importers.records import RECORD_ERRORS, wrong
from looptrace.collector.importers.spans import NS_PER_MS, mapping, time_ns
from looptrace.collector.otlp.json import MEND
from looptrace.collector.otlp.span_rows import SERVICE_NAME, DecodedSpans, Problem

_TABLES = {"tables"}
_INSIGHTS = {"operation_Id", "operation_ParentId", "customDimensions"}
_ANALYTICS = {"OperationId", "ParentId", "Properties"}
# The columns of Log Analytics by those of Application Insights.
_NAMES = {
    "timestamp": "TimeGenerated",
    "id": "Id",
    "name": "Name",
    "duration": "DurationMs",
    "success": "Success",
    "operation_Id": "OperationId",
    "operation_ParentId": "ParentId",
    "customDimensions": "Properties",
    "cloud_RoleName": "AppRoleName",
    "type": "ExceptionType",
    "outerMessage": "OuterMessage",
    "problemId": "ProblemId",
    "message": "Message",
}


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a row, or of the answer of a query."""
    fields = set(names)
    return fields == _TABLES or fields >= _INSIGHTS or fields >= _ANALYTICS


def read(record: dict[str, Any], where: str) -> DecodedSpans:
    """Return the rows of a row or of an answer. Raises one of RECORD_ERRORS."""
    if "tables" not in record:
        return rows_of(_told_by(record), where)
    out = DecodedSpans()
    for place, row in _rows(record["tables"]):
        try:
            out.rows.extend(rows_of(_told_by(row), where).rows)
        except RECORD_ERRORS as error:
            why = f"{place} was left out: {wrong(error)}; {MEND}"
            out.problems.append(Problem(where, why, is_span=True))
    return out


def _rows(tables: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, table in enumerate(tables):
        names = [column["name"] for column in table["columns"]]
        for index, row in enumerate(table["rows"]):
            yield f"tables[{number}].rows[{index}]", dict(zip(names, row, strict=True))


def _told_by(row: dict[str, Any]) -> SpanOrLog:
    told = {name: row.get(name, row.get(other)) for name, other in _NAMES.items()}
    trace, parent = told["operation_Id"], told["operation_ParentId"]
    start_ns = time_ns(told["timestamp"])
    if told["problemId"] or told["outerMessage"]:
        return exception_of(trace, parent, told["type"], told["outerMessage"], start_ns)
    attributes = mapping(told["customDimensions"])
    if told["duration"] in (None, "") or not told["id"]:
        resource = {SERVICE_NAME: told["cloud_RoleName"]}
        return LogOf(start_ns, told["message"], attributes, resource, trace=trace, span=parent)
    return {
        "trace": trace,
        "span": told["id"],
        "parent": None if parent == trace else parent,
        "name": told["name"],
        "start_ns": start_ns,
        "end_ns": start_ns + round(float(told["duration"]) * NS_PER_MS),
        "failed": True if str(told["success"]).lower() == "false" else None,
        "service": told["cloud_RoleName"],
        "attributes": attributes,
    }
