"""What a person may decide about a gate. It imports neither Polars nor DuckDB."""

from __future__ import annotations

from typing import Literal, get_args

from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.errors import InputError

Decision = Literal["continue", "reviewed", "cancel", "not_a_loop"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)

# What each means, in a word or two and in a sentence, for the person who decides.
DECISION_TEXTS: dict[Decision, tuple[str, str]] = {
    "continue": ("Go on", "The agent goes on in another way, with your note. Counts begin anew."),
    "reviewed": ("Go on, the cause is gone", "The agent may do the same again. Counts begin anew."),
    "not_a_loop": ("This is no loop", "The agent goes on; the gate counts as a false alarm."),
    "cancel": ("Cancel the task", "The agent is stopped for good. What is done stays done."),
}

# A judge's, where the settings let it decide; a person says `continue` or `not_a_loop`.
PROGRESS = "progress"

NOTE_CHARS_MAX = 4_000


def decision_text(decision: str) -> str:
    """Return a decision in a word or two; one that is not a person's stays as it is."""
    known = next((name for name in DECISIONS if name == decision), None)
    return DECISION_TEXTS[known][0] if known else decision


class GateError(InputError):
    """A gate cannot be shown or resolved; the message is one line that says why."""


class NoGateError(GateError):
    """There is no gate with this id."""


def check_decision(decision: str, note: str | None) -> None:
    """Refuse a decision that there is not, and a note that is too long.

    Raises:
        GateError: if there is one.
    """
    if decision not in DECISIONS:
        raise GateError(f"there is no decision {decision!r}. {did_you_mean(decision, DECISIONS)}")
    if note and len(note) > NOTE_CHARS_MAX:
        raise GateError(f"the note has more than {NOTE_CHARS_MAX} characters.")
