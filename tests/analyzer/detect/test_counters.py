"""What counters tell that the notation of cases cannot write."""

import polars as pl
import pytest

from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.vocabulary import NS_PER_S
from tests.drivers import batch, live


@pytest.mark.parametrize(("took_s", "loops"), [(29, 1), (30, 0)])
def test_a_look_that_takes_long_is_a_wait(took_s: int, loops: int) -> None:
    """A tool that waits for news itself leaves no time between its calls."""
    started_ns = pl.col("end_ns") - took_s * NS_PER_S
    turns = turns_in("job_status(7)->same x4").with_columns(start_ns=started_ns)

    assert len(batch(turns, [RepeatedCall()])) == loops
    assert batch(turns, [RepeatedCall()]) == live(turns, [RepeatedCall()])
