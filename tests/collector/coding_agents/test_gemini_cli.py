"""Recorded chats of Gemini CLI: a message that is recorded after its calls, and its thoughts."""

import json
from pathlib import Path

import polars as pl

import looptrace
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.turns import TOKEN_COLUMNS
from looptrace.collector.files.reader import read_spans


def test_a_response_comes_before_its_calls(tmp_path: Path) -> None:
    """The three calls of one response are one step, though their times are before its own."""
    calls = [
        {
            "id": f"c{n}",
            "name": "read_file",
            "args": {"path": f"/{n}"},
            "status": "error",
            "timestamp": f"2026-03-02T09:00:00.{n}00Z",
            "result": [{"functionResponse": {"response": {"error": "not permitted"}}}],
        }
        for n in range(1, 4)
    ]
    asked = {"id": "m1", "type": "user", "timestamp": "2026-03-02T08:59:59Z", "content": "Read."}
    answer = {
        "id": "m2",
        "type": "gemini",
        "timestamp": "2026-03-02T09:00:01Z",
        "content": "I read all three.",
        "toolCalls": calls,
        "tokens": {"input": 10, "output": 5, "cached": 4, "thoughts": 7},
    }
    chat = {"sessionId": "s", "startTime": "2026-03-02T08:59:58Z", "messages": [asked, answer]}
    path = tmp_path / "session-1.json"
    path.write_text(json.dumps(chat), encoding="utf-8")

    turns = turns_of(read_spans([str(path)]).spans)[0]

    assert turns["kind"].to_list() == ["user", "model", "tool", "tool", "tool"]
    assert turns.select(pl.col(TOKEN_COLUMNS).sum()).row(0) == (10, 12, 4, 0, 7)


def test_hours_without_an_answer_are_not_work(tmp_path: Path) -> None:
    """A response that is recorded with its approval, a night later, took no night."""
    at = ["2026-03-02T20:00:00Z", "2026-03-02T20:00:09Z", "2026-03-03T06:00:00Z"]
    messages = [
        {"id": "m0", "type": "user", "timestamp": at[0], "content": "Go."},
        *(
            {
                "id": f"m{n}",
                "type": "gemini",
                "timestamp": when,
                "toolCalls": [
                    {
                        "id": f"c{n}",
                        "name": "run",
                        "args": {"n": n},
                        "status": "success",
                        "timestamp": when,
                    }
                ],
            }
            for n, when in enumerate(at[1:], 1)
        ),
    ]
    chat = {"sessionId": "s", "startTime": at[0], "messages": messages}
    path = tmp_path / "session-2.json"
    path.write_text(json.dumps(chat), encoding="utf-8")

    assert looptrace.analyze([str(path)]).findings.to_polars().is_empty()
