"""Repetition that is well, before all rules with their defaults, on both drivers.

Each case has a fault beside it: a rule, or turns, in which what makes it well plays no part. With
that fault it is found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.turns import numbered
from looptrace.analyzer.testing.notation import turns_in
from looptrace.collector.files.reader import read_spans
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.contract import Evaluation, Rule, repeats
from looptrace.rules.needs import ALWAYS
from looptrace.rules.turns import Lane
from looptrace.rules.vocabulary import NS_PER_S, in_a_row
from tests.drivers import batch, live
from tests.otlp import Trace, tool_call

Fault = Rule | Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, slots=True)
class SameCall(RepeatedCall):
    """A planted fault: the result plays no part."""

    needs = ALWAYS

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count calls in a row, whatever came of them."""
        return repeats(in_a_row(lane, lane.call), self.attempts_min, lane.call)


@dataclass(frozen=True, slots=True)
class SameOutcome(RepeatedCall):
    """A planted fault: what was asked plays no part."""

    needs = ALWAYS

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count results in a row, whatever was called."""
        return repeats(in_a_row(lane, lane.outcome), self.attempts_min, lane.outcome)


@dataclass(frozen=True, slots=True)
class AnyWindow(RepeatedCall):
    """A planted fault: a call may lie anywhere before, and a message of a person ends nothing."""

    needs = ALWAYS

    @property
    def lookback(self) -> int:
        """All turns there are in a case."""
        return 1_000

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count how often each call came before."""
        calls = lane.turns.call[lane.rows].tolist()
        seen = np.array([calls[: i + 1].count(call) for i, call in enumerate(calls)])
        return repeats(seen, self.attempts_min, lane.call)


PYTEST = "== {failed} failed, {passed} passed in 0.1{failed} s =="
FEWER = " ".join(
    f'edit(cart.py, {failed})->ok run(pytest)->"{PYTEST.format(failed=failed, passed=9 - failed)}"'
    for failed in (5, 4, 3, 2, 1)
)


def one_by_one(turns: pl.DataFrame) -> pl.DataFrame:
    """Forget which calls one response asked for in parallel."""
    return turns.with_columns(step=pl.lit(None, pl.String))


def without_totals(turns: pl.DataFrame) -> pl.DataFrame:
    """Forget how many tests there were."""
    return turns.with_columns(tests_total=pl.lit(None, pl.Int64))


def with_one_failing(turns: pl.DataFrame) -> pl.DataFrame:
    """Let one test of nine fail in each run: no other one is new."""
    is_run = pl.col("kind") == "progress"
    return turns.with_columns(
        tests_failed=pl.when(is_run).then(1), tests_total=pl.when(is_run).then(9)
    )


def in_haste(turns: pl.DataFrame) -> pl.DataFrame:
    """Let each turn begin where the one before it ended, one a second."""
    second = pl.int_range(pl.len()) * NS_PER_S
    return numbered(turns.with_columns(start_ns=second, end_ns=second + NS_PER_S))


def without_pausing(turns: pl.DataFrame) -> pl.DataFrame:
    """Let the tool that pauses do something else."""
    name = pl.when(pl.col("name") == "wait").then(pl.lit("act")).otherwise("name")
    return add_fingerprints(turns.with_columns(name=name))


def without_progress(turns: pl.DataFrame) -> pl.DataFrame:
    """Forget the recorded figures."""
    return turns.filter(pl.col("kind") != "progress")


def without_writing(turns: pl.DataFrame) -> pl.DataFrame:
    """Leave out the edits."""
    return turns.filter(pl.col("name") != "edit")


def without_reverting(turns: pl.DataFrame) -> pl.DataFrame:
    """Let each change stay where it is."""
    return numbered(turns.filter(pl.col("name") != "revert"))


def with_crashes(turns: pl.DataFrame) -> pl.DataFrame:
    """Let the tool itself fail, in the same way for all orders."""
    return add_fingerprints(turns.with_columns(error=pl.lit("KeyError: 'email' at crm.py:14")))


