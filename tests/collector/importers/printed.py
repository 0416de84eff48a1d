"""The run of `exports` as SDKs and agents print it: a span a line, JSON over lines, or text.

The forms are those of the exporters' sources (`looptrace.collector.importers.console`).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.collector.importers.exported_run import AGENT, MODEL, SESSION, TRACE, Span, genai
from tests.otlp import tool_call

# A record is seen at once, with several of its fields in a line.
# fmt: off

Fields = dict[str, Any]


def _attributes(span: Span) -> Fields:
    """Return the attributes of a span; a failed call has its error as its result."""
    said = {"gen_ai.tool.call.result": f"Error: {span.error}"} if span.error else {}
    return genai(span) | said


def console_python(run: Sequence[Span]) -> str:
    """Return what Python's `ConsoleSpanExporter` prints."""
    return "\n".join(
        json.dumps(
            {
                "name": span.name,
                "context": {
                    "trace_id": f"0x{TRACE}", "span_id": f"0x{span.id}", "trace_state": "[]",
                },
                "kind": "SpanKind.INTERNAL",
                "parent_id": f"0x{span.parent}" if span.parent else None,
                "start_time": span.start,
                "end_time": span.end,
                "status": {"status_code": "ERROR", "description": span.error}
                if span.error
                else {"status_code": "UNSET"},
                "attributes": _attributes(span),
                "events": [{"name": "seen", "timestamp": span.start, "attributes": {"n": 1}}],
                "links": [
                    {"context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{span.id}"}},
                ],
                "resource": {"attributes": {"service.name": "depot"}, "schema_url": ""},
            },
            indent=4,
        )
        for span in run
    )  # fmt: skip


def console_javascript(run: Sequence[Span]) -> str:
    """Return what JavaScript's `ConsoleSpanExporter` prints with Node.js."""
    return "\n".join(map(_inspected, run))


def _inspected(span: Span) -> str:
    parent = "undefined"
    if span.parent:
        inner = f"    traceId: '{TRACE}',\n    spanId: '{span.parent}',\n    traceState: undefined"
        parent = f"{{\n{inner}\n  }}"
    attributes = ",\n".join(
        f"    '{key}': {_quoted(value)}" for key, value in _attributes(span).items()
    )
    status = f"{{ code: 2, message: {_quoted(span.error)} }}" if span.error else "{ code: 0 }"
    return f"""{{
  resource: {{ attributes: {{ 'service.name': 'depot' }} }},
  instrumentationScope: {{ name: 'agent', version: undefined, schemaUrl: undefined }},
  traceId: '{TRACE}',
  parentSpanContext: {parent},
  traceState: undefined,
  name: {_quoted(span.name)},
  id: '{span.id}',
  kind: 0,
  timestamp: {span.ns(span.start_s) // 1000},
  duration: {int((span.end_s - span.start_s) * 1e6)}.5,
  attributes: {{
{attributes}
  }},
  status: {status},
  events: [ {{ name: 'seen', attributes: [Object], time: [Array] }} ],
  links: []
}}"""


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("'", "\\'")
    half = len(plain) // 2
    # Only a string with lines is in parts, and never within an escape.
    cut = plain.find(" ", half)
    return f"'{plain[:cut]}' +\n      '{plain[cut:]}'" if cut > 0 else f"'{plain}'"


def console_go(run: Sequence[Span]) -> str:
    """Return what `stdouttrace` of Go prints."""

    def context(span_id: str) -> Fields:
        return {"TraceID": TRACE, "SpanID": span_id, "TraceFlags": "01", "Remote": False}

    def values(attributes: Fields) -> list[Fields]:
        return [{"Key": key,
            "Value": {"Type": "STRING", "Value": value}} for key, value in attributes.items()]

    return "\n".join(
        json.dumps(
            {
                "Name": span.name,
                "SpanContext": context(span.id),
                "Parent": context(span.parent or "0" * 16),
                "SpanKind": 1,
                "StartTime": span.start,
                "EndTime": span.end,
                "Attributes": values(_attributes(span)),
                "Events": [{"Name": "seen", "Attributes": None, "Time": span.start}],
                "Links": None,
                "Status": {"Code": "Error" if span.error else "Unset", "Description": span.error},
                "Resource": values({"service.name": "depot"}),
                "InstrumentationScope": {"Name": "agent", "Version": "", "SchemaURL": ""},
            }
        )
        for span in run
    )


def console_dotnet(run: Sequence[Span]) -> str:
    """Return what `ConsoleActivityExporter` of .NET prints."""
    return "\n\n".join("\n".join(_activity(span)) for span in run)


