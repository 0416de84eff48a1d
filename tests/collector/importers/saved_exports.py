"""The run as frameworks and agents save its chats and steps.

The fields are those of the sources that the modules of `importers/saved` name.
"""

import json
from collections.abc import Sequence
from typing import Any

from tests.collector.importers.exported_run import (
    AGENT,
    MODEL,
    NS_PER_S,
    SESSION,
    Fields,
    Span,
    anthropic_messages,
    models_of,
)

# A record is seen at once, with several of its fields in a line.
# fmt: off

TASK = "Get order A17 ready."
TOKENS = {"input_tokens": 80, "output_tokens": 12}


def _calls(message: Fields) -> list[tuple[str, str, Fields]]:
    return [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls", ())]


def _results(run: Sequence[Span]) -> dict[str, Span]:
    return {span.call_id: span for span in run if span.kind == "tool"}


def _whole(run: Sequence[Span]) -> list[Fields]:
    return [*models_of(run)[-1].given, models_of(run)[-1].answer]


def _told(span: Span) -> str:
    return span.result or f"Error: {span.error}"


def _s(span: Span, at_s: float) -> float:
    return span.ns(at_s) / NS_PER_S


def smolagents(run: Sequence[Span]) -> Any:
    """Return the result of a run of smolagents; a step that failed names no calls itself."""
    results = _results(run)
    steps: list[Fields] = [{"task": TASK, "task_images": None}]
    for number, m in enumerate(models_of(run), 1):
        asked = [{"id": i, "type": "function", "function": {"name": name, "arguments": given}}
            for i, name, given in _calls(m.answer)]
        error = next((results[i].error for i, _, _ in _calls(m.answer)), "")
        steps.append({"step_number": number, "model_input_messages": [],
            "timing": {"start_time": _s(m, m.start_s), "end_time": _s(m, m.end_s), "duration": 2.0},
            "tool_calls": [] if error else asked,
            "error": {"type": "AgentToolExecutionError", "message": error} if error else None,
            "model_output_message": {"role": "assistant", "content": m.answer.get("content"),
                "tool_calls": asked or None, "raw": None, "token_usage": TOKENS},
            "model_output": m.answer.get("content"), "code_action": None,
            "observations": "\n".join(results[i].result for i, _, _ in _calls(m.answer)) or None,
            "observations_images": None, "action_output": None,
            "token_usage": {**TOKENS, "total_tokens": 92}, "is_final_answer": not asked})
    return {"output": "done", "state": "success", "steps": steps, "timing": {},
        "token_usage": {**TOKENS, "total_tokens": 92}}


def pydantic_ai(run: Sequence[Span]) -> Any:
    """Return the messages of a run of pydantic-ai."""
    results, out = _results(run), list[Fields]()
    parts: list[Fields] = [{"content": TASK, "timestamp": run[0].start, "part_kind": "user-prompt"}]
    for m in models_of(run):
        out.append({"parts": parts, "instructions": None, "kind": "request", "run_id": "r",
            "conversation_id": SESSION})
        said = [{"content": m.answer["content"], "id": None, "part_kind": "text"}]
        asked = [{"tool_name": name, "args": json.dumps(given), "tool_call_id": i,
            "part_kind": "tool-call"} for i, name, given in _calls(m.answer)]
        out.append({"parts": [*said, *asked], "kind": "response", "model_name": MODEL,
            "usage": {**TOKENS, "cache_read_tokens": 0, "details": {}}, "timestamp": m.end,
            "run_id": "r", "conversation_id": SESSION})
        parts = []
        for i, name, _ in _calls(m.answer):
            about = {"tool_name": name, "tool_call_id": i, "timestamp": results[i].end}
            kind = "retry-prompt" if results[i].error else "tool-return"
            content = results[i].error or results[i].result
            parts.append({"content": content, "part_kind": kind, **about})
    return out


def _autogen_content(m: Span, results: dict[str, Span]) -> tuple[list[Fields], list[Fields]]:
    asked = [{"id": i, "arguments": json.dumps(given), "name": name}
        for i, name, given in _calls(m.answer)]
    told = [{"content": results[i].error or results[i].result, "name": name, "call_id": i,
        "is_error": bool(results[i].error)} for i, name, _ in _calls(m.answer)]
    return asked, told


def autogen(run: Sequence[Span]) -> Any:
    """Return the result of a task of AutoGen."""
    out: list[Fields] = [{"id": "1", "source": "user", "models_usage": None, "metadata": {},
        "created_at": run[0].start, "content": TASK, "type": "TextMessage"}]
    for m in models_of(run):
        asked, told = _autogen_content(m, _results(run))
        about = {"source": AGENT, "metadata": {}, "created_at": m.end,
            "models_usage": {"prompt_tokens": 80, "completion_tokens": 12}}
        if not asked:
            out.append({**about, "content": m.answer["content"], "type": "TextMessage"})
            continue
        out.append({**about, "content": asked, "type": "ToolCallRequestEvent"})
        out.append({**about, "models_usage": None, "content": told, "created_at": m.at(m.end_s + 1),
            "type": "ToolCallExecutionEvent"})
    return {"messages": out, "stop_reason": "done"}


def autogen_studio(run: Sequence[Span]) -> Any:
    """Return the same as rows of AutoGen Studio."""
    about = {"session_id": SESSION, "run_id": 7, "message_meta": {}}
    return {"status": True, "data": [{"id": number, "config": message, **about}
        for number, message in enumerate(autogen(run)["messages"])]}


def autogen_state(run: Sequence[Span]) -> Any:
    """Return the state of a team of AutoGen."""
    held: list[Fields] = [{"content": TASK, "source": "user", "type": "UserMessage"}]
    for m in models_of(run):
        asked, told = _autogen_content(m, _results(run))
        said = m.answer["content"]
        held.append({"content": asked or said, "thought": said if asked else None,
            "source": AGENT, "type": "AssistantMessage"})
        if told:
            held.append({"content": told, "type": "FunctionExecutionResultMessage"})
    inner = {"type": "AssistantAgentState", "llm_context": {"messages": held}}
    return {"type": "TeamState", "version": "1.0.0", "agent_states": {
        AGENT: {"type": "ChatAgentContainerState", "agent_state": inner, "message_buffer": []},
        "RoundRobinGroupChatManager": {"type": "RoundRobinManagerState", "message_thread": [],
            "current_turn": 0}}}


def ag2_chat(run: Sequence[Span]) -> Any:
    """Return the result of a chat of AG2 before 1.0, as the agent has it that asked."""
    out = list[Fields]()
    for given in _whole(run):
        text = {"content": given["content"]}
        if given["role"] == "tool":
            told = {"tool_call_id": given["tool_call_id"], "role": "tool", **text}
            out.append({**text, "tool_responses": [told], "name": "person", "role": "tool"})
        elif given.get("tool_calls"):
            out.append({**text, "tool_calls": given["tool_calls"], "role": "assistant"})
        elif given["role"] == "assistant":
            out.append({**text, "name": AGENT, "role": "user"})
        else:
            out.append({**text, "name": "person", "role": "assistant"})
    return {"chat_id": 1, "chat_history": out, "summary": "", "cost": {}, "human_input": []}


def letta(run: Sequence[Span]) -> Any:
    """Return messages as Letta's API lists them, the newest first."""
    results = _results(run)
    out: list[Fields] = [{"id": "message-0", "date": run[0].start, "content": TASK,
        "message_type": "user_message"}]
    for m in models_of(run):
        about = {"id": f"message-{m.id}", "date": m.end, "step_id": f"step-{m.number}", "otid": "o"}
        out.append({**about, "message_type": "reasoning_message", "reasoning": "Look."})
        for i, name, given in _calls(m.answer):
            call = {"name": name, "arguments": json.dumps(given), "tool_call_id": i}
            out.append({**about, "message_type": "tool_call_message", "tool_call": call})
            out.append({**about, "date": results[i].end, "message_type": "tool_return_message",
                "tool_return": _told(results[i]), "tool_call_id": i, "name": name,
                "status": "error" if results[i].error else "success"})
        if not _calls(m.answer):
            text = m.answer["content"]
            out.append({**about, "message_type": "assistant_message", "content": text})
    return out[::-1]


def adk(run: Sequence[Span]) -> Any:
    """Return a session of Google's ADK."""
    results = _results(run)
    about = {"invocationId": "e-1", "actions": {"stateDelta": {}}}
    out: list[Fields] = [{**about, "author": "user", "timestamp": _s(run[0], 0),
        "content": {"role": "user", "parts": [{"text": TASK}]}}]
    for m in models_of(run):
        calls = [{"functionCall": {"id": i, "name": name, "args": given}}
            for i, name, given in _calls(m.answer)]
        out.append({**about, "author": AGENT, "timestamp": _s(m, m.end_s),
            "content": {"role": "model", "parts": [{"text": m.answer["content"]}, *calls]},
            "usageMetadata": {"promptTokenCount": 80, "candidatesTokenCount": 12}})
        for i, name, _ in _calls(m.answer):
            span = results[i]
            told = {"error": span.error} if span.error else {"result": span.result}
            shown = {"functionResponse": {"id": i, "name": name, "response": told}}
            out.append({**about, "author": AGENT, "timestamp": _s(span, span.end_s),
                "content": {"role": "user", "parts": [shown]}})
    return {"id": SESSION, "appName": "depot", "userId": "u", "state": {}, "events": out,
        "lastUpdateTime": _s(run[0], 99)}


def browser_use(run: Sequence[Span]) -> Any:
    """Return the history of a run of browser-use."""
    results, steps = _results(run), list[Fields]()
    for number, m in enumerate(models_of(run), 1):
        actions = [{name: given} for _, name, given in _calls(m.answer)]
        told = [{"is_done": False, **({"error": results[i].error} if results[i].error else
            {"extracted_content": results[i].result})} for i, _, _ in _calls(m.answer)]
        done = {"done": {"text": m.answer["content"], "success": True}}
        steps.append({"model_output": {"evaluation_previous_goal": "", "memory": "",
                "next_goal": m.answer["content"], "action": actions or [done]},
            "result": told or [{"is_done": True, "success": True, "extracted_content": "ok"}],
            "state": {"url": "https://depot.example", "tabs": [], "interacted_element": [None]},
            "metadata": {"step_start_time": _s(m, m.start_s), "step_end_time": _s(m, m.end_s + 1),
                "step_number": number}, "state_message": None})
    return {"history": steps}


def dspy(run: Sequence[Span]) -> Any:
    """Return the prediction of DSPy's ReAct."""
    results, made = _results(run), dict[str, Any]()
    for step, m in enumerate(models_of(run)):
        asked = _calls(m.answer) or [("", "finish", {})]
        for i, name, given in asked:
            span = results.get(i)
            error = f"Execution error in {name}: {span.error}" if span and span.error else ""
            made |= {f"thought_{step}": m.answer["content"], f"tool_name_{step}": name,
                f"tool_args_{step}": given,
                f"observation_{step}": error or (span.result if span else "Completed.")}
    return {"trajectory": made, "reasoning": "Done.", "answer": "A17 is ready."}


def dspy_history(run: Sequence[Span]) -> Any:
    """Return the requests that DSPy keeps."""
    usage = {"prompt_tokens": 80, "completion_tokens": 12}
    return [{"prompt": None, "messages": m.given, "kwargs": {}, "outputs": [m.answer["content"]],
        "response": {"id": "c", "choices": [{"message": m.answer, "index": 0}], "usage": usage},
        "usage": usage, "cost": 0.0, "timestamp": m.end, "uuid": m.uuid(), "model": MODEL,
        "response_model": MODEL, "model_type": "chat"} for m in models_of(run)]


def llamaindex(run: Sequence[Span]) -> Any:
    """Return messages of LlamaIndex."""
    out = list[Fields]()
    for given in _whole(run):
        text = [{"block_type": "text", "text": given.get("content") or ""}]
        calls = [{"block_type": "tool_call", "tool_call_id": i, "tool_name": name,
            "tool_kwargs": kwargs} for i, name, kwargs in _calls(given)]
        about = {"tool_call_id": given["tool_call_id"]} if given["role"] == "tool" else {}
        out.append({"role": given["role"], "additional_kwargs": about, "blocks": [*text, *calls]})
    return out


def llamaindex_store(run: Sequence[Span]) -> Any:
    """Return the memory of LlamaIndex before its blocks of calls."""
    out = llamaindex(run)
    for message, given in zip(out, _whole(run), strict=True):
        message["blocks"] = message["blocks"][:1]
        if given.get("tool_calls"):
            message["additional_kwargs"] = {"tool_calls": given["tool_calls"]}
    return {"chat_store": {"store": {"chat_history": out}, "class_name": "SimpleChatStore"},
        "chat_store_key": "chat_history", "token_limit": 3000, "class_name": "ChatMemoryBuffer"}


def llamaindex_chat_store(run: Sequence[Span]) -> Any:
    """Return the store of chats that LlamaIndex persists."""
    return {"store": {"chat_history": llamaindex(run)}, "class_name": "SimpleChatStore"}


def agent_framework(run: Sequence[Span]) -> Any:
    """Return a session of the Agent Framework in Python."""
    results, out = _results(run), list[Fields]()
    for given in _whole(run):
        if given["role"] == "tool":
            span = results[given["tool_call_id"]]
            part: Fields = {"type": "function_result", "call_id": span.call_id}
            error = {"exception": "FunctionInvocationError"} if span.error else {}
            parts = [{**part, "result": _told(span), **error}]
        else:
            parts = [{"type": "text", "text": given["content"]}]
            parts += [{"type": "function_call", "call_id": i, "name": name,
                "arguments": json.dumps(args)} for i, name, args in _calls(given)]
        out.append({"type": "message", "role": given["role"], "contents": parts,
            "author_name": AGENT})
    return {"type": "session", "session_id": SESSION, "state": {"in_memory": {"messages": out}}}


def agent_framework_net(run: Sequence[Span]) -> Any:
    """Return a session of the Agent Framework in .NET."""
    out = list[Fields]()
    for given in _whole(run):
        if given["role"] == "tool":
            part = {"$type": "functionResult", "callId": given["tool_call_id"]}
            parts = [{**part, "result": given["content"]}]
        else:
            parts = [{"$type": "text", "text": given["content"]}]
            parts += [{"$type": "functionCall", "callId": i, "name": name, "arguments": args}
                for i, name, args in _calls(given)]
        out.append({"role": given["role"], "contents": parts, "authorName": AGENT})
    return {"stateBag": {"InMemoryChatHistoryProvider": {"messages": out}}}


def semantic_kernel(run: Sequence[Span]) -> Any:
    """Return a history of Semantic Kernel in Python."""
    out = list[Fields]()
    for given in _whole(run):
        if given["role"] == "tool":
            items = [{"content_type": "function_result", "id": given["tool_call_id"],
                "result": given["content"], "name": "check", "function_name": "check"}]
        else:
            items = [{"content_type": "text", "text": given["content"]}]
            items += [{"content_type": "function_call", "id": i, "name": name,
                "function_name": name, "arguments": json.dumps(a)} for i, name, a in _calls(given)]
        out.append({"content_type": "message", "role": given["role"], "items": items,
            "ai_model_id": MODEL})
    return {"messages": out}


def semantic_kernel_net(run: Sequence[Span]) -> Any:
    """Return a history of Semantic Kernel in .NET."""
    out = list[Fields]()
    for given in _whole(run):
        if given["role"] == "tool":
            items = [{"$type": "FunctionResultContent", "CallId": given["tool_call_id"],
                "PluginName": "depot", "FunctionName": "check", "Result": given["content"]}]
        else:
            items = [{"$type": "TextContent", "Text": given["content"]}]
            items += [{"$type": "FunctionCallContent", "Id": i, "PluginName": "depot",
                "FunctionName": name, "Arguments": a} for i, name, a in _calls(given)]
        out.append({"Role": {"Label": given["role"]}, "Items": items, "ModelId": MODEL})
    return out


def strands(run: Sequence[Span]) -> Any:
    """Return the messages of a session of Strands."""
    results, out = _results(run), list[Fields]()
    for given in _whole(run):
        if given["role"] == "tool":
            span = results[given["tool_call_id"]]
            told = {"toolUseId": span.call_id, "content": [{"text": _told(span)}],
                "status": "error" if span.error else "success"}
            out.append({"role": "user", "content": [{"toolResult": told}]})
        else:
            calls = [{"toolUse": {"toolUseId": i, "name": name, "input": a}}
                for i, name, a in _calls(given)]
            out.append({"role": given["role"], "content": [{"text": given["content"]}, *calls]})
    return [{"message": message, "message_id": number, "redact_message": None,
        "created_at": run[0].at(number), "updated_at": run[0].at(number)}
        for number, message in enumerate(out)]


def mastra_memory(run: Sequence[Span]) -> Any:
    """Return the messages of a thread of Mastra's memory: the steps of a run are one message.

    An error is a text of its own, or a result with a mark.
    """
    results, parts = _results(run), list[Fields]()
    about = {"createdAt": run[0].start, "threadId": SESSION, "resourceId": "u"}
    for m in models_of(run):
        parts += [{"type": "step-start"}, {"type": "text", "text": m.answer["content"]}]
        for i, name, given in _calls(m.answer):
            span = results[i]
            told: Fields = {"state": "result", "result": span.error or span.result}
            if span.error:
                error = {"state": "output-error", "errorText": span.error}
                told = error if m.number % 2 else {**told, "isError": True}
            parts.append({"type": "tool-invocation", "toolInvocation": {
                "toolCallId": i, "toolName": name, "args": given, **told}})
    asked = {"format": 2, "parts": [{"type": "text", "text": TASK}]}
    return {"messages": [{"id": "1", "role": "user", "content": asked, **about},
        {"id": "2", "role": "assistant", "content": {"format": 2, "parts": parts}, **about}]}


def camel(run: Sequence[Span]) -> Any:
    """Return the records of an agent's memory of CAMEL."""
    return _camel(run, is_before=False)


def camel_before(run: Sequence[Span]) -> Any:
    """Return the same before CAMEL kept calls with the response."""
    return _camel(run, is_before=True)


def _camel(run: Sequence[Span], *, is_before: bool) -> Any:
    results, out = _results(run), list[Fields]()

    def add(role: str, at: float, **told: Any) -> None:
        kind = "FunctionCallingMessage" if "func_name" in told else "BaseMessage"
        message = {"__class__": kind, "role_name": AGENT, "role_type": "assistant", "content": ""}
        out.append({"uuid": run[0].uuid(len(out) + 1), "message": message | told, "agent_id": "a",
            "role_at_backend": role, "extra_info": {}, "timestamp": at})

    add("user", _s(run[0], 0), content=TASK)
    for m in models_of(run):
        calls = m.answer.get("tool_calls")
        if not (calls and is_before):
            held = {"tool_calls": calls} if calls else {}
            add("assistant", _s(m, m.end_s), **held, content=m.answer["content"])
        for i, name, given in _calls(m.answer):
            if is_before:
                add("assistant", _s(m, m.end_s), func_name=name, args=given, tool_call_id=i)
            at = _s(results[i], results[i].end_s)
            add("function", at, func_name=name, result=_told(results[i]), tool_call_id=i)
    return out


def agentkit(run: Sequence[Span]) -> Any:
    """Return the results of the agents of AgentKit."""
    results, out = _results(run), list[Fields]()
    for m in models_of(run):
        asked = [{"type": "tool", "id": i, "name": name, "input": given}
            for i, name, given in _calls(m.answer)]
        said = [{"type": "text", "role": "assistant", "content": m.answer["content"]}]
        calls = [{"type": "tool_call", "role": "assistant", "tools": asked, "stop_reason": "tool"}]
        told = [{"role": "tool_result", "type": "tool_result", "tool": tool, "stop_reason": "tool",
            "content": {"error": {"name": "Error", "message": span.error}}
                if span.error else {"data": span.result}}
            for tool in asked for span in [results[str(tool["id"])]]]
        out.append({"agentName": AGENT, "output": said + (calls if asked else []),
            "toolCalls": told, "createdAt": m.end, "checksum": str(m.number)})
    return {"results": out}


def trae(run: Sequence[Span]) -> Any:
    """Return a trajectory of Trae Agent."""
    results, steps = _results(run), list[Fields]()
    for number, m in enumerate(models_of(run), 1):
        calls = [{"call_id": i, "name": name, "arguments": given, "id": i}
            for i, name, given in _calls(m.answer)]
        steps.append({"step_number": number, "timestamp": m.end, "state": "calling_tool",
            "llm_messages": m.given, "llm_response": {"content": m.answer["content"],
                "model": MODEL, "usage": TOKENS, "tool_calls": calls or None},
            "tool_calls": calls or None, "tool_results": [{"call_id": i, "id": i,
                "success": not results[i].error, "result": results[i].result or None,
                "error": results[i].error or None} for i, _, _ in _calls(m.answer)] or None})
    return {"task": TASK, "start_time": run[0].start, "end_time": run[-1].end, "model": MODEL,
        "provider": "openai", "max_steps": 200, "llm_interactions": [], "agent_steps": steps,
        "success": True, "final_result": "done", "execution_time": 9.0}


def dify(run: Sequence[Span]) -> Any:
    """Return the messages of a conversation of Dify, with the thoughts of its agent."""
    results, thoughts = _results(run), list[Fields]()
    for m in models_of(run):
        for i, name, given in _calls(m.answer):
            thoughts.append({"id": f"t{len(thoughts)}", "message_id": "m1", "tool": name,
                "position": len(thoughts) + 1, "thought": m.answer["content"],
                "tool_input": json.dumps({name: given}), "tool_labels": {}, "files": [],
                "observation": json.dumps({name: _told(results[i])}),
                "created_at": m.ns(m.end_s) // NS_PER_S})
    final = {"tool": "Final Answer", "tool_input": json.dumps({"Final Answer": "A17 is ready."})}
    thoughts.append({"id": "t", "message_id": "m1", "thought": "Done.", **final, "observation": "",
        "position": len(thoughts) + 1, "created_at": run[-1].ns(0) // NS_PER_S})
    return {"limit": 20, "has_more": False, "data": [{"id": "m1", "conversation_id": SESSION,
        "inputs": {}, "query": TASK, "answer": "A17 is ready.", "agent_thoughts": thoughts,
        "message_files": [], "created_at": run[0].ns(0) // NS_PER_S, "status": "normal"}]}


def zed(run: Sequence[Span]) -> Any:
    """Return a thread of Zed."""
    results = _results(run)
    out: list[Any] = [{"User": {"id": "u", "content": [{"Text": TASK}]}}, "Resume"]
    for m in models_of(run):
        uses = [{"ToolUse": {"id": i, "name": name, "raw_input": json.dumps(given), "input": given,
            "is_input_complete": True}} for i, name, given in _calls(m.answer)]
        told = {i: {"tool_use_id": i, "tool_name": name, "is_error": bool(results[i].error),
            "content": {"Text": results[i].error or results[i].result}, "output": None}
            for i, name, _ in _calls(m.answer)}
        out.append({"Agent": {"content": [{"Text": m.answer["content"]}, *uses],
            "tool_results": told}})
    return {"title": "t", "messages": out, "updated_at": run[-1].end, "version": "0.3.0",
        "cumulative_token_usage": {}, "request_token_usage": {}, "profile": "write"}


def continue_session(run: Sequence[Span]) -> Any:
    """Return a session of Continue, which has results twice."""
    results, out = _results(run), list[Fields]()
    for given in _whole(run):
        message = {"role": given["role"], "content": given["content"], "id": "x"}
        item: Fields = {"message": message, "contextItems": []}
        if given["role"] == "tool":
            message["toolCallId"] = given["tool_call_id"]
        if given.get("tool_calls"):
            message["toolCalls"] = given["tool_calls"]
            item["toolCallStates"] = [{"toolCallId": i, "parsedArgs": args,
                "toolCall": {"id": i, "type": "function", "function": {"name": name}},
                "status": "errored" if results[i].error else "done",
                "output": [{"name": name, "description": "", "content": _told(results[i])}]}
                for i, name, args in _calls(given)]
        out.append(item)
    return {"sessionId": SESSION, "title": "t", "workspaceDirectory": "file:///depot",
        "history": out, "mode": "agent"}


def pi(run: Sequence[Span]) -> Any:
    """Return the lines of a session of pi."""
    results = _results(run)
    out: list[Fields] = [{"type": "session", "version": 3, "id": SESSION, "cwd": "/depot",
        "timestamp": run[0].start}]

    def add(at: str, message: Fields) -> None:
        about = {"id": f"{len(out):08x}", "parentId": f"{len(out) - 1:08x}", "timestamp": at}
        out.append({"type": "message", **about, "message": message})

    add(run[0].start, {"role": "user", "content": TASK})
    out.append({"type": "model_change", "id": "c1", "parentId": None, "timestamp": run[0].start,
        "provider": "openai", "modelId": MODEL})
    out.append({"type": "custom", "id": "c2", "parentId": "c1", "timestamp": run[0].start,
        "customType": "plan", "data": ["draft"]})
    for m in models_of(run):
        calls = [{"type": "toolCall", "id": i, "name": name, "arguments": given}
            for i, name, given in _calls(m.answer)]
        add(m.end, {"role": "assistant", "model": MODEL, "stopReason": "toolUse",
            "content": [{"type": "text", "text": m.answer["content"]}, *calls],
            "usage": {"input": 30, "output": 12, "cacheRead": 50, "cacheWrite": 0}})
        for i, name, _ in _calls(m.answer):
            text = results[i].error or results[i].result
            add(results[i].end, {"role": "toolResult", "toolCallId": i, "toolName": name,
                "content": [{"type": "text", "text": text}], "isError": bool(results[i].error)})
    return out


def pi_stream(run: Sequence[Span]) -> Any:
    """Return the lines that pi prints, with each message several times."""
    first, *lines = pi(run)
    out, whole = [first, {"type": "agent_start"}], list[Fields]()
    for line in lines:
        if line["type"] == "message":
            message = line["message"]
            at = run[0].ns(len(whole)) // 10**6
            whole.append({**message, "timestamp": at})
            said = [{"type": kind, "message": whole[-1]} for kind in ("message_start",
                "message_update", "message_end")]
            out += [*said, {"type": "turn_end", "message": whole[-1], "toolResults": []}]
    return [*out, {"type": "agent_end", "messages": whole}]


def droid(run: Sequence[Span]) -> Any:
    """Return the lines of a session of Droid."""
    first = {"type": "session_start", "id": SESSION, "title": "t", "owner": "o", "version": 2,
        "cwd": "/depot"}
    return [first, *({"type": "message", "id": f"m{number}", "timestamp": run[0].at(number),
        "message": message, **({"parentId": f"m{number - 1}"} if number else {})}
        for number, message in enumerate(anthropic_messages(_whole(run))))]


def qwen_code(run: Sequence[Span]) -> Any:
    """Return the lines of a chat of Qwen Code."""
    results, out = _results(run), list[Fields]()

    def add(at: str, **told: Any) -> None:
        number = len(out)
        out.append({"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": SESSION, "timestamp": at, "cwd": "/depot", "version": "0.6", **told})

    add(run[0].start, type="user", message={"role": "user", "parts": [{"text": TASK}]})
    add(run[0].start, type="system", subtype="ui_telemetry", systemPayload={})
    for m in models_of(run):
        calls = [{"functionCall": {"id": i, "name": name, "args": given}}
            for i, name, given in _calls(m.answer)]
        parts = [{"text": m.answer["content"]}, *calls]
        add(m.end, type="assistant", model=MODEL, message={"role": "model", "parts": parts},
            usageMetadata={"promptTokenCount": 80, "candidatesTokenCount": 12})
        for i, name, _ in _calls(m.answer):
            error, result = results[i].error, results[i].result
            shown = {"id": i, "name": name, "response": {"error": error} if error else
                {"output": result}}
            add(results[i].end, type="tool_result", message={"role": "user",
                "parts": [{"functionResponse": shown}]}, toolCallResult={"callId": i,
                "status": "error" if error else "success", "resultDisplay": error or result})
    return out


def goose_session(run: Sequence[Span]) -> Any:
    """Return a session that Goose exports."""
    results, out = _results(run), list[Fields]()
    for given in _whole(run):
        parts: list[Fields] = [{"type": "text", "text": given["content"]}]
        parts += [{"type": "toolRequest", "id": i, "toolCall": {"status": "success",
            "value": {"name": name, "arguments": args}}} for i, name, args in _calls(given)]
        role = given["role"]
        if role == "tool":
            span = results[given["tool_call_id"]]
            shown = {"content": [{"type": "text", "text": span.result}], "isError": False}
            told = {"status": "error", "error": span.error} if span.error else {
                "status": "success", "value": shown}
            role, parts = "user", [{"type": "toolResponse", "id": span.call_id, "toolResult": told}]
        out.append({"id": "m", "role": role, "created": run[0].ns(0) // NS_PER_S, "content": parts})
    return {"id": SESSION, "working_dir": "/depot", "name": "t", "session_type": "user",
        "extension_data": {}, "conversation": out, "message_count": len(out), "recipe": None}


def copilot_chat(run: Sequence[Span]) -> Any:
    """Return a chat of Copilot that VS Code exports."""
    results, rounds = _results(run), list[Fields]()
    for m in models_of(run):
        rounds.append({"id": m.id, "response": m.answer["content"], "toolInputRetry": 0,
            "timestamp": m.ns(m.end_s) // 10**6, "toolCalls": [{"id": i, "name": name,
            "arguments": json.dumps(given)} for i, name, given in _calls(m.answer)]})
    shown = {i: {"$mid": 20, "content": [{"$mid": 21, "value": {"node": {"type": 1, "children": [
        {"type": 2, "text": _told(span)}]}}}]} for i, span in results.items()}
    told = {"toolCallRounds": rounds, "toolCallResults": shown}
    return {"requesterUsername": "u", "responderUsername": "GitHub Copilot", "sessionId": SESSION,
        "requests": [{"requestId": "r", "message": {"text": TASK, "parts": []}, "response": [],
        "timestamp": run[0].ns(0) // 10**6, "modelId": MODEL, "result": {"metadata": told}}]}


def vscode_changes(run: Sequence[Span]) -> Any:
    """Return a chat of VS Code as it keeps it: as changes, also of what is said no more."""
    chat = copilot_chat(run)
    (request,) = chat["requests"]
    result, told = request["result"], {**request, "result": None}
    begun = [{"kind": 0, "v": {**chat, "requests": [], "customTitle": "Orders"}},
        {"kind": 2, "k": ["requests"], "v": [{**told, "message": {"text": "No."}}]},
        {"kind": 2, "k": ["requests"], "v": [told], "i": 0}]
    return [*begun, {"kind": 1, "k": ["requests", 0, "result"], "v": result},
        {"kind": 3, "k": ["customTitle"]}]


def crush(run: Sequence[Span]) -> Any:
    """Return a session that Crush prints, which its `meta` names."""
    results, out = _results(run), list[Fields]()
    for number, given in enumerate(_whole(run)):
        role, parts = given["role"], list[Fields]()
        if role == "tool":
            span = results[given["tool_call_id"]]
            parts = [{"type": "tool_result", "tool_call_id": span.call_id, "name": span.name,
                "content": _told(span), **({"is_error": True} if span.error else {})}]
        else:
            parts = [{"type": "text", "text": given["content"]}] if given["content"] else []
            parts += [{"type": "tool_call", "tool_call_id": i, "name": name,
                "input": json.dumps(args)} for i, name, args in _calls(given)]
            parts.append({"type": "finish", "reason": "tool_use", "time": 1})
        at = run[0].at(number)
        out.append({"id": f"m{number}", "role": role, "created": at, "parts": parts})
    return {"meta": {"id": "a1b2c3d", "uuid": SESSION, "title": "t", "created": run[0].start,
        "modified": run[-1].end, "cost": 0, "prompt_tokens": 80, "completion_tokens": 12,
        "total_tokens": 92}, "messages": out}


def kiro_session(run: Sequence[Span]) -> Any:
    """Return the entries of a session of Kiro's command line."""
    results, out = _results(run), list[Fields]()
    for number, given in enumerate(_whole(run)):
        kind, parts, told = "Prompt", list[Fields](), dict[str, Any]()
        if given["role"] == "tool":
            span = results[given["tool_call_id"]]
            shown = [{"kind": "text", "data": span.error or span.result}]
            kind, told = "ToolResults", {"results": {}}
            parts = [{"kind": "toolResult", "data": {"toolUseId": span.call_id, "content": shown,
                "status": "error" if span.error else "success"}}]
        else:
            parts = [{"kind": "text", "data": given["content"]}] if given["content"] else []
        if given["role"] == "assistant":
            kind = "AssistantMessage"
            parts += [{"kind": "toolUse", "data": {"toolUseId": i, "name": name,
                "input": {**args, "__tool_use_purpose": f"Try {number}."}}}
                for i, name, args in _calls(given)]
        entry = {"message_id": f"m{number}", "content": parts, **told}
        out.append({"version": "v1", "kind": kind, "data": entry})
    return out


def parlant(run: Sequence[Span]) -> Any:
    """Return the events of a session of Parlant."""
    results, out = _results(run), list[Fields]()

    def add(at: str, kind: str, source: str, data: Fields) -> None:
        out.append({"id": f"e{len(out)}", "source": source, "kind": kind, "offset": len(out),
            "creation_utc": at, "trace_id": "t", "correlation_id": "t", "data": data,
            "metadata": {}, "deleted": False})

    add(run[0].start, "message", "customer", {"message": TASK, "participant": {"name": "u"}})
    for m in models_of(run):
        add(m.end, "status", "ai_agent", {"status": "processing", "data": {}})
        if m.answer["content"]:
            add(m.end, "message", "ai_agent", {"message": m.answer["content"],
                "participant": {"name": AGENT}})
        if calls := _calls(m.answer):
            add(results[calls[0][0]].end, "tool", "system", {"tool_calls": [{"tool_id": name,
                "arguments": given, "result": {"data": _told(results[i]), "metadata": {},
                "control": {}}} for i, name, given in calls]})
    return out
