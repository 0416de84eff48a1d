"""The run in the form of each tracing system, by what they document or their clients write."""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence

from tests.collector.importers.exported_run import (
    AGENT,
    MODEL,
    SESSION,
    START,
    TRACE,
    US_PER_S,
    Fields,
    Span,
    genai,
)

# A record is seen at once, with several of its fields in a line.
# fmt: off


def _otlp_span(span: Span, encode: Callable[[str], str]) -> Fields:
    return {"traceId": encode(TRACE), "spanId": encode(span.id),
        **({"parentSpanId": encode(span.parent)} if span.parent else {}), "name": span.name,
        "kind": "SPAN_KIND_INTERNAL", "startTimeUnixNano": str(span.ns(span.start_s)),
        "endTimeUnixNano": str(span.ns(span.end_s)),
        "attributes": [{"key": key,
            "value": {"stringValue": value}} for key, value in genai(span).items()],
        "status": {"code": "STATUS_CODE_ERROR", "message": span.error} if span.error else {}}


def _base64(text: str) -> str:
    return b64encode(bytes.fromhex(text)).decode()


def tempo(run: Sequence[Span]) -> Fields:
    """Return `GET /api/traces/ID`: batches, with base64 ids."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "depot"}}]}
    scope = {"scope": {"name": "agent"}, "spans": [_otlp_span(span, _base64) for span in run]}
    return {"batches": [{"resource": resource, "scopeSpans": [scope]}]}


def tempo_2(run: Sequence[Span]) -> Fields:
    """Return `GET /api/v2/traces/ID`."""
    return {"trace": {"resourceSpans": tempo(run)["batches"]}}


def jaeger_3(run: Sequence[Span]) -> Fields:
    """Return `GET /api/v3/traces/ID` of Jaeger: OTLP in an envelope, with hex ids."""
    scope = {"scope": {"name": "agent"}, "spans": [_otlp_span(span, str) for span in run]}
    return {"result": {"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}}


def jaeger(run: Sequence[Span]) -> Fields:
    """Return the download of Jaeger's page, and `GET /api/traces/ID`."""
    return {"data": [{"traceID": TRACE, "processes": {"p1": {"serviceName": "depot", "tags": []}},
        "spans": [_jaeger_span(span) for span in run]}],
        "total": 0, "errors": None}


def _jaeger_span(span: Span) -> Fields:
    tags = [{"key": key, "type": "string", "value": value} for key, value in genai(span).items()]
    if span.error:
        tags.append({"key": "error", "type": "bool", "value": True})
        tags.append({"key": "otel.status_code", "type": "string", "value": "ERROR"})
        tags.append({"key": "otel.status_description", "type": "string", "value": span.error})
    reference = {"refType": "CHILD_OF", "traceID": TRACE, "spanID": span.parent}
    return {"traceID": TRACE, "spanID": span.id, "operationName": span.name,
        "references": [reference] if span.parent else [],
        "startTime": span.ns(span.start_s) // 1000,
        "duration": int((span.end_s - span.start_s) * US_PER_S), "tags": tags, "logs": [],
        "processID": "p1", "warnings": None}


def zipkin(run: Sequence[Span]) -> list[list[Fields]]:
    """Return `GET /api/v2/traces`: an array of traces."""
    return [[{"traceId": TRACE, "id": span.id, **({"parentId": span.parent} if span.parent else {}),
        "name": span.name, "timestamp": span.ns(span.start_s) // 1000,
        "duration": int((span.end_s - span.start_s) * US_PER_S),
        "localEndpoint": {"serviceName": "depot"},
        "tags": genai(span) | ({"error": span.error} if span.error else {})} for span in run]]


def langfuse(run: Sequence[Span]) -> Fields:
    """Return `GET /api/public/traces/ID`."""
    types = {"agent": "AGENT", "model": "GENERATION", "tool": "TOOL"}
    return {"id": TRACE, "name": AGENT, "sessionId": SESSION,
        "observations": [{"id": span.id, "traceId": TRACE, "type": types[span.kind],
            "name": span.name, "startTime": span.start, "endTime": span.end,
            "parentObservationId": span.parent, "model": MODEL if span.kind == "model" else None,
            "input": span.given or span.arguments, "output": span.answer or span.result or None,
            "usageDetails": {"input": 120, "output": 9} if span.kind == "model" else {},
            "level": "ERROR" if span.error else "DEFAULT",
            "statusMessage": span.error or None} for span in run]}


def langfuse_page(run: Sequence[Span]) -> Fields:
    """Return the download of a trace from Langfuse's page."""
    trace = langfuse(run)
    observations = trace.pop("observations")
    return {"trace": trace, "observations": observations}


def langfuse_tree(run: Sequence[Span]) -> Fields:
    """Return a trace whose observations are within each other."""
    trace = langfuse(run)
    *children, root = trace["observations"]
    for child in children:
        del child["parentObservationId"], child["traceId"]
    return trace | {"observations": [root | {"children": children}]}


