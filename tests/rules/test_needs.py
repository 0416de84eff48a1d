"""What rules need of a turn, as data that the engine asks before it asks a rule."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest

from looptrace.analyzer.detect.columns import columns
from looptrace.analyzer.detect.counters import add_counters, counted_where_asked
from looptrace.analyzer.detect.evaluate import find_stretches
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.testing.notation import tasks_in
from looptrace.rules.contract import Rule
from looptrace.rules.docs import examples
from looptrace.rules.needs import ALWAYS, again, exceeds, has, reaches
from looptrace.rules.registry import RULES
from looptrace.rules.turns import UNKNOWN, Turns
from tests.analyzer.engine.test_any_settings import many_tasks
from tests.drivers import ruleset
from tests.rules.models import ready
from tests.rules.test_cases import ALL
from tests.seeds import seeds


@dataclass(frozen=True)
class Row:
    """A turn of many, with what the engine shows of the last one."""

    turns: Turns
    row: int

    def __getattr__(self, column: str) -> Any:
        """Return the value of a column."""
        return getattr(self.turns, column)[self.row]

    def again(self, *names: str) -> bool:
        """Return whether an earlier turn of the task is known to equal it in all columns."""
        equal = self.turns.task[: self.row] == self.task
        for name in names:
            column = getattr(self.turns, name)
            equal &= (column[: self.row] == column[self.row]) & (column[self.row] != UNKNOWN)
        return bool(equal.any())


def unneeded(rule: Rule, table: pl.DataFrame) -> tuple[int, list[int]]:
    """Return at how many turns a rule fires, and those at which it lacks what it needs."""
    turns = columns(add_counters(table, ruleset([]).counting), times=True)
    lane = turns.lane(rule.lane)
    fired = lane.rows[np.flatnonzero(rule.evaluate(lane).fires)].tolist()
    return len(fired), [row for row in fired if not has_needed(rule, Row(turns, row))]


def has_needed(rule: Rule, row: Row) -> bool:
    """Return whether a turn has what a rule needs, as the core decides it."""
    tests: dict[str, Callable[[tuple[str, ...], int], bool]] = {
        "again": lambda names, _: row.again(*names),
        "has": lambda names, _: getattr(row, names[0]) != UNKNOWN,
        "reaches": lambda names, least: getattr(row, names[0]) >= least,
    }
    ways = rule.needs.of(rule)
    return any(all(tests[test](names, least) for test, names, least in way) for way in ways)


def loops_of(rule: type[Rule]) -> pl.DataFrame:
    """Return the turns of a rule's cases and examples, each a task."""
    cases = {case.name: case.turns for case in ALL if case.rule == rule.name}
    return tasks_in(cases | {text: text for text in examples(rule, "Looping")})


@pytest.mark.parametrize("rule", [rule for rule in RULES if not rule.reads_texts])
def test_no_rule_fires_without_what_it_needs(rule: type[Rule]) -> None:
    """The engine would lose the loop, because a rule that lacks what it needs is not asked."""
    fired, without = unneeded(ready(rule), loops_of(rule))

    assert fired, "nothing is compared"
    assert not without


@pytest.mark.parametrize("seed", seeds(16))
def test_needs_hold_for_any_turns(seed: int) -> None:
    """Cases are few, and random turns meet what nobody thought of."""
    table = many_tasks(seed)
    found = [unneeded(rule(), table) for rule in RULES if not rule.reads_texts]

    assert sum(fired for fired, _ in found)
    assert not [rows for _, rows in found if rows]


@pytest.mark.parametrize("rule", RULES)
def test_files_ask_a_rule_wherever_it_fires(rule: type[Rule]) -> None:
    """A task in which no rule may fire is left out, with its loops."""
    assert_asked(loops_of(rule), ruleset([ready(rule)]))


@pytest.mark.parametrize("seed", seeds(16))
def test_files_ask_each_rule_that_fires(seed: int) -> None:
    """A rule that may fire in no task is left out, with its loops in all of them."""
    assert_asked(many_tasks(seed), ruleset(None))


def assert_asked(table: pl.DataFrame, rule_set: RuleSet) -> None:
    """Check that all stretches of turns are found where rules are asked."""
    rows, asked = counted_where_asked(table, rule_set.counting, rule_set.needs, set())
    every = find_stretches(add_counters(table, rule_set.counting), rule_set)

    assert every
    assert find_stretches(rows, rule_set, asked) == every


def test_files_count_only_where_a_rule_may_fire() -> None:
    """Most tasks repeat nothing, and cost no look at a lane; those of a budget are counted."""
    texts = ["read(a)->1 read(b)->2", "read(a)->1 read(b)->2 read(c)->3", "(read(a)->1) x4"]
    table = tasks_in({text: text for text in texts})
    how, needs = ruleset(None).counting, ruleset(None).needs
    rows, asked = counted_where_asked(table, how, needs, {texts[0]})

    assert set(rows["task"]) == {texts[0], texts[2]}
    assert rows.equals(add_counters(table, how).filter(pl.col("task") != texts[1]))
    assert "repeated_call" in {ruleset(None).forms()[place].name for place in asked}


def test_a_column_that_no_rule_sees_is_refused() -> None:
    """A typing mistake would otherwise show in the first turn of the rule."""
    with pytest.raises(ValueError, match=r"no need can be of 'cal'; the columns are: agent, "):
        again("call", "cal")
    with pytest.raises(ValueError, match="no need can be of 'texts'; the columns are: agent, "):
        has("texts")


def test_needs_are_joined() -> None:
    """`&` binds more than `|`, as for numbers."""
    need = has("enters") & (exceeds("visits", "max_visits") | reaches("errors", "max_errors", 2))

    assert [[condition.columns[0] for condition in way] for way in need.ways] == [
        ["enters", "visits"],
        ["enters", "errors"],
    ]
    assert ALWAYS & need == need
