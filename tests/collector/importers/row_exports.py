"""The run as platforms export spans, a record each.

The fields are those of the sources that `rows/forms.toml` and each importer name.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

from looptrace.collector.importers.spans import flat_attributes
from tests.collector.importers.exported_run import AGENT, MODEL, SESSION, TRACE, Fields, Span, genai
from tests.collector.importers.platform_exports import _csv, _duration_ns, _nested, _texts, xray
from tests.collector.importers.system_exports import _openinference

# A record is seen at once, with several of its fields in a line.
# fmt: off


def _gql_span(s: Span) -> Any:
    return {"id": base64.b64encode(f"Span:{s.number}".encode()).decode(), "spanId": s.id,
        "name": s.name, "spanKind": {"agent": "agent", "model": "llm", "tool": "tool"}[s.kind],
        "statusCode": "ERROR" if s.error else "OK", "statusMessage": s.error, "startTime": s.start,
        "endTime": s.end, "parentId": s.parent, "latencyMs": 1000.0,
        "context": {"spanId": s.id, "traceId": TRACE},
        "attributes": json.dumps(_nested(_openinference(s))),
        "tokenCountPrompt": 80 if s.kind == "model" else None,
        "tokenCountTotal": 92 if s.kind == "model" else None,
        "input": {"value": _openinference(s).get("input.value", "")[:100], "mimeType": "json"},
        "output": {"value": "x", "mimeType": "text"},
        "events": [{"name": "exception", "message": s.error, "timestamp": s.end}]
            if s.error else []}


def phoenix_graphql(run: Sequence[Span]) -> Any:
    """Return what Phoenix's page gets by GraphQL."""
    return {"data": {"project": {"__typename": "Project",
        "trace": {"id": "VHJhY2U6MQ==", "projectSessionId": None, "numSpans": len(run),
            "spans": {"edges": [{"span": _gql_span(s), "cursor": "x",
                "node": {"__typename": "Span", "id": "y"}} for s in run],
                "pageInfo": {"endCursor": "x", "hasNextPage": False}},
            "latencyMs": 1.0},
        "id": "UHJvamVjdDox"}}}


def phoenix_graphql_nodes(run: Sequence[Span]) -> Any:
    """Return spans by GraphQL, which name their trace."""

    def one(s: Any) -> Any:
        d = _gql_span(s)
        d.pop("context")
        d["trace"] = {"id": "VHJhY2U6MQ==", "traceId": TRACE}
        return d

    return {"data": {"node": {"spans": {"edges": [{"node": one(s)} for s in run]}}}}


def signoz_waterfall(run: Sequence[Span]) -> Any:
    """Return the waterfall of SigNoz."""
    return {"status": "success",
        "data": {"spans": [{"attributes": genai(s), "duration_nano": _duration_ns(s),
            "events": [{"name": "exception", "timeUnixNano": s.ns(s.end_s),
                "attributeMap": {"exception.message": s.error, "exception.type": "E"},
                "isError": True}] if s.error else [],
            "flags": 0, "has_error": bool(s.error), "is_remote": "unknown",
            "kind_string": "Internal", "name": s.name, "parent_span_id": s.parent or "",
            "resource": {"service.name": "orders"}, "span_id": s.id,
            "time_unix": s.ns(s.start_s) // 1, "trace_id": TRACE, "trace_state": "",
            "references": [], "status_code_string": "Error" if s.error else "Unset",
            "status_message": s.error, "sub_tree_node_count": 0, "has_children": False,
            "level": 1} for s in run],
            "startTimestampMillis": 1, "endTimestampMillis": 2, "totalSpansCount": len(run),
            "hasMissingSpans": False}}


def signoz_waterfall_v2(run: Sequence[Span]) -> Any:
    """Return the waterfall of SigNoz's second version."""
    return {"status": "success",
        "data": {"startTimestampMillis": 1,
            "spans": [{"timestamp": s.ns(s.start_s) // 1000000, "durationNano": _duration_ns(s),
                "spanId": s.id, "rootSpanId": f"{1:016x}", "parentSpanId": s.parent or "",
                "traceId": TRACE, "hasError": bool(s.error), "kind": 1, "serviceName": "orders",
                "name": s.name, "references": [], "tagMap": _texts(s),
                "event": [json.dumps({"name": "exception", "timeUnixNano": s.ns(s.end_s),
                    "attributeMap": {"exception.message": s.error}})] if s.error else [],
                "rootName": "", "statusMessage": s.error,
                "statusCodeString": "Error" if s.error else "Unset", "spanKind": "Internal",
                "children": None, "subTreeNodeCount": 0, "hasChildren": False} for s in run]}}


