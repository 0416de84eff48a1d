"""The decisions on a gate. The module imports neither Polars nor DuckDB."""

from typing import Literal, get_args

from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.errors import InputError

Decision = Literal["continue", "reviewed", "cancel", "not_a_loop"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)

# The title and the meaning of each decision, for the person who decides.
DECISION_TEXTS: dict[Decision, tuple[str, str]] = {
    "continue": (
        "Go on",
        "The agent goes on with another approach and your note. Counts are reset.",
    ),
    "reviewed": ("Go on, the cause is gone", "The agent may do the same again. Counts are reset."),
    "not_a_loop": ("This is not a loop", "The agent goes on; the gate counts as a false alarm."),
    "cancel": ("Cancel the task", "The agent stops for good. Finished work stays."),
}

# The decision that ends a task; all others let it go on, as the usual one does.
CANCEL, GO_ON = "cancel", "continue"

# Without a note the agent is likely to fail in the same way again.
NOTED: frozenset[str] = frozenset({"continue"})

# A judge's decision, if the settings let it decide; people use `continue` or `not_a_loop`.
PROGRESS = "progress"

NOTE_CHARS_MAX = 4_000


def decision_text(decision: str) -> str:
    """Return the title of a decision, or of one + note; what is not a person's stays as it is."""
    name, _, more = decision.partition(" + ")
    known = next((each for each in DECISIONS if each == name), None)
    if known is None:
        return decision
    return DECISION_TEXTS[known][0] + (f", with a {more}" if more else "")


class GateError(InputError):
    """A gate cannot be shown or resolved; the message is one line that says why."""


class NoGateError(GateError):
    """There is no gate with this id."""


def check_decision(decision: str, note: str | None) -> None:
    """Refuse an unknown decision, and a note that is too long.

    Raises:
        GateError: if the decision or the note is refused.
    """
    if decision not in DECISIONS:
        raise GateError(f"there is no decision {decision!r}. {did_you_mean(decision, DECISIONS)}")
    if note and len(note) > NOTE_CHARS_MAX:
        raise GateError(f"the note has more than {NOTE_CHARS_MAX} characters.")
