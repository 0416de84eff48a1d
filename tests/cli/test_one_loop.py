"""One loop has one number, wherever it is shown: five rules see the loop of one demo trace."""

from pathlib import Path
from typing import Any

import pytest

from looptrace.collector.trace_store import open as open_store
from tests.commands import json_of, printed
from tests.paths import LOOPING, TRACES

TIMES = 7
COST = {"seconds": 37.812, "input_tokens": 11_454, "output_tokens": 448}
HEADLINE = "apply_migration(billing, 0042_split_invoice_address.sql) failed the same way 7 times"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a store of the trace."""
    folder = str(tmp_path_factory.mktemp("one") / "store")
    printed("ingest", LOOPING, "--store", folder)
    return folder


def row_of(store: str, name: str) -> dict[str, Any]:
    """Return the first row of a query."""
    row: dict[str, Any] = json_of("query", name, "--store", store)[0]
    return row


def test_reports_name_one_loop_and_one_number() -> None:
    """The events beside it say at which time they came, and not how often again."""
    text = " ".join(printed("analyze", LOOPING).split())

    assert f"{HEADLINE}, turns 6–18" in text
    assert "1 loop in 1 of 1 task" in text
    assert "turn 10: gate by repeated_failure, at the 3rd time: " in text
    assert "loop count" not in text
    for form in ("markdown", "junit", "github", "sarif"):
        assert printed("analyze", LOOPING, "--format", form).count(HEADLINE) >= 1
    report = json_of("analyze", LOOPING)
    (loop,) = {finding["loop"] for finding in report["findings"]}
    (lead,) = [finding for finding in report["findings"] if finding["id"] == loop]
    cost = COST | {"money": None}
    assert (len(report["findings"]), lead["attempts"], lead["cost"]) == (5, TIMES, cost)


def test_queries_count_it_once(store: str) -> None:
    """Five findings are one loop of seven times, and its tokens are spent once."""
    agent = row_of(store, "agents_that_loop")
    assert (agent["loops"], agent["attempts"]) == (1, TIMES)
    day = row_of(store, "loop_cost_by_day")
    assert (day["loops"], day["attempts"]) == (1, TIMES)
    assert {name: day[name] for name in COST} == COST
    rules = open_store(store).query("findings_by_rule_and_agent")
    assert (rules["loops"].sum(), rules["also"].sum(), rules["attempts"].sum()) == (1, 4, TIMES)
    assert rules["tokens"].sum() == COST["input_tokens"] + COST["output_tokens"]
    assert rules["rule"][0] == "repeated_call"


def test_gates_say_when_they_opened(store: str) -> None:
    """A gate is older than the loop is long, so its words are those of its opening."""
    listed = printed("gates", "list", "--store", store)
    assert "when it opened: the failure of" in listed
    assert "came 3 times" in listed
    shown = printed("gates", "show", "--store", store, listed.partition(",")[0])
    assert "at the 3rd time" in shown
    assert "loop count" not in shown
    metrics = json_of("gates", "metrics", "--store", store)
    assert (metrics["loops_per_task"], metrics["agents"][0]["loops"]) == (1.0, 1)


def test_several_rules_with_events_are_one_loop(tmp_path: Path) -> None:
    """Two rules warn of the cycle of another trace, and it is still one loop."""
    folder = str(tmp_path / "store")
    printed("ingest", TRACES / "release_notes_cycle_loop.jsonl", "--store", folder)
    warned = open_store(folder).sql("SELECT count(DISTINCT finding) AS findings FROM events")

    assert warned["findings"].item() > 1
    metrics = json_of("gates", "metrics", "--store", folder)
    assert (metrics["loops_per_task"], metrics["cycles_detected"]) == (1.0, 1)
