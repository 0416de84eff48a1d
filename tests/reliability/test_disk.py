"""P2 and P24: a log that is damaged, and a disk that is full."""

import asyncio
import errno
import random
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import polars as pl
import pytest

from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.server.ingest.reserve import FILE_NAME, Reserve
from looptrace.collector.store.layout import LOG_FILE
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.reader import read_spans
from looptrace.collector.store.writer import ingest
from tests.commands import run
from tests.otlp import Trace, spans_in
from tests.reliability.serving import DEADLINE_S, OK, SERVE, Served, looping, served, stored, until
from tests.seeds import seeds

UNAVAILABLE = 503
BYTES_MAX = 1 << 30
UNLIMITED = resource.RLIM_INFINITY


def large(number: int) -> Trace:
    """Return a trace that takes some 100 kB and hardly packs."""
    trace, chance = Trace(f"large-{number}"), random.Random(number)
    for _ in range(50):
        trace.span("call", attributes={"gen_ai.input.messages": chance.randbytes(1_000).hex()})
    return trace


def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    """P24: 503 and no acknowledgement while files cannot grow; afterwards all is well."""
    acknowledged = []
    with served(tmp_path / "store", "--content", "full") as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (600_000, UNLIMITED))
        answers = []
        for number in range(40):
            trace = large(number)
            answers.append(server.send(trace.request()))
            if answers[-1] == OK:
                acknowledged.append(trace.trace_id)
        assert set(answers) == {OK, UNAVAILABLE}
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))
        trace = looping("s1", 6)
        until(lambda: server.send(trace.request()) == OK)
        until(server.gates)
    assert set(acknowledged) <= set(stored(tmp_path / "store")["trace_id"])


def test_the_log_says_when_spans_are_refused_and_when_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P24: who makes room must see that it was enough, without another request."""
    caplog.set_level("INFO")

    def no_room(_: Reserve) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Reserve, "hold", no_room)
        log = IngestLog(tmp_path / LOG_FILE, BYTES_MAX)
        assert log.is_blocked
    until(lambda: not log.is_blocked)
    log.close()

    refused, accepted = caplog.messages
    assert "No space left on device" in refused
    assert refused.endswith("check space and permissions. Until then no span is accepted.")
    assert accepted.endswith("can be written again; spans are accepted.")


# A command in a file system of its own, which ends with it.
MOUNTED = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && "$@"')


def may_mount(folder: Path) -> bool:
    """Return whether this machine lets the test mount a file system for itself alone."""
    if shutil.which(MOUNTED[0]) is None:
        return False
    tried = subprocess.run([*MOUNTED, "sh", "1m", folder, "true"], capture_output=True, check=False)
    return tried.returncode == 0


def test_a_full_file_system_refuses_and_recovers(tmp_path: Path) -> None:
    """P24: where no file at all can grow, neither log nor store nor gates nor their indices."""
    if not may_mount(tmp_path):
        pytest.skip("this machine lets nobody mount a tmpfs of their own")
    mounted = [*MOUNTED[:-1], MOUNTED[-1].replace('"$@"', 'exec "$@"'), "sh", "24m", str(tmp_path)]
    server = Served(tmp_path / "store", "--content", "full", command=[*mounted, *SERVE])
    try:
        inside = Path(f"/proc/{server.process.pid}/root/{tmp_path}")
        ballast = inside / "ballast"
        ballast.write_bytes(bytes(16 << 20))
        answers, is_ready, acknowledged = list[int](), list[int](), list[str]()
        while answers.count(UNAVAILABLE) < 20 and len(answers) < 500:
            trace = large(len(answers))
            answers.append(server.send(trace.request()))
            if answers[-1] == OK:
                acknowledged.append(trace.trace_id)
            else:
                is_ready.append(server.ask("GET", "/readyz")[0])
        assert set(answers) == {OK, UNAVAILABLE}
        assert UNAVAILABLE in is_ready
        ballast.unlink()
        until(lambda: server.send(looping("s1", 6).request()) == OK)
        until(server.gates)
        until(server.is_ready)
        until(server.has_stored)
        kept = {trace for part in read_spans(inside / "store") for trace in part["trace_id"]}
        assert set(acknowledged) <= kept
        assert server.stop() < DEADLINE_S
    finally:
        server.kill()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small file system that outlasts a server."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(folder)]
    if (
        shutil.which("mount") is None
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine lets the test mount no tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all space of a file system; returns the file that has it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return ballast


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_server_starts_on_a_full_file_system(disk: Path, *, is_killed: bool) -> None:
    """P24: it reads, shows and resolves gates, refuses spans, says so, and recovers by itself."""
    folder = disk / "store"
    server = Served(folder, "--no-grpc")
    try:
        assert server.send(looping("s1", 6).request()) == OK
        until(server.gates)
    finally:
        server.kill() if is_killed else server.stop()
    ballast = fill(disk)
    with served(folder, "--no-grpc") as server:
        status, ready = server.ask("GET", "/readyz")
        assert (status, ready["checks"]["log"]) == (UNAVAILABLE, False)
        assert server.send(looping("s2", 6).request()) == UNAVAILABLE
        (gate,) = server.gates()
        listed = run("gates", "list", "--store", folder)
        assert gate["id"] in listed.output
        for path in ("/", "/tasks", "/overview", "/health"):
            assert server.get(path)[0] == OK, path
        server.resolve(gate["id"], "continue")
        assert server.ask("GET", "/readyz")[0] == UNAVAILABLE
        ballast.unlink()
        until(server.is_ready)
        assert server.send(looping("s2", 6).request()) == OK
        until(lambda: server.gates("task=s2"))


def test_a_look_for_room_takes_none(disk: Path, tmp_path: Path) -> None:
    """P24: what the reserve gave up is for decisions, also while the server looks for room."""
    reserve = Reserve(disk)
    fill(disk)
    with pytest.raises(OSError, match="No space left"):
        reserve.hold()
    # There would be room for what it writes, if it wrote anything.
    (disk / f"{FILE_NAME}.tmp").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="No space left"):
        reserve.hold()
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log with 12 requests as a killed server leaves it."""
    folder = tmp_path_factory.mktemp("damage")
    log = IngestLog(folder / LOG_FILE, BYTES_MAX)
    for _ in range(12):
        _commit(log, _spans())
    shutil.copytree(folder, folder / "copy")  # While it is open, as a killed process leaves it.
    log.close()
    return folder / "copy"


