"""A recorded night says what `[[waiting]]` would have done, by the time of its spans."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run
from tests.reliability.serving import looping

CALLS = 400  # a second each


def ingested(folder: Path, settings: str, store: str = "s") -> list[tuple[str, str, str | None]]:
    """Ingest a loop of some minutes; return the events of its gates: type, time, decision."""
    (folder / "loop.json").write_text(json.dumps(looping("n1", CALLS).request()))
    (folder / "looptrace.toml").write_text(settings)
    at = ("--store", folder / store, "--config", folder / "looptrace.toml", "--events", "-")
    lines = run("ingest", folder / "loop.json", *at).stdout.splitlines()
    told: list[dict[str, Any]] = [json.loads(line) for line in lines if line.startswith("{")]
    return [(e["event"], e["time"][11:19], e.get("decision")) for e in told if e.get("gate")]


OPENED, UNANSWERED, RESOLVED = "gate_triggered", "gate_unanswered", "gate_resolved"


@pytest.mark.parametrize(
    ("settings", "events"),
    [
        ("", [(OPENED, "09:00:03", None)]),
        (
            "remind_minutes = 1\nescalate_minutes = 2\nescalate_to = ['lead']\ndecide_minutes = 4",
            [
                (OPENED, "09:00:03", None),
                (UNANSWERED, "09:01:03", None),
                (UNANSWERED, "09:02:03", None),
                (RESOLVED, "09:04:03", "cancel"),
                (OPENED, "09:04:06", None),
                (UNANSWERED, "09:05:06", None),
                (UNANSWERED, "09:06:06", None),
            ],
        ),
        (
            "decide_minutes = 3\ndefault = 'continue'",
            [
                (OPENED, "09:00:03", None),
                (RESOLVED, "09:03:03", "continue"),
                (OPENED, "09:03:06", None),
                (RESOLVED, "09:06:06", "continue"),
                (OPENED, "09:06:09", None),
            ],
        ),
        (
            "decide_minutes = 3\noffice_hours = 'Mon-Fri 09:02-17:00'",
            [
                (OPENED, "09:00:03", None),
                (RESOLVED, "09:05:00", "cancel"),
                (OPENED, "09:05:03", None),
            ],
        ),
        ("decide_minutes = 30", [(OPENED, "09:00:03", None)]),
    ],
)
def test_a_recorded_night_is_answered_by_default(
    tmp_path: Path, settings: str, events: list[tuple[str, str, str | None]]
) -> None:
    """An agent that goes on after a default is stopped again; each step has its time."""
    lead = "[[webhooks]]\nname = 'lead'\nurl = 'https://lead.example/'\nformat = 'slack'\n"
    settings = f"[[waiting]]\n{settings}\n{lead}" if settings else ""
    assert ingested(tmp_path, settings) == events
    assert ingested(tmp_path, settings) == []  # Nothing is done twice.
    listed = run("gates", "list", "--all", "--store", tmp_path / "s", "--format", "json").stdout
    gates = json.loads(listed)
    by = {gate["resolved_by"] for gate in gates if gate["decision"]}
    assert by == ({"default"} if RESOLVED in {each[0] for each in events} else set())
