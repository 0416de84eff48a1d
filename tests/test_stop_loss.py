"""The stop-loss counts what a stop at the first alarm would have cost and saved."""

from collections.abc import Callable

import polars as pl
import pytest

from benchmarks.labelled import Label, Runs
from benchmarks.stop_loss import (
    ALL,
    LENGTH,
    StopLoss,
    stop_loss,
    stop_loss_svg,
    stop_loss_tables,
    stop_losses,
)
from looptrace.analyzer.testing.notation import turns_in

SOLVED, LOOPING = "solved", "looping"


@pytest.fixture
def runs() -> Runs:
    """Return a solved run of six steps and a looping one of eight, numbered from 0."""
    tasks = {
        SOLVED: "look(a)->1 x2 read(a)->2 edit(a)->ok test()->ok say(done)",
        LOOPING: "test()->!boom x8",
    }
    parts = []
    steps: dict[tuple[str, str], int] = {}
    for name, notation in tasks.items():
        turns = turns_in(notation).with_columns(
            session=pl.lit(name), task=pl.lit(name), trace_id=pl.lit(name)
        )
        parts.append(turns)
        steps |= {(name, span): step for step, span in enumerate(turns["span_id"])}
    labels = (
        Label(SOLVED, None, "solved", value=True),
        Label(LOOPING, None, "solved", value=False),
    )
    return Runs("two", pl.concat(parts), steps, labels)


@pytest.mark.parametrize(
    ("alarms", "lost", "saved"),
    [
        ({}, 0, 0),
        ({LOOPING: 2}, 0, 5),
        # A run that is stopped at its last step has come to its end.
        ({LOOPING: 7, SOLVED: 5}, 0, 0),
        ({SOLVED: 4}, 1, 0),
        ({"a run without an outcome": 0}, 0, 0),
    ],
)
def test_a_stop_costs_and_saves_the_steps_after_it(
    runs: Runs, alarms: dict[str, int], lost: int, saved: int
) -> None:
    """Figures of other detectors are only comparable if the last step is counted the same."""
    counted = stop_loss(runs, "one", "", alarms)
    assert (counted.solved, counted.lost, counted.steps, counted.saved) == (1, lost, 8, saved)
    assert (counted.losable, counted.stopped) == (1, lost + (saved > 0))


def test_every_level_and_profile_is_measured(runs: Runs) -> None:
    """The earlier a profile acts, the more is saved; and a gate never comes before a finding."""
    losses = {(x.file, x.detector, x.variant): x for x in stop_losses([runs], {})}
    gates = [losses["two", "looptrace, gate", p].saved for p in ("conservative", "aggressive")]
    assert 0 < gates[0] < gates[1]
    for (file, detector, variant), loss in losses.items():
        if detector == "looptrace, any finding":
            assert loss.saved >= losses[file, "looptrace, gate", variant].saved
            # Two equal looks are a loop to the aggressive profile alone.
            assert loss.lost == (variant == "aggressive")
    # Five steps of eight: three are saved, and the last step of the solved run is lost.
    assert losses[ALL, LENGTH, "5"] == StopLoss(ALL, LENGTH, "5", 1, 1, 1, 2, 8, 3)


def test_files_without_outcomes_are_left_out(runs: Runs) -> None:
    """Runs that nobody knows the end of can be neither lost nor saved."""
    assert stop_losses([Runs("unknown", runs.turns, runs.steps, ())], {}) == []


@pytest.mark.parametrize(
    ("write", "figures"),
    [
        (stop_loss_tables, "| one | late | 1 | 100.0% | 100.0% | 1 of 2 | 50.0% |"),
        (stop_loss_svg, "one (late): 100.0% / 50.0%"),
    ],
)
def test_shares_are_written(
    runs: Runs, write: Callable[[list[StopLoss]], str], figures: str
) -> None:
    """The table and the picture show the same figures."""
    assert figures in write([stop_loss(runs, "one", "late", {LOOPING: 3, SOLVED: 1})])
