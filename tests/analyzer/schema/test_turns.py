"""Turns that were numbered: whether they still are as numbering would have them."""

from itertools import combinations

import polars as pl

from looptrace.analyzer.schema.turns import is_numbered, numbered
from looptrace.analyzer.testing.notation import tasks_in

WORK = (
    'prompt("go") read(a)->1 user("x") user("y") [ read(b)->2 read(c)->3 ] edit(d)->!4 prompt("z")'
)


def test_turns_that_pass_as_numbered_are_so() -> None:
    """A store leaves out days, and a day of one task may be read after all of another."""
    turns, place = tasks_in({"one": WORK, "two": WORK}), pl.int_range(pl.len()).over("task")
    assert not is_numbered(pl.concat([turns.filter(place < 4), turns.filter(place >= 4)]))
    passed = list[int]()
    for first, end in combinations(range(turns.height // 2 + 1), 2):
        left = turns.filter(place.is_between(first, end, closed="left"))
        if is_numbered(left):
            passed.append(first)
            assert left.equals(numbered(left))
    assert set(passed) == {0, 1}  # The first is a message, which has no number of its own.


def test_messages_between_the_same_turns_must_be_in_time() -> None:
    """They have one number, and those of two days may be read in the other order."""
    turns = tasks_in({"one": WORK})
    first = turns["text"].to_list().index("x")
    places = [*range(first), first + 1, first, *range(first + 2, turns.height)]
    assert turns["turn"][first] == turns["turn"][first + 1]
    assert not is_numbered(turns[places])
