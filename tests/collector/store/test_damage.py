"""P2: what a store lost is found again, or a line says what is not, and its advice works."""

import json
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.collector.store import reader, writer
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.layout import GATES_FILE
from looptrace.collector.store.locks import NAME, StoreError
from tests.collector.store.recorded_gates import HOOKS
from tests.collector.store.stored import spans_of
from tests.commands import printed, run
from tests.reliability.forked import Forked
from tests.reliability.serving import OK, Served, looping, served, until
from tests.seeds import turn_of

SESSIONS = 6
DAY, QUIET_DAY = "day=2026-03-02", "day=2026-03-01"  # of the loops, and of an agent without any
DAMAGES: dict[str, Callable[[Path], object]] = {
    "absent": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "noise": lambda path: path.write_bytes(
        random.Random(path.name).randbytes(max(path.stat().st_size, 16))
    ),
}
NOTES = ["gates.db", "json", "judged", "key", "lock", "rules"]
TABLES = ["spans", "turns", "findings"]
FILES = [
    *(f"{NAME}.{name}" for name in NOTES),
    *(f"{table}/{DAY}" for table in TABLES),
    # A task without a gate has nothing else that its turns are missed by.
    f"turns/{QUIET_DAY}",
]
# The lock is empty, and so it is no damage to empty it.
CASES = {
    name: [damage for damage in DAMAGES if name != f"{NAME}.lock" or damage in ("absent", "noise")]
    for name in FILES
}
Gates = list[tuple[str, str, str | None, str | None]]


def gates_of(store: Path) -> Gates:
    """Return the gates with their decisions."""
    with reader.open_gates(store) as gates:
        return sorted((g.id, g.status, g.decision, g.note) for g in gates.gates())


def figures(store: Path) -> list[list[tuple[Any, ...]]]:
    """Return the spans, the turns and the findings of a store."""
    columns = {"spans": ["span_id"], "turns": ["task", "turn"], "findings": ["id", "attempts"]}
    every = pl.lit(value=True)
    return [
        sorted(reader.read_rows(store, table, every, names).rows())
        for table, names in columns.items()
    ]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with looping agents, and one that makes a call on the day before."""
    folder = tmp_path_factory.mktemp("traces")
    for number in range(SESSIONS):
        trace = looping(f"s{number}", 6, name=f"s{number}")
        (folder / f"{number}.json").write_text(json.dumps(trace.request()), encoding="utf-8")
    quiet = looping("quiet", 1, name="quiet", at=f"{QUIET_DAY[4:]}T09:00:00+00:00")
    (folder / "quiet.json").write_text(json.dumps(quiet.request()), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def whole(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with open gates and one that a person has resolved."""
    store = tmp_path_factory.mktemp("whole") / "store"
    printed("ingest", traces, "--store", store)
    gate = gates_of(store)[0][0]
    decided = ["--decision", "continue", "--note", "Ask the vault.", "--by", "Ada"]
    printed("gates", "resolve", "--store", store, gate, *decided)
    printed("ingest", "--store", store)
    return store


def hit(store: Path, name: str) -> Path:
    """Return the file of a name, or of a day the first."""
    path = store / name
    return path if not name[-1].isdigit() else min(path.glob("*/data*.parquet"))


def follow(error: str, store: Path, traces: Path) -> None:
    """Do what an error advises, and nothing else."""
    paths = [Path(each) for each in re.findall(rf"{re.escape(str(store))}[^\s:,']*", error)]
    if "delete it" in error:
        paths[0].unlink()
    elif "move it away" in error:
        also = ["-wal", "-shm"] if "-wal and -shm" in error else []
        for path in (paths[0], *(Path(f"{paths[0]}{end}") for end in also)):
            if path.exists():
                path.rename(store.parent / path.name)
    if "ingest the traces" in error:
        run("ingest", traces, "--store", store)
    elif "`looptrace ingest --store STORE`" in error:
        run("ingest", "--store", store)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (name, damage)
        for place, (name, damages) in enumerate(CASES.items())
        for damage in turn_of(place, damages)
    ],
)
def test_what_is_lost_is_found_again_or_the_advice_brings_it_back(
    whole: Path, traces: Path, tmp_path: Path, name: str, damage: str
) -> None:
    """Gates, decisions, turns and findings are those before, after what the error says to do."""
    store = shutil.copytree(whole, tmp_path / "store")
    DAMAGES[damage](hit(store, name))
    for reading in (["gates", "list", "--store", store], ["query", "gates", "--store", store]):
        read = run(*reading)
        if "gates.db" in name or read.exit_code:
            assert read.exit_code == 2
            assert "\n" not in read.output.strip()
            assert re.search("looptrace ingest|ingest the traces|delete it|move it", read.output)
    for _ in range(3):  # One damage may show another.
        done = run("ingest", "--store", store)
        if not done.exit_code and "ingest the traces" not in done.output:
            break
        follow(done.output, store, traces)
    else:
        pytest.fail(f"what it advises does not help: {done.output}")
    assert gates_of(store) == gates_of(whole)
    assert figures(store) == figures(whole)


