"""A store on object storage as a folder: its state at one moment; reading fetches file by file.

Every function that reads a store reads the folder, so that results do not depend on its place. The
folder has a note about the source of its files; a local store has none.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec

from looptrace.collector.store.file_names import covered
from looptrace.collector.store.locks import NAME, StoreError
from looptrace.collector.store.objects.client import Objects, Version
from looptrace.collector.store.objects.manifest import (
    TABLE_FILE,
    FileObject,
    Manifest,
    read_manifest,
)
from looptrace.errors import UnavailableError
from looptrace.typed_json import decoded

_SNAPSHOT_FILE = f"{NAME}.snapshot"
# Downloads at once: files are small, and most of the time passes in waiting for the server.
FETCHES_AT_ONCE = 8
_FOLDERS_KEPT = 64


class Snapshot(msgspec.Struct, frozen=True):
    """A store at an address according to its manifest; empty where there is no store yet."""

    url: str
    manifest: Manifest | None
    version: Version | None  # of the manifest's object


def snapshot_at(url: str) -> Snapshot:
    """Return the current state of the store at an address."""
    objects = Objects(url)
    found = read_manifest(objects)
    manifest, version = found or (None, None)
    return Snapshot(objects.url, manifest, version)


def stored_at(url: str) -> Snapshot:
    """Return the store at an address.

    Raises:
        StoreError: if there is none.
    """
    snapshot = snapshot_at(url)
    if snapshot.manifest is None:
        raise StoreError(
            f"{url}: is not a store; check the path, or make one with `looptrace ingest`."
        )
    return snapshot


@contextmanager
def folder_of(snapshot: Snapshot) -> Iterator[Path]:
    """Yield a temporary folder with the store of that moment."""
    folder = make_folder_of(snapshot)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_folder_of(snapshot: Snapshot) -> Path:
    """Make a folder as `folder_of` does; the caller deletes it."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="looptrace-"))
        if snapshot.manifest is None:
            return folder
        (folder / _SNAPSHOT_FILE).write_bytes(msgspec.json.encode(snapshot))
    except OSError as error:
        raise _no_room("temporary folder", error) from error
    # The small files, and the gates, which SQLite reads in place.
    names = [name for name in snapshot.manifest.files if not TABLE_FILE.fullmatch(name)]
    try:
        _fetch(folder, snapshot, names)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return folder


@contextmanager
def local_folder(snapshot: Snapshot | None, store_dir: Path) -> Iterator[Path]:
    """Yield the folder of a store, or a folder of this machine where another one made it."""
    if snapshot is None or store_dir.is_dir():
        yield store_dir
        return
    with folder_of(snapshot) as folder:
        yield folder


def snapshot_of(store_dir: Path) -> Snapshot | None:
    """Return the source of a folder's files; None where the folder is a store itself."""
    note = store_dir / _SNAPSHOT_FILE
    return _read_note(note) if note.exists() else None


@lru_cache(maxsize=_FOLDERS_KEPT)  # Notes never change, and their folders have names of their own.
def _read_note(note: Path) -> Snapshot:
    return decoded(note.read_bytes(), Snapshot)


def fetch(store_dir: Path, table: str, bucket: int | None = None) -> None:
    """Fetch the files of a table, or of one bucket of it, that are not in the folder yet.

    Raises:
        StoreError: if an object is gone or was changed, or access is refused. UnavailableError: if
        the server does not answer, or there is no room.
    """
    snapshot = snapshot_of(store_dir)
    if snapshot is not None:
        absent = _absent(store_dir, snapshot, table, bucket)
        _fetch(store_dir, snapshot, absent)


def fetch_tables(store_dir: Path, *tables: str) -> None:
    """Fetch tables to be read bucket by bucket, several files at once."""
    for table in tables:
        fetch(store_dir, table)


def rows_absent(store_dir: Path, table: str, bucket: int, present: Collection[Path]) -> int:
    """Return the number of rows in the files of a bucket that are not in the folder yet."""
    snapshot = snapshot_of(store_dir)
    if snapshot is None or snapshot.manifest is None:
        return 0
    files = _files(snapshot.manifest, table, bucket)
    merged = covered([*present, *(store_dir / name for name in files)])
    return sum(
        file.rows for name, file in files.items() if store_dir / name not in merged.union(present)
    )


def _absent(store_dir: Path, snapshot: Snapshot, table: str, bucket: int | None) -> list[str]:
    names = _files(snapshot.manifest, table, bucket) if snapshot.manifest else {}
    return [name for name in names if not (store_dir / name).exists()]


def _files(manifest: Manifest, table: str, bucket: int | None) -> Mapping[str, FileObject]:
    return {
        name: file
        for name, file in manifest.files.items()
        if (of := TABLE_FILE.fullmatch(name))
        and of["table"] == table
        and (bucket is None or int(of["bucket"]) == bucket)
    }


def _fetch(folder: Path, snapshot: Snapshot, names: Collection[str]) -> None:
    if not names or snapshot.manifest is None:
        return
    objects, files = _objects_of(folder, snapshot.url), snapshot.manifest.files
    with ThreadPoolExecutor(min(FETCHES_AT_ONCE, len(names))) as pool:
        for done in [pool.submit(_fetch_one, objects, files[n], folder / n) for n in names]:
            done.result()


@lru_cache(maxsize=_FOLDERS_KEPT)  # Connections stay open from one bucket to the next.
def _objects_of(_folder: Path, url: str) -> Objects:
    return Objects(url)


def _fetch_one(objects: Objects, file: FileObject, path: Path) -> None:
    """Fetch an object whole or not at all; another process may fetch it at the same time."""
    digest = hashlib.sha256()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as into:
            for part in objects.parts(file.object):
                digest.update(part)
                into.write(part)
        if digest.hexdigest() != file.sha256:
            raise StoreError(
                f"{objects.url}/{file.object}: is not what looptrace wrote; "
                "ingest the traces into a new store."
            )
        Path(aside).replace(path)
    except OSError as error:
        raise _no_room(str(path), error) from error


def _no_room(where: str, error: OSError) -> UnavailableError:
    return UnavailableError(
        f"{where}: cannot be written ({error.strerror}); a store on object storage is read into a "
        "temporary folder with room for it, which TMPDIR may name."
    )
