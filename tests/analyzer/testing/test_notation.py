"""The notation refuses what it would otherwise pass over."""

import pytest

from looptrace.analyzer.testing.notation import NotationError, turns_in


@pytest.mark.parametrize(
    "text", ["(read(a)->1 ~90) x3 read(b)->2", "read(a)->1 ~90", "[a()->1 ~5]"]
)
def test_a_pause_before_no_turn_is_refused(text: str) -> None:
    """A round that seems to end with a wait, and does not, proves nothing about waits."""
    with pytest.raises(NotationError, match="stands before no turn"):
        turns_in(text)


def test_a_pause_in_a_round_comes_before_its_turn_each_time() -> None:
    """A case that shows polling has the same wait in every round."""
    ends = turns_in("(~90 read(a)->1) x3")["end_ns"].diff().drop_nulls()

    assert ends.n_unique() == 1
    assert ends[0] >= 90_000_000_000
