"""`looptrace copy`: the store of a server on object storage, for those who analyse it elsewhere."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from looptrace.collector.store import reader, writer
from looptrace.collector.store.layout import UNFINISHED_FILE
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.objects.client import Objects
from looptrace.collector.store.objects.snapshot import folder_of, stored_at
from looptrace.collector.store.publishing import copying
from looptrace.collector.store.publishing.copying import copy_store
from looptrace.collector.store.publishing.publisher import publish
from looptrace.collector.store.tables import replacement
from looptrace.errors import UnavailableError
from tests.collector.erasure.test_forgetting import texts_in
from tests.collector.store.objects.test_objects import UNDERSTOOD, ingest, sessions_at, tables, told
from tests.collector.store.stored import looping, spans_of
from tests.commands import run
from tests.reliability.serving import OK, served, until
from tests.reliability.serving import looping as looping_trace


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store on disk with one session."""
    folder = tmp_path / "store"
    writer.ingest(spans_of(looping("one")), folder)
    return folder


def test_the_store_of_a_server_at_work_is_copied_again_and_again(tmp_path: Path, url: str) -> None:
    """Each copy is a whole store of that moment, and what was sent is not sent again."""
    folder = tmp_path / "store"
    with served(folder, "--no-grpc") as server:
        for number in range(3):
            assert server.send(looping_trace(f"s{number}", 6).request()) == OK
            until(server.has_stored)
            sent = run("copy", url, "--store", folder)
            assert sent.exit_code == 0, sent.output
            assert "files sent 0," not in sent.stdout
            assert len(sessions_at(url)) == number + 1
        assert "files sent 0, 0 bytes" in run("copy", url, "--store", folder).stdout
        gates = run("gates", "list", "--store", folder).stdout
    assert run("gates", "list", "--store", url).stdout == gates != ""
    reports = (run("analyze", each, "--format", "json").stdout for each in (url, folder))
    there, here = (UNDERSTOOD.sub("", report) for report in reports)
    assert there == here != ""
    with folder_of(stored_at(url)) as copy:
        assert tables(copy) == tables(folder)


def test_a_store_without_spans_is_copied_and_read(tmp_path: Path, url: str) -> None:
    """A deployment is set up before its first agent runs."""
    folder = tmp_path / "store"
    writer.ingest(spans_of(looping("one")).clear(), folder)
    sent = copy_store(folder, url)
    assert [each.object for each in sent if "parquet" in each.object] == []
    asked = "SELECT count(*), count(day) FROM turns FULL JOIN findings USING (task)"
    for command in (
        ["query", "--sql", asked, "--store"],
        ["analyze"],
        ["gates", "list", "--store"],
    ):
        assert run(*command, url).output == run(*command, folder).output
    writer.ingest(spans_of(looping("one")), folder)
    copy_store(folder, url)
    assert sessions_at(url) == {"one"}


def test_what_retention_deletes_stays_in_the_copy(store: Path, url: str) -> None:
    """A bucket is where one keeps what a server's disk has no room for."""
    copy_store(store, url)
    for table in ("spans", "turns", "findings"):
        shutil.rmtree(store / table)
    writer.ingest(spans_of(looping("two", at="2026-05-05T09:00:00+00:00")), store)
    copy_store(store, url)

    assert "2 sessions" in run("analyze", url).stdout


def test_copies_forget_at_once(tmp_path: Path, url: str) -> None:
    """Also days that are only there, and objects that were replaced a moment ago."""
    folder = tmp_path / "store"
    writer.ingest(spans_of(looping("alice"), looping("bob")), folder)
    copy_store(folder, url)
    for table in ("spans", "turns", "findings"):
        shutil.rmtree(folder / table)
    done = run("forget", "--session", "alice", "--store", folder, "--yes")
    assert done.exit_code == 0, done.output
    assert f"{url}: erased" in done.stdout
    objects, here = Objects(url), tmp_path / "objects"
    here.mkdir()
    for number, each in enumerate(objects.list()):
        suffix = ".parquet" if each.name.endswith(".parquet") else ".any"
        (here / f"{number}{suffix}").write_bytes(b"".join(objects.parts(each.name)))
    said = texts_in(here)
    assert ("alice" in said, "bob" in said) == (False, True)
    assert sessions_at(url) == {"bob"}
    copy_store(folder, url)


def test_files_that_were_merged_go_from_the_copy(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a merged file has is in another one; both would have each row twice."""
    monkeypatch.setattr(replacement, "ROWS_MIN", 1)
    monkeypatch.setattr(replacement, "FILES_ALIKE", 4)
    folder, before = tmp_path / "store", set[str]()
    merged = set[str]()
    for count, span in enumerate(spans_of(looping("s")).iter_slices(1), 1):
        writer.ingest(span, folder)
        copy_store(folder, url)
        manifest = stored_at(url).manifest
        assert manifest is not None
        merged |= before.difference(manifest.files)
        before = set(manifest.files)
        objects = {file.object for file in manifest.files.values()}
        assert len(objects) == len(manifest.files)
        assert not objects.intersection(manifest.retired)
        with folder_of(stored_at(url)) as copy:
            assert reader.count_spans(copy) == count
            assert tables(copy) == tables(folder)
    assert merged


def test_a_store_that_is_no_copy_is_not_written_over(store: Path, tmp_path: Path, url: str) -> None:
    """Another store would be lost, and so would a decision that somebody made on the copy."""
    ingest(url, "other")
    before = stored_at(url)
    assert f"{url}: is not the copy of {store}" in told("copy", url, "--store", str(store))
    assert stored_at(url) == before

    copy_store(store, f"{url}-copy")
    other = tmp_path / "other"
    writer.ingest(spans_of(looping("two")), other)
    with pytest.raises(StoreError, match="is not the copy of"):
        copy_store(other, f"{url}-copy")
    ingest(f"{url}-copy", "two")
    with pytest.raises(StoreError, match="was written to since"):
        copy_store(store, f"{url}-copy")


def test_a_copy_whose_writer_was_killed_goes_on(
    store: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed when all is published cannot note it, and had noted it before."""

    class KilledError(BaseException):
        pass

    def dying_publish(*given: Any) -> None:
        publish(*given)
        raise KilledError

    for name in ("two", "three"):
        with monkeypatch.context() as patch:
            patch.setattr(copying, "publish", dying_publish)
            with pytest.raises(KilledError):
                copy_store(store, url)
        writer.ingest(spans_of(looping(name)), store)
    copy_store(store, url)

    assert sessions_at(url) == {"one", "two", "three"}


def test_a_store_that_an_ingest_left_unfinished_is_not_copied(
    store: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its findings would be taken for those of its spans."""
    monkeypatch.setattr(copying, "_WAIT_S", 0.0)
    (store / UNFINISHED_FILE).touch()

    with pytest.raises(UnavailableError, match="lag behind the spans"):
        copy_store(store, url)


def test_the_ends_of_a_copy_are_told_apart(store: Path, tmp_path: Path, url: str) -> None:
    """Copies go one way: from a disk to a bucket or a folder."""
    assert "needs the store on a disk" in run("copy", url, "--store", url).stderr
    assert "neither a folder nor" in run("copy", "http://x/y", "--store", store).stderr
    assert "is not a store" in told("copy", url, "--store", str(tmp_path))
