"""A store on a real server of S3 or Azure: the same as on disk, whole at any moment and kill."""

import pickle
import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from socket import socket
from typing import Any

import msgspec
import obstore
import polars as pl
import pytest

import looptrace
from looptrace.analyzer.settings import default
from looptrace.collector.store import reader, writer
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.objects import client
from looptrace.collector.store.objects.client import Objects
from looptrace.collector.store.objects.manifest import MANIFEST, Manifest, read_manifest
from looptrace.collector.store.objects.snapshot import folder_of, snapshot_at, stored_at
from looptrace.collector.store.publishing import publisher
from looptrace.collector.store.publishing.publisher import (
    WrittenMeanwhileError,
    left_overs,
    written,
)
from looptrace.collector.store.tables.parquet import TABLES
from looptrace.collector.store_analysis import analyse_store
from looptrace.errors import UnavailableError
from tests.azurite import AzureServer
from tests.collector.store.stored import looping, spans_of
from tests.commands import json_of, refused, run
from tests.paths import TRACES
from tests.ports import closed_port
from tests.reliability.forked import Forked
from tests.s3 import OPEN_BUCKET, S3Server
from tests.s3_proxy import Proxy

PARTS = 4
KILLS = 3
KILL_AFTER_MAX_S = 2.0
SHORT_S = 0.3
LARGE_BYTES = 23_456_789
# Publishes one session after the other until it is killed.
VICTIM = """
import sys
from tests.collector.store.stored import looping, spans_of
from looptrace.collector.store.publishing.publisher import written
from looptrace.collector.store.writer import ingest
for number in range(1_000):
    with written(sys.argv[1]) as folder:
        ingest(spans_of(looping(f"s{number}")), folder)
    print(number, flush=True)
"""


def ingest(url: str, *sessions: str) -> None:
    """Add sessions to a store at an address."""
    with written(url) as folder:
        writer.ingest(pl.concat([spans_of(looping(name)) for name in sessions]), folder)


def tables(folder: Path) -> dict[str, str]:
    """Return the rows of all tables, as text that says every value."""
    return {
        table: reader.read_rows(folder, table, pl.lit(value=True)).write_json() for table in TABLES
    }


def sessions_at(url: str) -> set[str]:
    """Return the sessions of a store, after reading every table, which must agree."""
    with folder_of(stored_at(url)) as folder:
        turns = reader.read_rows(folder, "turns", pl.lit(value=True))
        findings = reader.read_rows(folder, "findings", pl.lit(value=True))
        spans = reader.count_spans(folder)
        spans_read = sum(part.height for part in reader.read_spans(folder))
        with reader.open_gates(folder) as gates:
            gated = {gate.task for gate in gates.gates()}
    sessions = set(turns["session"])
    assert set(findings["session"]) == sessions
    assert gated == set(turns["task"])
    assert spans == spans_read
    return sessions