def _sig_row(s: Span) -> Any:
    return {"timestamp": s.start,
        "data": {"timestamp": s.start, "trace_id": TRACE, "span_id": s.id,
            "parent_span_id": s.parent or "", "name": s.name, "duration_nano": _duration_ns(s),
            "has_error": bool(s.error), "kind": 1, "attributes": genai(s),
            "resource": {"service.name": "orders"},
            "status_code_string": "Error" if s.error else "Unset", "status_message": s.error,
            "events": []}}


def signoz_v5_raw(run: Sequence[Span]) -> Any:
    """Return rows of SigNoz's query builder."""
    return {"status": "success",
        "data": {"type": "raw",
            "data": {"results": [{"queryName": "A", "nextCursor": "",
                "rows": [_sig_row(s) for s in reversed(run)]}]},
            "meta": {"rowsScanned": 1}}}


def signoz_v3_list(run: Sequence[Span]) -> Any:
    """Return rows of SigNoz's third version with selected columns."""

    def one(s: Any) -> Any:
        r = _sig_row(s)
        d = r["data"]
        a = d.pop("attributes")
        d.pop("resource")
        d["serviceName"] = "orders"
        d["traceID"] = d.pop("trace_id")
        d["spanID"] = d.pop("span_id")
        d["parentSpanID"] = d.pop("parent_span_id")
        d["durationNano"] = d.pop("duration_nano")
        d["hasError"] = d.pop("has_error")
        d["statusMessage"] = d.pop("status_message")
        r["data"] = {**d,
            **{k: v if isinstance(v, (str, int)) else json.dumps(v) for k, v in a.items()}}
        return r

    return {"status": "success",
        "data": {"resultType": "", "result": [{"queryName": "A", "list": [one(s) for s in run]}]}}


def _kv(d: Any) -> Any:
    return [{"key": k, "value": v} for k, v in d.items()]


def _frame_columns(run: Sequence[Span]) -> Any:
    rows = [[TRACE, s.id, s.parent or "", s.name, "orders", "internal", 2 if s.error else 0,
        s.error, "packer", "", "", _kv({"service.name": "orders"}), s.ns(s.start_s) / 1000000.0,
        _duration_ns(s) / 1000000.0,
        [{"timestamp": s.ns(s.end_s) / 1000000.0,
            "fields": _kv({"message": "exception", "exception.message": s.error})}]
            if s.error else None,
        None, _kv(genai(s))] for s in run]
    names = ["traceID", "spanID", "parentSpanID", "operationName", "serviceName", "kind",
        "statusCode", "statusMessage", "instrumentationLibraryName",
        "instrumentationLibraryVersion", "traceState", "serviceTags", "startTime", "duration",
        "logs", "references", "tags"]
    return (names, rows)


def grafana_frames(run: Sequence[Span]) -> Any:
    """Return the frames of an answer of Grafana."""
    names, rows = _frame_columns(run)
    return {"results": {"A": {"status": 200,
        "frames": [{"schema": {"name": "Trace", "refId": "A",
            "meta": {"preferredVisualisationType": "trace"},
            "fields": [{"name": n, "type": "string"} for n in names]},
            "data": {"values": [list(c) for c in zip(*rows, strict=False)]}}]}}}


def grafana_inspect(run: Sequence[Span]) -> Any:
    """Return what Grafana's inspector shows."""
    names, rows = _frame_columns(run)
    return {"state": "Done",
        "series": [{"refId": "A", "name": "Trace",
            "fields": [{"name": n, "type": "string", "values": list(c),
                "config": {}} for n, c in zip(names, zip(*rows, strict=False), strict=False)],
            "length": len(rows)}],
        "annotations": [], "request": {"app": "explore", "targets": [{"query": "x"}]}}


def grafana_csv(run: Sequence[Span]) -> Any:
    """Return a frame of Grafana as CSV."""
    names, rows = _frame_columns(run)
    return _csv([dict(zip(names, r, strict=False)) for r in rows])


def xray_documents(run: Sequence[Span]) -> Any:
    """Return segment documents of X-Ray, one a line."""
    t = xray(run)
    segs = [json.loads(x["Document"]) for x in t["Traces"][0]["Segments"]]
    return ("LINES", segs)