def langfuse_otel(run: Sequence[Span]) -> Fields:
    """Return a trace that came over OTLP: what each span was is in its metadata."""
    trace = langfuse(run)
    for observation, span in zip(trace["observations"], run, strict=True):
        kept = {key: value for key, value in genai(span).items() if "messages" not in key}
        scope = {"name": "agent", "attributes": {}}
        observation |= {"type": "SPAN", "metadata": {"attributes": kept, "scope": scope}}
        if span.kind == "tool":  # Their content is in the metadata only.
            observation |= {"name": "step", "input": None, "output": None}
    return trace


def langfuse_export(run: Sequence[Span]) -> list[Fields]:
    """Return lines of an export to a blob storage."""
    names = {
        "traceId": "trace_id", "startTime": "start_time", "endTime": "end_time",
        "parentObservationId": "parent_observation_id", "usageDetails": "usage_details",
        "statusMessage": "status_message",
    }  # fmt: skip
    return [{names.get(name, name): value for name, value in each.items()} | {
        "session_id": SESSION} for each in langfuse(run)["observations"]]


def _openinference(span: Span) -> Fields:
    """Return the attributes of a span in OpenInference, with messages in lists."""
    if span.kind == "tool":
        return {"session.id": SESSION, "tool.name": span.name,
            "input.value": json.dumps(span.arguments), "output.value": span.result or None}
    if span.kind == "agent":
        return {"session.id": SESSION}
    return {"session.id": SESSION, "llm.model_name": MODEL,
        "llm.input_messages": [_openinference_message(each) for each in span.given],
        "llm.output_messages": [_openinference_message(span.answer)]}


def _openinference_message(message: Fields) -> Fields:
    calls = [
        {
            "tool_call.id": call["id"],
            "tool_call.function.name": call["function"]["name"],
            "tool_call.function.arguments": call["function"]["arguments"],
        }
        for call in message.get("tool_calls", ())
    ]
    return {"message.role": message["role"], "message.content": message["content"],
        **({"message.tool_calls": calls} if calls else {}),
        **({"message.tool_call_id": message["tool_call_id"]} if "tool_call_id" in message else {})}


_OPENINFERENCE = {"agent": "AGENT", "model": "LLM", "tool": "TOOL"}


def phoenix(run: Sequence[Span]) -> Fields:
    """Return `GET /v1/projects/NAME/spans`."""
    return {"data": [{"name": span.name, "context": {"trace_id": TRACE, "span_id": span.id},
        "span_kind": _OPENINFERENCE[span.kind], "parent_id": span.parent, "start_time": span.start,
        "end_time": span.end, "status_code": "ERROR" if span.error else "OK",
        "status_message": span.error, "attributes": _openinference(span),
        "events": []} for span in run],
        "next_cursor": None}


def phoenix_frame(run: Sequence[Span]) -> list[Fields]:
    """Return lines of a data frame of spans."""
    return [
        {
            **{
                name: value for name, value in each.items() if name not in ("context", "attributes")
            },
            **{f"context.{name}": value for name, value in each["context"].items()},
            **{f"attributes.{name}": value for name, value in each["attributes"].items()},
        }
        for each in phoenix(run)["data"]
    ]


def langsmith(run: Sequence[Span]) -> list[Fields]:
    """Return runs as the client writes them, a line each."""
    types = {"agent": "chain", "model": "llm", "tool": "tool"}
    return [{"id": span.uuid(), "trace_id": span.uuid(1),
        "parent_run_id": span.uuid(1) if span.parent else None, "name": span.name,
        "run_type": types[span.kind], "start_time": span.start, "end_time": span.end,
        "extra": {"metadata": {"thread_id": SESSION, "ls_model_name": MODEL}},
        "inputs": {"messages": span.given} if span.given else {"input": span.arguments},
        "outputs": {"generations": [[{"message": span.answer}]]}
            if span.answer else {"output": span.result},
        "error": span.error or None, "session_name": "depot"} for span in run]


def langsmith_tree(run: Sequence[Span]) -> Fields:
    """Return `Client.read_run(ID, load_child_runs=True)`: the runs below a run are within it."""
    *children, root = langsmith(run)
    for child in children:  # As older clients write them.
        del child["trace_id"], child["parent_run_id"]
    # One run lies deeper than the others.
    children[0]["child_runs"] = [children.pop(1)]
    return root | {"child_runs": children}


def mlflow(run: Sequence[Span]) -> Fields:
    """Return `Trace.to_json()` of MLflow 3."""
    types = {"agent": "AGENT", "model": "CHAT_MODEL", "tool": "TOOL"}
    return {
        "info": {"trace_id": f"tr-{TRACE}", "trace_metadata": {"mlflow.trace.session": SESSION}},
        "data": {
            "spans": [
                {
                    "trace_id": _base64(TRACE),
                    "span_id": _base64(span.id),
                    "parent_span_id": _base64(span.parent) if span.parent else None,
                    "name": span.name,
                    "start_time_unix_nano": span.ns(span.start_s),
                    "end_time_unix_nano": span.ns(span.end_s),
                    "status": {
                        "code": f"STATUS_CODE_{'ERROR' if span.error else 'OK'}",
                        "message": span.error,
                    },
                    "attributes": {
                        name: json.dumps(value)
                        for name, value in {
                            "mlflow.spanType": types[span.kind],
                            "mlflow.spanInputs": {"model": MODEL, "messages": span.given}
                            if span.given
                            else span.arguments,
                            "mlflow.spanOutputs": {"choices": [{"message": span.answer}]}
                            if span.answer
                            else span.result,
                        }.items()
                    },
                    "events": [],
                }
                for span in run
            ]
        },
    }


