"""P24 and P2: a server says what it cannot do, and does the rest, also from its start on."""

import resource
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.reliability.serving import OK, SERVE, Served, looping, served, until
from tests.reliability.test_disk import large

UNAVAILABLE = 503
UNLIMITED = resource.RLIM_INFINITY
# Files of the process cannot grow beyond what SQLite needs to open them: its disk is full.
FULL = [
    sys.executable,
    "-c",
    "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, -1)); "
    "os.execv(sys.argv[1], sys.argv[1:])",
    *SERVE,
]


def with_a_gate(store_dir: Path) -> None:
    """Make a store in which a gate is open, and everything is stored."""
    with served(store_dir, "--no-grpc") as server:
        trace = looping("s1", 6, at=datetime.now(UTC).isoformat())
        assert server.send(trace.request()) == OK
        until(server.gates)
        until(server.has_stored)


@pytest.mark.parametrize("table", ["turns", "spans"])
def test_a_damaged_file_is_set_aside_named_and_counted(tmp_path: Path, table: str) -> None:
    """P2: and everything else is served."""
    store_dir = tmp_path / "store"
    with_a_gate(store_dir)
    files = store_dir.glob(f"{table}/day=*/*/data.parquet")
    largest = max(files, key=lambda path: path.stat().st_size)
    largest.write_bytes(b"PAR1" + bytes(1_000))
    with served(store_dir, "--no-grpc") as server:
        until(lambda: server.number("looptrace_storing_damaged_files_total") == 1)
        until(server.is_ready)
        (gate,) = server.gates()
        assert gate["status"] == "open"
        trace = looping("s2", 6, at=datetime.now(UTC).isoformat())
        assert server.send(trace.request()) == OK
        until(lambda: server.gates("task=s2"))
    assert largest.with_name("data.parquet.damaged").exists()


@pytest.mark.parametrize("path", ["/v1/tasks", "/tasks"])
def test_a_file_that_is_damaged_while_a_server_runs_is_set_aside(tmp_path: Path, path: str) -> None:
    """P2: the next reader must try again, and then gets everything else."""
    with served(tmp_path, "--no-grpc") as server:
        for session in ("s1", "s2"):
            trace = looping(session, 6, at=datetime.now(UTC).isoformat())
            assert server.send(trace.request()) == OK
            until(server.gates)
        until(server.has_stored)
        next(tmp_path.glob("turns/day=2*/*/data.parquet")).write_bytes(b"PAR1" + bytes(1_000))
        assert server.get(path)[0] == UNAVAILABLE
        until(lambda: server.get(path)[0] == OK)
        assert server.number("looptrace_storing_damaged_files_total") == 1


def test_a_server_starts_on_a_full_disk_and_says_so(tmp_path: Path) -> None:
    """P24: gates are read, spans are refused, and it recovers by itself."""
    store_dir = tmp_path / "store"
    with_a_gate(store_dir)
    server = Served(store_dir, "--no-grpc", command=FULL)
    try:
        (gate,) = server.gates()
        assert gate["status"] == "open"
        trace = looping("s2", 6, at=datetime.now(UTC).isoformat())
        answers = {server.send(large(number).request()) for number in range(5)}
        assert UNAVAILABLE in answers
        assert server.ask("GET", "/readyz")[1]["checks"]["log"] is False
        assert server.number("looptrace_log_is_blocked") == 1
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))
        until(lambda: server.send(trace.request()) == OK)
        until(lambda: server.gates("task=s2"))
        until(server.is_ready)
    finally:
        server.stop()
