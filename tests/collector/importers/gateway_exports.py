"""The run as gateways and services log requests to models.

The fields are those of the sources that `rows/forms.toml` and each importer name.
"""

import json
from collections.abc import Sequence
from typing import Any

from tests.collector.importers.exported_run import (
    AGENT,
    MODEL,
    SESSION,
    Fields,
    Span,
    anthropic_messages,
    models_of,
)
from tests.collector.importers.platform_exports import _csv

# A record is seen at once, with several of its fields in a line.
# fmt: off

US = {"prompt_tokens": 80, "completion_tokens": 12, "total_tokens": 92}


def _req(s: Span) -> Any:
    return {"model": MODEL, "messages": s.given, "tools": [], "temperature": 0}


def _resp(s: Span) -> Any:
    return {"id": f"chatcmpl-{s.number}", "object": "chat.completion",
        "created": s.ns(s.end_s) // 10**9, "model": MODEL,
        "choices": [{"index": 0, "message": {**s.answer, "refusal": None},
            "finish_reason": "tool_calls" if s.answer.get("tool_calls") else "stop"}],
        "usage": US}


def helicone(run: Sequence[Span]) -> Any:
    """Return what Helicone's API answers, newest first."""
    return {"data": [{"response_id": f"r{s.number}", "response_created_at": s.end,
        "response_body": _resp(s), "response_status": 200, "response_model": MODEL,
        "request_id": s.uuid(), "request_model": MODEL, "model_override": None,
        "request_created_at": s.start, "request_body": _req(s),
        "request_path": "/v1/chat/completions", "request_user_id": None,
        "request_properties": {"Helicone-Session-Id": SESSION, "Helicone-Session-Name": AGENT},
        "helicone_user": None, "key_name": "k", "delay_ms": 2000, "total_tokens": 92,
        "prompt_tokens": 80, "completion_tokens": 12, "provider": "OPENAI", "node_id": None,
        "llmSchema": None, "country_code": "DE",
        "signed_body_url": None} for s in reversed(models_of(run))],
        "error": None}


def helicone_plain(run: Sequence[Span]) -> Any:
    """Return the same without sessions."""
    d = helicone(run)
    for request in d["data"]:
        request["request_properties"] = {}
    return d


def portkey(run: Sequence[Span]) -> Any:
    """Return an export of Portkey's logs."""
    return ("LINES",
        [{"id": s.uuid(), "trace_id": f"trace-{SESSION}", "created_at": s.start,
            "request": {"url": "https://api.openai.com/v1/chat/completions", "method": "POST",
                "headers": {}, "body": _req(s)},
            "response": {"status": 200, "headers": {}, "body": _resp(s)}, "is_success": True,
            "ai_org": "openai", "ai_model": MODEL, "req_units": 80, "res_units": 12,
            "total_units": 92, "request_url": "https://api.openai.com/v1/chat/completions",
            "cost": 0.1, "cost_currency": "USD", "response_time": 2000, "response_status_code": 200,
            "mode": "single", "config": "pc", "prompt_slug": "",
            "metadata": {"_user": "u"}} for s in models_of(run)])


def portkey_own_traces(run: Sequence[Span]) -> Any:
    """Return the same, where each request has a trace of its own."""
    form, logs = portkey(run)
    return form, [{**log, "trace_id": log["id"]} for log in logs]


def litellm_spend(run: Sequence[Span]) -> Any:
    """Return rows of LiteLLM's spend logs."""
    return [{"request_id": f"chatcmpl-{s.number}", "call_type": "acompletion", "api_key": "h",
        "spend": 0.1, "total_tokens": 92, "prompt_tokens": 80, "completion_tokens": 12,
        "startTime": s.start, "endTime": s.end, "completionStartTime": s.end, "model": MODEL,
        "model_id": "", "model_group": MODEL, "custom_llm_provider": "openai", "api_base": "",
        "user": "u", "metadata": {"status": "success"}, "cache_hit": "False", "cache_key": "",
        "request_tags": [], "team_id": None, "end_user": "", "messages": s.given,
        "response": _resp(s), "session_id": SESSION, "status": "success",
        "mcp_namespaced_tool_name": None, "agent_id": None,
        "proxy_server_request": _req(s)} for s in reversed(models_of(run))]


