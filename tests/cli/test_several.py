"""Several stores shown as one: by `gates`, `query` and what `watch` reads."""

import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.settings.sections import default
from looptrace.cli.shared.gate_sources import source_of
from looptrace.cli.shared.gates_on_disk import GatesOnDisk
from looptrace.cli.shared.several_sources import GatesOfSeveral
from looptrace.collector.store import writer
from looptrace.errors import UnavailableError
from tests.collector.store.stored import looping, spans_of
from tests.commands import json_of, printed, refused
from tests.ports import closed_port

SESSIONS = ("s1", "s2", "s3", "s4")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return one store with all sessions, and three that share them; they are read alone."""
    folders = [tmp_path_factory.mktemp(name) for name in ("all", "a", "b", "c")]
    writer.ingest(spans_of(*map(looping, SESSIONS)), folders[0])
    writer.ingest(spans_of(looping("s1"), looping("s4")), folders[1])
    writer.ingest(spans_of(looping("s2")), folders[2])
    writer.ingest(spans_of(looping("s3")), folders[3])
    return folders


def named(stores: Sequence[Path]) -> list[str]:
    """Name stores as a command takes them."""
    return [word for store in stores for word in ("--store", str(store))]


def test_gates_and_metrics_are_those_of_one_store(stores: list[Path]) -> None:
    """The figures are weighted by what they are of, and agents counted over all."""
    whole, *parts = stores
    for command in ("list", "metrics"):
        one, several = (
            json_of("gates", command, *place) for place in (named([whole]), named(parts))
        )
        if command == "list":
            one, several = (sorted(gates, key=lambda gate: gate["id"]) for gates in (one, several))
        assert several == one
        assert len(one) >= len(SESSIONS)


def test_a_decision_goes_to_the_store_that_has_the_gate(stores: list[Path], tmp_path: Path) -> None:
    """An id that none has, and one that several have, are errors."""
    parts = [Path(shutil.copytree(store, tmp_path / store.name)) for store in stores[1:]]
    several = source_of(parts, (), default())
    assert isinstance(several, GatesOfSeveral)
    gate = next(each for each in several.gates("open") if each.task == "s3")
    assert several.gate(gate.id[:-2]).gate == gate
    several.resolve(gate.id, "continue", "Ask Ada.", who="Eve")

    decided = GatesOnDisk(parts[2], default()).gate(gate.id).gate
    assert (decided.decision, decided.resolved_by) == ("continue", "Eve")
    with pytest.raises(GateError):
        several.gate("no such gate")
    with pytest.raises(GateError, match="of 2 servers"):
        source_of([parts[2], parts[2]], (), default()).gate(gate.id)


def test_a_source_that_is_away_is_named_and_hinders_no_decision_elsewhere(
    stores: list[Path], tmp_path: Path
) -> None:
    """At night one server may be down, and the gate be on another; a short id may be on either."""
    parts = [Path(shutil.copytree(store, tmp_path / store.name)) for store in stores[1:]]
    with closed_port() as port:
        away = f"http://127.0.0.1:{port}"
        several = source_of(parts, [away], default())
        with pytest.raises(UnavailableError, match=f"{away}.*Without it in the list"):
            several.gates("open")
        with pytest.raises(UnavailableError, match="Without it in the list"):
            # Gates of the others may come first.
            list(several.watch())
        gate = next(gate for gate in source_of(parts, (), default()).gates() if gate.task == "s3")
        with pytest.raises(UnavailableError, match=away):
            several.gate(gate.id[:-2])
        several.resolve(gate.id, "continue", "Ask Ada.")
    assert GatesOnDisk(parts[2], default()).gate(gate.id).gate.decision == "continue"


def test_stores_in_one_option_of_a_query_are_told_apart(stores: list[Path]) -> None:
    """Whoever writes a comma, as in other programs, is told how stores are given."""
    done = refused("query", "agents_that_loop", "--store", ",".join(map(str, stores)))
    assert "give each store a --store of its own" in done


def test_watch_begins_with_the_open_gates_of_all(stores: list[Path]) -> None:
    """Each once, whichever is read first."""
    whole, *parts = stores
    count = len(GatesOnDisk(whole, default()).gates("open"))
    told = islice(source_of(parts, (), default()).watch(), count)
    assert {notice.task for notice in told} == set(SESSIONS)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT task, count(*) AS turns FROM turns GROUP BY task ORDER BY task",
        "SELECT id, task FROM gates ORDER BY id",
        "SELECT id, type FROM events ORDER BY id",
    ],
)
def test_a_query_over_stores_is_that_over_one(sql: str, stores: list[Path]) -> None:
    """Turns, and what was decided."""
    whole, *parts = stores
    several = [option for store in parts for option in ("--store", str(store))]
    one = printed("query", "--store", whole, "--sql", sql, "--format", "csv")
    assert printed("query", *several, "--sql", sql, "--format", "csv") == one
    assert one.count("\n") > len(SESSIONS)
