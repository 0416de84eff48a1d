"""Writes the recordings of this folder: what batch says of the project's own data today.

Run it from the project's root: `python -m tests.recordings.make`. It changes only the lines of the
tasks of which something else is said. Each file has a line for the columns, then one for each task.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import polars as pl

from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.distinct_spans import whole_spans
from looptrace.analyzer.testing.notation import tasks_in
from looptrace.collector.files.reader import read_spans
from looptrace.rules.contract import Rule
from looptrace.rules.docs import examples
from looptrace.rules.registry import RULES
from tests.analyzer.engine.test_any_settings import TASKS, many_tasks
from tests.analyzer.normalize.random_spans import random_spans
from tests.paths import ROOT
from tests.recordings.layers import LAYERS, Line, lines_of
from tests.recordings.random_texts import turns_with_texts
from tests.rules.test_cases import ALL

FOLDER = Path(__file__).parent
FOLDERS = (
    *("examples/traces", "examples/sessions", "tests/dialects"),
    *("tests/producer_traces", "tests/framework_traces"),
)
SUFFIXES = (".json", ".jsonl", ".gz", ".binpb")
FILES = tuple(
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).iterdir())
    if path.suffix in SUFFIXES
)
HEADINGS = ("Looping", "Not looping")
RANDOM_TASKS = 500 // TASKS  # seeds
RANDOM_TRACES = 200  # seeds, of one task or a few each


def spans_of(path: Path) -> pl.DataFrame:
    """Return the spans of a file."""
    return whole_spans(read_spans([str(path)]).spans)


def turns_in(path: Path) -> pl.DataFrame:
    """Return the turns of a file."""
    return turns_of(spans_of(path))[0]


def turns_of_examples(rule: type[Rule]) -> pl.DataFrame:
    """Return the turns of the examples in a rule's docstring, each a task."""
    return tasks_in(
        {
            f"{heading} {number}": text
            for heading in HEADINGS
            for number, text in enumerate(examples(rule, heading), 1)
        }
    )


def turns_of_cases(rule: type[Rule]) -> pl.DataFrame:
    """Return the turns of the cases of a rule, each a task."""
    return tasks_in({case.name: case.turns for case in ALL if case.rule == rule.name})


def random_turns(seed: int) -> pl.DataFrame:
    """Return the turns of a random trace with all that joins spans."""
    return turns_of(random_spans(seed))[0]


# The groups of each file. The tasks of a group are judged together, and no other task with them.
SOURCES: Mapping[str, Mapping[str, Callable[[], pl.DataFrame]]] = {
    "files": {str(path.relative_to(ROOT)): partial(turns_in, path) for path in FILES},
    "examples": {rule.name: partial(turns_of_examples, rule) for rule in RULES},
    "cases": {rule.name: partial(turns_of_cases, rule) for rule in RULES},
    "random_tasks": {f"{seed}": partial(many_tasks, seed) for seed in range(RANDOM_TASKS)},
    "random_texts": {"parts": turns_with_texts},
    "random_traces": {f"{seed}": partial(random_turns, seed) for seed in range(RANDOM_TRACES)},
}


def file_of(source: str) -> Path:
    """Return the file of a source's recordings."""
    return FOLDER / f"{source}.jsonl"


class Recording(NamedTuple):
    """The recordings of a source: the names of its columns by layer, and lines by group, task."""

    columns: dict[str, list[str]]
    groups: dict[str, dict[str, Line]]


@cache
def recorded(source: str) -> Recording:
    """Return the recordings of a source."""
    first, *lines = file_of(source).read_text(encoding="utf-8").splitlines()
    groups: dict[str, dict[str, Line]] = {}
    for line in map(json.loads, lines):
        groups.setdefault(line.pop("group"), {})[line.pop("task")] = line
    return Recording({k: names.split() for k, names in json.loads(first).items()}, groups)


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _written(source: str) -> Iterator[str]:
    yield _json({layer: " ".join(names) for layer, names in LAYERS.items()})
    for group, turns in SOURCES[source].items():
        for task, line in lines_of(turns()).items():
            yield _json({"group": group, "task": task} | line)


def main() -> None:
    """Write all recordings anew."""
    for source in SOURCES:
        text = "".join(f"{line}\n" for line in _written(source))
        file_of(source).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