def cloud_trace_v2(run: Sequence[Span]) -> Any:
    """Return spans as version 2 of Cloud Trace's API has them."""

    def v(x: Any) -> Any:
        return (
            {"intValue": str(x)}
            if isinstance(x, int) and (not isinstance(x, bool))
            else {"stringValue": {"value": x if isinstance(x, str) else json.dumps(x)}}
        )

    return {"spans": [{"name": f"projects/p/traces/{TRACE}/spans/{s.id}", "spanId": s.id,
        "parentSpanId": s.parent or "", "displayName": {"value": s.name}, "startTime": s.start,
        "endTime": s.end, "attributes": {"attributeMap": {k: v(x) for k, x in genai(s).items()}},
        "status": {"code": 2, "message": s.error} if s.error else {},
        "timeEvents": {"timeEvent": [{"time": s.end,
            "annotation": {"description": {"value": "exception"},
                "attributes": {"attributeMap": {"exception.message": v(s.error)}}}}]}
            if s.error else {}} for s in run]}


def jaeger_proto(run: Sequence[Span]) -> Any:
    """Return spans of Jaeger's API of gRPC."""

    def b(h: Any) -> Any:
        return base64.b64encode(bytes.fromhex(h)).decode()

    def kv(k: Any, v: Any) -> Any:
        return (
            {"key": k, "vType": "INT64", "vInt64": str(v)}
            if isinstance(v, int) and (not isinstance(v, bool))
            else {"key": k, "vStr": v if isinstance(v, str) else json.dumps(v)}
        )

    return {"spans": [{"traceId": b(TRACE), "spanId": b(s.id), "operationName": s.name,
        "references": [{"traceId": b(TRACE), "spanId": b(s.parent)}] if s.parent else [],
        "startTime": s.start, "duration": f"{s.end_s - s.start_s:.9f}s",
        "tags": [kv(k, v) for k, v in genai(s).items()] + ([
            {"key": "error", "vType": "BOOL", "vBool": True},
            kv("otel.status_description", s.error)] if s.error else []),
        "logs": [{"timestamp": s.end,
            "fields": [kv("event", "exception"), kv("exception.message", s.error)]}]
            if s.error else [],
        "process": {"serviceName": "orders", "tags": []}} for s in run]}


def jaeger_grpc_stream(run: Sequence[Span]) -> Any:
    """Return the same as a stream of answers."""
    d = jaeger_proto(run)["spans"]
    return ("LINES", [{"result": {"spans": d[:4]}}, {"result": {"spans": d[4:]}}])


def _nr(s: Span) -> Any:
    return {"timestamp": s.ns(s.start_s) // 1000000, "trace.id": TRACE, "id": s.id, "guid": s.id,
        "parent.id": s.parent, "name": s.name, "duration.ms": (s.end_s - s.start_s) * 1000,
        "service.name": "orders", "entity.name": "orders", "entity.guid": "M",
        "otel.status_code": "ERROR" if s.error else "UNSET",
        "otel.status_description": s.error or None, "error.message": s.error or None,
        "eventType": "Span",
        **{k: v if isinstance(v, (str, int)) else json.dumps(v) for k, v in genai(s).items()}}


def newrelic_nrql(run: Sequence[Span]) -> Any:
    """Return the answer of NerdGraph to a query."""
    return {"data": {"actor": {"account": {"nrql": {"results": [_nr(s) for s in reversed(run)]}}}}}


def newrelic_rows(run: Sequence[Span]) -> Any:
    """Return rows of a query of New Relic."""
    return [_nr(s) for s in run]


def newrelic_events(run: Sequence[Span]) -> Any:
    """Return the answer of New Relic's older API."""
    return {"results": [{"events": [_nr(s) for s in run]}],
        "metadata": {"eventTypes": ["Span"], "messages": []}, "performanceStats": {}}


def laminar(run: Sequence[Span]) -> Any:
    """Return spans of Laminar's SQL."""
    return {"data": [{"span_id": s.uuid(), "name": s.name,
        "span_type": {"model": "LLM", "tool": "TOOL", "agent": "DEFAULT"}[s.kind],
        "start_time": s.start.replace("T", " ").replace("Z", ""),
        "end_time": s.end.replace("T", " ").replace("Z", ""),
        "input_tokens": 80 if s.kind == "model" else 0,
        "output_tokens": 12 if s.kind == "model" else 0, "request_model": MODEL, "model": MODEL,
        "trace_id": s.uuid(99), "provider": "openai", "path": "packer",
        "input": json.dumps(s.given or s.arguments),
        "output": json.dumps([s.answer] if s.answer else s.result),
        "status": "error" if s.error else "success",
        "parent_span_id": s.uuid(1) if s.parent else "00000000-0000-0000-0000-000000000000",
        "session_id": SESSION,
        "attributes": json.dumps({"lmnr.span.type": "TOOL"} if s.kind == "tool" else {}),
        "tags": [],
        "events": [["2026-04-07 08:00:00", "exception", json.dumps({"exception.message": s.error})]]
            if s.error else []} for s in run]}


