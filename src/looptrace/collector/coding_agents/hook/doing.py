"""What an agent did, as OTLP/JSON, with the ids that the reader of its log would give it.

It is part of the process of a hook, and imports as little as that.
"""

from __future__ import annotations

import json
import os

try:  # hashlib loads OpenSSL, which takes 3 ms.
    from _blake2 import blake2b
except ImportError:  # Some distributions have OpenSSL's alone.
    from hashlib import blake2b

TYPE_CHECKING = False  # The typing module would take 5 ms.
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Of a longer text the beginning and the end are sent.
TEXT_CHARS_MAX = 100_000
_NS_PER_MS = 1_000_000
_UNSET, _OK, _ERROR = 0, 1, 2
# Parts of results that differ each time.
_CHANGING = ("duration", "durationMs", "durationSeconds", "duration_ms", "wall_time", "chunk_id")
# Lines that Gemini CLI puts around the output of a command.
_AROUND = ("<untrusted_context>", "</untrusted_context>", "Process Group PGID:", "Background PIDs:")
_EXIT_MARKS = ("Process exited with code ", "Exit code: ", "Exit Code: ")


def span_of(program: str, call: dict[str, Any], now_ns: int, *, is_prompt: bool) -> dict[str, Any]:
    """Return the end of a call, or a person's message, as a part of an OTLP/JSON request."""
    session, agent = call["session_id"], program
    if isinstance(call.get("agent_id"), str) and program == "claude-code":
        agent = f"agent-{call['agent_id']}"
    common = {"gen_ai.conversation.id": session, "gen_ai.agent.name": agent}
    if is_prompt:
        said = {"looptrace.note": _cut(_words(call.get("prompt")))}
        key = str(call.get("prompt_id") or os.urandom(8).hex())
        return _span(program, session, agent, "person", key, (now_ns, now_ns), common, said=said)
    tool = str(call.get("tool_name") or "unnamed")
    asked = call.get("tool_use_id")
    result, failed = _result(call)
    took_ms = call.get("duration_ms")
    if not isinstance(took_ms, (int, float)) or not 0 <= took_ms < now_ns / _NS_PER_MS:
        took_ms = 0
    arguments = call.get("tool_input")
    own = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": asked if isinstance(asked, str) else "",
        "gen_ai.tool.call.arguments": _cut(
            arguments if isinstance(arguments, str) else json.dumps(arguments)
        ),
        "gen_ai.tool.call.result": _cut(result),
    }
    stopped = {"looptrace.decision": "interrupted"} if call.get("is_interrupt") is True else None
    return _span(
        program,
        session,
        agent,
        f"execute_tool {tool}",
        str(asked or os.urandom(8).hex()),
        (now_ns - int(took_ms * _NS_PER_MS), now_ns),
        common | own,
        status=_UNSET if stopped or failed is None else _ERROR if failed else _OK,
        said=stopped,
    )


def _span(
    program: str,
    session: str,
    agent: str,
    name: str,
    key: str,
    times: tuple[int, int],
    attributes: Mapping[str, str],
    *,
    status: int = _UNSET,
    said: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    who = () if agent == program else (agent,)
    event = {
        "name": "looptrace.human_intervention",
        "timeUnixNano": str(times[1]),
        "attributes": _attributes(said or {}),
    }
    span = {
        "traceId": _hex_id(16, program, session, ""),
        "spanId": _hex_id(8, program, session, *who, name, key),
        "name": name,
        "startTimeUnixNano": str(times[0]),
        "endTimeUnixNano": str(times[1]),
        "status": {"code": status},
        "attributes": _attributes(attributes),
        "events": [] if said is None else [event],
    }
    service = _attributes({"service.name": program})
    return {"resource": {"attributes": service}, "scopeSpans": [{"spans": [span]}]}


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    named = ((name, value) for name, value in values.items() if value != "")
    return [{"key": name, "value": {"stringValue": value}} for name, value in named]


def _result(call: dict[str, Any]) -> tuple[str, bool | None]:
    """Return the text of a call's result, and whether it failed, None where that is unknown."""
    given = call.get("tool_response")
    if "error" in call:
        return _words(call["error"]), True
    if isinstance(given, dict) and "llmContent" in given:
        error, text = given.get("error"), _words(given["llmContent"])
        lines = (line for line in text.split("\n") if not line.startswith(_AROUND))
        return "\n".join(lines), True if error else _exit_failed(text)
    text = _words(given)
    return text, _exit_failed(text)


def _exit_failed(text: str) -> bool | None:
    """Return whether a text begins or ends with an exit code other than 0; None without one."""
    for part in (text[:500], text[-500:]):
        for mark in _EXIT_MARKS:
            code = part.partition(mark)[2].split(maxsplit=1)
            if code and code[0].lstrip("-").isdecimal():
                return int(code[0]) != 0
    return None


def _words(value: Any) -> str:
    """Return the text of a result: its own texts, or else what it holds as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "\n".join(map(_words, value))
    if not isinstance(value, dict):
        return str(value)
    if isinstance(value.get("text"), str):
        return str(value["text"])
    if isinstance(value.get("stdout"), str):
        return "\n".join(filter(None, (value["stdout"], _words(value.get("stderr")))))
    return json.dumps({name: each for name, each in value.items() if name not in _CHANGING})


def _cut(text: str) -> str:
    if len(text) <= TEXT_CHARS_MAX:
        return text
    half = TEXT_CHARS_MAX // 2
    return f"{text[:half]}\n...\n{text[-half:]}"


def _hex_id(size: int, *parts: str) -> str:
    # As `session_spans` makes them.
    return blake2b("\0".join(parts).encode(errors="replace"), digest_size=size).hexdigest()
