"""The drawing of a task: the places of its parts, and its description."""

import re
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.report.strip import (
    ARCS_MAX,
    BARS_MAX,
    CYCLE_STEPS_MAX,
    Arc,
    Strip,
    arcs_of,
    cycle_of,
    strip_of,
)
from looptrace.analyzer.report.strips.text import text_strip
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.vocabulary import NS_PER_S
from tests.analyzer.report.contents import HOSTILE, event, finding, pytest_turns, turn


def table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Make a table of turns."""
    return pl.DataFrame(rows, TURN_SCHEMA, orient="row")


def timed(rows: list[dict[str, Any]], seconds: list[int]) -> pl.DataFrame:
    """Make a table of turns that take so long, one after the other."""
    times = [{"start_ns": 0, "end_ns": each * NS_PER_S} for each in seconds]
    return table([row | time for row, time in zip(rows, times, strict=True)])


def heights(strip: Strip, kind: str) -> list[float]:
    """Return the heights of the bars of a kind that are part of the loop."""
    return [float(height) for height in re.findall(r"v([\d.]+)", strip.bars[kind, True])]


def test_arcs_lead_to_the_first_of_their_kind() -> None:
    """A loop is a rainbow: all its arcs begin at one turn; those of a round of two at two."""
    assert arcs_of([finding()]) == [Arc(2, turn) for turn in (4, 6, 8, 10)]
    cycle = finding("cycle", (2, 3, 4, 5, 6, 7), period=2)
    assert arcs_of([cycle]) == [Arc(2, 4), Arc(3, 5), Arc(2, 6), Arc(3, 7)]


def test_progress_is_bare() -> None:
    """A task in which nothing repeats has bars, and neither arcs nor marks."""
    strip = strip_of(table(pytest_turns(10)), ())

    assert (strip.arcs, strip.marks, strip.line) == ("", {}, "")
    assert set(strip.bars) == {("tool", False), ("model", False)}


def test_a_long_loop_has_its_first_and_its_last_arc() -> None:
    """A thousand arcs would be a block; those that are left out lie between."""
    loop = finding(turns=tuple(range(1, 1001)))

    arcs = arcs_of([loop])

    assert len(arcs) == ARCS_MAX
    assert (arcs[0], arcs[-1]) == (Arc(1, 2), Arc(1, 1000))


def test_a_silence_is_no_response() -> None:
    """The model said nothing: the copy that stands for a silent agent must not read like words."""
    turns = turns_in("read(a)->text ^3700 silence()")

    strip = strip_of(turns, ())
    *lines, legend = text_strip(turns, (), (), 80, ascii_only=False)

    assert set(strip.bars) == {("tool", False), ("silence", False)}
    assert lines == ["turns   █░"]
    assert legend.strip() == "█ call, ░ silence"


@pytest.mark.parametrize(("count", "bars"), [(12, 12), (400, 400), (401, 201), (4000, 400)])
def test_every_turn_has_a_bar_until_there_are_too_many(count: int, bars: int) -> None:
    """A bar then represents several turns, and the caption says how many."""
    strip = strip_of(table(pytest_turns(count)), ())

    drawn = sum(len(re.findall("M", path)) for path in strip.bars.values())
    assert drawn == bars <= BARS_MAX
    assert (strip.turns, strip.turns_per_bar) == (count, -(-count // bars))
    assert strip.width <= 960


def test_an_arc_ends_above_the_bar_of_its_turn() -> None:
    """What an arc joins is what repeats, also where bars stand for several turns."""
    strip = strip_of(table(pytest_turns(12)), (finding(turns=(2, 12)),))

    left, right = re.findall(r"M([\d.]+) .*? 0 0 1 ([\d.]+) ", strip.arcs)[0]
    column = strip.width / 12
    assert (float(left) // column, float(right) // column) == (1, 11)


def test_kinds_differ_in_shape() -> None:
    """Without colours a call, a response, a hand-off and an attempt look different."""
    kinds = ("tool", "model", "handoff", "attempt")
    strip = strip_of(table([turn(i + 1, kind) for i, kind in enumerate(kinds)]), ())

    shapes = {re.sub(r"^M[\d.]+ ", "", strip.bars[kind, False]) for kind in kinds}
    assert len(shapes) == len(kinds) == len(strip.kinds)


def test_longer_turns_are_higher() -> None:
    """The height is the time; where turns take none it is their tokens, else all are equal."""
    loop = (finding(turns=(1, 2, 3)),)
    rows = [turn(number, "tool") for number in (1, 2, 3)]
    by_time = strip_of(timed(rows, [1, 4, 9]), loop)
    tokens = strip_of(table([row | {"input_tokens": row["turn"]} for row in rows]), loop)
    nothing = strip_of(table(rows), loop)

    assert [each.measure for each in (by_time, tokens, nothing)] == ["time", "tokens", "nothing"]
    short, middle, long = heights(by_time, "tool")
    assert short < middle < long
    assert middle - short == pytest.approx(long - middle, abs=0.2)  # The root of 1, 4 and 9.
    assert len(set(heights(nothing, "tool"))) == 1


def test_failures_are_crossed() -> None:
    """A failed turn has a cross above its bar, and no other has."""
    strip = strip_of(table(pytest_turns(10)), ())

    assert strip.crosses.count("M") == 2 * 5


def test_failing_tests_are_a_line() -> None:
    """Figures that fall are progress; the line and its words show whether they do."""
    rows = [turn(n, "tool", tests_failed=count) for n, count in enumerate((7, 5, 5, 3), start=1)]

    assert strip_of(table(rows), ()).figures == "7 → 5 → 3"
    assert strip_of(table(rows), ()).line.count("L") == 3
    assert strip_of(table(rows[1:3]), ()).figures == "5, unchanged"
    assert strip_of(table(rows[:1]), ()).line == ""


def test_the_text_says_what_the_drawing_shows() -> None:
    """A reader without the drawing learns of the turns, the loop and the decisions."""
    events = (event("loop_detected", 6, action="warn"), event("gate_opened", 10))
    text = strip_of(table(pytest_turns(12)), (finding(),), events).text

    assert text.startswith("12 turns of the task, 6 failed.")
    assert "failed the same way 5 times, turns 2–10." in text
    assert text.endswith("warned: turn 6. gate: turn 10.")


def test_a_round_is_drawn_with_how_often_each_step_followed() -> None:
    """Of three rounds of two steps the second follows three times, and the first again twice."""
    cycle = finding("cycle", (2, 3, 4, 5, 6, 7), period=2)

    steps = cycle_of(cycle, table(pytest_turns(8)))

    assert [(step.name, step.followed) for step in steps] == [("A", 3), ("B", 2)]
    assert steps[0].label == "run_tests(tests/test_cart.py)"
    assert cycle_of(finding(), table(pytest_turns(12))) == ()
    assert cycle_of(cycle, table([])) == ()
    many = finding("cycle", tuple(range(1, 41)), period=CYCLE_STEPS_MAX + 1)
    assert cycle_of(many, table(pytest_turns(40))) == ()


def test_a_round_of_phases_names_the_phases() -> None:
    """What the agent did in a phase is not what comes round."""
    rows = [turn(n, "tool", phase=phase) for n, phase in enumerate("abab", start=1)]

    steps = cycle_of(finding("phase_cycle", (1, 2, 3, 4), period=2), table(rows))

    assert [step.label for step in steps] == ["a", "b"]


def test_a_drawing_of_nothing_is_drawn() -> None:
    """Turns may be gone from the store while the gate is still there."""
    strip = strip_of(table([]), (finding(),), (event("gate_opened", 10),))

    assert (strip.turns, strip.bars, strip.arcs, strip.marks) == (0, {}, "", {})


@pytest.mark.parametrize("hostile", HOSTILE[:-1])
def test_paths_hold_numbers_alone(hostile: str) -> None:
    """Nothing that a trace says gets into the geometry, and texts are on one line."""
    hostile = hostile.replace("\ud800", "\ufffd")
    rows = [turn(n, "tool", name=hostile, arguments=hostile, text=hostile) for n in (1, 2)]
    strip = strip_of(table(rows), (finding(turns=(1, 2), reason=hostile),))

    paths = [strip.arcs, strip.crosses, *strip.bars.values(), *strip.marks.values()]
    assert all(re.fullmatch(r"[MAvhlzL\d. -]*", path) for path in paths)
    assert strip.text.isprintable()
