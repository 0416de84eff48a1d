"""An upgrade keeps the ids of gates and sends nothing again, from each version's own store."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.collector.store import reader, writer
from looptrace.collector.store.layout import GATES_FILE
from tests.collector.store.earlier_stores import APPLIED, ARCHIVE, COMMITS, COMPILED, NOTE, WAITING
from tests.collector.store.recorded_gates import HOOKS
from tests.collector.store.stored import looping, spans_of

GATES = 8


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the stores."""
    folder = tmp_path_factory.mktemp("earlier")
    shutil.unpack_archive(ARCHIVE, folder, filter="data")
    return folder


def rows(store: Path, sql: str) -> list[tuple[Any, ...]]:
    """Return rows of the gates."""
    with closing(sqlite3.connect(store / GATES_FILE)) as gates:
        return sorted(gates.execute(sql).fetchall())


@pytest.mark.parametrize("schema", COMMITS)
def test_an_upgrade_keeps_gates_and_sends_nothing_again(stores: Path, schema: str) -> None:
    """Messages of before name these ids, and whoever was called at night sleeps on."""
    store = stores / schema
    before = dict(rows(store, "SELECT id, status FROM gates"))
    assert sorted(before.values()) == ["open"] * (GATES - 1) + ["resolved"]
    waiting = rows(store, "SELECT event FROM outbox")
    assert len(waiting) == 1
    for _ in range(2):
        writer.ingest(spans_of().clear(), store, DEFAULT, HOOKS)
        with reader.open_gates(store) as gates:
            after = {gate.id: gate for gate in gates.gates()}
            assert after.keys() == before.keys()
            decided = {gate.task: gate.note for gate in after.values() if gate.status == "resolved"}
            assert decided == {APPLIED: NOTE, WAITING: NOTE}
            assert all(gate.status == "open" for gate in after.values() if gate.task not in decided)
            assert {gates.gate(old[:12]).gate.id for old in before} == before.keys()
    sent = rows(store, "SELECT task, type, event FROM outbox JOIN events ON id = event")
    # The decision that no ingest had read takes effect now; of the first schema no outbox is kept.
    ends = ["counter_reset"] * len(HOOKS) + ["gate_resolved"] * len(HOOKS)
    assert [kind for task, kind, event in sent if (event,) not in waiting] == ends
    assert {task for task, _, event in sent if (event,) not in waiting} == {WAITING}
    assert len(sent) == len(ends) + (schema != "gates_1")
    aliases = rows(store, "SELECT aliases.id, of FROM aliases JOIN gates ON gates.id = of")
    with reader.open_gates(store) as gates:
        assert all(gates.gate(new).gate.id == known for new, known in aliases)
        counts = sorted(each.gates for each in gates.incidents())
    assert counts == [1, 1, 1, 1, 4]  # Four tasks of no service fail alike.
    # The loop of each earlier store gates a call earlier by now, which has another id.
    assert aliases or schema in COMPILED


def test_other_settings_that_find_a_new_loop_after_a_decision_page(tmp_path: Path) -> None:
    """Only the gate that was known is the same; one that opens after its end is another."""
    store = tmp_path / "store"
    writer.ingest(spans_of(looping("s1")), store, DEFAULT, HOOKS)
    with reader.open_gates(store) as gates:
        (gate,) = gates.gates("open")
        gates.resolve(gate.id, "reviewed", NOTE)
    later = looping("s1", "2099-03-02T09:00:00+00:00", name="later")
    writer.ingest(spans_of(later), store, DEFAULT, HOOKS)
    opened = "SELECT body ->> 'gate' FROM outbox JOIN events ON id = event"
    ids = {new for (new,) in rows(store, f"{opened} WHERE type = 'gate_opened'")}
    assert gate.id in ids
    assert len(ids) == 2
