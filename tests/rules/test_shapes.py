"""The same work gives the same findings in every shape of trace.

The examples of every rule are written as spans in three shapes and read back. All rules find the
same in the spans as in the turns. All examples are tasks of one table, so that the rules run once
on each shape.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache

import polars as pl
import pytest

from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.docs import examples
from looptrace.rules.registry import RULES
from tests.drivers import batch
from tests.shapes import SHAPES, Shape, spans_in

HEADINGS = ("Looping", "Not looping")
# Each response holds all messages so far, so that long examples take long to write and read.
TURNS_MAX = 60
# A hand-off takes a tree of agents, and a switch a session of several tasks.
UNWRITTEN = {"handoff", "switch"}
# These count turns, seconds or tokens of any kind, and one shape has more than another.
COUNTING = {
    "max_iterations",
    "max_runtime",
    "token_budget",
    "money_budget",
    "likely_failure",
    "silent_agent",
}

Verdicts = Mapping[str, Counter[tuple[str, int]]]


def left_out(shape: Shape, text: str) -> str:
    """Return why an example cannot read the same in a shape, "" where it must."""
    if shape == "tools" and "[" in text:
        return "no span of a tool says which calls were asked for together"
    if shape == "models" and "user(" in text:
        return "a call ends with the next response, which comes after the person"
    if shape == "models" and "!?" in text:
        return "messages say that a call failed where they say how"
    if shape == "models" and "~" in text:
        return "a call ends with the next response, so that the wait lies within the call"
    return ""


@cache
def example_turns() -> pl.DataFrame:
    """Return the turns of all examples that are written as spans, each example a task."""
    texts = {text for rule in RULES for heading in HEADINGS for text in examples(rule, heading)}
    tasks = ((pl.lit(text), turns_in(text)) for text in sorted(texts))
    return pl.concat(
        turns.with_columns(task=text, session=text, trace_id=text)
        for text, turns in tasks
        if turns.height <= TURNS_MAX and not UNWRITTEN & set(turns["kind"])
    )


def verdicts_on(turns: pl.DataFrame) -> Verdicts:
    """Count the findings of each task by rule and attempts."""
    verdicts: dict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
    for finding in batch(turns):
        if finding.rule not in COUNTING:
            verdicts[finding.task][finding.rule, finding.attempts] += 1
    return verdicts


@pytest.mark.parametrize("shape", SHAPES)
def test_examples_read_the_same(shape: Shape) -> None:
    """A retry that is healthy in the notation is not a loop in any shape of trace."""
    turns = example_turns()
    as_turns = verdicts_on(turns)
    as_spans = verdicts_on(turns_of(spans_in(turns, shape))[0])
    texts = [text for text in as_turns.keys() | as_spans.keys() if not left_out(shape, text)]

    assert {text: as_spans[text] for text in texts} == {text: as_turns[text] for text in texts}


RETRIES = {
    "a retry that works": "run()->failed x2 run()->done",
    "an outage that ends": 'fetch()->!"503 Service Unavailable" x2 fetch()->done',
    "a job that ends": "status()->running x2 status()->done",
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("text", RETRIES.values(), ids=RETRIES.keys())
def test_retries_are_silent(text: str, shape: Shape) -> None:
    """What agents do all day is found by no rule."""
    turns = turns_in(text)
    assert turns_of(spans_in(turns, shape))[0].filter(kind="tool").height == turns.height
    assert not verdicts_on(turns_of(spans_in(turns, shape))[0])


def test_a_loop_is_found_in_every_shape() -> None:
    """Unreadable spans would also be silent."""
    turns = turns_in('(read(a)->text test()->!"expected 42, got 41") x3')
    (verdict,) = {str(verdicts_on(turns_of(spans_in(turns, shape))[0])) for shape in SHAPES}
    assert "cycle" in verdict
