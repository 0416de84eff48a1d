"""Exports of logs: the work of a coding agent is found in the records of each platform."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import read_spans
from tests.collector.conftest import Write

Fields = dict[str, Any]

_START_NS = 1_772_442_000_000_000_000
_BODY, _SERVICE = "claude_code.tool_result", "claude-code"


def _calls(end: str) -> Iterator[tuple[int, Fields]]:
    """Yield the times and the attributes of six calls, equal ones that fail or others."""
    for number in range(6):
        is_loop = end == "loop"
        told: Fields = {"error": "2 labels are missing"} if is_loop else {}
        yield (
            _START_NS + number * 1_000_000_000,
            {
                "session.id": "depot-4",
                "event.name": "tool_result",
                "tool_name": "check_labels",
                "tool_use_id": f"call_{number}",
                "tool_input": json.dumps({"order": "A17" if is_loop else f"B{number} of May"}),
                "success": "false" if is_loop else "true",
                "duration_ms": "500",
                **told,
            },
        )


def _short(attributes: Fields) -> Fields:
    made: Fields = {name.replace(".", "_"): value for name, value in attributes.items()}
    return made


def loki(end: str) -> Fields:
    """Return what Loki's `query_range` answers."""
    streams = [
        {"stream": _short(told) | {"service_name": _SERVICE}, "values": [[str(at), _BODY]]}
        for at, told in _calls(end)
    ]
    return {"status": "success", "data": {"resultType": "streams", "result": streams}}


def loki_categorized(end: str) -> Fields:
    """Return what it answers where the labels of records stand apart."""
    values = [[str(at), _BODY, {"structuredMetadata": _short(told)}] for at, told in _calls(end)]
    streams = [{"stream": {"service_name": _SERVICE}, "values": values}]
    return {"status": "success", "data": {"resultType": "streams", "result": streams}}


def grafana(end: str) -> list[Fields]:
    """Return Grafana's download of logs."""
    return [
        {"line": _BODY, "timestamp": str(at), "fields": {"service_name": _SERVICE, **_short(told)}}
        for at, told in _calls(end)
    ]


def clickhouse(end: str) -> list[Fields]:
    """Return rows of `otel_logs`."""
    resource = {"service.name": _SERVICE}
    return [
        {"Timestamp": at, "Body": _BODY, "ResourceAttributes": resource, "LogAttributes": told}
        for at, told in _calls(end)
    ]


def _hits(documents: list[Fields]) -> Fields:
    return {"hits": {"hits": [{"_source": document} for document in documents]}}


def elastic_apm(end: str) -> Fields:
    """Return documents of Elastic's APM server."""
    return _hits(
        [
            {
                "@timestamp": at,
                "message": _BODY,
                "session": {"id": told.pop("session.id")},
                "labels": _short(told),
                "service": {"name": _SERVICE},
            }
            for at, told in _calls(end)
        ]
    )


def elastic_otel(end: str) -> Fields:
    """Return documents of the Collector's exporter in its mode `otel`."""
    resource = {"attributes": {"service.name": _SERVICE}}
    return _hits(
        [
            {"@timestamp": at, "body": {"text": _BODY}, "attributes": told, "resource": resource}
            for at, told in _calls(end)
        ]
    )


def azure(end: str) -> list[Fields]:
    """Return rows of `traces` of Application Insights."""
    ids = {"operation_Id": "", "operation_ParentId": "", "cloud_RoleName": _SERVICE}
    return [
        {"timestamp": at, "message": _BODY, "customDimensions": json.dumps(told), **ids}
        for at, told in _calls(end)
    ]


WRITERS = (loki, loki_categorized, grafana, clickhouse, elastic_apm, elastic_otel, azure)


@pytest.mark.parametrize("export", WRITERS)
def test_a_loop_is_found_and_other_work_is_not(export: Callable[[str], Any], write: Write) -> None:
    """Six calls are read from each form, with the session's name and the service's."""
    for end, attempts in (("loop", 6), ("ok", None)):
        read = read_spans([write("export", json.dumps(export(end)).encode())])
        analysis = analyse(read.spans)
        found = {finding.rule: finding.attempts for finding in analysis.findings}
        assert read.skipped == ()
        assert found.get("repeated_call") == attempts
        assert bool(found) == (end == "loop")
        turns = analysis.turns
        assert turns["name"].to_list() == ["check_labels"] * 6
        assert set(turns["task"]) == {f"depot-4@{_SERVICE}"}