def _activity(span: Span) -> Iterator[str]:
    yield f"Activity.TraceId:            {TRACE}"
    yield f"Activity.SpanId:             {span.id}"
    yield "Activity.TraceFlags:         Recorded"
    if span.parent:
        yield f"Activity.ParentSpanId:       {span.parent}"
    yield f"Activity.DisplayName:        {span.name}"
    yield "Activity.Kind:               Internal"
    yield f"Activity.StartTime:          {span.start.removesuffix('Z')}.0000000Z"
    yield f"Activity.Duration:           00:00:0{span.end_s - span.start_s:.7f}"[:44]
    yield "Activity.Tags:"
    yield from (f"    {key}: {value}" for key, value in _attributes(span).items())
    if span.error:
        yield "StatusCode: Error"
        yield f"Activity.StatusDescription:  {span.error}"
        yield "Activity.Events:"
        yield "    exception [04/07/2026 08:00:00 +00:00]"
        yield f"        exception.message: {span.error}"
    yield "Instrumentation scope (ActivitySource):"
    yield "    Name: agent"
    yield "Resource associated with Activity:"
    yield "    service.name: depot"


def console_java(run: Sequence[Span]) -> str:
    """Return what `LoggingSpanExporter` of Java prints: neither times nor parents nor status."""
    lines = []
    for span in run:
        held = ", ".join(f"{key}={value}" for key, value in _attributes(span).items())
        lines += [
            "Apr 07, 2026 8:00:00 AM io.opentelemetry.exporter.logging.LoggingSpanExporter export",
            f"INFO: '{span.name}' : {TRACE} {span.id} INTERNAL [tracer: agent:1.0] "
            f"AttributesMap{{data={{{held}}}, capacity=128, totalAddedValues=3}}",
        ]
    return "\n".join(lines[1:])


def _otlp(span: Span) -> Fields:
    status = {"code": 2, "message": span.error} if span.error else {}
    return {"traceId": TRACE, "spanId": span.id, "parentSpanId": span.parent or "",
        "name": span.name, "startTimeUnixNano": str(span.ns(span.start_s)),
        "endTimeUnixNano": str(span.ns(span.end_s)),
        "attributes": [{"key": key,
            "value": {"stringValue": value}} for key, value in _attributes(span).items()],
        "status": status}


def otlp_java(run: Sequence[Span]) -> str:
    """Return what `OtlpJsonLoggingSpanExporter` of Java logs."""
    spans = [_otlp(span) for span in run]
    held = {"resource": {}, "scopeSpans": [{"scope": {"name": "agent"}, "spans": spans}]}
    return f"INFO: {json.dumps(held)}"


def otlp_spans(run: Sequence[Span]) -> str:
    """Return bare spans of OTLP, one a line."""
    return "\n".join(json.dumps(_otlp(span)) for span in run)


def otlp_spans_plain(run: Sequence[Span]) -> str:
    """Return the same under names with underscores, with plain attributes, as programs dump it."""
    return json.dumps([{"trace_id": TRACE, "span_id": span.id, "parent_span_id": span.parent,
        "name": span.name, "start_time_unix_nano": span.ns(span.start_s),
        "end_time_unix_nano": span.ns(span.end_s), "attributes": _attributes(span),
        "status": {
            "code": "STATUS_CODE_ERROR" if span.error else "STATUS_CODE_UNSET"}} for span in run])


def otlp_mixed(run: Sequence[Span]) -> str:
    """Return lines of OpenTelemetry's file exporter, with logs and metrics between the spans."""
    lines: list[Fields] = []
    for span in run:
        lines += [
            {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "on"}}]}]}]},
            {"resourceMetrics": [{"scopeMetrics": []}]},
            {"resourceSpans": [{"scopeSpans": [{"spans": [_otlp(span)]}]}]}]
    return "\n".join(map(json.dumps, lines))


def otlp_together(run: Sequence[Span]) -> str:
    """Return one request that has logs, and then spans."""
    logs = [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "on"}}]}]}]
    spans = [{"scopeSpans": [{"spans": [_otlp(span) for span in run]}]}]
    return json.dumps({"resourceLogs": logs, "resourceSpans": spans})


def gemini_outfile(run: Sequence[Span]) -> str:
    """Return a file of Gemini CLI's `--telemetry-outfile`: spans, logs and metrics, as objects."""
    parts: list[Fields] = []
    for span in run:
        seconds, nanoseconds = divmod(span.ns(span.start_s), 10**9)
        scope = {"name": "agent"}
        resource = {"_rawAttributes": [["service.name", "depot"]], "_asyncAttributesPending": False}
        parts += [{"hrTime": [seconds, nanoseconds], "hrTimeObserved": [seconds, nanoseconds],
            "spanContext": {"traceId": TRACE, "spanId": span.id, "traceFlags": 1},
            "resource": resource, "instrumentationScope": scope,
            "attributes": {"event.name": "started", "event.timestamp": span.start},
            "_body": "CLI configuration loaded."},
            {"resource": resource, "scopeMetrics": []},
            {"_spanContext": {"traceId": TRACE, "spanId": span.id, "traceFlags": 1}, "kind": 0,
                **({"parentSpanContext": {"spanId": span.parent}} if span.parent else {}),
                "attributes": _attributes(span), "links": [], "events": [],
                "startTime": [seconds, nanoseconds],
                "endTime": [seconds + int(span.end_s - span.start_s), nanoseconds],
                "resource": resource, "instrumentationScope": scope, "name": span.name,
                "status": {"code": 2, "message": span.error} if span.error else {"code": 0}}]
    return "\n".join(json.dumps(part, indent=2) for part in parts)