def litellm_spend_csv(run: Sequence[Span]) -> Any:
    """Return the same as CSV."""
    return _csv(litellm_spend(run))


def litellm_payload(run: Sequence[Span]) -> Any:
    """Return what LiteLLM's callbacks log."""
    return ("LINES",
        [{"id": f"chatcmpl-{s.number}", "trace_id": SESSION, "call_type": "acompletion",
            "stream": False, "response_cost": 0.1, "status": "success",
            "custom_llm_provider": "openai", "total_tokens": 92, "prompt_tokens": 80,
            "completion_tokens": 12, "startTime": s.ns(s.start_s) / 1000000000.0,
            "endTime": s.ns(s.end_s) / 1000000000.0,
            "completionStartTime": s.ns(s.end_s) / 1000000000.0, "response_time": 2.0,
            "model": MODEL, "model_id": "x", "metadata": {"user_api_key_hash": "h"},
            "cache_hit": None, "request_tags": [], "end_user": "", "messages": s.given,
            "response": _resp(s), "error_str": None, "model_parameters": {},
            "hidden_params": {}} for s in models_of(run)])


def openpipe(run: Sequence[Span]) -> Any:
    """Return an export of OpenPipe."""
    return ("LINES", [{"input": _req(s), "output": _resp(s), "tags": {}} for s in models_of(run)])


def request_response(run: Sequence[Span]) -> Any:
    """Return requests beside their responses."""
    return ("LINES",
        [{"timestamp": s.start, "request": _req(s), "response": _resp(s)} for s in models_of(run)])


def anthropic_pairs(run: Sequence[Span]) -> Any:
    """Return requests to Anthropic beside their responses."""
    return ("LINES",
        [{"timestamp": s.start,
            "request": {"model": "claude-sonnet-4-5", "max_tokens": 1024, "system": "You pack.",
                "messages": anthropic_messages(s.given), "tools": []},
            "response": {"id": f"msg_{s.number}", "type": "message", "model": "claude-sonnet-4-5",
                **anthropic_messages([s.answer])[0], "stop_reason": "tool_use",
                "usage": {"input_tokens": 80, "output_tokens": 12}}} for s in models_of(run)])


def _conv(messages: list[Fields]) -> Any:
    out = []
    for m in anthropic_messages(messages):
        c = m["content"]
        if isinstance(c, str):
            c = [{"type": "text", "text": c}]
        out.append(
            {
                "role": m["role"],
                "content": [
                    {"text": p["text"]}
                    if p["type"] == "text"
                    else {"toolUse": {"toolUseId": p["id"], "name": p["name"], "input": p["input"]}}
                    if p["type"] == "tool_use"
                    else {
                        "toolResult": {
                            "toolUseId": p["tool_use_id"],
                            "content": [{"text": p["content"]}],
                            "status": "error" if p.get("is_error") else "success",
                        }
                    }
                    for p in c
                ],
            }
        )
    return out


def bedrock(run: Sequence[Span]) -> Any:
    """Return Bedrock's log of Converse."""
    return ("LINES",
        [{"timestamp": s.start, "accountId": "1", "identity": {"arn": "a"}, "region": "us-east-1",
            "requestId": s.uuid(), "operation": "Converse", "modelId": "anthropic.claude-sonnet-4",
            "input": {"inputContentType": "application/json",
                "inputBodyJson": {"messages": _conv(s.given), "system": [{"text": "x"}]},
                "inputTokenCount": 80},
            "output": {"outputContentType": "application/json",
                "outputBodyJson": {"output": {"message": _conv([s.answer])[0]},
                    "stopReason": "tool_use", "metrics": {"latencyMs": 2000},
                    "usage": {"inputTokens": 80, "outputTokens": 12, "totalTokens": 92}},
                "outputTokenCount": 12},
            "schemaType": "ModelInvocationLog", "schemaVersion": "1.0"} for s in models_of(run)])


