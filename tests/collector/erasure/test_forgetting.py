"""`looptrace forget`: nothing of whom it forgets is left in any file, and all others stay."""

import asyncio
import io
import random
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.settings import default
from looptrace.collector.api_bodies import ERASURE_KINDS, ErasureKind
from looptrace.collector.erasure.choice import Wanted
from looptrace.collector.erasure.forgetting import find
from looptrace.collector.erasure.log_rows import logged_spans
from looptrace.collector.erasure.proof import left_of
from looptrace.collector.server.ingest.ingest_log import log_of
from looptrace.collector.store import reader, writer
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.layout import GATES_FILE, LOG_FILE
from tests.collector.store.stored import call, spans_of
from tests.commands import printed, refused, run
from tests.otlp import Trace
from tests.reliability.forked import Forked
from tests.reliability.serving import OK, served, until

ALICE, BOB = "alice sings", "bob asks"
DIALECTS = default().policy.dialects
KILLS = 4
LOG_BYTES_MAX = 2**30
LOGGED = "SELECT body FROM requests UNION ALL SELECT body FROM postponed"


def looping(who: str, name: str = "", service: str = "shop", **more: str) -> Trace:
    """Return a trace of a session whose calls fail alike, with the words of a person."""
    words = ALICE if who.startswith("alice") else BOB
    trace = Trace(who, name=name, service=service)
    for _ in range(6):
        call(trace, {"gen_ai.input.messages": words, "error.message": words, **more})
    return trace


def texts_in(folder: Path) -> str:
    """Return what any file of a store says, however it is packed, and free pages as they are."""
    said = []
    for path in folder.glob("*.log.db"):
        with closing(sqlite3.connect(path)) as sql:
            bodies = [io.BytesIO(body) for (body,) in sql.execute(LOGGED)]
        said += [str(pl.read_ipc_stream(body).rows()) for body in bodies]
    # The index of a database in use says nothing, and goes with its last reader.
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".db-shm"]
    for path in paths:
        if path.suffix == ".parquet":
            said.append(str(pl.read_parquet(path).rows()))
        else:
            said.append(path.read_bytes().decode("latin-1"))
    return "\n".join(said)


def decide(folder: Path) -> None:
    """Let a person decide on every gate with a note."""
    with reader.open_gates(folder) as gates:
        for gate in gates.gates("open"):
            gates.resolve(gate.id, "reviewed", ALICE if "alice" in gate.task else BOB)
    writer.ingest(spans_of(looping("bob")), folder)


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with the gates, decisions and notes of two people."""
    folder = tmp_path_factory.mktemp("of_two") / "store"
    alice = looping("alice", **{"user.id": "u-alice"})
    writer.ingest(spans_of(alice, looping("alice", "again"), looping("bob")), folder)
    decide(folder)
    return folder


@pytest.fixture
def store(of_two: Path, tmp_path: Path) -> Path:
    """Return a copy of it, which a test may change."""
    return shutil.copytree(of_two, tmp_path / "store")


@pytest.fixture(scope="module")
def bob_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which the first of the two never was."""
    folder = tmp_path_factory.mktemp("bob_alone") / "store"
    writer.ingest(spans_of(looping("bob")), folder)
    decide(folder)
    return folder


@pytest.mark.parametrize(
    ("kind", "name"),
    [("session", "alice"), ("task", "alice@shop"), ("user", "u-alice"), ("service", "shop")],
)
def test_nothing_is_left_of_whom_it_forgets(
    store: Path, bob_alone: Path, kind: ErasureKind, name: str
) -> None:
    """Neither rows nor texts nor free pages; what others have is as if they had been alone."""
    if kind == "user":
        writer.ingest(spans_of(looping("alice", "again", **{"app.userId": name})), store)
    assert ALICE in texts_in(store)
    assert "nothing is left" in printed("forget", f"--{kind}", name, "--store", store, "--yes")
    said = texts_in(store)
    assert ALICE not in said
    if kind == "service":
        assert BOB not in said
        return
    assert "alice" not in said
    for command in (["analyze"], ["gates", "list", "--store"]):
        assert run(*command, store).stdout == run(*command, bob_alone).stdout != ""
    again = run("forget", f"--{kind}", name, "--store", store, "--yes")
    assert (again.exit_code, "has nothing of" in again.output) == (2, True)