# What a report says of the spans themselves, which are not fetched for it.
UNDERSTOOD = re.compile(r'"understood": \{.*?\n  \},', re.DOTALL)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store on disk of the example traces."""
    folder = tmp_path_factory.mktemp("disk") / "store"
    assert run("ingest", TRACES, "--store", folder, "--jobs", "1").exit_code == 0
    return folder


@pytest.fixture
def examples(url: str) -> str:
    """Return the address of a store of the example traces."""
    assert run("ingest", TRACES, "--store", url, "--jobs", "1").exit_code == 0
    return url


def test_every_command_says_what_it_says_of_a_store_on_disk(disk: Path, examples: str) -> None:
    """Where a store is changes nothing of what is found; how much was understood needs spans."""
    commands = [
        ("analyze", "{}", "--format", "json"),
        ("explain", "{}", "--task", "migrations-2026-03-14"),
        ("escalation", "{}", "--task", "migrations-2026-03-14"),
        ("backtest", "{}", "--a", "conservative", "--b", "aggressive"),
        ("query", "--sql", "SELECT * FROM turns ORDER BY ALL", "--store", "{}", "--format", "csv"),
        ("gates", "list", "--store", "{}", "--format", "json"),
        ("gates", "show", "--store", "{}", "4c7c4a"),
        ("webhooks", "list", "--store", "{}"),
    ]
    for command in commands:
        results = [run(*(each.format(store) for each in command)) for store in (disk, examples)]
        assert results[0].exit_code == 0, results[0].output
        here, there = (UNDERSTOOD.sub("", result.stdout) for result in results)
        assert here == there, command

    with folder_of(stored_at(examples)) as folder:
        assert tables(folder) == tables(disk)
        names = [each for table in TABLES for each in disk.rglob(f"{table}/*/*/data.parquet")]
        assert len(names) > len(TABLES)
        for path in names:  # The files note when their rows arrived, which differs.
            assert pl.read_parquet(folder / path.relative_to(disk)).equals(pl.read_parquet(path))


def test_python_reads_it_as_it_was_when_it_was_opened(disk: Path, examples: str) -> None:
    """A notebook works on one state, and its folder goes with the store."""
    store = looptrace.open(examples)
    ingest(examples, "later")

    assert list(store.findings) == list(looptrace.open(disk).findings) != []
    assert "later" not in set(store.sql("SELECT DISTINCT session FROM turns")["session"])
    assert "later" in {turn.session for turn in looptrace.open(examples).turns}
    folder = store.folder
    assert folder.is_dir()
    del store
    assert not folder.exists()
    with pytest.raises(looptrace.errors.InputError, match=r"looptrace\.open reads it"):
        looptrace.analyze(examples)


def test_only_what_is_read_is_fetched(examples: str) -> None:
    """A report needs no spans, which are most of the bytes."""
    with folder_of(stored_at(examples)) as folder:
        analysis = analyse_store(folder, default())
        assert analysis.summary.spans == 204
        assert not list(folder.rglob("spans/*/*/data.parquet"))
        assert list(folder.rglob("turns/*/*/data.parquet"))


def test_another_machine_fetches_its_buckets_itself(examples: str, disk: Path) -> None:
    """Workers of a cluster share no folder with the command."""

    def elsewhere(work: Any, parts: Any) -> Iterator[Any]:
        for part in parts:
            sent = pickle.dumps((work, replace(part, store_dir=Path("/nowhere/store"))))
            far_work, far_part = pickle.loads(sent)  # noqa: S301 - It was made above.
            yield far_work(far_part)

    far = looptrace.open(examples).detect(engine=elsewhere)
    near = looptrace.open(disk).detect()

    assert far.findings == near.findings
    assert far.events == near.events


def test_what_is_there_is_not_written_again(examples: str) -> None:
    """An ingest of known traces makes no new state, which others would have to fetch."""
    before = stored_at(examples)
    result = run("ingest", TRACES, "--store", examples, "--jobs", "1")

    assert "new 0, known 204" in result.stdout
    assert stored_at(examples) == before


def test_of_two_writers_at_once_the_second_is_told(url: str, tmp_path: Path) -> None:
    """Nobody's work is lost in silence, and that of the first is whole."""

    def write_slowly() -> None:
        with written(url) as folder:
            writer.ingest(spans_of(looping("slow")), folder)
            ingest(url, "fast")

    with pytest.raises(WrittenMeanwhileError, match="another writer was first"):
        write_slowly()
    assert sessions_at(url) == {"fast"}
    assert left_overs(stored_at(url)) == []
    ingest(url, "slow")
    assert sessions_at(url) == {"fast", "slow"}

    writer.ingest(pl.concat([spans_of(looping("fast")), spans_of(looping("slow"))]), tmp_path / "s")
    with folder_of(stored_at(url)) as folder:
        assert tables(folder) == tables(tmp_path / "s")


