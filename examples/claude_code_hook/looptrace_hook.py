"""A hook of Claude Code: before each call of a tool it looks whether the session is in a loop.

A warning is told to the model once, in the place of the call; at a gate the session stops until a
person writes. Whatever goes wrong here is said on standard error, and stops nothing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

NOT_BLOCKING = 1  # Claude Code shows the error and goes on.
# A loop needs three turns, so that nothing has to be imported for a session with fewer results.
RESULTS_MIN = 3
# Of a longer session only the end is read; what a person said last stands there.
BYTES_MAX = 2 << 20
BEFORE_CALL = "PreToolUse"


def main() -> int:
    """Answer the call on standard input; returns the exit code."""
    try:
        call = json.load(sys.stdin)
        answer = answer_to(call, Path(call["transcript_path"]))
    except (OSError, ValueError, KeyError) as error:
        print(f"looptrace_hook: {error!r}", file=sys.stderr)
        return NOT_BLOCKING
    if answer:
        json.dump(answer, sys.stdout)
    return 0


def end_of(transcript: Path) -> bytes:
    """Read the last whole lines of a session's log, up to BYTES_MAX."""
    with transcript.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(size - BYTES_MAX, 0))
        if size > BYTES_MAX:
            log.readline()
        text = log.read()
    return text[: text.rfind(b"\n") + 1]  # The last line may still be being written.


def answer_to(call: dict[str, Any], transcript: Path) -> dict[str, Any]:
    """Return the answer to a hook's call, {} where the session may go on."""
    log = end_of(transcript)
    if log.count(b'"tool_result"') < RESULTS_MIN:
        return {}
    # Importing is most of what a call takes.
    from looptrace.analyzer.engine.batch import analyse  # noqa: PLC0415
    from looptrace.analyzer.settings.sections import FILE_NAME, default, load  # noqa: PLC0415
    from looptrace.collector.files.reader import read_spans  # noqa: PLC0415

    file = Path(call.get("cwd", "."), FILE_NAME)
    settings = load(file) if file.exists() else default()
    with NamedTemporaryFile(suffix=".jsonl") as copy:
        copy.write(log)
        copy.flush()
        spans = read_spans([copy.name]).spans
    found = analyse(spans, (), settings.policy)
    tasks = {event.task for event in found.events if event.session == call["session_id"]}
    told = [event for event in found.events if event.task in tasks]
    directive = settings.directives.text_of(told[-1]) if told else None
    if directive is None:  # Nothing was told, or a person has written since.
        return {}
    if told[-1].type == "gate_opened":
        return {**refusal(call, directive), "continue": False, "stopReason": told[-1].reason}
    return refusal(call, directive) if is_news(transcript, told[-1].id) else {}


def refusal(call: dict[str, Any], directive: str) -> dict[str, Any]:
    """Return what tells the model; before a call it is told instead of the call being made."""
    if call["hook_event_name"] != BEFORE_CALL:
        return {"decision": "block", "reason": directive}
    return {
        "hookSpecificOutput": {
            "hookEventName": BEFORE_CALL,
            "permissionDecision": "deny",
            "permissionDecisionReason": directive,
        }
    }


def is_news(transcript: Path, event: str) -> bool:
    """Say whether an event is not the one that the session was last told of, and note it."""
    noted = transcript.with_name(f".{transcript.stem}.looptrace")
    if noted.exists() and noted.read_text(encoding="utf-8") == event:
        return False
    noted.write_text(event, encoding="utf-8")
    return True


if __name__ == "__main__":
    sys.exit(main())
