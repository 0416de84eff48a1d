"""Failures of the outside ask for a retry, and for a gate only when they last."""

import polars as pl
import pytest

from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.calls.external_failure import ExternalFailure
from looptrace.rules.calls.repeated_failure import RepeatedFailure
from looptrace.rules.contract import Rung
from tests.drivers import batch, live

MINUTE_S = 60


@pytest.mark.requirement("A10")
@pytest.mark.parametrize(
    ("attempts", "minutes_apart", "action"),
    [
        (3, 1, "retry_later"),
        (5, 1, "retry_later"),
        (5, 8, "gate"),
        (4, 20, "retry_later"),
        (40, 0, "retry_later"),
        (40, 1, "gate"),
    ],
)
def test_gate_waits(attempts: int, minutes_apart: int, action: str) -> None:
    """Forty refusals in a minute are a reason to wait; five over half an hour are one to ask."""
    turns = turns_in(f'fetch(a)->!"429 Too Many Requests" x{attempts}')
    if minutes_apart:
        turns = turns.with_columns(pl.col("start_ns", "end_ns") * minutes_apart * MINUTE_S)
    rules = [ExternalFailure(), RepeatedFailure()]
    found = batch(turns, rules)

    assert [(finding.rule, finding.action) for finding in found] == [("external_failure", action)]
    assert found == live(turns, rules)


@pytest.mark.parametrize(("pauses", "found"), [(8, 0), (11, 1)])
def test_a_back_off_counts_late(pauses: int, found: int) -> None:
    """Who waits longer each time does as asked; after pauses of a quarter of an hour it is one."""
    retries = " ".join(f'~{2**n} fetch(a)->!"429 Too Many Requests"' for n in range(pauses))
    turns = turns_in(f'fetch(a)->!"429 Too Many Requests" {retries}')
    findings = batch(turns, [ExternalFailure()])

    assert len(findings) == found
    assert findings == live(turns, [ExternalFailure()])


def test_other_rungs_do_not_wait() -> None:
    """The time is the gate's alone."""
    rule = ExternalFailure(ladder=(Rung(3, "warn"), Rung(5, "pivot"), Rung(7, "gate")))
    actions = [rule.action(attempts, seconds=1.0) for attempts in (3, 5, 7)]

    assert actions == ["warn", "pivot", "pivot"]
    assert ExternalFailure(ladder=(Rung(1, "gate"),)).action(9, seconds=1.0) == "retry_later"