def test_many_writers_at_once_lose_nothing(url: str) -> None:
    """Each tries until it was the first; in the end the store has the work of all."""

    def until_first(name: str) -> int:
        refused = 0
        while True:
            try:
                ingest(url, name)
            except WrittenMeanwhileError:
                refused += 1
            else:
                return refused

    names = [f"s{number}" for number in range(PARTS)]
    with ThreadPoolExecutor(PARTS) as pool:
        refused = sum(pool.map(until_first, names))

    assert sessions_at(url) == set(names)
    assert refused > 0


def test_a_reader_at_work_keeps_its_state(url: str) -> None:
    """A reader that began before a writer replaced files keeps its state."""
    ingest(url, "old")
    before = stored_at(url)
    with folder_of(before) as folder:
        ingest(url, "old", "new")
        assert set(reader.read_rows(folder, "turns", pl.lit(value=True))["session"]) == {"old"}
    assert sessions_at(url) == {"old", "new"}
    # A sweep leaves what was replaced less than a day ago, however old it is.
    old, new = before.manifest, stored_at(url).manifest
    assert old
    assert new
    replaced = {each.object for each in old.files.values()}.difference(
        each.object for each in new.files.values()
    )
    assert replaced
    assert replaced == set(new.retired)


def test_a_killed_writer_leaves_nothing_that_is_taken_for_whole(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill at any moment the store has what was published, and left-overs have a name."""
    chance = random.Random(1)
    urls = [f"{url}-{number}" for number in range(KILLS)]
    victims = [Forked(["-c", VICTIM, each]) for each in urls]
    for victim in victims:
        assert victim.stdout.readline() == "0\n"
    time.sleep(chance.uniform(0, KILL_AFTER_MAX_S))
    for victim in victims:
        victim.kill()
        time.sleep(chance.uniform(0, KILL_AFTER_MAX_S) / KILLS)
    told = [int(["0", *victim.rest().split()][-1]) for victim in victims]
    for at, last in zip(urls, told, strict=True):
        sessions = sessions_at(at)
        # The last one may have been published without an answer.
        assert sessions == {f"s{number}" for number in range(len(sessions))}
        assert len(sessions) - (last + 1) in (0, 1)
        left = left_overs(stored_at(at))
        assert ("left over" in run("doctor", "--store", at).stdout) == bool(left)
    monkeypatch.setattr(publisher, "KEPT", timedelta(seconds=-1))
    ingest(urls[0], "last")
    assert left_overs(stored_at(urls[0])) == []


@pytest.mark.parametrize("stops_at", ["spans/", "looptrace-store.gates", MANIFEST])
def test_a_writer_that_ends_at_any_put_leaves_the_state_before(
    url: str, monkeypatch: pytest.MonkeyPatch, stops_at: str
) -> None:
    """Nobody reads its objects; `looptrace doctor` names them, and they are deleted a day later."""

    class KilledError(BaseException):
        pass

    ingest(url, "before")
    state = stored_at(url)
    put, put_if = Objects.put, Objects.put_if

    def dying_put(objects: Objects, name: str, content: Path) -> None:
        if name.startswith(stops_at):
            raise KilledError
        put(objects, name, content)

    def dying_put_if(objects: Objects, name: str, *rest: Any) -> bool:
        if name == stops_at:
            raise KilledError
        return put_if(objects, name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Objects, "put", dying_put)
        patch.setattr(Objects, "put_if", dying_put_if)
        with pytest.raises(KilledError):
            ingest(url, "killed")
    assert stored_at(url) == state
    assert sessions_at(url) == {"before"}
    left = left_overs(stored_at(url))
    assert left
    assert f"{len(left)} object" in run("doctor", "--store", url).stdout

    ingest(url, "after")
    assert {each.name for each in left} <= {each.name for each in left_overs(stored_at(url))}
    monkeypatch.setattr(publisher, "KEPT", timedelta(seconds=-1))
    ingest(url, "a day later")
    assert left_overs(stored_at(url)) == []
    assert sessions_at(url) == {"before", "after", "a day later"}


def test_an_answer_that_is_lost_is_looked_up(url: str, proxy: Proxy) -> None:
    """A put that was done is not taken for one of another writer when it is sent again."""

    def lose(method: str, path: str, body: bytes) -> bytes | None:
        return None if method == "PUT" and path.endswith(MANIFEST) else body

    proxy.change = lose
    ingest(url, "one")
    proxy.change = lambda _method, _path, body: body
    assert sessions_at(url) == {"one"}


def test_a_server_that_ignores_conditions_is_refused(
    proxy: Proxy, s3_only: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With it two writers would lose each other's work without notice.

    The proxy removes signed headers, so that the bucket requires no signature.
    """
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    url = f"s3://{OPEN_BUCKET}/store"
    ingest(url, "one")
    before = stored_at(url)
    proxy.ignores_conditions = True
    with pytest.raises(StoreError, match="takes no conditional puts"):
        ingest(url, "two")
    assert stored_at(url) == before
    assert left_overs(before) == []
    bucket = s3_only.bucket("store", OPEN_BUCKET)
    names = [each["path"] for part in obstore.list(bucket) for each in part]
    assert not [name for name in names if name.endswith("probe")]


def told(*arguments: str) -> str:
    """Run what cannot be done, and return the line that says why."""
    result = refused(*arguments)
    assert result.count("\n") == 1 or "Usage" in result
    return result


def test_a_wrong_bucket_or_address_is_told_in_a_line(
    examples: str, server: S3Server | AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the mistyped one, within a bounded time."""
    at = f"{server.scheme}://"
    assert f"{at}loops/nothing: is not a store" in told("analyze", f"{at}loops/nothing")
    store = ("ingest", str(TRACES / "flaky_import_loop.jsonl"), "--store")
    for command in (("analyze",), ("query", "agents_that_loop", "--store"), store):
        assert f"{at}absent: there is no such bucket" in told(*command, f"{at}absent/x")
    for wrong in (f"{at}/x", f"{at}loops/x?y", f"{at}me@loops/x"):
        assert "is not the address of a bucket" in told(
            "query", "--store", wrong, "--sql", "SELECT 1"
        )
    with closed_port() as port:
        monkeypatch.setenv(server.endpoint_variable, f"http://127.0.0.1:{port}/looptrace")
        began_s = time.monotonic()
        assert "cannot be reached" in (line := told("gates", "list", "--store", examples))
        assert f"such as {server.endpoint_variable}" in line
        assert time.monotonic() - began_s < 30


def test_a_wrong_key_is_told_in_a_line(
    examples: str, server: S3Server | AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the key of something else is told, and which variables to look at."""
    codes = {"s3": "SignatureDoesNotMatch", "az": "AuthorizationFailure"}
    monkeypatch.setenv(server.secret_variable, "d3Jvbmc=")

    line = told("analyze", examples)
    assert f"access is refused ({codes[server.scheme]})" in line
    assert server.secret_variable in line


@pytest.mark.parametrize("address", ["127.0.0.1:9000", "http://", "http://a b", "http://a:99999"])
def test_an_address_that_is_none_is_told_in_a_line(
    url: str, server: S3Server | AzureServer, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Of some the library panics, which no handler of errors sees."""
    monkeypatch.setenv(server.endpoint_variable, address)

    line = told("gates", "list", "--store", url)
    assert f"{url}: cannot be used as the environment is" in line
    assert server.endpoint_variable in line


def test_half_of_the_credentials_are_told_in_a_line(
    url: str, server: S3Server | AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is a variable, and not the network."""
    missing = {"s3": "AWS_SECRET_ACCESS_KEY", "az": "AZURE_STORAGE_ACCOUNT_NAME"}[server.scheme]
    monkeypatch.delenv(missing)

    line = told("gates", "list", "--store", url)
    assert "cannot be used as the environment is" in line
    assert missing in line


def test_an_unknown_or_no_key_of_s3_is_told_in_a_line(
    examples: str, s3_only: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a key in the environment the machine is asked for one, and may be none of a cloud."""
    assert s3_only
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    store = ("ingest", str(TRACES / "flaky_import_loop.jsonl"), "--store")
    assert "access is refused (InvalidAccessKeyId)" in told(*store, examples)
    with closed_port() as port:  # Where a machine in a cloud would be asked.
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{port}")
        assert "there are no credentials; set AWS_ACCESS_KEY_ID" in told("analyze", examples)


def test_a_server_that_hangs_is_given_up(
    url: str, server: S3Server | AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command may wait for a network that is slow, and not for ever."""
    monkeypatch.setattr(client, "READ_TIMEOUT_S", SHORT_S)
    monkeypatch.setattr(client, "RETRY_TIMEOUT_S", SHORT_S)
    with socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv(
            server.endpoint_variable, f"http://127.0.0.1:{silent.getsockname()[1]}/looptrace"
        )
        with pytest.raises(UnavailableError, match="cannot be reached"):
            snapshot_at(url)


@pytest.mark.parametrize("requests", [2, 8])
def test_a_server_that_goes_away_in_the_middle_is_told_of(
    examples: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    """Whatever a command had done by then, it ends in a line, and the store is as it was."""
    monkeypatch.setattr(client, "RETRIES", 1)
    state = stored_at(examples)

    def go_away(_method: str, _path: str, body: bytes) -> bytes | None:
        return body if proxy.requests.total() <= requests else None

    store = ("--store", examples)
    for command in (("analyze", examples), ("query", "agents_that_loop", *store)):
        proxy.requests.clear()
        proxy.change = go_away
        assert "cannot be reached" in told(*command)
    proxy.requests.clear()
    with pytest.raises(UnavailableError, match="cannot be reached"):
        ingest(examples, "later")
    proxy.change = lambda _method, _path, body: body
    assert stored_at(examples) == state


def test_commands_that_need_a_disk_say_so(url: str) -> None:
    """A server's log and gates are synced and locked, which objects cannot be."""
    for command in ("serve", "mcp"):
        assert "needs the store on a disk of this machine" in refused(command, "--store", url)
        assert not Path("s3:").exists()
    ingest(url, "one")
    assert "watch a server" in refused("watch", "--store", url)


def test_an_address_of_another_kind_becomes_no_folder(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheme that is mistyped, or that of a server, is named; traces are no store."""
    monkeypatch.chdir(tmp_path)
    for wrong in ("s3a://loops/a", "http://127.0.0.1:4318"):
        line = run("ingest", TRACES, "--store", wrong).stderr
        assert f"{wrong}: is not a store" in line
    assert list(tmp_path.iterdir()) == []
    ingest(url, "one")
    assert "1 session," in run("analyze", url[:2].upper() + url[2:]).stdout
    assert "traces are read from this machine" in run("analyze", "ftp://host/traces").stderr


def test_a_decision_is_recorded_and_holds_with_the_next_ingest(url: str) -> None:
    """A person decides about a store on object storage as about one on disk."""
    ingest(url, "one")
    (gate,) = json_of("gates", "list", "--store", url)
    result = run(
        "gates", "resolve", "--store", url, gate["id"], "--decision", "continue", "--note", "go on"
    )

    assert result.exit_code == 0, result.output
    shown = json_of("gates", "show", "--store", url, gate["id"])
    assert shown["gate"]["decision"] == "continue"
    ingest(url, "two")
    shown = json_of("gates", "show", "--store", url, gate["id"])
    assert shown["gate"]["status"] == "resolved"


def test_an_object_that_is_damaged_or_gone_is_named(
    url: str, server: S3Server | AzureServer, prefix: str
) -> None:
    """What is read is what was written, or nothing."""
    ingest(url, "one")
    found = read_manifest(Objects(url))
    assert found
    name = next(each.object for name, each in found[0].files.items() if name.startswith("turns"))
    bucket = server.bucket(prefix)
    content = bytes(obstore.get(bucket, name).bytes())
    obstore.put(bucket, name, content[:-1] + b"\0")
    assert f"{url}/{name}: is not what looptrace wrote" in refused("analyze", url)
    obstore.delete(bucket, name)
    codes = {"s3": "NoSuchKey", "az": "BlobNotFound"}
    assert f"an object is gone ({codes[server.scheme]})" in run("analyze", url).stderr


@pytest.mark.parametrize("name", ["../evil", "/evil", "turns/../../evil/data.parquet", "x"])
def test_a_manifest_names_no_file_outside_the_folder(
    url: str, server: S3Server | AzureServer, prefix: str, name: str
) -> None:
    """A writer to the bucket cannot write to other places of a reader's machine."""
    ingest(url, "one")
    found = read_manifest(Objects(url))
    assert found
    files = {**found[0].files, name: next(iter(found[0].files.values()))}
    hostile = msgspec.structs.replace(found[0], files=files)
    obstore.put(server.bucket(prefix), MANIFEST, msgspec.json.encode(hostile))

    assert "names a file that no store has" in run("analyze", url).stderr


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not a manifest of looptrace"),
        (b'{"writer": 1}', "is not a manifest of looptrace"),
        (msgspec.json.encode(Manifest("a", {}, {}, format=99)), "update looptrace"),
    ],
)
def test_a_manifest_that_is_none_is_refused(
    url: str, server: S3Server | AzureServer, prefix: str, content: bytes, why: str
) -> None:
    """Nothing is written over what looptrace does not know."""
    obstore.put(server.bucket(prefix), MANIFEST, content)

    assert why in run("analyze", url).stderr
    with pytest.raises(StoreError, match=why):
        ingest(url, "one")


def test_a_large_file_goes_in_parts_and_comes_back_whole(url: str, tmp_path: Path) -> None:
    """Files beyond some megabytes are sent in several requests, and are there at once or not."""
    content = random.Random(1).randbytes(LARGE_BYTES)
    (tmp_path / "large").write_bytes(content)
    objects = Objects(url)
    objects.put("large", tmp_path / "large")

    assert b"".join(objects.parts("large")) == content
    assert [each.bytes for each in objects.list()] == [LARGE_BYTES]


def test_what_others_have_below_the_address_is_left_alone(
    url: str, server: S3Server | AzureServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left-overs are recognised by their names, and other objects are left alone."""
    bucket = server.bucket(prefix)
    obstore.put(bucket, "notes.txt", b"mine")
    obstore.put(bucket, "turns/mine.parquet", b"mine")
    monkeypatch.setattr(publisher, "KEPT", timedelta(seconds=-1))
    ingest(url, "one")
    ingest(url, "two")

    assert bytes(obstore.get(bucket, "notes.txt").bytes()) == b"mine"
    assert bytes(obstore.get(bucket, "turns/mine.parquet").bytes()) == b"mine"
    assert sessions_at(url) == {"one", "two"}


def test_the_files_that_are_published_are_all_that_a_store_needs(url: str, tmp_path: Path) -> None:
    """A file that a store gets one day and the list of names lacks would be lost."""
    writer.ingest(spans_of(looping("one")), tmp_path / "s", content="redacted")
    ingest(url, "one")
    found = read_manifest(Objects(url))
    assert found
    own = {"looptrace-store.lock"}
    files = {
        p.relative_to(tmp_path / "s").as_posix() for p in (tmp_path / "s").rglob("*") if p.is_file()
    }
    assert files - own - {"looptrace-store.key"} == set(found[0].files)