def mlflow_2(run: Sequence[Span]) -> Fields:
    """Return the same of MLflow 2."""
    trace = mlflow(run)
    for span, made in zip(trace["data"]["spans"], run, strict=True):
        for name in ("trace_id", "span_id", "parent_span_id", "status"):
            del span[name]
        span |= {"context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{made.id}"},
            "parent_id": f"0x{made.parent}" if made.parent else None,
            "start_time": span.pop("start_time_unix_nano"),
            "end_time": span.pop("end_time_unix_nano"),
            "status_code": "ERROR" if made.error else "OK", "status_message": made.error}
    info = {"request_id": TRACE, "request_metadata": trace["info"]["trace_metadata"]}
    return {"info": info, "data": trace["data"]}


def braintrust(run: Sequence[Span]) -> Fields:
    """Return `POST /v1/project_logs/ID/fetch`."""
    types = {"agent": "task", "model": "llm", "tool": "tool"}
    return {"events": [{"id": span.uuid(), "span_id": span.uuid(), "root_span_id": span.uuid(1),
        "span_parents": [span.uuid(1)] if span.parent else None, "created": span.start,
        "span_attributes": {"name": span.name, "type": types[span.kind]},
        "input": span.given or span.arguments,
        "output": [{"message": span.answer}] if span.answer else span.result,
        "error": span.error or None, "metadata": {"model": MODEL, "session_id": SESSION},
        "metrics": {"start": START.timestamp() + span.start_s,
            "end": START.timestamp() + span.end_s}} for span in run],
        "cursor": None}


def weave(run: Sequence[Span]) -> list[Fields]:
    """Return calls as the API streams them, a line each."""
    names = {"model": "openai.chat.completions.create"}
    return [{"id": span.uuid(), "trace_id": span.uuid(1),
        "parent_id": span.uuid(1) if span.parent else None, "project_id": "yard/depot",
        "op_name": f"weave:///yard/depot/op/{names.get(span.kind, span.name)}:v1",
        "started_at": span.start, "ended_at": span.end,
        "attributes": {} if span.kind == "model" else {"weave": {"kind": span.kind}},
        "inputs": {"model": MODEL, "messages": span.given} if span.given else span.arguments,
        "output": {"choices": [{"message": span.answer}]} if span.answer else span.result,
        "exception": span.error or None,
        "summary": {"usage": {MODEL: {"prompt_tokens": 120, "completion_tokens": 9}}},
        "thread_id": SESSION} for span in run]


def weave_langchain(run: Sequence[Span]) -> list[Fields]:
    """Return calls of LangChain, whose outputs are whole runs with ids and times of their own."""
    types = {"agent": "Chain", "model": "Llm", "tool": "Tool"}
    calls = weave(run)
    for call, span in zip(calls, run, strict=True):
        op = f"langchain.{types[span.kind]}.{span.name}"
        call |= {"op_name": f"weave:///yard/depot/op/{op}:v1", "display_name": op}
        call["attributes"] = {"lc_id": span.uuid(), "lc_name": span.name}
        if span.kind != "agent":
            call["attributes"]["weave"] = {"kind": "llm" if span.answer else "tool"}
        told: Fields = {"output": span.result}
        if span.answer:
            call["inputs"] = {"messages": [span.given]}
            told = {"generations": [[{"text": span.answer["content"], "message": span.answer}]]}
        whole = {"id": span.uuid(), "name": span.name, "start_time": span.start}
        call["output"] = whole | {"outputs": None if span.error else told}
    return calls


def weave_otel(run: Sequence[Span]) -> list[Fields]:
    """Return calls that came over OTLP: the attributes are nested by their dots in a dump."""
    calls = weave(run)
    for call, span in zip(calls, run, strict=True):
        nested: Fields = {}
        for key, value in genai(span).items():
            *above, last = key.split(".")
            held = nested
            for part in above:
                held = held.setdefault(part, {})
            held[last] = value
        call |= {"op_name": "step", "attributes": {}, "inputs": {}, "output": None}
        call["otel_dump"] = {"name": span.name, "attributes": nested}
    return calls


def braintrust_otel(run: Sequence[Span]) -> Fields:
    """Return spans that came over OTLP: the attributes are in the metadata."""
    fetched = braintrust(run)
    for event, span in zip(fetched["events"], run, strict=True):
        event |= {"span_attributes": {"name": "step"}, "input": None, "output": None}
        event["metadata"] = genai(span)
    return fetched
