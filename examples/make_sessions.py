"""Writes the session logs in `sessions/`, of invented sessions; running it again changes nothing.

Run it from the project's root: `python -m examples.make_sessions`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

SESSIONS = Path(__file__).parent / "sessions"
START = datetime.fromisoformat("2026-05-04T08:30:00+00:00")
THINKING_S, WORKING_S = 6.0, 3.5
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """What the agent says, the call that it asks for, and what became of it."""

    says: str
    tool: str
    arguments: Line
    result: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """A person's message, the steps that follow, and what the agent says in the end."""

    name: str
    prompt: str
    steps: Sequence[Step]
    ending: str


def bash(says: str, command: str, result: str, *, failed: bool = False) -> Step:
    """Give a step that runs a command."""
    return Step(says, "Bash", {"command": command}, result, failed)


def edit(says: str, path: str, old: str, new: str) -> Step:
    """Give a step that edits a file."""
    arguments = {"file_path": path, "old_string": old, "new_string": new}
    return Step(says, "Edit", arguments, f"The file {path} has been updated successfully.")


FAILED = """FAILED tests/test_invoice.py::{name} - {error}
{failed} failed, {passed} passed in {seconds}s"""


def tests(failed: int, name: str, error: str, seconds: str) -> str:
    """Give what pytest prints where some of 14 tests fail."""
    return FAILED.format(name=name, error=error, failed=failed, passed=14 - failed, seconds=seconds)


def stuck_on_a_test() -> Session:
    """Give a session in which one test fails the same way, whatever is edited."""
    guesses = (
        *("round(net)", "round(net, 2)", "Decimal(net)", "net.quantize(CENT)", "float(net)"),
        *("Decimal(str(net))", "net.normalize()"),
    )
    run = "pytest -q tests/test_invoice.py"
    error = "AssertionError: assert 118.99 == 119.0"
    steps = [
        bash("I run the tests first.", run, tests(1, "test_gross", error, "0.41"), failed=True)
    ]
    for number, guess in enumerate(guesses):
        line = f"    gross = {guess} * 1.19"
        steps.append(edit("The rounding is off.", "src/invoice.py", "    gross = net * 1.19", line))
        output = tests(1, "test_gross", error, f"0.4{number}")
        steps.append(bash("Now it should pass.", run, output, failed=True))
    return Session(
        "claude_code_loop",
        "tests/test_invoice.py fails, please fix it.",
        steps,
        "The test still fails.",
    )


def mends_and_polls() -> Session:
    """Give a session that edits and tests until all is well, and then waits for a build."""
    run = "pytest -q tests/test_invoice.py"
    broken = (
        (3, "test_gross", "TypeError: unsupported operand", "0.44"),
        (2, "test_discount", "AssertionError: assert 90 == 95", "0.40"),
        (1, "test_currency", "KeyError: 'CHF'", "0.39"),
    )
    steps = []
    for failed, name, error, seconds in broken:
        steps.append(
            bash("I run the tests.", run, tests(failed, name, error, seconds), failed=True)
        )
        steps.append(edit(f"{name} first.", "src/invoice.py", f"# {name}", f"fixed_{name}()"))
    steps.append(bash("Once more.", run, "14 passed in 0.38s"))
    for done in range(1, 7):
        result = f"build 812: {done} of 6 jobs done"
        steps.append(bash("I wait for the build.", "sleep 30 && ci status 812", result))
    return Session(
        "claude_code_ok", "Fix the tests and see that the build passes.", steps, "The build passed."
    )


def asks_again() -> Session:
    """Give a session that runs the same command again and again, with the same outcome."""
    output = "error: could not find `libpq` via pkg-config"
    sayings = ("I build the project.", "Perhaps it was a hiccup.", "Once more.", "Again.", "Again.")
    steps = [bash(says, "cargo build", output, failed=True) for says in sayings]
    return Session("codex_loop", "Build the project.", steps, "It does not build.")


def builds() -> Session:
    """Give a session that installs what is missing and goes on."""
    missing = "error: could not find `libpq` via pkg-config"
    steps = (
        bash("I build the project.", "cargo build", missing, failed=True),
        bash("A library is missing.", "apt-get install -y libpq-dev", "Setting up libpq-dev"),
        bash("Now again.", "cargo build", "warning: unused variable `rows`\nFinished in 41.2s"),
        bash("The tests.", "cargo test", "test result: ok. 31 passed; 0 failed"),
    )
    return Session("codex_ok", "Build the project and run its tests.", steps, "All tests pass.")


