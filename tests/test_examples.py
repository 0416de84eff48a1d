import gzip
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from examples import a_failures, b_attempts, c_outputs, d_phases, e_pivots, make_sessions
from examples.make_traces import TRACES, write
from examples.recorder import Recorder, events_of, recorded
from looptrace.analyzer.gates.events import GateEvent
from tests.paths import ROOT

SOURCES = (a_failures, b_attempts, c_outputs, d_phases, e_pivots)
requirement = pytest.mark.requirement


def _contents(directory: Path) -> dict[str, bytes]:
    """Read all files; packed ones unpacked, because zlib's versions pack differently."""
    files = {path.name: path.read_bytes() for path in sorted(directory.iterdir())}
    return {
        name: gzip.decompress(content) if name.endswith(".gz") else content
        for name, content in files.items()
    }


def test_example_traces_are_what_the_script_writes(tmp_path: Path) -> None:
    """A trace edited by hand, or a script changed without running it, would show here."""
    write(tmp_path)
    assert _contents(tmp_path) == _contents(TRACES)


def test_example_sessions_are_what_the_script_writes(tmp_path: Path) -> None:
    """As with the traces."""
    make_sessions.write(tmp_path)
    assert _contents(tmp_path) == _contents(make_sessions.SESSIONS)


def test_readme_lists_every_example_trace() -> None:
    """The table in the examples' README is how a reader knows what looptrace should say."""
    readme = (TRACES.parent / "README.md").read_text(encoding="utf-8")
    files = (*TRACES.iterdir(), *make_sessions.SESSIONS.iterdir())
    missing = [path.name for path in files if f"`{path.name}`" not in readme]
    assert missing == []


@pytest.mark.parametrize("name", [module.__name__ for module in SOURCES])
def test_a_page_shows_what_each_example_prints(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader who runs the command of the page gets the output of the page."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / f"{name.replace('.', '/')}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")

    assert f"```text\n{printed}```\n" in page
    assert printed
    assert [path.name for path in (tmp_path / "build" / "examples").iterdir()] == [
        f"{name.rpartition('.')[2]}.json"
    ]


def told(work: Callable[[Recorder], None], folder: Path) -> dict[str, list[GateEvent]]:
    """Record an agent, and return what looptrace tells of it by task."""
    path = folder / "example.json"
    recorded(work, path)
    events: dict[str, list[GateEvent]] = {}
    for event in events_of(path):
        events.setdefault(event.task, []).append(event)
    return events


def brief(events: list[GateEvent]) -> list[str]:
    """Name the events in short: what was told, and at which turn."""
    return [f"{event.action or event.type} {event.turn}" for event in events]


@requirement("A3")
@requirement("A4")
@requirement("A5")
@requirement("A10")
def test_example_of_failures(tmp_path: Path) -> None:
    """Two agents in two sub-tasks come to 3; a person resolves it; a new task starts at 0."""
    events = told(a_failures.work, tmp_path)

    assert list(events) == ["checkout"]
    assert brief(events["checkout"]) == ["gate 6", "gate_resolved 6", "counter_reset 6"]
    gate, resolved, reset = events["checkout"]
    assert (gate.rule, gate.attempts, gate.loop_count) == ("repeated_failure", 3, 2)
    assert resolved.note == "The test is wrong, 41 is right. Change the test."
    assert (reset.reason, reset.loop_count) == ("person", 2)
    ours = [f.agent for f in gate.history if f.error_kind == "logic"]
    assert ours == ["coder", "coder", "fixer"]


@requirement("B2")
@requirement("B3")
@requirement("B5")
@requirement("B6")
def test_example_of_attempts(tmp_path: Path) -> None:
    """Blocked, granted authority, blocked; done again and again; and work, which is left alone."""
    events = told(b_attempts.work, tmp_path)

    assert list(events) == ["payments", "release-notes"]
    assert brief(events["payments"]) == ["unblock_authority 3", "gate 4"]
    granted, gate = events["payments"]
    assert granted.blockers == ("no key for the bank's sandbox",)
    assert "no key for the bank's sandbox" in granted.reason
    assert (gate.why, gate.status) == ("UNBLOCKING_FAILED", "blocked")
    assert brief(events["release-notes"]) == ["force_next 3"]


@requirement("C1")
@requirement("C2")
@requirement("C4")
def test_example_of_outputs(tmp_path: Path) -> None:
    """Fewer failing tests and a retry are no loop; one signature three times is."""
    events = told(c_outputs.work, tmp_path)

    assert list(events) == ["stuck"]
    (gate,) = events["stuck"]
    # A failing run is a failure, which stands above the warning that its signature came back.
    assert (gate.rule, gate.turn) == ("repeated_failure", 3)
    assert gate.signature == "test-fail:2-test_auth.py:test_login,test_logout"


@requirement("D1")
@requirement("D2")
def test_example_of_phases(tmp_path: Path) -> None:
    """Each gate says what was exceeded in the words of the requirement; once through is silent."""
    events = told(d_phases.work, tmp_path)
    reasons = {task: told[0].reason.partition(", turns")[0] for task, told in events.items()}

    assert all(brief(told)[0].startswith("gate ") for told in events.values())
    assert list(events) == ["oscillates", "transits", "visits"]
    assert reasons["transits"] == (
        "Transition fix→test exceeded max_transitions (5) with 6 occurrences"
    )
    assert reasons["visits"] == "Phase 'test' exceeded max_visits (10) with 11 visits"


@requirement("E1")
@requirement("E3")
@requirement("E4")
@requirement("E5")
def test_example_of_pivots(tmp_path: Path) -> None:
    """Two pivots and then a person; a success in between sets the count to 0."""
    events = told(e_pivots.work, tmp_path)

    assert list(events) == ["stuck"]
    assert brief(events["stuck"]) == ["pivot 3", "pivot 6", "gate 9"]
    assert [(event.pivots, event.why) for event in events["stuck"]] == [
        (1, None),
        (2, None),
        (2, "MAX_PIVOTS_EXCEEDED"),
    ]
    assert events["stuck"][2].status == "paused_for_intervention"