def bedrock_invoke(run: Sequence[Span]) -> Any:
    """Return Bedrock's log of InvokeModel."""
    return ("LINES",
        [{"timestamp": s.start, "accountId": "1", "region": "us-east-1", "requestId": s.uuid(),
            "operation": "InvokeModel", "modelId": "anthropic.claude-sonnet-4",
            "input": {"inputContentType": "application/json",
                "inputBodyJson": {"anthropic_version": "b",
                    "messages": anthropic_messages(s.given)},
                "inputTokenCount": 80},
            "output": {"outputContentType": "application/json",
                "outputBodyJson": {"id": f"msg_{s.number}", "type": "message",
                    **anthropic_messages([s.answer])[0], "stop_reason": "tool_use"},
                "outputTokenCount": 12},
            "schemaType": "ModelInvocationLog", "schemaVersion": "1.0"} for s in models_of(run)])


def cloudwatch_bedrock(run: Sequence[Span]) -> Any:
    """Return Bedrock's log as CloudWatch has it."""
    return {"events": [{"logStreamName": "aws/bedrock/modelinvocations",
        "timestamp": s["timestamp"] and 1, "message": json.dumps(s), "ingestionTime": 2,
        "eventId": "3"} for s in bedrock(run)[1]],
        "searchedLogStreams": []}


def _gem(messages: list[Fields]) -> Any:
    out = []
    names: dict[str, str] = {}
    for m in messages:
        for c in m.get("tool_calls", ()):
            names[c["id"]] = c["function"]["name"]
        if m["role"] == "tool":
            out.append({"role": "user",
                "parts": [{"functionResponse": {"name": names.get(m["tool_call_id"], "t"),
                    "response": {"output": m["content"]}
                        if not m["content"].startswith("Error") else {"error": m["content"]}}}]})
        elif m["role"] == "assistant":
            out.append(
                {
                    "role": "model",
                    "parts": ([{"text": m["content"]}] if m.get("content") else [])
                    + [
                        {
                            "functionCall": {
                                "name": c["function"]["name"],
                                "args": json.loads(c["function"]["arguments"]),
                            }
                        }
                        for c in m.get("tool_calls", ())
                    ],
                }
            )
        else:
            out.append({"role": "user", "parts": [{"text": m["content"]}]})
    return out


