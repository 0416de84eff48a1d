"""What a hook does: it sends what an agent did, and asks whether the agent may go on.

A coding agent starts this module before and after each call, so that it imports little of the
standard library and nothing else. Spans have the ids that the reader of the program's log gives
them, where the program names its calls. An answer has the form that the program documents:

- Claude Code 2.1: code.claude.com/docs/en/hooks
- Codex 0.171: developers.openai.com/codex/hooks; openai/codex: codex-rs/hooks/src/schema.rs
- Gemini CLI 0.61: google-gemini/gemini-cli@5411f113: docs/hooks/reference.md
- opencode 1.18: the plug-in beside this file translates
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

try:  # hashlib loads OpenSSL, which takes 3 ms.
    from _blake2 import blake2b
except ImportError:  # Some distributions have OpenSSL's alone.
    from hashlib import blake2b

TYPE_CHECKING = False  # The typing module would take 5 ms.
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, BinaryIO, TypeAlias

    SpanOf: TypeAlias = Callable[..., dict[str, Any]]

TOKEN_VARIABLE = "LOOPTRACE_TOKEN"  # noqa: S105 - the name of a variable
AUTHORITY_VARIABLE = "OTEL_EXPORTER_OTLP_CERTIFICATE"
# A person waits for each call, and a server on this machine answers within milliseconds.
ANSWER_S_MAX = 1.0
ANSWER_BYTES_MAX = 4 << 20
CALL_BYTES_MAX = 64 << 20
SESSION_CHARS_MAX = 1_000
# Texts with which a program writes in a person's name, as the reader of its log knows them.
OWN_TEXTS = (
    "<local-command-",
    "<bash-stdout>",
    "<bash-stderr>",
    "<system-reminder>",
    "<task-notification>",
    "<teammate-message",
    "Caveat: ",
)
# Files with the last event sent to a session are deleted after so many days.
TOLD_DAYS_MAX = 7
START, PROMPT, BEFORE, AFTER, BATCH, STOP = "start", "prompt", "before", "after", "batch", "stop"
_DAY_S = 86_400

# The program's own name of an event, where an answer has to repeat it.
_OWN_NAMES = {
    "claude-code": {BEFORE: "PreToolUse"},
    "codex": {BEFORE: "PreToolUse"},
    "gemini-cli": {AFTER: "AfterTool"},
    "opencode": {AFTER: "after"},
}


def main(arguments: list[str], span_of: SpanOf) -> int:
    """Answer one call on standard input; returns the exit code."""
    program, event, server, fails = arguments
    try:
        call = _read(sys.stdin.buffer)
    except (ValueError, RecursionError, OSError) as error:
        sys.stderr.write(f"looptrace: the hook was not called as expected: {error!r}"[:500] + "\n")
        if fails != "closed" or event != BEFORE:
            return 1
        return _say(_refusal(program, *_unknown(server, "the hook was not called as expected")))
    prompt = call.get("prompt")
    if event == PROMPT and isinstance(prompt, str) and prompt.startswith(OWN_TEXTS):
        return 0
    try:
        if event in (AFTER, PROMPT):
            _send(server, span_of(program, call, time.time_ns(), is_prompt=event == PROMPT))
        return _say(_answer(program, event, server, call["session_id"]))
    except OSError as error:
        why = str(error)
    except Exception as error:  # Whatever it is: `fails` says what follows from it.
        why = repr(error)
    if event == BEFORE and fails == "closed":
        return _say(_refusal(program, *_unknown(server, why)))
    if event == PROMPT:  # The one moment at which a person looks.
        goes = "no tool is called until it does" if fails == "closed" else "nothing stops a loop"
        return _say({"systemMessage": f"looptrace at {server} does not answer ({why}): {goes}."})
    return 0


def _read(stream: BinaryIO) -> dict[str, Any]:
    """Return the call on a stream; raises ValueError where it is none."""
    data = stream.read(CALL_BYTES_MAX + 1)
    if len(data) > CALL_BYTES_MAX:
        raise ValueError("it is too long")
    call: dict[str, Any] = json.loads(data)
    session = call.get("session_id") if isinstance(call, dict) else None
    if not isinstance(session, str) or not 0 < len(session) <= SESSION_CHARS_MAX:
        raise ValueError("it names no session")
    return call


def _say(answer: dict[str, Any]) -> int:
    if answer:
        sys.stdout.write(json.dumps(answer))
    return 0


def _answer(program: str, event: str, server: str, session: str) -> dict[str, Any]:
    """Return the answer to a call, {} where there is nothing to say."""
    if event == PROMPT or (event == AFTER and AFTER not in _OWN_NAMES[program]):
        return {}
    is_told = event in _OWN_NAMES[program]  # Only such an answer has room for a directive.
    gates, news = _asked(server, program, session, is_told=is_told or event == START)
    if gates and event == BEFORE:
        return _refusal(program, *gates[-1])
    if gates and event == BATCH:  # Claude Code goes on after a call that it did not make.
        return {"continue": False, "stopReason": gates[-1][1]}
    if gates and event in (START, STOP):
        return {"systemMessage": gates[-1][1]}
    if news and is_told:
        name = _OWN_NAMES[program][event]
        text = "\n\n".join(news)
        return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}
    return {}


def _refusal(program: str, directive: str, why: str) -> dict[str, Any]:
    """Return what keeps a call from being made, and ends the run where the program has a way."""
    if program == "codex":  # It takes neither `continue` nor `stopReason` before a call.
        return {"hookSpecificOutput": _denied(directive), "systemMessage": why}
    ending = {"continue": False, "stopReason": why}
    if program == "claude-code":
        return {"hookSpecificOutput": _denied(directive)} | ending
    return {"decision": "deny", "reason": directive} | ending


def _denied(directive: str) -> dict[str, str]:
    return {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": directive,
    }


def _unknown(server: str, why: str) -> tuple[str, str]:
    """Return the directive and the reason of a call that is refused without a gate."""
    text = f"looptrace at {server} does not say whether this session may go on ({why})"
    return f"{text}. Do not try again until a person has started it.", text


# What the server is asked.


def _asked(
    server: str, service: str, session: str, *, is_told: bool
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return directive and reason of each open gate of a session, and directives that are new.

    A stream begins with the events after the last one, and the gates that are open.
    """
    kept = _kept(server, service, session)
    last = _text_of(kept).strip() if is_told else ""
    query = f"/v1/gates/stream?task={_quoted(session)}&service={_quoted(service)}"
    headers = {"Accept": "text/event-stream"}
    if last.isdecimal():
        headers["Last-Event-ID"] = last
    told, gates, news = last, dict[str, tuple[str, str]](), dict[str, str]()
    for line in _request(server, "GET", query, headers).decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name == "id":
            told = value.strip()
        elif name == "data":
            _take(json.loads(value), server, gates, news, is_new=last != "")
    if is_told and told != last:
        _keep(kept, told)
    return list(gates.values()), list(dict.fromkeys(news.values()))  # Two rules may say the same.