def literal_ai(run: Sequence[Span]) -> Any:
    """Return steps of Literal AI."""
    return {"data": [{"id": s.uuid(), "threadId": SESSION,
        "parentId": s.uuid(1) if s.parent else None, "name": s.name,
        "type": {"model": "llm", "tool": "tool", "agent": "run"}[s.kind], "createdAt": s.start,
        "startTime": s.start, "endTime": s.end, "error": s.error or None,
        "input": {"content": s.given} if s.given else s.arguments,
        "output": {"content": s.result} if s.kind == "tool" else s.answer, "metadata": {},
        "tags": [], "scores": [], "attachments": [], "rootRunId": s.uuid(1),
        "generation": {"type": "CHAT", "provider": "openai", "model": MODEL, "messages": s.given,
            "messageCompletion": s.answer, "inputTokenCount": 80, "outputTokenCount": 12,
            "tokenCount": 92, "tools": None} if s.kind == "model" else None} for s in run]}


def mastra(run: Sequence[Span]) -> Any:
    """Return a trace of Mastra's storage: a step around each inference, in the loop of an agent."""
    types = {"model": "model_inference", "tool": "tool_call", "agent": "agent_run"}
    spans: list[Fields] = []
    for s in run:
        usage = {"usage": {"inputTokens": 80, "outputTokens": 12}}
        named = {"tool": f"tool: '{s.name}'", "agent": f"agent run: '{AGENT}'"}
        row: Fields = {"traceId": TRACE, "spanId": s.id, "parentSpanId": s.parent,
            "name": named.get(s.kind, f"model: '{MODEL}'"), "spanType": types[s.kind],
            "isEvent": False, "startedAt": s.start, "endedAt": s.end, "threadId": SESSION,
            "entityType": "tool" if s.kind == "tool" else "agent",
            "entityName": s.name if s.kind == "tool" else AGENT, "serviceName": "depot",
            "attributes": {"toolCallId": s.call_id} if s.kind == "tool" else {},
            "input": s.arguments or None, "output": s.result or None,
            "error": {"message": s.error, "id": "E"} if s.error else None}
        if s.kind == "model":
            calls = [{"toolCallId": c["id"], "toolName": c["function"]["name"],
                "args": json.loads(c["function"]["arguments"])}
                for c in s.answer.get("tool_calls", ())]
            row |= {"input": {"messages": s.given}, "attributes": {"model": MODEL, **usage},
                "output": {"text": s.answer["content"] or "", "toolCalls": calls}}
            step = {**row, "spanId": f"{s.number + 500:016x}", "spanType": "model_step",
                "name": "step: 0", "attributes": {"stepIndex": 0, **usage}}
            row["parentSpanId"] = step["spanId"]
            spans.append(step)
        spans.append(row)
    return {"traceId": TRACE, "spans": spans}


def agno(run: Sequence[Span]) -> Any:
    """Return spans as Agno's database keeps them."""
    kinds = {"agent": "AGENT", "model": "LLM", "tool": "TOOL"}
    tokens = {"llm.token_count.prompt": 80, "llm.token_count.completion": 12}
    return {"spans": [{"span_id": s.id, "trace_id": TRACE, "parent_span_id": s.parent,
        "name": s.name, "span_kind": "INTERNAL", "status_code": "ERROR" if s.error else "OK",
        "status_message": s.error or None, "start_time": s.start, "end_time": s.end,
        "duration_ms": 1000, "created_at": s.end,
        "attributes": {"openinference.span.kind": kinds[s.kind]}
            | dict(flat_attributes(_openinference(s))) | (tokens if s.kind == "model" else {})}
        for s in run]}


