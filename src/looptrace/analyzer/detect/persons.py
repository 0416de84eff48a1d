"""Who spoke where a trace shows a message to the agent: a person, or an orchestrator once more.

An orchestrator that starts its agent anew, with the prompt that it always sends, is no person. Its
messages reset nothing and resolve nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import polars as pl
from msgspec import Meta

from looptrace.analyzer.schema.turns import IS_USER
from looptrace.bounded_dict import BoundedDict
from looptrace.rules.contract import check_bounds, numbers, setting

Speaker = Literal["intervention", "message", "same_words", "attempts", "setting"]
# A person; the other speakers are iterations of an orchestrator.
PERSONS: tuple[Speaker, ...] = ("intervention", "message")
# Attempts that the author records; a switch is one as a turn of its session.
_ATTEMPTS = ("attempt", "switch")

# A decision on a gate and `looptrace.human_intervention` have an id, messages do not.
_IS_MESSAGE = IS_USER & pl.col("call_id").is_null()


@dataclass(frozen=True, slots=True)
class Persons:
    """Who is taken for a person."""

    messages: Annotated[
        Literal["new", "all", "none"],
        Meta(
            description="Whose messages are a person's: `new` those in other words than the "
            "earlier ones of the task, `all`, or `none`, so that only decisions and "
            "`looptrace.human_intervention` are."
        ),
    ] = "new"
    messages_kept: int = setting(
        50, ge=1, le=1_000, doc="Different messages of a task that a new one is compared with."
    )
    resolved_by: Annotated[
        Literal["message", "decision"],
        Meta(
            description="What resolves an open gate: a person's `message`, or only a `decision` "
            "and `looptrace.human_intervention`."
        ),
    ] = "message"

    def __post_init__(self) -> None:
        check_bounds("persons", numbers(self))


def speakers_of(rows: pl.DataFrame, how: Persons) -> pl.Series:
    """Return the `Speaker` of each message in ordered turns, null for other turns.

    Rows that are `settled` have theirs in the column `speaker`.
    """
    rows = rows.with_row_index("row")
    is_user = rows.select(IS_USER).to_series()
    if not is_user.any():
        return pl.Series([None], dtype=pl.String).new_from_index(0, rows.height).alias("speaker")
    new_task = pl.col("task") != pl.col("task").shift(1)
    tried = pl.when(pl.col("kind").is_in(_ATTEMPTS)).then("trace_id").forward_fill().over("task")
    messages = rows.with_columns(
        in_trace_of_attempt=(tried == pl.col("trace_id")).shift(1).fill_null(value=False)
        & ~new_task
    ).filter(is_user)
    return (
        rows.select("row")
        .join(_speakers(messages, how), on="row", how="left", maintain_order="left")
        .get_column("speaker")
    )


def _speakers(messages: pl.DataFrame, how: Persons) -> pl.DataFrame:
    """Return the speaker by row, in a loop, because each depends on the messages before it."""
    known: dict[str, BoundedDict[str, None]] = {}
    speakers: list[str] = []
    columns = ("task", "settled", "speaker", "call_id", "call", "in_trace_of_attempt")
    for task, settled, before, call_id, words, attempted in messages.select(columns).iter_rows():
        earlier = known.setdefault(task, BoundedDict(how.messages_kept))
        speaker: str = before
        if not settled and call_id is not None:
            speaker = "intervention"
        elif not settled:
            speaker = _speaker(how, again=words in earlier, attempted=attempted)
        speakers.append(speaker)
        if call_id is None and words is not None:
            earlier.pop(words, None)  # What came last is forgotten last.
            earlier[words] = None
    return messages.select("row").with_columns(speaker=pl.Series(speakers, dtype=pl.String))


def _speaker(how: Persons, *, again: bool, attempted: bool) -> Speaker:
    """Return who wrote a message, by the settings and by what came before it."""
    if how.messages != "new":
        return "message" if how.messages == "all" else "setting"
    if again:
        return "same_words"
    return "attempts" if attempted else "message"


def remembered(rows: pl.DataFrame, how: Persons) -> pl.Series:
    """Mark the settled turns that later messages are compared with: a bounded number a task."""
    rows = rows.with_row_index("row")
    words = rows.filter(_IS_MESSAGE & pl.col("call").is_not_null())
    attempts = rows.filter(pl.col("kind").is_in(_ATTEMPTS))
    kept = [
        words.unique(["task", "call"], keep="last", maintain_order=True)
        .group_by("task")
        .tail(how.messages_kept),
        attempts.unique("task", keep="last"),
    ]
    return rows["row"].is_in(pl.concat([each["row"] for each in kept]).implode())