def _take(
    notice: dict[str, Any],
    server: str,
    gates: dict[str, tuple[str, str]],
    news: dict[str, str],
    *,
    is_new: bool,
) -> None:
    """Note one event: an open gate, or a directive to pass on."""
    kind, gate, directive = notice["type"], str(notice.get("gate")), notice.get("directive")
    place = f"{notice.get('trace_id')} {notice.get('span_id')}"
    if kind == "gate_opened":
        why = str(notice.get("reason") or "the session is in a loop")
        how = f"looptrace gates resolve {gate} --server {server} --decision continue"
        news.clear()
        gates[gate] = (
            str(directive or f"{why}. A person has to decide how it goes on."),
            f"looptrace: {why}. To go on, write to the agent, or: {how}",
        )
        return
    if kind == "gate_resolved":
        gates.pop(gate, None)
        news.clear()
    if kind == "counter_reset" and place not in news:  # One at the place of a decision is its own.
        news.clear()
    if directive and is_new:
        news[place if kind == "gate_resolved" else notice["id"]] = str(directive)


def _send(server: str, span: dict[str, Any]) -> None:
    body = json.dumps({"resourceSpans": [span]}).encode()
    _request(server, "POST", "/v1/traces", {"Content-Type": "application/json"}, body)


def _request(
    server: str, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
) -> bytes:
    """Return the body of an answer; of a stream, what comes before its first comment."""
    until_s = time.monotonic() + ANSWER_S_MAX
    scheme, _, rest = server.partition("://")
    place, _, prefix = rest.partition("/")
    headers = {"Host": place, "Connection": "close", **headers}
    if token := os.environ.get(TOKEN_VARIABLE):
        headers["Authorization"] = f"Bearer {token}"
    if body:
        headers["Content-Length"] = str(len(body))
    path = f"/{prefix}".rstrip("/") + path
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with _connected(scheme, place) as connection:
        connection.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        return _received(connection, until_s)