def honeyhive(run: Sequence[Span]) -> Any:
    """Return events of HoneyHive."""
    return {"events": [{"project_id": "p", "source": "prod", "event_name": s.name,
        "event_type": {"model": "model", "tool": "tool", "agent": "session"}[s.kind],
        "event_id": s.uuid(), "session_id": s.uuid(1), "parent_id": s.uuid(1) if s.parent else None,
        "children_ids": [], "config": {"model": MODEL, "provider": "openai"} if s.answer else {},
        "inputs": {"chat_history": s.given} if s.given else s.arguments,
        "outputs": s.answer or {"result": s.result}, "error": s.error or None,
        "start_time": s.ns(s.start_s) / 1000000.0, "end_time": s.ns(s.end_s) / 1000000.0,
        "duration": 1000.0,
        "metadata": {"prompt_tokens": 80, "completion_tokens": 12, "total_tokens": 92}
            if s.answer else {},
        "feedback": {}, "metrics": {}, "user_properties": {}} for s in run],
        "count": len(run)}


def _gal(s: Span) -> Any:
    return {"id": s.uuid(), "session_id": SESSION, "project_id": "p", "run_id": "r",
        "trace_id": s.uuid(99), "parent_id": s.uuid(1),
        "type": {"model": "llm", "tool": "tool", "agent": "agent"}[s.kind], "name": s.name,
        "created_at": s.start, "updated_at": s.end,
        "input": s.given if s.answer else json.dumps(s.arguments),
        "output": {**{k: v for k, v in s.answer.items() if k != "tool_calls"},
            "tool_calls": [{"id": c["id"],
                "function": c["function"]} for c in s.answer.get("tool_calls", ())]}
            if s.answer else s.result or s.error,
        "status_code": 500 if s.error else 200,
        "metrics": {"duration_ns": _duration_ns(s), "num_input_tokens": 80,
            "num_output_tokens": 12},
        "model": MODEL if s.answer else None, "tool_call_id": s.call_id or None,
        "user_metadata": {}, "tags": [], "is_complete": True}


def galileo(run: Sequence[Span]) -> Any:
    """Return a trace of Galileo with the spans within it."""
    agent = _gal(run[-1])
    agent["parent_id"] = run[0].uuid(99)
    agent["spans"] = [_gal(s) for s in run[:-1]]
    agent["input"] = "Get order"
    agent["output"] = "ok"
    return ("LINES",
        [{"id": run[0].uuid(99), "session_id": SESSION, "project_id": "p", "run_id": "r",
            "trace_id": run[0].uuid(99), "type": "trace", "name": "packer",
            "created_at": run[0].start, "input": "Get order A17 ready.", "output": "done",
            "metrics": {"duration_ns": 10**10}, "status_code": None, "spans": [agent]}])


def galileo_spans(run: Sequence[Span]) -> Any:
    """Return spans of Galileo."""
    return ("LINES", [_gal(s) for s in run])


def datadog_messages(run: Sequence[Span]) -> Any:
    """Return spans of Datadog's API with calls and results in messages."""

    def msgs(ms: list[Fields]) -> list[Fields]:
        out = []
        for m in ms:
            if m["role"] == "tool":
                out.append({"role": "user", "content": "",
                    "tool_results": [{"name": "", "result": m["content"],
                        "tool_id": m["tool_call_id"], "type": "function_call_output"}]})
            elif m.get("tool_calls"):
                out.append({"role": "assistant", "content": m["content"] or "",
                    "tool_calls": [{"name": c["function"]["name"],
                        "arguments": json.loads(c["function"]["arguments"]), "tool_id": c["id"],
                        "type": "function"} for c in m["tool_calls"]]})
            else:
                out.append(m)
        return out

    return {"data": [{"id": f"{s.number}", "type": "span",
        "attributes": {"span_id": str(s.number), "trace_id": TRACE, "parent_id": "undefined",
            "name": "OpenAI.createChatCompletion", "span_kind": "llm", "status": "ok",
            "start_ns": s.ns(s.start_s), "duration": 2 * 10**9, "ml_app": "orders",
            "model_name": MODEL, "model_provider": "openai", "input": {"messages": msgs(s.given)},
            "output": {"messages": msgs([s.answer])},
            "metrics": {"input_tokens": 80, "output_tokens": 12, "total_tokens": 92},
            "tags": ["env:x", f"session_id:{SESSION}"]}} for s in _models(run)]}


