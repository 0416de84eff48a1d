"""Waiting: what a call is not, although the tables of the core (`core/data/waiting.toml`) say so.

`analyzer/detect/counters.py` decides by these marks and by time which calls are polls.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a text: its pattern, texts that have it, and others."""

    about: str
    pattern: str
    examples: tuple[str, ...]
    others: tuple[str, ...] = ()


SEPARATOR = r"[_.:/ -]"

# Tools that show what an agent itself wrote down: it waits for none of that.
NOTE_NAMES = Form(
    "a plan, a list of things to do, notes",
    r"(?:^|[^a-zA-Z])(?i:todos?|plans?|notes?|memor(?:y|ies)|scratch(?:pad)?)(?:$|[^a-z])"
    r"|(?:Todo|Plan|Note|Memory)s?(?:$|[A-Z_])",
    ("todo", "TodoRead", "read_todos", "update_plan", "memory.search"),
    ("explain", "run_notebook", "planet_info"),
)
OWN_NOTES = NOTE_NAMES.pattern
# A command of one call that does nothing but sleep.
SLEEPS = (
    r"^[^a-zA-Z0-9]{0,10}(?:[a-z_]{1,40}[^a-zA-Z0-9]{1,10})?"
    r"sleep [0-9.]{1,8}[smhd]?[^a-zA-Z0-9]{0,10}$"
)

# What something that runs writes: a look at it is a look at what runs.
LOG_FILE = r"(?i)\.(?:log|out|err)\b|/tmp/|\bnohup\b|\b(?:log|output)s?\b"
# Only the beginning and the end of a result speak of the call itself.
_READ_CHARS = 400


def ends_of(result: str) -> str:
    """Return the beginning and the end of a result, which speak of the call itself."""
    if len(result) <= 2 * _READ_CHARS:
        return result
    return f"{result[:_READ_CHARS]}\n{result[-_READ_CHARS:]}"
