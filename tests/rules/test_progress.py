"""Progress as figures, markers and kinds of task show it."""

import polars as pl
import pytest

from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.attempts.degradation import Degradation
from looptrace.rules.attempts.iteration_repeat import IterationRepeat
from looptrace.rules.attempts.no_measurable_progress import NoMeasurableProgress
from looptrace.rules.calls.repeated_failure import RepeatedFailure
from looptrace.rules.responses.near_duplicate_output import NearDuplicateOutput
from tests.drivers import batch, live

LONG = "The page of the orders could not be rendered. " * 99
SAME_FIGURES = "progress(tests_failed=5) (edit(a, {n})->ok progress(tests_failed=5)) x6"


@pytest.mark.requirement("A7")
def test_figures_decide_before_markers() -> None:
    """Code that is written is progress only where no figures say otherwise."""
    rules = [NoMeasurableProgress()]
    (finding,) = batch(turns_in(SAME_FIGURES), rules)

    assert batch(turns_in(SAME_FIGURES.replace("progress(", "note(")), rules) == []
    assert "write a test that shows progress" in finding.reason


@pytest.mark.requirement("A7")
@pytest.mark.parametrize("fewer", ["tests_failed=4", "coverage=51"])
def test_either_figure_is_progress(fewer: str) -> None:
    """Fewer failing tests are progress, and so is more coverage."""
    stuck = "progress(tests_failed=5, coverage=50) x4"
    turns = turns_in(f"{stuck} progress({fewer}) {stuck}")

    assert batch(turns, [NoMeasurableProgress()]) == []
    assert len(batch(turns_in(f"{stuck} {stuck}"), [NoMeasurableProgress()])) == 1


@pytest.mark.requirement("A8")
@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("setup", 0),
        ("Set-up", 0),
        ("documentation", 0),
        ("configuration", 0),
        ("refactoring", 0),
        ("code", 1),
        (None, 1),
    ],
)
def test_some_kinds_of_task_are_not_judged_by_tests(kind: str | None, found: int) -> None:
    """Their failing tests may stay as they are; what is written is progress."""
    turns = turns_in(SAME_FIGURES).with_columns(task_kind=pl.lit(kind, pl.String))
    rules = [NoMeasurableProgress()]

    assert len(batch(turns, rules)) == found
    assert batch(turns, rules) == live(turns, rules)


@pytest.mark.requirement("A8")
def test_without_markers_they_loop_too() -> None:
    """A kind of task without tests is evaluated by markers, and by nothing milder."""
    turns = turns_in("attempt(in_progress) x6").with_columns(task_kind=pl.lit("refactoring"))

    assert len(batch(turns, [NoMeasurableProgress()])) == 1


@pytest.mark.requirement("A9")
def test_getting_worse_is_a_loop_although_messages_differ() -> None:
    """Three attempts, each with more failing tests, ask for another way before a third repeat."""
    turns = turns_in('(test()->!"case {n} broke" progress(tests_failed={n})) x4')
    (finding,) = batch(turns, [Degradation()])

    assert batch(turns, [RepeatedFailure()]) == []
    assert (finding.attempts, finding.action) == (4, "gate")
    assert "roll back" in finding.reason


@pytest.mark.requirement("A9")
def test_figures_of_two_commands_are_not_compared() -> None:
    """The unit tests have fewer failures than all tests, whichever comes first."""
    turns = turns_in("(unit()->ran all()->ran) x4")
    turns = turns.with_columns(tests_failed=pl.int_range(pl.len(), dtype=pl.Int64))
    one = turns_in("unit()->ran x8")
    one = one.with_columns(tests_failed=pl.int_range(pl.len(), dtype=pl.Int64))

    assert batch(turns, [Degradation()]) == []
    assert [finding.attempts for finding in batch(one, [Degradation()])] == [8]


@pytest.mark.requirement("A11")
def test_intermittent_failures_loop_only_by_progress() -> None:
    """Another message each time is no repeat, but nine failures with nothing between are stuck."""
    stuck = 'test()->!"boom {n}" x9'
    at_work = '(test()->!"boom {n}" edit(a, {n})->ok) x9'

    assert [batch(turns_in(text), [RepeatedFailure()]) for text in (stuck, at_work)] == [[], []]
    assert [len(batch(turns_in(text), [NoMeasurableProgress()])) for text in (stuck, at_work)] == [
        1,
        0,
    ]


def test_iterations_are_counted_among_the_last_calls() -> None:
    """A loop of short iterations may be longer than the window, and counts as much as it holds."""
    (finding,) = batch(turns_in("(%{n} check()->no) x20"), [IterationRepeat(window=10)])
    assert finding.attempts == 10


def test_long_outputs_are_compared_at_both_ends() -> None:
    """What differs in the midst of a long page costs too much to compare."""
    same, others = (
        " ".join(f'look({n})->"{begin}{n * size} {LONG}"' for n in "abc")
        for begin, size in ((LONG, 1), ("", len(LONG)))
    )
    assert batch(turns_in(same), [NearDuplicateOutput()])
    assert batch(turns_in(others), [NearDuplicateOutput()]) == []