@pytest.mark.parametrize("damage", ["absent", "empty", "moved"])
def test_the_line_says_what_of_the_gates_is_not_found_again(
    whole: Path, tmp_path: Path, damage: str
) -> None:
    """A person must know which decisions to make again, and where names are missing."""
    store = shutil.copytree(whole, tmp_path / "store")
    with reader.open_gates(store) as gates:
        gates.resolve(gates.gates("open")[0].id, "cancel", None)
    undecided = [gate[0] for gate in gates_of(whole) if gate[1] == "open"]
    path = store / GATES_FILE
    path.write_bytes(b"") if damage == "empty" else path.rename(tmp_path / "gates.db")
    said = run("ingest", "--store", store).output
    assert f"{SESSIONS} gates were found again, {SESSIONS - 1} of them open" in said
    assert "with 1 of 1 decisions that were counted" in said
    assert "Lost are decisions since then, who decided" in said
    assert [gate[0] for gate in gates_of(store) if gate[1] == "open"] == undecided
    with reader.open_gates(store) as gates:
        (decided,) = gates.gates("resolved")
        assert (decided.note, decided.resolved_by) == ("Ask the vault.", None)
    assert "were found again" not in run("ingest", "--store", store).output


def rows_waiting(store: Path) -> list[str]:
    """Return the types of the events that wait for a webhook."""
    sql = "SELECT type FROM events JOIN outbox ON event = id"
    with closing(sqlite3.connect(store / GATES_FILE)) as gates:
        return [kind for (kind,) in gates.execute(sql)]


def test_openings_of_open_gates_are_sent_once_more(whole: Path, tmp_path: Path) -> None:
    """The outbox is lost with the gates, and an open gate that nobody hears of stays open."""
    store = shutil.copytree(whole, tmp_path / "store")
    (store / GATES_FILE).unlink()
    writer.ingest(spans_of().clear(), store, DEFAULT, HOOKS)
    assert rows_waiting(store) == ["gate_opened"] * (SESSIONS - 1) * len(HOOKS)


def test_a_file_that_was_put_back_from_before_gets_the_rest(whole: Path, tmp_path: Path) -> None:
    """Also an old backup, or a log of SQLite that is gone, loses no gate and no decision."""
    store, old = tmp_path / "store", tmp_path / "old"
    writer.ingest(spans_of(looping("s9", 6, name="s9")), old)
    shutil.copytree(whole, store)
    shutil.copy(old / GATES_FILE, store / GATES_FILE)
    with pytest.raises(StoreError, match="lacks events"):
        reader.open_gates(store)
    assert "were found again" in run("ingest", "--store", store).output
    assert [gate for gate in gates_of(store) if gate[1] != "withdrawn"] == gates_of(whole)


def test_a_kill_while_gates_are_found_again_loses_no_decision(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decisions are in the turns until the gates have them."""
    record = GateStore.record
    for moment in range(1, 6):
        store = shutil.copytree(whole, tmp_path / str(moment))
        (store / GATES_FILE).unlink()
        left = iter(range(moment))

        def killed(*given: Any, left: Iterator[int] = left, **named: Any) -> Any:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return record(*given, **named)

        with monkeypatch.context() as patch:
            patch.setattr(GateStore, "record", killed)
            with pytest.raises(KeyboardInterrupt):
                writer.ingest(spans_of().clear(), store)
        with pytest.raises(StoreError, match="lacks events"):
            reader.open_gates(store)
        assert "were found again" in run("ingest", "--store", store).output
        assert gates_of(store) == gates_of(whole)


# --- With a server -------------------------------------------------------------------------------


def gates_served(server: Served) -> list[str]:
    """Return the ids of the open gates, none while they are found again."""
    code, answer = server.ask("GET", "/v1/gates?status=open")
    return sorted(gate["id"] for gate in answer["gates"]) if code == OK else []


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return the store of a killed server, with gates in a log of SQLite, and their ids."""
    store = tmp_path_factory.mktemp("killed") / "store"
    server = Served(store, "--no-grpc")
    now = datetime.now(UTC).isoformat()
    for number in range(SESSIONS):
        assert server.send(looping(f"s{number}", 6, name=f"s{number}", at=now).request()) == OK
    until(lambda: len(server.gates()) == SESSIONS)
    until(server.has_stored)
    ids = gates_served(server)
    server.kill()
    return store, ids


def refusal(store: Path) -> str:
    """Return the error with which a server does not start, nothing where it does."""
    with TemporaryFile("w+") as errors:
        server = Forked(
            ["serve", "--store", str(store), "--http-port", "0", "--no-grpc"], errors.fileno()
        )
        if server.stdout.readline():
            server.terminate()
        server.wait()
        errors.seek(0)
        return errors.read() if server.returncode else ""


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((GATES_FILE, damage) for damage in turn_of(0, [*DAMAGES])),
        *((f"{GATES_FILE}-wal", damage) for damage in turn_of(1, [*DAMAGES])),
        *(("looptrace-store.log.db", damage) for damage in turn_of(2, ["absent", "noise"])),
    ],
)
def test_a_server_starts_or_its_advice_works(
    killed: tuple[Path, list[str]], tmp_path: Path, name: str, damage: str
) -> None:
    """It serves all open gates again, with their ids."""
    store = tmp_path / "store"
    before, ids = killed
    assert len(ids) == SESSIONS
    shutil.copytree(before, store)
    DAMAGES[damage](store / name)
    if error := refusal(store):
        assert "move it away" in error
        follow(error, store, store)
    with served(store, "--no-grpc") as server:
        assert until(lambda: gates_served(server)) == ids
