"""The run as platforms for logs, metrics and traces export it.

The fields are those of the sources that each importer names.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from tests.collector.importers.exported_run import (
    AGENT,
    MODEL,
    NS_PER_S,
    SESSION,
    TRACE,
    Fields,
    Span,
    genai,
)

# A record is seen at once, with several of its fields in a line.
# fmt: off

_NS_PER_MS = 1_000_000


def _texts(span: Span) -> dict[str, str]:
    told = genai(span).items()
    return {name: v if isinstance(v, str) else json.dumps(v) for name, v in told}


def _exception(span: Span) -> Fields:
    return {"exception.type": "RuntimeError", "exception.message": span.error}


def _hits(documents: Iterable[Fields]) -> Fields:
    hits = [{"_index": "traces", "_id": str(i), "_source": d} for i, d in enumerate(documents)]
    return {"took": 3, "hits": {"total": {"value": len(hits)}, "hits": hits}}


def _duration_ns(span: Span) -> int:
    return span.ns(span.end_s) - span.ns(span.start_s)


def elastic_apm(run: Sequence[Span]) -> Fields:
    """Return documents of Elastic's APM server: names without dots, errors apart."""
    return _hits(document for span in run for document in _apm_documents(span))


def _apm_documents(span: Span) -> list[Fields]:
    event = "span" if span.parent else "transaction"
    at: Fields = {"@timestamp": span.start, "timestamp": {"us": span.ns(span.start_s) // 1000}}
    own = {"id": span.id, "name": span.name, "duration": {"us": _duration_ns(span) // 1000}}
    made: Fields = {**at, "processor": {"event": event}, "trace": {"id": TRACE},
        "service": {"name": "orders", "framework": {"name": "packer"}},
        "event": {"outcome": "failure" if span.error else "success"},
        "labels": {name.replace(".", "_"): text for name, text in _texts(span).items()}, event: own}
    if span.parent:
        made["parent"] = {"id": span.parent}
    error = {"exception": [{"type": "RuntimeError", "message": span.error}]}
    ids = {"trace": {"id": TRACE}, "parent": {"id": span.id}}
    failed = {**at, "processor": {"event": "error"}, **ids, "error": error}
    # Documents come in any order.
    return [failed, made] if span.error else [made]


def elastic_otel(run: Sequence[Span]) -> Fields:
    """Return documents of the Collector's exporter in its mode `otel`."""
    made: list[Fields] = []
    for span in run:
        ids = {"@timestamp": span.start, "trace_id": TRACE, "span_id": span.id}
        status = {"code": "Error"} if span.error else {"code": "Unset"}
        more = {"parent_span_id": span.parent or "", "name": span.name, "status": status}
        scope = {"name": "packer"}
        told = {"attributes": genai(span), "duration": _duration_ns(span), "scope": scope}
        made.append({**ids, **more, **told})
        if span.error:
            made.append({**ids, "event_name": "exception", "attributes": _exception(span)})
    return _hits(made)


def opensearch(run: Sequence[Span]) -> Fields:
    """Return documents of Data Prepper."""
    return _hits(
        {
            "traceId": TRACE,
            "spanId": span.id,
            "parentSpanId": span.parent or "",
            "name": span.name,
            "startTime": span.start,
            "endTime": span.end,
            "durationInNanos": _duration_ns(span),
            "serviceName": "orders",
            "status.code": 2 if span.error else 0,
            "events": [{"name": "exception", "time": span.end, "attributes": _exception(span)}]
            if span.error
            else [],
            **{f"span.attributes.{k.replace('.', '@')}": v for k, v in genai(span).items()},
        }
        for span in run
    )


def jaeger_elasticsearch(run: Sequence[Span]) -> Fields:
    """Return documents of Jaeger's store in Elasticsearch."""
    return _hits(
        {
            "traceID": TRACE,
            "spanID": span.id,
            "operationName": span.name,
            "startTime": span.ns(span.start_s) // 1000,
            "duration": _duration_ns(span) // 1000,
            "references": [{"refType": "CHILD_OF", "traceID": TRACE, "spanID": span.parent}]
            if span.parent
            else [],
            "tags": [
                *({"key": k, "type": "string", "value": v} for k, v in _texts(span).items()),
                {"key": "otel.status_code", "value": "ERROR" if span.error else "UNSET"},
                {"key": "otel.status_description", "value": span.error},
            ],
            "process": {"serviceName": "orders", "tags": []},
        }
        for span in run
    )


def azure_query(run: Sequence[Span]) -> Fields:
    """Return the answer of a query of Application Insights."""
    rows = [row for span in run for row in _insights(span)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [{"name": name, "type": "string"} for name in names]
    held = [[row.get(name) for name in names] for row in rows]
    return {"tables": [{"name": "PrimaryResult", "columns": columns, "rows": held}]}


def _insights(span: Span) -> list[Fields]:
    ids = {"timestamp": span.start, "operation_Id": TRACE, "cloud_RoleName": "orders"}
    made: Fields = {**ids, "operation_ParentId": span.parent or TRACE, "id": span.id,
        "name": span.name, "success": str(not span.error),
        "duration": _duration_ns(span) / _NS_PER_MS, "customDimensions": json.dumps(_texts(span))}
    told = {"problemId": "RuntimeError", "type": "RuntimeError", "outerMessage": span.error}
    failed = {**ids, "operation_ParentId": span.id, "customDimensions": "{}", **told}
    return [made, failed] if span.error else [made]


def azure_rows(run: Sequence[Span]) -> list[Fields]:
    """Return rows of Log Analytics, as `az monitor log-analytics query` prints them."""
    made: list[Fields] = []
    for span in run:
        ids = {"TimeGenerated": span.start, "OperationId": TRACE, "AppRoleName": "orders"}
        own = {"Id": span.id, "Name": span.name, "DurationMs": _duration_ns(span) / _NS_PER_MS}
        told = {"ParentId": span.parent, "Properties": json.dumps(_texts(span))}
        made.append({**ids, **own, **told, "Success": str(not span.error)})
        if span.error:
            failure = {"ExceptionType": "RuntimeError", "OuterMessage": span.error}
            made.append({**ids, "ParentId": span.id, "Properties": "{}", **failure})
    return made


def xray(run: Sequence[Span]) -> Fields:
    """Return what `aws xray batch-get-traces` prints, with a segment below another."""
    trace = f"1-{TRACE[:8]}-{TRACE[8:]}"
    *others, root = run
    top = _segment(root) | {"trace_id": trace, "subsegments": [_segment(others[0])]}
    alone = [_segment(span) | {"trace_id": trace, "parent_id": root.id} for span in others[1:]]
    segments = [{"Id": each["id"], "Document": json.dumps(each)} for each in (top, *alone)]
    return {"Traces": [{"Id": trace, "Segments": segments}], "UnprocessedTraceIds": []}


def _segment(span: Span) -> Fields:
    told = genai(span)
    indexed = {"gen_ai_tool_name": told.pop("gen_ai.tool.name", None)}
    made: Fields = {"id": span.id, "name": span.name,
        "start_time": span.ns(span.start_s) / NS_PER_S, "end_time": span.ns(span.end_s) / NS_PER_S,
        "metadata": {"default": {**told, "otel.resource.service.name": "orders"}},
        "annotations": indexed if span.kind == "tool" else {}}
    if span.error:
        exception = {"type": "RuntimeError", "message": span.error}
        made |= {"fault": True, "cause": {"exceptions": [exception]}}
    return made


def cloud_trace(run: Sequence[Span]) -> Fields:
    """Return a trace of Cloud Trace's API."""
    spans = [{"spanId": str(int(span.id, 16)),
        "parentSpanId": str(int(span.parent, 16)) if span.parent else "0", "name": span.name,
        "startTime": span.start, "endTime": span.end,
        "labels": _texts(span) | ({"/error/message": span.error}
            if span.error else {})} for span in run]
    return {"projectId": "orders", "traceId": TRACE, "spans": spans}


def _plain_span(span: Span) -> Fields:
    """Return a span as the log group `aws/spans` has it."""
    event = {"timeUnixNano": span.ns(span.end_s), "name": "exception"}
    return {"resource": {"attributes": {"service.name": "orders"}}, "scope": {"name": "packer"},
        "traceId": TRACE, "spanId": span.id, "parentSpanId": span.parent or "", "name": span.name,
        "startTimeUnixNano": span.ns(span.start_s), "endTimeUnixNano": span.ns(span.end_s),
        "attributes": genai(span),
        "events": [{**event, "attributes": _exception(span)}] if span.error else [],
        "status": {"code": "ERROR"} if span.error else {"code": "UNSET"}}


def cloudwatch(run: Sequence[Span]) -> Fields:
    """Return what `aws logs filter-log-events` prints, with a line of another kind."""
    messages = ["START RequestId: 4", *(json.dumps(_plain_span(span)) for span in run)]
    return {"events": [{"message": text, "ingestionTime": 1, "eventId": "1"} for text in messages]}


def cloudwatch_query(run: Sequence[Span]) -> Fields:
    """Return results of Logs Insights."""
    results = [[{"field": "@message", "value": json.dumps(_plain_span(span))}] for span in run]
    return {"results": results, "statistics": {"recordsMatched": 1.0}, "status": "Complete"}


def honeycomb(run: Sequence[Span]) -> list[Fields]:
    """Return events of Honeycomb, with one for each exception."""
    made: list[Fields] = []
    for span in run:
        at = {"Timestamp": span.start, "trace.trace_id": TRACE}
        ids = {"trace.span_id": span.id, "trace.parent_id": span.parent, "name": span.name}
        told = {"duration_ms": _duration_ns(span) / _NS_PER_MS, "error": bool(span.error)}
        made.append({**at, **ids, **told, "service.name": "orders", **genai(span)})
        if span.error:
            of_span = {"meta.annotation_type": "span_event", "trace.parent_id": span.id}
            made.append({**at, **of_span, "name": "exception", **_exception(span)})
    return made


def signoz(run: Sequence[Span]) -> list[Fields]:
    """Return rows of SigNoz's table."""
    return [{"timestamp": span.start.replace("T", " ").removesuffix("Z"), "trace_id": TRACE,
        "span_id": span.id, "parent_span_id": span.parent or "", "name": span.name,
        "duration_nano": _duration_ns(span), "status_code": 2 if span.error else 0,
        "attributes_string": _texts(span),
        "attributes_number": {"gen_ai.request.max_tokens": 4096.0}, "attributes_bool": {},
        "resources_string": {"service.name": "orders"},
        "events": [json.dumps({"name": "exception", "attributeMap": _exception(span)})]
            if span.error else []} for span in run]


def openobserve(run: Sequence[Span]) -> Fields:
    """Return what a search of OpenObserve finds, whose names have underscores."""
    return {"took": 3, "total": len(run), "hits": [{"_timestamp": span.ns(span.start_s) // 1000,
        "trace_id": TRACE, "span_id": span.id, "flags": 1, "operation_name": span.name,
        "span_status": "ERROR" if span.error else "UNSET", "span_kind": "1",
        "start_time": span.ns(span.start_s), "end_time": span.ns(span.end_s),
        "duration": _duration_ns(span) // 1000, "service_name": "orders", "events": "[]",
        "links": "[]", "status_code": 2 if span.error else 0, "status_message": span.error,
        **({"reference_parent_span_id": span.parent, "reference_ref_type": "ChildOf"}
            if span.parent else {}),
        **{name.replace(".", "_"): text for name, text in _texts(span).items()}} for span in run]}


def uptrace(run: Sequence[Span]) -> Fields:
    """Return the spans of Uptrace's API, whose names have underscores."""
    return {"hasMore": False, "spans": [{"id": span.id, "parentId": span.parent or "0",
        "traceId": TRACE, "type": "spans", "system": "funcs", "groupId": "7", "kind": "internal",
        "name": span.name, "displayName": span.name, "time": span.start,
        "duration": _duration_ns(span), "statusCode": "error" if span.error else "unset",
        "statusMessage": span.error, "events": None, "links": None,
        "attrs": {name.replace(".", "_"): text for name, text in _texts(span).items()}}
        for span in run]}


def datadog_apm(run: Sequence[Span]) -> Fields:
    """Return spans of Datadog's APM, as its API lists them."""
    return {"data": [{"id": f"AA{span.id}", "type": "spans",
        "attributes": {"trace_id": TRACE, "span_id": str(span.number),
            "parent_id": "1" if span.parent else "0", "service": "orders",
            "resource_name": span.name, "start_timestamp": span.start, "end_timestamp": span.end,
            "custom": _nested(_texts(span)) | ({"error": {"message": span.error}}
                if span.error else {})}} for span in run]}


def _nested(texts: dict[str, str]) -> Fields:
    made: Fields = {}
    for name, text in texts.items():
        *above, last = name.split(".")
        held = made
        for each in above:
            held = held.setdefault(each, {})
        held[last] = text
    return made


def datadog_export(run: Sequence[Span]) -> Fields:
    """Return spans of Datadog's LLM Observability, as its API exports them."""
    kinds = {"model": "llm"}
    return {"data": [{"id": span.id, "type": "span",
        "attributes": {"trace_id": TRACE, "span_id": str(span.number),
            "parent_id": "1" if span.parent else "undefined", "name": span.name,
            "span_kind": kinds.get(span.kind, span.kind), "start_ns": span.ns(span.start_s),
            "duration": _duration_ns(span), "status": "error" if span.error else "ok",
            "ml_app": "orders", "tags": [f"session_id:{SESSION}"],
            **_content(span)}} for span in run]}


def _content(span: Span) -> Fields:
    if span.kind == "model":
        messages = {"input": {"messages": span.given}, "output": {"messages": [span.answer]}}
        return {"model_name": MODEL, **messages}
    text = span.result or span.error
    return {"input": {"value": json.dumps(span.arguments)}, "output": {"value": text}}


def ai_devtools(run: Sequence[Span]) -> Fields:
    """Return the file of the AI SDK's devtools."""
    steps = [_step(span, number) for number, span in enumerate(run) if span.kind == "model"]
    run_fields = {"id": SESSION, "parent_run_id": None, "function_id": AGENT}
    return {"runs": [run_fields], "steps": steps}


def _step(span: Span, number: int) -> Fields:
    answer = span.answer
    content: list[Fields] = [{"type": "text", "text": answer["content"]}]
    for call in answer.get("tool_calls", ()):
        asked = call["function"]
        told = {"toolCallId": call["id"], "toolName": asked["name"], "input": asked["arguments"]}
        content.append({"type": "tool-call", **told})
    usage = {"inputTokens": {"total": 80}, "outputTokens": {"total": 12}}
    return {"id": span.id, "run_id": SESSION, "step_number": number, "model_id": MODEL,
        "started_at": span.start, "duration_ms": _duration_ns(span) // _NS_PER_MS,
        "input": json.dumps({"prompt": span.given}),
        "output": json.dumps({"content": content, "finishReason": {"unified": "stop"}}),
        "usage": json.dumps(usage), "error": None}


def langfuse_csv(run: Sequence[Span]) -> str:
    """Return the download of observations as CSV, each with its session."""
    kinds = {"model": "GENERATION", "tool": "TOOL", "agent": "AGENT"}
    return _csv(
        {
            "id": span.uuid(),
            "traceId": TRACE,
            "parentObservationId": span.uuid(1) if span.parent else None,
            "type": kinds[span.kind],
            "startTime": span.start,
            "endTime": span.end,
            "name": span.name,
            "sessionId": SESSION,
            "level": "ERROR" if span.error else "DEFAULT",
            "statusMessage": span.error,
            "model": MODEL if span.answer else None,
            "input": span.given or span.arguments,
            "output": span.answer or span.result,
            "usageDetails": {"input": 80, "output": 12} if span.answer else None,
        }
        for span in run
    )


def langfuse_sessions(run: Sequence[Span]) -> Fields:
    """Return observations of version 2 of its API, which name their sessions."""
    return {"data": list(csv.DictReader(StringIO(langfuse_csv(run)))), "meta": {"cursor": None}}


def phoenix_csv(run: Sequence[Span]) -> str:
    """Return the data frame of spans as CSV, whose objects Python writes."""
    return _csv(
        (
            {
                "context.trace_id": TRACE,
                "context.span_id": span.id,
                "parent_id": span.parent,
                "name": span.name,
                "span_kind": {"model": "LLM"}.get(span.kind, span.kind.upper()),
                "start_time": span.start,
                "end_time": span.end,
                "status_code": "ERROR" if span.error else "UNSET",
                "status_message": span.error,
                "attributes.session.id": SESSION,
                "attributes.input.value": json.dumps(span.arguments),
                "attributes.output.value": span.result,
                "attributes.llm.output_messages": [
                    {"message.role": "assistant", "message.content": span.answer["content"]}
                ]
                if span.answer
                else None,
                "attributes.llm.token_count.prompt": 80 if span.answer else None,
                "attributes.llm.token_count.completion": 12 if span.answer else None,
            }
            for span in run
        ),
        text_of=repr,
    )


def _csv(rows: Iterable[Fields], text_of: Any = json.dumps) -> str:
    held = list(rows)
    made = StringIO()
    writer = csv.DictWriter(made, list(held[0]))
    writer.writeheader()
    for row in held:
        told = {k: text_of(v) if isinstance(v, dict | list) else v for k, v in row.items()}
        writer.writerow(told)
    return made.getvalue()
