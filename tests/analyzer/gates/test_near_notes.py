"""Notes on loops in nearly the same words, beside those of the same signature."""

from dataclasses import replace

import pytest

from benchmarks.near_notes import WAYS, made_up, shares
from looptrace.analyzer.gates import near_notes
from looptrace.analyzer.gates.near_notes import DISTANCE_MAX, TEXTS_MIN, distances, words_of
from looptrace.analyzer.gates.notes import (
    NEAR_MAX,
    ResolutionNote,
    Signs,
    distinct,
    notes_like,
)
from tests.analyzer.gates.test_event_names import event_of

OTHERS = [f"call number {n} of tool {n * 7} failed with {n * 13}" for n in range(TEXTS_MIN)]
LOCKED = "could not obtain lock on relation orders_17"


def note(gate: str) -> ResolutionNote:
    """Return a note of a gate."""
    return ResolutionNote(gate, "t", "continue", f"Note of {gate}.", 0)


def test_the_nearest_words_come_first() -> None:
    """The same words are at 0, others of the same thing near, and the rest is left out."""
    found = distances(LOCKED, [*OTHERS, "lock timeout on relation orders_4", LOCKED])
    assert [*found] == [TEXTS_MIN + 1, TEXTS_MIN]
    assert found[TEXTS_MIN + 1] == 0.0
    assert 0 < found[TEXTS_MIN] <= DISTANCE_MAX


def test_a_loop_is_in_the_words_of_what_it_repeats_and_of_its_failures() -> None:
    """A digest is no word, and another one each time."""
    told = event_of("gate_opened")
    words = words_of(replace(told, signature="lock #0123456789abcdef", tools=("psql",)))
    assert words.split()[:4] == ["lock", "psql", *told.blockers]
    assert str(told.history[0].error) in words


def test_few_notes_and_no_words_say_nothing() -> None:
    """Among few texts any common word looks rare; a loop of hashes has no words."""
    assert distances(LOCKED, [*OTHERS[2:], LOCKED]) == {}
    assert distances(" ", [*OTHERS, LOCKED]) == {}


def test_without_scikit_learn_signatures_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server runs without the extra, and shows what it showed before."""
    monkeypatch.setattr(near_notes, "find_spec", lambda _name: None)
    assert distances(LOCKED, [*OTHERS, LOCKED]) == {}


def test_notes_are_in_the_order_of_their_likeness() -> None:
    """The same signature first, however far its words; then by distance, a few by words alone."""
    texts = [f"could not obtain lock on relation orders_{n}" for n in range(NEAR_MAX + 2)]
    notes = [(note(f"near-{n}"), Signs(f"near {n}", "", text)) for n, text in enumerate(texts)]
    notes += [(note(f"other-{n}"), Signs(f"other {n}", "", text)) for n, text in enumerate(OTHERS)]
    notes += [(note("type"), Signs("x", "lock", texts[2])), (note("same"), Signs("a", "lock", ""))]
    found = notes_like(Signs("a", "lock", LOCKED), notes, None)
    assert [each.gate for each in found][:1] == ["same"]
    assert found[0].distance is None
    assert {each.likeness for each in found[1:]} == {"type", "words"}
    assert sum(each.likeness == "words" for each in found) == NEAR_MAX
    known = [each.distance for each in found[1:]]
    assert None not in known
    assert known == sorted(known, key=lambda distance: distance or 0)


def test_equal_notes_are_shown_once() -> None:
    """One note on thirty gates would push the form to decide out of sight."""
    notes = [replace(note(gate), note=text) for gate, text in zip("abcd", "xyxx", strict=True)]
    notes.append(replace(note("e"), note="x", decision="cancel"))

    assert [each.gate for each in distinct(notes)] == ["a", "b", "e"]


def test_the_note_on_a_gate_is_not_one_for_it() -> None:
    """Its words are read with the others, so that the next gate finds them read."""
    notes = [(note(f"{n}"), Signs(f"x {n}", "", text)) for n, text in enumerate([LOCKED, *OTHERS])]
    near_notes._fitted.cache_clear()
    assert "0" in {each.gate for each in notes_like(Signs("a", "", LOCKED), notes, None, "9")}
    assert "0" not in {each.gate for each in notes_like(Signs("a", "", LOCKED), notes, None, "0")}
    assert near_notes._fitted.cache_info().misses == 1


def test_words_find_more_of_the_right_notes() -> None:
    """Made-up incidents whose tools, arguments and messages vary; the figures are in the docs."""
    incidents = made_up(2)
    assert len({words_of(each.opening) for each in incidents}) > len(incidents) / 2
    (alone, _), (both, right) = (
        shares(incidents, WAYS[way]) for way in ("signature alone", "both, as shown")
    )
    assert alone < 0.5
    assert both > 0.9
    assert right > 0.9
