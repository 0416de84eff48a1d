"""Loops that are the same are one incident, and its state follows from gates and words."""

import pytest

from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.incidents import (
    Identity,
    IncidentState,
    IncidentWord,
    Times,
    check_word,
    identity_of,
    state_of,
    title_of,
    versions_seen,
)

FAILED = ("repeated_failure", ["fetch"], "error:Timeout#1", "scout", "shop")
CYCLE = ("cycle", ["read", "edit"], "read#1 → edit#2 → check#3", "scout", "shop")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (FAILED, FAILED, True),
        (FAILED, ("repeated_call", *FAILED[1:]), True),  # The same failure, seen otherwise.
        (FAILED, ("signature_repeat", *FAILED[1:]), True),
        (FAILED, ("response_repeat", *FAILED[1:]), False),
        (FAILED, ("a_plugin", *FAILED[1:]), False),
        (FAILED, (FAILED[0], ["search"], *FAILED[2:]), False),
        (FAILED, (*FAILED[:2], "error:Refused#2", *FAILED[3:]), False),
        (FAILED, (*FAILED[:3], "writer", "shop"), False),
        (FAILED, (*FAILED[:3], "scout", "bank"), False),
        (CYCLE, ("cycle", ["edit", "read"], "edit#2 → check#3 → read#1", *CYCLE[3:]), True),
        (CYCLE, ("cycle", ["edit", "read"], "edit#2 → read#1 → check#3", *CYCLE[3:]), False),
        (("max_runtime", ["a"], "x", "", "s"), ("max_runtime", ["b"], "y", "", "s"), True),
        (("max_runtime", ["a"], "x", "", "s"), ("token_budget", ["a"], "x", "", "s"), False),
    ],
)
def test_loops_that_are_the_same_are_one_incident(one: tuple, other: tuple, is_same: bool) -> None:  # type: ignore[type-arg]
    """Rules of a family and the turn at which a round was first seen make no difference."""
    assert (identity_of(*one).id == identity_of(*other).id) == is_same


@pytest.mark.parametrize(
    ("reason", "title"),
    [
        (
            "fetch(3 times) failed the same way 7 times, turns 4–16",
            "fetch(3 times) failed the same way again and again",
        ),
        (
            "one response says the same words 12 times: “call 2 times”, turns 1–1",
            "one response says the same words again and again: “call 2 times”",
        ),
        (
            "6 external failures in a row, first in fetch(a), turns 1–9",
            "many external failures in a row, first in fetch(a)",
        ),
        (
            "the task exceeded max_iterations (1000) with 1001 turns, turns 1–1001",
            "the task exceeded max_iterations (1000) with 1001 turns",
        ),
    ],
)
def test_a_title_holds_for_all_gates_of_an_incident(reason: str, title: str) -> None:
    """How often one of its tasks repeated itself says nothing of the others."""
    assert title_of(reason) == title


def test_the_id_of_an_incident_stays() -> None:
    """Stores and people's links have it: one that changed would be another incident."""
    assert identity_of("max_runtime", ["a"], "x", "", "s") == Identity(
        "max_runtime", "", "", "", "s"
    )
    assert identity_of(*CYCLE).tool == "edit, read"
    assert identity_of(*FAILED).id == "f4552e465dde6ffe"


WAITS = Times(10, 12, None)
NEXT = Times(20, 20, 15)  # A gate that opened after all others had ended.
OVER = Times(None, None, 15)


@pytest.mark.parametrize(
    ("said", "times", "state"),
    [
        (None, WAITS, "open"),
        (None, OVER, "resolved"),
        (None, NEXT, "back_again"),
        (None, Times(10, 20, 15), "open"),  # Others waited when one was decided.
        (IncidentWord(13, "acknowledged"), WAITS, "acknowledged"),
        (IncidentWord(13, "acknowledged"), Times(10, 30, None), "acknowledged"),
        (IncidentWord(13, "acknowledged"), OVER, "resolved"),
        (IncidentWord(13, "acknowledged"), NEXT, "back_again"),
        (IncidentWord(21, "acknowledged"), NEXT, "acknowledged"),
        (IncidentWord(20, "acknowledged"), NEXT, "acknowledged"),
        # Another gate waited then, and has ended since.
        (IncidentWord(13, "acknowledged"), Times(15, 15, 20), "acknowledged"),
        (None, Times(15, 15, 15), "back_again"),
        (IncidentWord(13, "resolved"), WAITS, "resolved"),
        (IncidentWord(12, "resolved"), WAITS, "resolved"),
        (IncidentWord(13, "resolved"), Times(10, 14, None), "back_again"),
        (IncidentWord(13, "muted", 101), WAITS, "muted"),
        (IncidentWord(13, "muted", 101), NEXT, "muted"),
        (IncidentWord(13, "muted", 100), WAITS, "open"),
        (IncidentWord(13, "muted", 100), NEXT, "back_again"),
        (IncidentWord(21, "open"), NEXT, "open"),
        (IncidentWord(20, "open"), NEXT, "open"),
        (IncidentWord(13, "open"), NEXT, "back_again"),
    ],
)
def test_the_state_follows_from_gates_and_words(
    said: IncidentWord | None, times: Times, state: IncidentState
) -> None:
    """What people said holds until a gate opens that they did not know of."""
    assert state_of(said, times, 100) == state


@pytest.mark.parametrize(
    ("word", "why"),
    [
        (IncidentWord(5, "back_again"), "set to 'back_again'; choose [a-z]+, [a-z]+, "),
        (IncidentWord(5, "muted"), "has an end"),
        (IncidentWord(5, "muted", 5), "^the end of a mute must be in the future.$"),
        (IncidentWord(5, "resolved", 9), "has an end"),
        (IncidentWord(5), "^there is nothing to change: name a state or an owner.$"),
    ],
)
def test_what_cannot_be_said(word: IncidentWord, why: str) -> None:
    """A word is refused in one line."""
    with pytest.raises(GateError, match=why):
        check_word(word)


@pytest.mark.parametrize(
    "word",
    [IncidentWord(5, "acknowledged"), IncidentWord(5, owner="Ada"), IncidentWord(5, "muted", 6)],
)
def test_a_state_or_an_owner_is_enough(word: IncidentWord) -> None:
    """Most people say one thing at a time."""
    check_word(word)


@pytest.mark.parametrize(
    ("state", "said", "times", "resolved_in", "back_in"),
    [
        ("open", None, WAITS, "", ""),
        ("resolved", None, OVER, "3", ""),
        ("resolved", IncidentWord(13, "resolved"), WAITS, "3", ""),
        ("back_again", IncidentWord(13, "resolved"), Times(10, 14, None), "1", "2"),
        ("back_again", None, Times(20, 20, 15), "2", "3"),
        ("back_again", None, Times(9, 20, 8), "", "1"),
        ("back_again", None, Times(21, 21, 15), "3", ""),
        ("back_again", IncidentWord(11, "acknowledged"), NEXT, "2", "3"),
    ],
)
def test_a_resolution_has_the_version_before_it(
    state: IncidentState, said: IncidentWord | None, times: Times, resolved_in: str, back_in: str
) -> None:
    """A gate without a version changes nothing."""
    openings = [(10, "1"), (12, "1"), (14, "2"), (20, "3"), (21, "")]
    seen = versions_seen(openings, state, said, times)
    assert seen == (("1", "2", "3"), resolved_in, back_in)
    assert versions_seen([(10, "")], state, said, times) == ((), "", "")