HEALTHY: dict[str, tuple[str, Fault]] = {
    "polling with a changing status": ('deploy_status(web)->"{n}0 %" x9', SameCall()),
    "polling that waits and completes": (
        "start(job)->ok status(job)->pending x2 status(job)->done fetch(job)->report",
        RepeatedCall(attempts_min=2),
    ),
    "polling that waits between its looks": ("(~60 job_status(7)->pending) x30", in_haste),
    "polling with a tool that pauses": (
        "(job_status(7)->pending wait(30)->ok) x30",
        without_pausing,
    ),
    "polling with a model that comments on it": (
        '(~60 job_status(7)->pending say("Not yet.")) x14 ~60 job_status(7)->done',
        in_haste,
    ),
    "polling that backs off": (
        " ".join(f"~{2**n} job_status(7)->pending" for n in range(6)),
        in_haste,
    ),
    "a look by a clock at what has not come": (
        '(~10 say("Look {n} at the mail.") inbox(bank)->empty) x30',
        in_haste,
    ),
    "a look each five seconds at a state": (
        '(~5 say("Look {n} at it.") get_job(7)->"rows 0") x30',
        in_haste,
    ),
    "orders that are not eligible": (
        'check_refund(order {n})->!"the order is not eligible for a refund" x20',
        with_crashes,
    ),
    "a mutation test": (
        '(edit(cart.py, {n})->ok test()->!"expected 42, got 41" revert()->ok) x9',
        without_reverting,
    ),
    "one call for each part of the work, with recorded progress": (
        "(migrate()->ok progress(markers=1)) x9",
        without_progress,
    ),
    "a round of calls for each part of the work, with recorded progress": (
        "(load()->ok store()->ok progress(markers=1)) x9",
        without_progress,
    ),
    "retries with back-off that succeed": (
        '(~9 fetch(a)->!"503 Service Unavailable") x2 ~40 fetch(a)->page',
        SameCall(),
    ),
    "paging": ('list_orders(page {n})->"20 orders" x9', SameOutcome()),
    "the same edit over many files": ("edit(part{n}.py, rename)->ok x20", SameOutcome()),
    "many files that begin alike": ('read_file(part{n}.md)->"# Notes" x9', SameOutcome()),
    "reading a file again after each edit": (
        '(edit(cart.py, {n})->ok read_file(cart.py)->"version {n}") x9',
        AnyWindow(),
    ),
    "edit and test with fewer failures": (FEWER, AnyWindow()),
    "a parallel fan-out over many targets": (
        "[" + " ".join(f"check(host{n})->up" for n in range(9)) + "]",
        SameOutcome(),
    ),
    "parallel searches with one answer": (
        "[" + " ".join(f"search(word{n})->none" for n in range(9)) + "]",
        SameOutcome(),
    ),
    "equal calls of one step": ("[count(votes)->4 count(votes)->4 count(votes)->4]", one_by_one),
    "equal failures of one step": (
        "[" + 'fetch(a)->!"no such page" ' * 4 + "]",
        one_by_one,
    ),
    "a question that a person asks again": ('(user("Any news?") inbox()->empty) x9', AnyWindow()),
    "failures of many kinds, with work between": (
        '(edit(a.py, {n})->ok build()->!"line {n} is wrong") x9',
        without_writing,
    ),
    "tests written before the code": (
        "(edit(test.py, {n})->ok progress(tests_failed={n}, tests_total={n})) x5",
        without_totals,
    ),
    "a green suite run after each change": (
        "(edit(a.py, {n})->ok progress(tests_failed=0, tests_total={n})) x9",
        with_one_failing,
    ),
}


@pytest.mark.parametrize(("text", "fault"), HEALTHY.values(), ids=HEALTHY)
def test_healthy_repetition_is_silent(text: str, fault: Fault) -> None:
    """No rule takes it for a loop, and the fault beside it does."""
    turns = turns_in(text)

    assert batch(turns) == []
    assert live(turns) == []
    assert batch(turns, [fault]) if isinstance(fault, Rule) else batch(fault(turns))


def polling(path: Path, said: str) -> pl.DataFrame:
    """Ask for the status of a build nine times, in a phase that is declared for it."""
    trace = Trace("session-1")
    for number in range(9):
        attributes = tool_call("build_status", '{"id": 7}', result=said.format(number)) | {
            "looptrace.phase": "waiting"
        }
        trace.span("execute_tool build_status", attributes=attributes)
    path.write_text(trace.lines())
    return turns_of(read_spans([str(path)]).spans)[0]


def test_a_declared_phase_of_polling_is_silent(tmp_path: Path) -> None:
    """One long visit to a phase, whose status changes; without the change it is a loop."""
    waiting = polling(tmp_path / "waiting.jsonl", "{}0 % built")
    stuck = polling(tmp_path / "stuck.jsonl", "queued")

    assert (batch(waiting), live(waiting)) == ([], [])
    assert "repeated_call" in [finding.rule for finding in batch(stuck)]