class Clock:
    """The time of each line, which goes on by what the line before took."""

    def __init__(self) -> None:
        self._now = START

    def after(self, seconds: float) -> str:
        """Go on, and give the time as logs write it."""
        self._now += timedelta(seconds=seconds)
        return self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def claude_code(session: Session) -> Iterator[Line]:
    """Give the lines of a session as Claude Code writes them."""
    clock, ids = Clock(), _ids(session.name)
    own, parent = next(ids), None
    yield {"type": "summary", "summary": session.prompt, "leafUuid": next(ids)}

    def line(kind: str, at: str, message: Line, **more: Any) -> Line:
        nonlocal parent
        above, parent = parent, next(ids)
        return {
            "parentUuid": above,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/ada/shop",
            "sessionId": own,
            "version": "2.1.37",
            "gitBranch": "main",
            "type": kind,
            "message": message,
            "uuid": parent,
            "timestamp": at,
            **more,
        }

    yield line("user", clock.after(0), {"role": "user", "content": session.prompt})
    for number, step in enumerate(session.steps, 1):
        call_id = f"toolu_{number:04}"
        call = {"type": "tool_use", "id": call_id, "name": step.tool, "input": step.arguments}
        usage = {"input_tokens": 4, "cache_read_input_tokens": 9_000 + 400 * number}
        for part, tokens in (({"type": "text", "text": step.says}, 9), (call, 88)):
            said = {
                "id": f"msg_{number:04}",
                "type": "message",
                "role": "assistant",
                "model": "claude-example",
                "content": [part],
                "usage": {**usage, "output_tokens": tokens},
            }
            yield line("assistant", clock.after(THINKING_S / 2), said)
        result = f"Exit code 1\n{step.result}" if step.failed else step.result
        given = {"type": "tool_result", "tool_use_id": call_id, "content": result}
        back = {"role": "user", "content": [{**given, "is_error": step.failed}]}
        yield line("user", clock.after(WORKING_S), back)
    said = {
        "id": "msg_last",
        "type": "message",
        "role": "assistant",
        "model": "claude-example",
        "content": [{"type": "text", "text": session.ending}],
        "usage": {"input_tokens": 4, "cache_read_input_tokens": 16_000, "output_tokens": 12},
    }
    yield line("assistant", clock.after(THINKING_S), said)


def codex(session: Session) -> Iterator[Line]:
    """Give the lines of a session as Codex writes them."""
    clock = Clock()
    own = next(_ids(session.name))

    def line(kind: str, seconds: float, payload: Line) -> Line:
        return {"timestamp": clock.after(seconds), "type": kind, "payload": payload}

    def message(role: str, text: str) -> Line:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    meta = {"id": own, "cwd": "/home/ada/shop", "originator": "codex_cli_rs", "source": "cli"}
    yield line("session_meta", 0, {**meta, "cli_version": "0.98.0"})
    around = "<environment_context>\n  <cwd>/home/ada/shop</cwd>\n</environment_context>"
    yield line("response_item", 0, message("user", around))
    yield line("turn_context", 0, {"cwd": "/home/ada/shop", "model": "gpt-example"})
    yield line("response_item", 0, message("user", session.prompt))
    yield line("event_msg", 0, {"type": "user_message", "message": session.prompt})
    for number, step in enumerate(session.steps, 1):
        call_id = f"call_{number:04}"
        arguments = json.dumps({"cmd": step.arguments["command"], "yield_time_ms": 1000})
        call = {"type": "function_call", "name": "exec_command", "arguments": arguments}
        used = {"input_tokens": 9_000 + 400 * number, "output_tokens": 88}
        output = (
            f"Chunk ID: {number:06x}\nWall time: {number}.0312 seconds\n"
            f"Process exited with code {int(step.failed)}\nOutput:\n{step.result}"
        )
        given = {"type": "function_call_output", "call_id": call_id, "output": output}
        yield line("event_msg", THINKING_S, {"type": "agent_message", "message": step.says})
        yield line("response_item", 0, message("assistant", step.says))
        yield line("response_item", 0, {**call, "call_id": call_id})
        info = {"last_token_usage": used, "model_context_window": 272_000}
        yield line("event_msg", 0, {"type": "token_count", "info": info})
        yield line("response_item", WORKING_S, given)
    yield line("response_item", THINKING_S, message("assistant", session.ending))


def _ids(name: str) -> Iterator[str]:
    number = 0
    while True:
        yield str(uuid5(NAMESPACE_URL, f"{name}/{number}"))
        number += 1


def write(folder: Path) -> None:
    """Write all session logs into a folder."""
    written = (
        *((session, claude_code) for session in (stuck_on_a_test(), mends_and_polls())),
        *((session, codex) for session in (asks_again(), builds())),
    )
    for session, lines in written:
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines(session))
        (folder / f"{session.name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(SESSIONS)
