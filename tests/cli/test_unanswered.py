"""A recorded night says what `[[waiting]]` would have done, by the time of its spans."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import json_of, run
from tests.reliability.serving import looping

CALLS = 400  # a second each


def ingested(folder: Path, settings: str) -> str:
    """Ingest a loop of some minutes; return the events of its gates: time, type, decision."""
    (folder / "loop.json").write_text(json.dumps(looping("n1", CALLS).request()))
    (folder / "looptrace.toml").write_text(settings)
    at = ("--store", folder / "s", "--config", folder / "looptrace.toml", "--events", "-")
    lines = run("ingest", folder / "loop.json", *at).stdout.splitlines()
    told: list[dict[str, Any]] = [json.loads(line) for line in lines if line.startswith("{")]
    of_gates = [(e["time"][12:19], e["event"], e.get("decision")) for e in told if e.get("gate")]
    return ", ".join(" ".join(filter(None, each)).replace("gate_", "") for each in of_gates)


@pytest.mark.parametrize(
    ("settings", "events"),
    [
        ("", "9:00:03 triggered"),
        (
            "remind_minutes = 1\nescalate_minutes = 2\nescalate_to = ['lead']\ndecide_minutes = 4",
            "9:00:03 triggered, 9:01:03 unanswered, 9:02:03 unanswered, 9:04:03 resolved cancel, "
            "9:04:06 triggered, 9:05:06 unanswered, 9:06:06 unanswered",
        ),
        (
            "decide_minutes = 3\ndefault = 'continue'",
            "9:00:03 triggered, 9:03:03 resolved continue, 9:03:06 triggered, "
            "9:06:06 resolved continue, 9:06:09 triggered",
        ),
        (
            "decide_minutes = 3\noffice_hours = 'Mon-Fri 09:02-17:00'",
            "9:00:03 triggered, 9:05:00 resolved cancel, 9:05:03 triggered",
        ),
        ("decide_minutes = 30", "9:00:03 triggered"),
    ],
)
def test_a_recorded_night_is_answered_by_default(
    tmp_path: Path, settings: str, events: str
) -> None:
    """An agent that goes on after a default is stopped again; each step has its time."""
    lead = "[[webhooks]]\nname = 'lead'\nurl = 'https://lead.example/'\nformat = 'slack'\n"
    settings = f"[[waiting]]\n{settings}\n{lead}" if settings else ""
    assert ingested(tmp_path, settings) == events
    assert ingested(tmp_path, settings) == ""  # Nothing is done twice.
    gates = json_of("gates", "list", "--all", "--store", tmp_path / "s")
    by = {gate["resolved_by"] for gate in gates if gate["decision"]}
    assert by == ({"default"} if "resolved" in events else set())
