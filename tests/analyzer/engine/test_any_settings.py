"""Any settings file and any turns: nothing breaks, and what is told is sound.

Each example judges many tasks, every one with turns of its own, under settings that were written to
a file and read back. CI judges a thousand tasks; `make soak` judges 100,000.
"""

import os
import random
from typing import Any

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from looptrace.analyzer.detect.counters import DAY_S
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.rules.vocabulary import NS_PER_S
from tests.analyzer.engine.test_live import table
from tests.analyzer.gates.test_state_machine import assert_sound
from tests.analyzer.settings.files import any_settings, read
from tests.seeds import seed_count

TASKS = 50  # an example
TURNS_MAX = 40  # a task
TICKS = 4  # in which live takes them
EXAMPLES = int(os.environ.get("LOOPTRACE_SOAK_EXAMPLES", "80"))

# What a turn may be; few values, so that random turns hold loops of every kind.
CHOICES: dict[str, list[Any]] = {
    "agent": ["a", "a", "a", "b"],
    "kind": [
        *(["tool"] * 8 + ["attempt", "handoff"] * 3 + ["progress", "model"] * 2),
        *("switch", "user"),
    ],
    "name": ["run", "run", "read"],
    "arguments": ["x", "x", "y", None],
    "result": ["1", "1", "1", "2", "429 Too Many Requests", None],
    "failed": [True, False, None],
    "text": ["Again.", "Done."],
    "talks_on": ["Again.", "Done.", None],
    "finish_reason": [None, "length", "length", "stop"],
    "compacted": [None, True],
    "phase": [None, None, "fix", "test", "plan"],
    "subtask": [None, None, "part"],
    "tests_failed": [None, None, 0, 1, 2, 3],
    "coverage": [None, None, 50.0, 60.0],
    "markers": [None, None, 0, 1],
    "step": [None, None, None, "s1", "s2"],
    "gap_ns": [0, NS_PER_S, 40 * NS_PER_S, 400 * NS_PER_S, (DAY_S + 1) * NS_PER_S],
    "took_ns": [0, NS_PER_S],
}
AGAIN = 0.6  # how often the turn before is done once more


def many_tasks(seed: int) -> pl.DataFrame:
    """Make turns of many tasks, in which what was done before is often done again."""
    chance = random.Random(seed)
    steps: list[dict[str, Any]] = []
    for task in range(TASKS):
        last: dict[str, Any] | None = None
        for _ in range(chance.randint(1, TURNS_MAX)):
            if last is None or chance.random() > AGAIN:
                last = {name: chance.choice(values) for name, values in CHOICES.items()}
            else:
                last = last | {"gap_ns": NS_PER_S}
            steps.append(last | {"task": f"t{task:02}"})
    return table(steps)


@settings(max_examples=seed_count(EXAMPLES), suppress_health_check=list(HealthCheck))
@given(any_settings(), st.integers(0, 2**32))
def test_whatever_is_set_what_is_told_is_sound(wanted: Settings, seed: int) -> None:
    """No exception, no gate without a finding, no event in a pause; live tells the same."""
    found = read(toml_of(wanted))
    turns = many_tasks(seed)
    judged = detect(turns, found.policy)
    engine = LiveEngine(found.policy)
    arriving = turns.sort("order_ns", maintain_order=True)
    size = turns.height // TICKS + 1
    told = [
        event
        for start in range(0, turns.height, size)
        for event in engine.feed(arriving[start : start + size]).events
    ]

    assert_sound(judged)
    assert sorted(told, key=lambda event: event.task) == list(judged.events)
