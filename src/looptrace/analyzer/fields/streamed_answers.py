"""Answers in the pieces in which they were streamed, as Gemini CLI writes them."""

from __future__ import annotations

from typing import Any

from looptrace.analyzer.text.payloads import parsed


def answer_of(value: object) -> object:
    """Return an answer whose streamed pieces, each a message of Google's, are one message."""
    pieces = parsed(value)
    if not isinstance(pieces, list) or len(pieces) < 2:
        return value
    pieces = [piece for piece in pieces if piece is not None]
    if not all(isinstance(p, dict) and isinstance(p.get("parts"), list) for p in pieces):
        return value
    if any(piece.get("role") != "model" for piece in pieces):
        return value
    parts: list[Any] = []
    for part in (part for piece in pieces for part in piece["parts"]):
        if parts and _only_text(part) and _only_text(parts[-1]):
            parts[-1] = {"text": parts[-1]["text"] + part["text"]}
        else:
            parts.append(part)
    return [{"role": "model", "parts": parts}]


def _only_text(part: Any) -> bool:
    return isinstance(part, dict) and part.keys() == {"text"} and isinstance(part["text"], str)
