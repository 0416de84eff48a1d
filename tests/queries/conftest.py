"""Stores that queries only read."""

from pathlib import Path

import pytest

from looptrace.collector.store.reader import open_gates
from tests.queries.stores import Tool, add, attempts, trace


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which there is nothing yet."""
    return add(tmp_path_factory.mktemp("stores") / "nothing")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of three tasks that loop, on two days, and of two that do not."""
    stuck = [("read_file", "a.py", "no such file")] * 5
    twice = [("read_file", "b.py", "no such file")] * 3
    fine = [("read_file", f"{n}.py", None) for n in range(4)]
    return add(
        tmp_path_factory.mktemp("stores") / "it's a [store]*",
        trace("stuck-1", "2026-03-02T09:00:00+00:00", "coder", stuck),
        trace("stuck-2", "2026-03-03T09:00:00+00:00", "coder", stuck),
        trace("stuck-3", "2026-03-03T10:00:00+00:00", "tester", twice),
        trace("fine-1", "2026-03-02T11:00:00+00:00", "coder", fine),
        trace("fine-2", "2026-03-02T12:00:00+00:00", "tester", fine),
        attempts(
            "page", ("in_progress", None, "head"), ("blocked", ["key"], None), ("done", None, None)
        ),
        attempts("shop", ("blocked", ["key", "host"], None)),
    )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store, `s`, and a file outside of it, `secret.txt`."""
    folder = tmp_path_factory.mktemp("guarded")
    add(folder / "s", trace("s", "2026-03-02T09:00:00+00:00", "a", [("t", "x", None)]))
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture(scope="module")
def down(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which a service is down for three sessions."""
    calls = [("fetch", "a", "503 Service Unavailable")] * 2
    sessions = [trace(f"s{n}", f"2026-03-02T09:00:0{n}+00:00", "coder", calls) for n in range(3)]
    return add(tmp_path_factory.mktemp("stores") / "down", *sessions)


@pytest.fixture(scope="module")
def pivoted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of a task to which a pivot was issued: each call is made twice."""
    calls: list[Tool] = [("run", f"{n // 2}", None) for n in range(10)]
    made = trace("lost", "2026-03-02T09:00:00+00:00", "coder", calls)
    return add(tmp_path_factory.mktemp("stores") / "pivoted", made)


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of two gates that were resolved: after the one the same loop came back."""
    folder = tmp_path_factory.mktemp("stores") / "decided"
    same: list[Tool] = [("run", "a", "no key")]
    for session, times in (("comes-back", 12), ("goes-on", 5)):
        made = trace(session, "2026-03-02T09:00:00+00:00", "coder", same * times)
        add(folder, made)
        with open_gates(folder) as gates:
            (gate,) = gates.gates("open", task=session)
            note = "Use the other key." if times == 5 else None
            gates.resolve(gate.id, "continue", note, gate.opened_ns + 1)
        add(folder, made)
    return folder
