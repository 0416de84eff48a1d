"""Publishing of a folder to object storage: all of it at once, or nothing.

Files are first written as new objects, which nobody reads. Then the manifest with their names
replaces the one that the writer began with, if that is still there. Nothing is renamed and no
object is changed, so that a killed writer leaves at most objects that no manifest names.
"""

import hashlib
import secrets
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import msgspec

from looptrace.collector.store.file_names import covered, in_order, range_of
from looptrace.collector.store.layout import GATES_FILE, LOG_FILE
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.objects.client import Listed, Objects, Version
from looptrace.collector.store.objects.manifest import (
    MANIFEST,
    NOTE_FILE,
    OBJECT,
    TABLE_FILE,
    FileObject,
    Manifest,
    read_manifest,
)
from looptrace.collector.store.objects.snapshot import Snapshot, folder_of, snapshot_at
from looptrace.collector.store.tables.parquet import ANYWHERE, TABLES, rows_of
from looptrace.errors import UnavailableError

# An object that no manifest names any more stays this long for readers of an earlier manifest. A
# writer may take as long from its first object to its manifest.
KEPT = timedelta(days=1)
UPLOADS_AT_ONCE = 8

ID_BYTES = 8  # of a writer
_PROBE = f"{MANIFEST}.probe"
_NO_VERSION: Version = {"e_tag": '"0"', "version": "1"}  # No object has this version.


class WrittenMeanwhileError(StoreError):
    """Another writer was first; nothing of this one is in the store."""


@contextmanager
def written(url: str) -> Iterator[Path]:
    """Yield the store at an address as a folder, and publish its changes at the end.

    After an error nothing is published.

    Raises:
        StoreError: if there is no such bucket, access is refused, or its server takes no
            conditional puts.
        WrittenMeanwhileError: if another writer was first.
    """
    snapshot = snapshot_at(url)
    with folder_of(snapshot) as folder:
        yield folder
        publish(folder, snapshot)


def publish(folder: Path, snapshot: Snapshot, writer: str | None = None) -> Sequence[FileObject]:
    """Publish a folder's files to the store at its address; raises what `written` does.

    Files of the snapshot that are not in the folder stay as they are. Returned are the files that
    were not there, or had other content. `writer` is an id that no other manifest has.
    """
    before = snapshot.manifest or Manifest("", {}, {})
    for name in (GATES_FILE, LOG_FILE):
        _checkpoint(folder / name)
    digests = {name: _digest(folder / name) for name in store_files(folder)}
    changed = [
        name
        for name, digest in digests.items()
        if name not in before.files or digest != before.files[name].sha256
    ]
    if not changed:
        return []
    objects, writer = Objects(snapshot.url), writer or secrets.token_hex(ID_BYTES)
    _require_conditions(objects)
    new = {name: _file_object(folder, name, digests[name], writer) for name in changed}
    with ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
        for done in [pool.submit(objects.put, new[n].object, folder / n) for n in changed]:
            done.result()
    files = dict(sorted({**before.files, **new}.items()))
    merged = covered(name for name in files if TABLE_FILE.fullmatch(name))
    for name in merged:
        del files[name]
    manifest = Manifest(writer, files, _retired(before, {*changed, *merged}))
    if not _is_published(objects, manifest, snapshot.version):
        objects.delete([each.object for each in new.values()])
        raise WrittenMeanwhileError(
            f"{snapshot.url}: another writer was first, and its work is kept; nothing of this one "
            "is in the store, so run the command again."
        )
    _sweep(objects, manifest)
    return list(new.values())


def delete_unread(url: str) -> None:
    """Delete the objects that the manifest at an address no longer has, also if some read them."""
    manifest = snapshot_at(url).manifest or Manifest("", {}, {})
    objects = Objects(url)
    read = {file.object for file in manifest.files.values()}
    listed = [each.name for each in objects.list() if OBJECT.fullmatch(each.name)]
    objects.delete([name for name in listed if name not in {*read, MANIFEST}])


def left_overs(snapshot: Snapshot) -> Sequence[Listed]:
    """Return the objects of killed writers below an address, which its manifest does not name."""
    manifest = snapshot.manifest or Manifest("", {}, {})
    return _unnamed(manifest, list(Objects(snapshot.url).list()))


def store_files(folder: Path) -> list[str]:
    """Return the names of the files of a store."""
    paths = [path for table in TABLES for path in in_order((folder / table).glob(ANYWHERE))]
    notes = [path.name for path in folder.iterdir() if NOTE_FILE.fullmatch(path.name)]
    return sorted([*notes, *(path.relative_to(folder).as_posix() for path in paths)])


def _checkpoint(database: Path) -> None:
    """Move the contents of SQLite's write-ahead log into its file."""
    if database.is_file():
        with closing(sqlite3.connect(database)) as sql:
            sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _file_object(folder: Path, name: str, digest: str, writer: str) -> FileObject:
    is_table = TABLE_FILE.fullmatch(name) is not None
    path = folder / name
    place, _, _ = name.rpartition("/")
    first, last = range_of(name) if is_table else (0, 0)
    number = f"-{first}-{last}" if last else ""
    return FileObject(
        object=f"{place}/{writer}{number}.parquet" if is_table else f"{name}.{writer}",
        bytes=path.stat().st_size,
        sha256=digest,
        rows=rows_of(path) if is_table else 0,
    )


def _retired(before: Manifest, changed: Collection[str]) -> Mapping[str, int]:
    now_s = round(time.time())
    kept = {name: s for name, s in before.retired.items() if now_s - s < KEPT.total_seconds()}
    replaced = [before.files[name].object for name in changed if name in before.files]
    return {**kept, **dict.fromkeys(replaced, now_s)}


def _require_conditions(objects: Objects) -> None:
    """Check that the server refuses a put with a false condition, which some ignore."""
    if objects.put_if(_PROBE, b"", _NO_VERSION):
        objects.delete([_PROBE])
        raise StoreError(
            f"{objects.url}: the server takes no conditional puts (If-Match), without which two "
            "writers would lose each other's work; use another server, or a store on disk."
        )


def _is_published(objects: Objects, manifest: Manifest, before: Version | None) -> bool:
    """Replace the manifest; return False if another writer replaced it first.

    A request whose answer was lost may have succeeded; then its second try is refused.
    """
    lost: UnavailableError | None = None
    try:
        if objects.put_if(MANIFEST, msgspec.json.encode(manifest), before):
            return True
    except UnavailableError as error:
        lost = UnavailableError(
            f"{error} Whether the store has what was written is not known; "
            "running the command again does no harm."
        )
    try:
        there = read_manifest(objects)
    except UnavailableError:
        there = None
    is_ours = there is not None and there[0].writer == manifest.writer
    if lost and not is_ours:
        raise lost
    return is_ours


def _sweep(objects: Objects, manifest: Manifest) -> None:
    """Delete objects that no manifest has named for longer than any reader or writer takes."""
    listed = list(objects.list())
    now = max(each.written for each in listed if each.name == MANIFEST)
    old = [each.name for each in _unnamed(manifest, listed) if now - each.written > KEPT]
    objects.delete(old)


def _unnamed(manifest: Manifest, listed: Sequence[Listed]) -> list[Listed]:
    """Return the objects of looptrace that a manifest does not name, and none of others."""
    named = {MANIFEST, *manifest.retired, *(file.object for file in manifest.files.values())}
    return [each for each in listed if each.name not in named and OBJECT.fullmatch(each.name)]