def _connected(scheme: str, place: str) -> socket.socket:
    host, _, port = place.rpartition(":")
    if not port.isdecimal():
        host, port = place, "443" if scheme == "https" else "80"
    host = host.strip("[]")
    connection = socket.create_connection((host, int(port)), ANSWER_S_MAX)
    if scheme != "https":
        return connection
    import ssl  # noqa: PLC0415 - It takes as long as the rest together.

    context = ssl.create_default_context(cafile=os.environ.get(AUTHORITY_VARIABLE) or None)
    return context.wrap_socket(connection, server_hostname=host)


def _received(connection: socket.socket, until_s: float) -> bytes:
    """Return the body of an answer, which has to come in time as a whole."""
    data = b""
    while (body := _body_of(data)) is None:
        left_s = until_s - time.monotonic()
        if left_s <= 0 or len(data) > ANSWER_BYTES_MAX:
            raise ConnectionError("its answer takes too long")
        connection.settimeout(left_s)
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionError("its answer is cut off")
        data += part
    return body


def _body_of(data: bytes) -> bytes | None:
    """Return the body of an answer, or of a stream up to a comment; None where more has to come."""
    head, is_whole, rest = data.partition(b"\r\n\r\n")
    status, *lines = head.lower().split(b"\r\n")
    if not is_whole:
        return None
    if status.split(b" ")[1:2] != [b"200"]:
        raise ConnectionError(f"it answered {status[:60]!r}")
    fields = {name: value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    if fields.get(b"transfer-encoding") != b"chunked":
        size = int(fields.get(b"content-length", b"0"))
        return rest[:size] if len(rest) >= size else None
    body = b""
    while rest:
        line, _, rest = rest.partition(b"\r\n")
        if not rest:
            break
        size = int(line.partition(b";")[0], 16)
        if size < 0:
            raise ConnectionError("its answer is not HTTP")
        body += rest[:size]
        if size == 0 or body.startswith(b":") or b"\n:" in body:
            return body
        rest = rest[size + 2 :]
    return None


def _kept(server: str, service: str, session: str) -> str:
    """Return the file with the number of the last event sent to a session."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    name = "\0".join((server, service, session))
    hashed = blake2b(name.encode(errors="replace"), digest_size=16)
    return f"{cache}/looptrace/hooks/{hashed.hexdigest()}"


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes 10 ms.
            return file.read(100)
    except (OSError, ValueError):
        return ""


def _keep(path: str, text: str) -> None:
    """Write a small file; without it the next hook passes only gates on."""
    folder = os.path.dirname(path)  # noqa: PTH120
    try:
        if not os.path.exists(path):  # noqa: PTH110
            os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            oldest_s = time.time() - TOLD_DAYS_MAX * _DAY_S
            for entry in list(os.scandir(folder)):
                if entry.stat().st_mtime < oldest_s:
                    os.unlink(entry.path)  # noqa: PTH108
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
    except OSError:
        return


def _quoted(text: str) -> str:
    safe = b"-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    data = text.encode(errors="replace")
    return "".join(chr(each) if each in safe else f"%{each:02X}" for each in data)
