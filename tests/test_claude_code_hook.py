from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.make_sessions import SESSIONS
from tests.paths import ROOT

HOOK = ROOT / "examples" / "claude_code_hook" / "looptrace_hook.py"


def answer(transcript: Path, event: str = "PreToolUse", **fields: Any) -> dict[str, Any]:
    """Run the hook as Claude Code does before a call, and return its answer, {} for none."""
    session = next(
        line["sessionId"]
        for line in map(json.loads, transcript.read_text(encoding="utf-8").splitlines())
        if "sessionId" in line
    )
    call = {
        "session_id": session,
        "transcript_path": str(transcript),
        "cwd": str(transcript.parent),
        "permission_mode": "default",
        "hook_event_name": event,
        "tool_name": "Bash",
        "tool_input": {"command": "pytest -q tests/test_invoice.py"},
        "tool_use_id": "toolu_9999",
        **fields,
    }
    done = run(json.dumps(call))
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(done.stdout or "{}"))


def run(given: str) -> subprocess.CompletedProcess[str]:
    """Run the hook."""
    return subprocess.run(
        [sys.executable, str(HOOK)],
        input=given,
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def session(tmp_path: Path, name: str, lines: int | None = None) -> Path:
    """Copy the first lines of an example's session, as it stood when they had been written."""
    whole = (SESSIONS / name).read_text(encoding="utf-8").splitlines(keepends=True)
    path = tmp_path / name
    path.write_text("".join(whole[:lines]), encoding="utf-8")
    return path


def test_a_session_that_works_goes_on(tmp_path: Path) -> None:
    """A hook that is in the way is turned off."""
    assert answer(session(tmp_path, "claude_code_ok.jsonl")) == {}
    assert answer(session(tmp_path, "claude_code_loop.jsonl", 10)) == {}
    assert list(tmp_path.glob(".*")) == []


def test_a_session_that_loops_is_stopped_until_a_person_writes(tmp_path: Path) -> None:
    """The call is not made, the model reads why, and so does the person."""
    transcript = session(tmp_path, "claude_code_loop.jsonl")
    stopped = answer(transcript)

    assert stopped["continue"] is False
    assert "one failure persists" in stopped["stopReason"]
    told = stopped["hookSpecificOutput"]
    assert (told["hookEventName"], told["permissionDecision"]) == ("PreToolUse", "deny")
    assert "A person has to decide" in told["permissionDecisionReason"]
    assert answer(transcript) == stopped

    *_, last = map(json.loads, transcript.read_text(encoding="utf-8").splitlines())
    message = {"role": "user", "content": "The test is wrong, change it."}
    word = {**last, "type": "user", "uuid": "new", "message": message}
    with transcript.open("a", encoding="utf-8") as log:
        log.write(json.dumps(word) + "\n")
    assert answer(transcript) == {}


def test_a_warning_is_told_once(tmp_path: Path) -> None:
    """It takes the place of one call; the next one is made."""
    (tmp_path / "looptrace.toml").write_text(
        "[rules.persistent_failure]\nladder = [{ attempts = 3, action = 'warn' }]\n",
        encoding="utf-8",
    )
    transcript = session(tmp_path, "claude_code_loop.jsonl")
    told = answer(transcript)

    assert list(told) == ["hookSpecificOutput"]
    assert answer(transcript) == {}


def test_after_a_call_the_model_is_told_by_the_answer_of_that_event(tmp_path: Path) -> None:
    """Other events have no permission to deny."""
    stopped = answer(session(tmp_path, "claude_code_loop.jsonl"), "PostToolUse", tool_response={})

    assert stopped["decision"] == "block"
    assert "A person has to decide" in stopped["reason"]
    assert stopped["continue"] is False


def test_a_half_written_line_is_left_for_the_next_time(tmp_path: Path) -> None:
    """Claude Code writes the log while the hook reads it."""
    transcript = session(tmp_path, "claude_code_loop.jsonl")
    whole = answer(transcript)
    with transcript.open("a", encoding="utf-8") as log:
        log.write('{"type":"user","sessionId":"')

    call = {"session_id": "x", "transcript_path": str(transcript), "hook_event_name": "PreToolUse"}
    assert run(json.dumps(call)).returncode == 0
    assert whole["continue"] is False


@pytest.mark.parametrize("given", ["", "{}", '{"transcript_path": "/nowhere.jsonl"}'])
def test_what_goes_wrong_stops_nothing(given: str) -> None:
    """Exit code 2 would block the call; any other lets it be made."""
    done = run(given)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("looptrace_hook: ")


def test_the_settings_call_the_hook_before_every_tool() -> None:
    """They are what a reader copies."""
    settings = json.loads((HOOK.parent / "settings.json").read_text(encoding="utf-8"))
    (entry,) = settings["hooks"]["PreToolUse"]

    assert entry["matcher"] == "*"
    assert HOOK.name in entry["hooks"][0]["command"]