def test_a_service_goes_and_the_others_of_its_traces_stay(tmp_path: Path) -> None:
    """A trace that several services share keeps what the others sent."""
    folder = tmp_path / "store"
    ours, theirs = looping("alice", service="desk"), looping("bob", service="shop")
    writer.ingest(spans_of(ours, theirs), folder)
    assert run("forget", "--service", "desk", "--store", folder, "--yes").exit_code == 0
    said = texts_in(folder)
    assert (ALICE in said, BOB in said) == (False, True)


def test_what_a_server_has_not_stored_yet_goes_too(tmp_path: Path) -> None:
    """Spans that were acknowledged lie in the log, and its rows may have those of several."""
    folder = tmp_path / "store"
    with served(folder, "--no-grpc") as server:
        for who in ("alice", "bob"):
            assert server.send(looping(who).request()) == OK
        # Those that came before may be stored by now.
        last = looping("bob").request()
        until(lambda: server.send(last) == OK and server.number("looptrace_log_spans") > 0)
        assert "server" in refused("forget", "--session", "alice", "--store", folder, "--yes")
        server.kill()
    assert ALICE in texts_in(folder)
    done = run("forget", "--session", "alice", "--store", folder, "--yes")
    assert done.exit_code == 0, done.output
    assert ALICE not in texts_in(folder)
    with served(folder, "--no-grpc") as server:
        until(server.is_ready)
        until(server.has_stored)
    said = texts_in(folder)
    assert (ALICE in said, BOB in said) == (False, True)


def test_a_server_may_store_what_is_looked_at(tmp_path: Path) -> None:
    """Whoever asks beside a server that works is told so, not of a row that is gone."""
    with closing(log_of(tmp_path, LOG_BYTES_MAX)) as log:
        for who in ("alice", "bob"):
            asyncio.run(log.accept(spans_of(looping(who))))
        logged = logged_spans(tmp_path)
        assert next(logged).height > 0
        with closing(sqlite3.connect(tmp_path / LOG_FILE)) as sql:
            sql.execute("DELETE FROM requests")
            sql.commit()
        assert list(logged) == []


def test_the_gates_of_what_is_not_stored_yet_go_too(tmp_path: Path) -> None:
    """A server decides first and stores later: no turn names the task of a state, then."""
    folder = tmp_path / "store"
    writer.ingest(spans_of(looping("bob")), folder)
    with closing(log_of(folder, LOG_BYTES_MAX)) as log:
        asyncio.run(log.accept(spans_of(looping("alice"))))
    with GateStore.open(folder / GATES_FILE, ()) as gates:
        gates.record((), [TaskState("alice@shop")], time.time_ns())
    done = run("forget", "--session", "alice", "--store", folder, "--yes")
    assert done.exit_code == 0, done.output
    said = texts_in(folder)
    assert ("alice" in said, BOB in said) == (False, True)


def test_the_proof_finds_what_is_left(store: Path) -> None:
    """It is no proof if it says so of any store."""
    choice = find(store, Wanted("session", "alice"), DIALECTS).choice
    left = left_of(store, choice)
    assert any(place.startswith("spans") for place in left)
    assert any(place.startswith("turns") for place in left)
    assert GATES_FILE in left


def test_a_killed_erasure_goes_on(store: Path) -> None:
    """Whenever it is killed, the store is whole, and the next run forgets what is left."""
    random.seed(7)
    for _ in range(KILLS):
        process = Forked(["forget", "--session", "alice", "--yes", "--store", str(store)])
        time.sleep(random.random())
        process.kill()
        process.wait()
        assert run("analyze", store).exit_code in {0, 1}
    run("forget", "--session", "alice", "--store", store, "--yes")
    writer.ingest(spans_of(looping("bob")), store)
    said = texts_in(store)
    assert (ALICE in said, BOB in said) == (False, True)


def test_one_thing_is_forgotten_at_a_time(store: Path) -> None:
    """Two names could mean both, or what both have."""
    named = [f"--{kind}=x" for kind in ERASURE_KINDS[:2]]
    assert "give one of" in run("forget", "--store", store).output
    assert "give one of" in run("forget", "--store", store, *named).output
    asked = run("forget", "--store", store, "--session", "alice")
    assert asked.exit_code == 1
    assert "alice" in texts_in(store)
