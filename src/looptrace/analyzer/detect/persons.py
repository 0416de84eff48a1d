"""Authors of the messages to the agent: a person, or an orchestrator that repeats itself.

An orchestrator that starts its agent again with the same prompt is not a person. Its messages reset
nothing and resolve nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import numpy as np
from msgspec import Meta

from looptrace.analyzer.detect.parts import Columns, Parts
from looptrace.bounded_dict import BoundedDict
from looptrace.rules.contract import check_bounds, numbers, setting
from looptrace.rules.turns import KINDS, UNKNOWN, Codes, Flags

Speaker = Literal["intervention", "message", "same_words", "attempts", "setting"]
SPEAKERS: tuple[Speaker, ...] = get_args(Speaker)
# A person; the other speakers are iterations of an orchestrator.
PERSONS: tuple[Speaker, ...] = ("intervention", "message")
# Attempts that the author records; a switch counts as one, as a turn of its session.
_ATTEMPTS = (KINDS.index("attempt"), KINDS.index("switch"))
_USER = KINDS.index("user")


@dataclass(frozen=True, slots=True)
class Persons:
    """Who counts as a person."""

    messages: Annotated[
        Literal["new", "all", "none"],
        Meta(
            description="Which messages are a person's: `new` for those in other words than the "
            "earlier ones of the task, `all`, or `none`, so that only decisions and "
            "`looptrace.human_intervention` count."
        ),
    ] = "new"
    messages_kept: int = setting(
        50,
        ge=1,
        le=1_000,
        doc="Last different messages of a task with which a new one is compared.",
    )
    resolved_by: Annotated[
        Literal["message", "decision"],
        Meta(
            description="What resolves an open gate: a person's `message`, or only a `decision` "
            "or `looptrace.human_intervention`."
        ),
    ] = "message"

    def __post_init__(self) -> None:
        check_bounds("persons", numbers(self))


def speakers_of(rows: Columns, tasks: Parts, how: Persons) -> Codes:
    """Return the `Speaker` of each message in ordered turns, as `SPEAKERS` counts from 1; else 0.

    This is a loop, because each result depends on the messages before it.
    """
    speakers = np.zeros(len(rows["task"]), dtype=np.int64)
    messages = (rows["kind"] == _USER).nonzero()[0]
    if not len(messages):
        return speakers
    attempted = _after_attempts(rows, tasks)
    known: dict[int, BoundedDict[int, None]] = {}
    for row in messages.tolist():
        earlier = known.setdefault(int(rows["task"][row]), BoundedDict(how.messages_kept))
        words, has_id = int(rows["call_code"][row]), bool(rows["has_id"][row])
        again = words in earlier or rows["repeated_code"][row] != UNKNOWN
        after = bool(attempted[row])
        speaker = speaker_of(how, has_id=has_id, again=again, attempted=after)
        speakers[row] = SPEAKERS.index(speaker) + 1
        if not has_id and words != UNKNOWN:
            earlier.pop(words, None)  # The newest message is forgotten last.
            earlier[words] = None
    return speakers


def reminders_of(rows: Columns, tasks: Parts) -> Codes:
    """Return for each brief response the message right before it that came again; else 0."""
    reminders = np.zeros(len(rows["task"]), dtype=np.int64)
    answers = rows["brief"][1:] & ~tasks.starts[1:]
    reminders[1:] = np.where(answers, rows["repeated_code"][:-1], UNKNOWN)
    return reminders


def _after_attempts(rows: Columns, tasks: Parts) -> Flags:
    """Return which turns come directly after a turn in the trace of the task's last attempt."""
    last = tasks.last(_tried(rows["kind"]))
    tried = (last >= 0) & (rows["trace_code"][last] == rows["trace_code"])
    after = np.zeros(len(tried), dtype=np.bool_)
    after[1:] = tried[:-1] & ~tasks.starts[1:]
    return after


def _tried(kind: Codes) -> Flags:
    """Return which turns are attempts; `np.isin` would take longer than all counts of a turn."""
    marked: Flags = (kind == _ATTEMPTS[0]) | (kind == _ATTEMPTS[1])
    return marked


def speaker_of(how: Persons, *, has_id: bool, again: bool, attempted: bool) -> Speaker:
    """Return who wrote a message, by the settings and the earlier messages."""
    if has_id:
        return "intervention"
    if how.messages != "new":
        return "message" if how.messages == "all" else "setting"
    if again:
        return "same_words"
    return "attempts" if attempted else "message"