def copilot_file(run: Sequence[Span]) -> str:
    """Return a file of Copilot's command line: lines of spans and of metrics."""
    lines: list[Fields] = [{"type": "metric", "name": "gen_ai.client.operation.duration",
        "description": "", "unit": "s", "dataPoints": []}]
    resource = {"attributes": {"service.name": "github-copilot"}, "schemaUrl": ""}
    for span in run:
        start, end = (divmod(span.ns(at_s), 10**9) for at_s in (span.start_s, span.end_s))
        lines.append({"type": "span", "traceId": TRACE, "spanId": span.id, "name": span.name,
            **({"parentSpanId": span.parent} if span.parent else {}), "kind": 0,
            "startTime": start, "endTime": end, "attributes": _attributes(span), "events": [],
            "status": {"code": 2, "message": span.error} if span.error else {"code": 0},
            "resource": resource, "instrumentationScope": {"name": "github.copilot"}})
    return "\n".join(map(json.dumps, lines))


def any_agent(run: Sequence[Span]) -> str:
    """Return an `AgentTrace` of any-agent."""
    return json.dumps({"spans": [_any_agent_span(span) for span in run], "final_output": "done"})


def _any_agent_span(span: Span) -> Fields:
    attributes: Fields = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": AGENT}
    if span.kind == "model":
        calls = [
            {"tool.name": call["function"]["name"], "tool.args": call["function"]["arguments"]}
            for call in span.answer.get("tool_calls", ())
        ]
        attributes = {"gen_ai.operation.name": "call_llm", "gen_ai.request.model": MODEL,
            "gen_ai.input.messages": json.dumps(span.given),
            "gen_ai.output": json.dumps(calls) if calls else span.answer["content"]}
    elif span.kind == "tool":
        attributes = tool_call(span.name) | {"gen_ai.tool.args": json.dumps(span.arguments),
            "gen_ai.output": f"Error: {span.error}" if span.error else span.result}
    parent = {"trace_id": int(TRACE, 16), "span_id": int(span.parent, 16)} if span.parent else None
    return {"name": span.name, "kind": "internal", "parent": parent,
        "start_time": span.ns(span.start_s), "end_time": span.ns(span.end_s),
        "status": {"status_code": "error" if span.error else "ok", "description": span.error},
        "context": {"trace_id": int(TRACE, 16), "span_id": int(span.id, 16)},
        "attributes": attributes, "links": [], "events": [],
        "resource": {"attributes": {"service.name": "depot"}, "schema_url": ""}}


def atif(run: Sequence[Span]) -> str:
    """Return a `trajectory.json` of Harbor."""
    tools = {span.call_id: span for span in run if span.kind == "tool"}
    steps: list[Fields] = [
        {"step_id": 1, "timestamp": run[0].start, "source": "user", "message": "Get order A17."}]
    for span in run:
        if span.kind != "model":
            continue
        calls = span.answer.get("tool_calls", ())
        step: Fields = {"step_id": len(steps) + 1, "timestamp": span.end, "source": "agent",
            "model_name": MODEL, "message": span.answer["content"] or "",
            "metrics": {"prompt_tokens": 120, "completion_tokens": 9, "cached_tokens": 100}}
        if calls:
            step["tool_calls"] = [{"tool_call_id": call["id"],
                "function_name": call["function"]["name"],
                "arguments": json.loads(call["function"]["arguments"])} for call in calls]
            done = [tools[call["id"]] for call in calls]
            results = [{"source_call_id": tool.call_id,
                "content": f"Error: {tool.error}" if tool.error else tool.result} for tool in done]
            step["observation"] = {"results": results}
        steps.append(step)
    return json.dumps({"schema_version": "ATIF-v1.4", "session_id": SESSION,
        "agent": {"name": AGENT, "version": "1.0", "model_name": MODEL}, "steps": steps,
        "final_metrics": {"total_prompt_tokens": 120, "total_completion_tokens": 9}},
        indent=2)


PRINTED: Mapping[str, Callable[[Sequence[Span]], str]] = {
    write.__name__: write
    for write in (
        *(console_python, console_javascript, console_go, console_dotnet, console_java),
        *(
            otlp_java,
            otlp_spans,
            otlp_spans_plain,
            otlp_mixed,
            otlp_together,
            gemini_outfile,
            copilot_file,
            any_agent,
            atif,
        ),
    )
}
