"""What is said of the project's own data is what was recorded of it, layer by layer."""

from pathlib import Path

import pytest

from tests.analyzer.engine.test_arrivals import EARLY, SIZES, arrived
from tests.paths import ROOT
from tests.recordings.layers import (
    LAYERS,
    difference,
    tasks_of,
    told,
    told_by_batch,
    told_difference,
)
from tests.recordings.make import FILES, SOURCES, file_of, recorded, spans_of
from tests.seeds import seeds

ANEW = "If that is meant, `python -m tests.recordings.make` writes it anew."
BYTES_MAX = 2_120_000


def groups(places: list[int]) -> list[tuple[str, str]]:
    """Return the groups of all sources, but of the random traces those at these places alone."""
    return [
        (source, group)
        for source, groups in SOURCES.items()
        for place, group in enumerate(groups)
        if place in places or source != "random_traces"
    ]


@pytest.mark.parametrize("source", SOURCES)
def test_all_is_recorded(source: str) -> None:
    """A column without a recording would be compared with nothing."""
    recording = recorded(source)
    assert recording.columns == {layer: list(names) for layer, names in LAYERS.items()}, ANEW
    assert set(recording.groups) <= set(SOURCES[source]), ANEW


def test_recordings_are_small() -> None:
    """Everybody who clones the project has them, in each state that they ever had."""
    assert sum(file_of(source).stat().st_size for source in SOURCES) < BYTES_MAX


@pytest.mark.parametrize(("source", "group"), groups(seeds(200)))
def test_batch_says_what_is_recorded(source: str, group: str) -> None:
    """A rewrite reads, compares, counts and judges as what it replaces, or names the difference."""
    turns = SOURCES[source][group]()
    recording = recorded(source)
    lines = recording.groups.get(group, {})  # Some files show no turn.
    tasks, said = tasks_of(turns), told_by_batch(turns)
    assert list(tasks) == list(lines), f"{group}: other tasks than recorded. {ANEW}"
    differences = [
        f"{group}, task {task}: {found}. {ANEW}"
        for task, values in tasks.items()
        if (found := difference(lines[task], said.get(task, {}), values, recording.columns))
    ]
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize(
    "path",
    [FILES[n * len(FILES) // 144] for n in seeds(144)],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_live_says_what_is_recorded(path: Path) -> None:
    """Spans that arrive in the order of their ends lead to the same findings and events."""
    group = str(path.relative_to(ROOT))
    live = arrived(spans_of(path).sort("end_ns"), SIZES[1])
    said = told(live.findings, ())
    told_ids, ids = {event.id for event in live.events}, set[str]()
    for task, line in recorded("files").groups.get(group, {}).items():
        findings = {"findings": line.get("findings", [])}
        found = told_difference(findings, said.get(task, {}))
        assert not found, f"{group}, task {task}, live: {found}. {ANEW}"
        ids |= {event.split()[-1] for event in line.get("events", [])}
    # On the way an agent's name may be unknown, so events are compared by their ids.
    extra = {i for i in told_ids if not any(map(i.startswith, ids))}
    assert {i for i in ids if not any(told.startswith(i) for told in told_ids)} == set(), group
    assert not extra or path.name.partition(".")[0] in EARLY, f"{group}, live: more events"