@pytest.mark.parametrize("how", ["cut", "flip"])
def test_damage_loses_no_more_than_what_it_hit(whole: Path, tmp_path: Path, how: str) -> None:
    """P2: a log opens to what is whole of it, or says in one line that it is damaged."""
    opened, refused = 0, list[str]()
    for seed in seeds(100):
        chance, folder = random.Random(seed), tmp_path / str(seed)
        folder.mkdir()
        for path in whole.glob(f"{LOG_FILE}*"):
            if not path.name.endswith("-shm"):
                shutil.copy(path, folder)
        hit = folder / f"{LOG_FILE}-wal"
        data = bytearray(hit.read_bytes())
        at = chance.randrange(len(data))
        if how == "cut":
            del data[at:]
        else:
            data[at] ^= 1 << chance.randrange(8)
        hit.write_bytes(data)
        try:
            log = IngestLog(folder / LOG_FILE, BYTES_MAX)
        except StoreError as error:
            refused.append(str(error))
            continue
        logged = log.read(0, 1_000)
        assert logged is None or logged.spans.height % 6 == 0
        log.close()
        opened += 1
    assert opened > len(refused)
    assert all("move it away" in error and "\n" not in error for error in refused)


def test_a_row_that_is_damaged_is_set_aside_and_the_others_are_read(tmp_path: Path) -> None:
    """P2: it is kept for a person to look at, and counted."""
    log = IngestLog(tmp_path / LOG_FILE, BYTES_MAX)
    for _ in range(3):
        _commit(log, _spans())
    with closing(sqlite3.connect(log.path)) as other, other:
        other.execute("UPDATE requests SET body = zeroblob(100) WHERE seq = 2")
    logged = log.read(0, 18)
    assert logged is not None
    assert (logged.seq, logged.spans.height, log.damaged) == (3, 12, 1)
    with closing(sqlite3.connect(log.path)) as other:
        assert other.execute("SELECT seq FROM damaged").fetchall() == [(2,)]
    log.close()


def _spans() -> pl.DataFrame:
    return spans_in(looping("s1", 6).request())


def _commit(log: IngestLog, spans: pl.DataFrame) -> None:
    asyncio.run(log.accept(spans))


def test_whoever_reads_a_store_is_told_what_is_only_in_the_log(tmp_path: Path) -> None:
    """A server that was stopped leaves spans in its log, which figures of the store lack."""
    ingest(_spans(), tmp_path)
    query = ["query", "--store", str(tmp_path), "--sql", "SELECT count(*) AS n FROM spans"]
    commands = [[*query, "--format", "csv"], ["analyze", str(tmp_path), "--format", "json"]]
    before = [run(*command) for command in commands]
    log = IngestLog(tmp_path / LOG_FILE, BYTES_MAX)
    _commit(log, _spans())
    log.close()
    for command, past in zip(commands, before, strict=True):
        now = run(*command)
        assert past.stderr == ""
        assert f"a server received {_spans().height} spans that are not stored yet" in now.stderr
        assert now.stdout == past.stdout
