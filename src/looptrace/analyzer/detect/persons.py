"""Authors of the messages to the agent: a person, or an orchestrator that repeats itself.

An orchestrator that starts its agent again with the same prompt is not a person. Its messages reset
nothing and resolve nothing.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from looptrace.rules.contract import check_bounds, numbers, setting

Speaker = Literal["intervention", "message", "same_words", "attempts", "setting"]
SPEAKERS: tuple[Speaker, ...] = get_args(Speaker)
# A person; the other speakers are iterations of an orchestrator.
PERSONS: tuple[Speaker, ...] = ("intervention", "message")


@dataclass(frozen=True, slots=True)
class Persons:
    """Who counts as a person."""

    messages: Literal["new", "all", "none"] = setting(
        "new",
        doc="Messages of a person: `new` for other words than in earlier ones of the "
        "task, `all`, or `none` (only decisions and `looptrace.human_intervention`).",
    )
    messages_kept: int = setting(
        50,
        ge=1,
        le=1_000,
        doc="Last different messages of a task to compare a new one with.",
    )
    resolved_by: Literal["message", "decision"] = setting(
        "message",
        doc="What resolves an open gate: a person's `message`, or only a `decision` "
        "or `looptrace.human_intervention`.",
    )

    def __post_init__(self) -> None:
        check_bounds("persons", numbers(self))
