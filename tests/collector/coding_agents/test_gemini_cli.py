"""Recorded chats of Gemini CLI: a message that is recorded after its calls, and its thoughts."""

import json
from pathlib import Path
from typing import Any

import polars as pl

import looptrace
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.turns import TOKEN_COLUMNS
from looptrace.collector.files.reader import read_spans


def call(number: int, at: str, status: str, **more: Any) -> dict[str, Any]:
    """Return a call of a message."""
    given = {"id": f"c{number}", "name": "run", "args": {"n": number}}
    return {**given, "status": status, "timestamp": at, **more}


def turns_in(path: Path, *messages: dict[str, Any]) -> pl.DataFrame:
    """Return the turns of a chat that a person begins."""
    first = {"id": "m0", "type": "user", "timestamp": "2026-03-02T08:59:59Z", "content": "Go."}
    chat = {"sessionId": "s", "startTime": "2026-03-02T08:59:58Z", "messages": [first, *messages]}
    path.write_text(json.dumps(chat), encoding="utf-8")
    return turns_of(read_spans([str(path)]).spans)[0]


def test_a_response_comes_before_its_calls(tmp_path: Path) -> None:
    """The three calls of one response are one step, though their times are before its own."""
    said = [{"functionResponse": {"response": {"error": "not permitted"}}}]
    at = "2026-03-02T09:00:00.{}00Z"
    answer = {
        "id": "m1",
        "type": "gemini",
        "timestamp": "2026-03-02T09:00:01Z",
        "content": "I read all three.",
        "toolCalls": [call(n, at.format(n), "error", result=said) for n in range(1, 4)],
        "tokens": {"input": 10, "output": 5, "cached": 4, "thoughts": 7},
    }
    turns = turns_in(tmp_path / "session-1.json", answer)
    assert turns["kind"].to_list() == ["user", "model", "tool", "tool", "tool"]
    assert turns.select(pl.col(TOKEN_COLUMNS).sum()).row(0) == (10, 12, 4, 0, 7)


def test_hours_without_an_answer_are_not_work(tmp_path: Path) -> None:
    """A response that is recorded with its approval, a night later, took no night."""
    answers = [
        {"id": f"m{n}", "type": "gemini", "timestamp": at, "toolCalls": [call(n, at, "success")]}
        for n, at in enumerate(("2026-03-02T09:00:09Z", "2026-03-03T09:00:00Z"), 1)
    ]
    path = tmp_path / "session-2.json"
    assert turns_in(path, *answers).height == 5
    assert looptrace.analyze([str(path)]).findings.to_polars().is_empty()
