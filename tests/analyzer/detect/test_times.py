"""How long turns took, and how long nothing happened within them."""

import numpy as np
import polars as pl

from looptrace.analyzer.detect.times import times_of
from looptrace.rules.vocabulary import NS_PER_S


def quiet_s(*turns: tuple[int, int]) -> list[int]:
    """Return how long turns (start, end, in seconds) were quiet, as turns of one task."""
    start_ns, end_ns = np.array(turns, dtype=np.int64).T * NS_PER_S
    texts = pl.Series(["a"] * len(turns))
    times = times_of(np.zeros_like(start_ns), start_ns, end_ns, texts, texts)
    return [int(quiet_ns) // NS_PER_S for quiet_ns in times.quiet_ns]


def test_a_turn_is_quiet_since_the_last_that_began_within_it() -> None:
    """A call with others at work below it does not hang, however long it takes."""
    assert quiet_s((0, 10), (20, 900), (1, 1000)) == [10, 880, 100]


def test_a_turn_around_a_call_is_no_sign_of_work() -> None:
    """A sub-agent that is given up ends beside the call in which it hangs, in any order."""
    assert quiet_s((0, 10), (5, 1000), (20, 1001)) == [10, 995, 981]
    assert quiet_s((0, 10), (21, 30), (5, 1000), (20, 1001)) == [10, 9, 970, 971]


def test_a_turn_is_quiet_from_its_start() -> None:
    """What happened before it is none of its time."""
    assert quiet_s((0, 10), (100, 1000)) == [10, 900]