def vertex_bigquery(run: Sequence[Span]) -> Any:
    """Return rows of Vertex AI's log in BigQuery."""
    return ("LINES",
        [{"endpoint": "e", "deployed_model_id": "0", "logging_time": s.end,
            "request_id": str(s.number), "model": "gemini-2.5-flash", "model_version": "default",
            "api_method": "generateContent", "metadata": {"request_latency": "2000"},
            "request_payload": None, "response_payload": None,
            "full_request": {"contents": _gem(s.given), "endpoint": "x"},
            "full_response": {
                "candidates": [{"content": _gem([s.answer])[0], "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 80,
                    "candidatesTokenCount": 12}}} for s in models_of(run)])


def responses_objects(run: Sequence[Span]) -> Any:
    """Return a list of OpenAI's responses, newest first."""
    out = []
    prev = None
    pend: list[Fields] = []
    for s in models_of(run):
        inp = []
        for m in s.given:
            if m["role"] == "user":
                inp.append({"type": "message", "role": "user",
                    "content": [{"type": "input_text", "text": m["content"]}]})
            elif m["role"] == "tool":
                inp.append({"type": "function_call_output", "call_id": m["tool_call_id"],
                    "output": m["content"]})
            else:
                inp += [{"type": "function_call", "id": "fc", "call_id": c["id"],
                    "name": c["function"]["name"], "arguments": c["function"]["arguments"],
                    "status": "completed"} for c in m.get("tool_calls", ())]
        outp = [
            {
                "type": "function_call",
                "id": f"fc_{c['id']}",
                "call_id": c["id"],
                "name": c["function"]["name"],
                "arguments": c["function"]["arguments"],
                "status": "completed",
            }
            for c in s.answer.get("tool_calls", ())
        ] or [
            {
                "type": "message",
                "id": "m",
                "role": "assistant",
                "status": "completed",
                "content": [
                    {"type": "output_text", "text": s.answer["content"], "annotations": []}
                ],
            }
        ]
        new = inp[len(pend) :]
        pend = inp + outp
        out.append({"id": f"resp_{s.number}", "object": "response",
            "created_at": s.ns(s.start_s) // 10**9, "status": "completed",
            "completed_at": s.ns(s.end_s) // 10**9, "error": None, "instructions": None,
            "model": MODEL, "output": outp, "input": new, "parallel_tool_calls": True,
            "previous_response_id": prev, "tools": [],
            "usage": {"input_tokens": 80, "output_tokens": 12, "total_tokens": 92}, "metadata": {}})
        prev = f"resp_{s.number}"
    return _listed(out)


def _listed(objects: list[Fields]) -> Any:
    """Return objects as the API lists them, the last one first."""
    return {"object": "list", "data": list(reversed(objects)), "first_id": "a", "last_id": "b",
        "has_more": False}


def assistants_steps(run: Sequence[Span]) -> Any:
    """Return the steps of a run of an assistant."""
    out = []
    for s in run:
        details: Fields = {"type": "message_creation", "message_creation": {"message_id": "msg_1"}}
        if s.kind == "tool":
            function = {"name": s.name, "arguments": json.dumps(s.arguments),
                "output": s.result or f"Error: {s.error}"}
            call = {"id": s.call_id, "type": "function", "function": function}
            details = {"type": "tool_calls", "tool_calls": [call]}
        elif s.kind != "model" or s.answer.get("tool_calls"):
            continue
        out.append({"id": f"step_{s.number}", "object": "thread.run.step",
            "created_at": s.ns(s.start_s) // 10**9, "run_id": "run_1", "assistant_id": "asst_1",
            "thread_id": f"thread_{SESSION}", "type": details["type"], "status": "completed",
            "completed_at": s.ns(s.end_s) // 10**9, "failed_at": None, "last_error": None,
            "usage": US, "step_details": details})
    return _listed(out)


def http_archive(run: Sequence[Span]) -> Any:
    """Return an HTTP archive of the requests."""
    return {"log": {"version": "1.2", "creator": {"name": "x"},
        "entries": [{"startedDateTime": s.start, "time": 2000,
            "request": {"method": "POST", "url": "https://api.openai.com/v1/chat/completions",
                "postData": {"mimeType": "application/json",
                    "text": json.dumps({"model": MODEL, "messages": s.given})}},
            "response": {"status": 200,
                "content": {"mimeType": "application/json",
                    "text": json.dumps(_resp(s))}}} for s in models_of(run)]}}


def ollama_pairs(run: Sequence[Span]) -> Any:
    """Return requests to Ollama beside their responses, without ids."""
    return ("LINES",
        [{"timestamp": s.start, "request": {"model": "qwen3", "messages": s.given, "stream": False},
            "response": {"model": "qwen3", "created_at": s.end, "message": s.answer, "done": True,
                "prompt_eval_count": 80, "eval_count": 12}} for s in models_of(run)])


def cloudflare(run: Sequence[Span]) -> Any:
    """Return details of logs, as Cloudflare's API answers."""
    logs = [{"id": s.uuid(), "created_at": s.start, "provider": "openai", "model": MODEL,
        "path": "chat/completions", "success": True, "status_code": 200, "duration": 2000,
        "tokens_in": 80, "tokens_out": 12, "cached": False,
        "metadata": json.dumps({"session_id": SESSION}), "request_head": json.dumps(_req(s)),
        "request_head_complete": True, "response_head": json.dumps(_resp(s)),
        "response_head_complete": True} for s in models_of(run)]
    return {"success": True, "errors": [], "messages": [], "result": logs}
