"""The audit log tells of each decision and erasure, and only grows."""

import json
import signal
from pathlib import Path

import pytest

from looptrace.collector.store import reader, writer
from looptrace.collector.store.layout import AUDIT_FILE
from looptrace.collector.store.locks import StoreError
from tests.collector.store.stored import looping, spans_of
from tests.commands import run
from tests.reliability.serving import served, until


def lines_of(store: Path) -> list[dict[str, object]]:
    """Return what the log of a store says."""
    return [json.loads(line) for line in (store / AUDIT_FILE).read_text().splitlines()]


def test_decisions_and_erasures_are_noted(tmp_path: Path) -> None:
    """By whom, and of what; never with content, and erasures leave the lines as they are."""
    writer.ingest(spans_of(looping("alice"), looping("bob")), tmp_path)
    with reader.open_gates(tmp_path) as gates:
        gate = next(each for each in gates.gates("open") if "alice" in each.task)
        gates.resolve(gate.id, "reviewed", "alice said so", who="Ada")
    (decided,) = lines_of(tmp_path)
    assert decided.pop("time")
    assert decided == {
        "what": "gate decided", "who": "Ada", "gate": gate.id, "decision": "reviewed",
    }  # fmt: skip
    assert run("forget", "--session", "alice", "--store", tmp_path, "--yes").exit_code == 0
    before, erased = lines_of(tmp_path)
    assert before["gate"] == gate.id
    assert (erased["what"], erased["kind"], erased["spans"]) == ("erased", "session", 5)
    assert "alice" not in (tmp_path / AUDIT_FILE).read_text()


def test_nothing_is_decided_without_a_line(tmp_path: Path) -> None:
    """Where the line cannot be written, the gate stays open."""
    writer.ingest(spans_of(looping("bob")), tmp_path)
    (tmp_path / AUDIT_FILE).mkdir()  # Nobody can write to that.
    with reader.open_gates(tmp_path) as gates:
        (gate,) = gates.gates("open")
        with pytest.raises(StoreError, match="nothing is done without a line"):
            gates.resolve(gate.id, "reviewed", None)
        assert gates.gate(gate.id).gate.decision is None


def test_a_server_notes_what_it_began_with(tmp_path: Path) -> None:
    """Other settings have another digest, and a reload says what came of it."""
    with served(tmp_path / "store", "--no-grpc") as server:
        server.process.send_signal(signal.SIGHUP)
        until(lambda: len(lines_of(tmp_path / "store")) > 1)
    started, reloaded = lines_of(tmp_path / "store")
    assert (started["what"], started["tokens"]) == ("server started", 0)
    assert reloaded["what"] == "server reloaded"
    assert "the settings are the same" in str(reloaded["result"])