def lunary(run: Sequence[Span]) -> Any:
    """Return a trace of Lunary, whose runs have the runs below them."""

    def shown(s: Span) -> Fields:
        kind = {"model": "llm"}.get(s.kind, s.kind)
        told = {"input": s.given, "output": s.answer} if s.kind == "model" else {
            "input": s.arguments or None, "output": s.result or None}
        tokens = {"prompt": 80, "completion": 12, "total": 92} if s.kind == "model" else {
            "prompt": None, "completion": None, "total": 0}
        return {"id": s.uuid(), "projectId": "p", "type": kind, "tokens": tokens,
            "name": MODEL if s.kind == "model" else s.name, "createdAt": s.start,
            "endedAt": s.end, "status": "error" if s.error else "success",
            "error": {"message": s.error} if s.error else None, "toxicity": {"input": {},
            "output": {}}, "tags": [], "metadata": {}, **told, "children": []}

    (root,) = (shown(s) for s in run if s.kind == "agent")
    return ("LINES", [{**root, "children": [shown(s) for s in run if s.kind != "agent"]}])


def posthog_agents(run: Sequence[Span]) -> Any:
    """Return events of PostHog whose spans say what they are."""
    ev: list[Fields] = []
    for s in run:
        base = {"$ai_trace_id": TRACE, "$ai_span_id": s.id, "$ai_parent_id": s.parent,
            "$ai_latency": s.end_s - s.start_s, "$ai_framework": "openai-agents",
            "$ai_is_error": bool(s.error), "$ai_error": s.error or None, "$ai_session_id": SESSION}
        if s.kind == "model":
            ev.append({"uuid": s.uuid(), "event": "$ai_generation", "timestamp": s.end,
                "properties": {**base, "$ai_model": MODEL, "$ai_input": s.given,
                    "$ai_output_choices": [s.answer], "$ai_input_tokens": 80,
                    "$ai_output_tokens": 12}})
        else:
            ev.append({"uuid": s.uuid(), "event": "$ai_span", "timestamp": s.end,
                "properties": {**base, "$ai_span_name": s.name, "$ai_span_type": s.kind,
                    "$ai_input_state": s.arguments, "$ai_output_state": s.result}})
    return {"results": ev, "next": None}


def posthog_hogql(run: Sequence[Span]) -> Any:
    """Return the answer of PostHog to a query."""
    events = posthog_agents(run)["results"]
    names = list(events[0])
    return {"columns": names, "results": [[event[name] for name in names] for event in events]}


def _models(run: Sequence[Span]) -> list[Span]:
    return [span for span in run if span.kind == "model"]


def sentry_event(run: Sequence[Span]) -> Any:
    """Return the event of a transaction of Sentry, as its page has it in JSON."""
    ended = [span for span in run if span.kind != "agent"]
    return {
        "event_id": "e" * 32,
        "type": "transaction",
        "transaction": "packer",
        "contexts": {"trace": {"trace_id": TRACE, "span_id": f"{1:016x}", "op": "gen_ai"}},
        "spans": [
            {
                "trace_id": TRACE,
                "span_id": span.id,
                "parent_span_id": span.parent,
                "op": "gen_ai.execute_tool" if span.kind == "tool" else "gen_ai.chat",
                "description": span.name,
                "start_timestamp": span.start,
                "timestamp": span.end,
                "origin": "auto.ai",
                "status": "internal_error" if span.error else "ok",
                "data": _sentry_data(span),
            }
            for span in ended
        ],
    }


def sentry_trace(run: Sequence[Span]) -> Any:
    """Return what Sentry's page of a trace gets, asked for attributes."""
    children = [
        {
            **_sentry_span(span.id, span.name, span.start, span.end),
            "parent_span_id": f"{1:016x}",
            "errors": [{"description": span.error}] if span.error else [],
            "additional_attributes": _sentry_data(span),
        }
        for span in run
        if span.kind != "agent"
    ]
    root = _sentry_span(f"{1:016x}", "packer", run[0].start, run[-1].end)
    return [{**root, "parent_span_id": None, "children": children}]


def _sentry_data(span: Span) -> Fields:
    tokens = {"gen_ai.usage.input_tokens": 80, "gen_ai.usage.output_tokens": 12}
    used = tokens if span.kind == "model" else {}
    return {**genai(span), **used, "gen_ai.conversation.id": SESSION}


def _sentry_span(number: str, label: str, start: str, end: str) -> Fields:
    return {
        "event_id": number,
        "event_type": "span",
        "transaction_id": TRACE,
        "project_slug": "depot",
        "description": label,
        "op": "gen_ai",
        "start_timestamp": start,
        "end_timestamp": end,
        "children": [],
        "errors": [],
    }
