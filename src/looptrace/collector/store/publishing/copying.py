"""Copies of a store, on object storage or in a folder, made again and again, and the way back.

A server keeps its store on a disk. Its copy is for those who analyse it elsewhere, and for the
day on which the disk is lost.
"""

import os
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from looptrace.collector.store.layout import (
    AUDIT_FILE,
    GATES_FILE,
    LOG_FILE,
    UNFINISHED_FILE,
    is_store,
    put_note,
    read_note,
    require_store,
)
from looptrace.collector.store.locks import NAME, StoreError, make_folder, reading, sync_folder
from looptrace.collector.store.objects.client import is_object_url
from looptrace.collector.store.objects.manifest import FileObject
from looptrace.collector.store.objects.snapshot import (
    Snapshot,
    fetch_tables,
    folder_of,
    snapshot_at,
)
from looptrace.collector.store.publishing.publisher import (
    ID_BYTES,
    delete_unread,
    publish,
    store_files,
)
from looptrace.collector.store.tables.parquet import TABLES
from looptrace.errors import UnavailableError

_NO_COPY = "{}: is not a copy of a store; name the folder or bucket that `looptrace copy` wrote."
# The writers of the last manifests of each copy, by its address.
_COPIES_FILE = f"{NAME}.copies"
# In this order, which sorting keeps.
_DATABASES = (GATES_FILE, LOG_FILE)
# A server brings turns and findings up with the spans in a few seconds.
_WAIT_S = 60.0
_LOOK_S = 0.1


def copy_store(store_dir: Path, url: str) -> Sequence[FileObject]:
    """Make the store at an address that of a folder; returns the files that were sent.

    Files that are deleted here, because of their age, stay there.

    Raises:
        StoreError: if the folder is no store, or what is at the address is not its copy.
        WrittenMeanwhileError: if another writer was first.
        UnavailableError: if the server does not answer, there is no room, or the store is written
            to for too long.
    """
    require_store(store_dir)
    snapshot = snapshot_at(url)
    known = _require_copy(store_dir, snapshot)
    with _frozen(store_dir) as folder:
        writer = secrets.token_hex(ID_BYTES)
        # Before publishing: a process killed afterwards must be recognised as the writer.
        _note(store_dir, {**_copies(store_dir), snapshot.url: [*known, writer]})
        return publish(folder, snapshot, writer)


def copy_to_folder(store_dir: Path, target: Path) -> int:
    """Make a folder a copy of a store, and return the number of files.

    A copy that was there is replaced when the new one is whole. Files on the same disk take no
    room twice.

    Raises:
        StoreError: if the folder is no store, or the target has files and is not its copy.
        UnavailableError: if there is no room, or the store is written to for too long.
    """
    require_store(store_dir)
    name, earlier = str(target.absolute()), _beside(target, "old")
    if earlier.exists() and not target.exists():  # A kill between two renames.
        earlier.replace(target)
    if target.exists() and any(target.iterdir()) and name not in _copies(store_dir):
        raise StoreError(f"{target}: has files and is not a copy of {store_dir}; name another.")
    with _explained(store_dir), _new_folder(target) as part:
        _freeze(store_dir, part)
        files = len(store_files(part))
        _note(store_dir, {**_copies(store_dir), name: []})
        if target.exists():
            shutil.rmtree(earlier, ignore_errors=True)  # A kill left it.
            target.replace(earlier)
        part.replace(target)
        shutil.rmtree(earlier, ignore_errors=True)
    return files


def restore(source: str, store_dir: Path) -> int:
    """Make a folder the store that a copy is of, and return the number of files.

    A server continues from it. A bucket's copy is that of this store from then on.

    Raises:
        StoreError: if the source is not a copy, or the folder has files.
    """
    if store_dir.exists() and any(store_dir.iterdir()):
        raise StoreError(f"{store_dir}: has files; name a folder that is empty or missing.")
    if not is_object_url(source) and not is_store(Path(source)):
        raise StoreError(_NO_COPY.format(source))
    with _explained(store_dir), _new_folder(store_dir) as part:
        if is_object_url(source):
            snapshot = snapshot_at(source)
            if (manifest := snapshot.manifest) is None:
                raise StoreError(_NO_COPY.format(source))
            with folder_of(snapshot) as folder:
                fetch_tables(folder, *TABLES)
                for name in manifest.files:
                    _copy(folder / name, part / name)
            _note(part, {snapshot.url: [manifest.writer]})
        else:
            require_store(Path(source))
            with reading(Path(source)):
                for name in store_files(Path(source)):
                    _copy(Path(source, name), part / name)
        require_store(part)
        files = len(store_files(part))
        if store_dir.exists():
            store_dir.rmdir()
        part.replace(store_dir)
    return files


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder beside another, which a killed process may have left."""
    part = _beside(target, "part")
    shutil.rmtree(part, ignore_errors=True)
    make_folder(part)
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _beside(target: Path, what: str) -> Path:
    return target.with_name(f"{target.name}.{what}")


def copies_of(store_dir: Path) -> list[str]:
    """Return the addresses that a store was copied to."""
    return [*_copies(store_dir)]


def change_copies(store_dir: Path, work: Callable[[Path], bool]) -> list[str]:
    """Let `work` change each copy of a store, and return the addresses of those that it changed.

    It gets a folder with the copy, and returns whether it changed anything. What was replaced is
    deleted at once, also for those who read it now.

    Raises:
        StoreError: if what is at an address is not the store's copy.
        WrittenMeanwhileError: if another writer was first.
    """
    changed = []
    for url, writers in _copies(store_dir).items():
        if not is_object_url(url):
            if is_store(Path(url)) and work(Path(url)):
                changed.append(url)
            continue
        snapshot = snapshot_at(url)
        if not _require_copy(store_dir, snapshot):
            continue
        with folder_of(snapshot) as folder:
            if work(folder):
                writer = secrets.token_hex(ID_BYTES)
                _note(store_dir, {**_copies(store_dir), url: [*writers, writer]})
                publish(folder, snapshot, writer)
                changed.append(url)
        delete_unread(url)
    return changed


def _require_copy(store_dir: Path, snapshot: Snapshot) -> list[str]:
    """Return the writer of what is at an address, none if nothing is there."""
    if snapshot.manifest is None:
        return []
    writer = snapshot.manifest.writer
    if writer not in _copies(store_dir).get(snapshot.url, []):
        raise StoreError(
            f"{snapshot.url}: is not the copy of {store_dir}, or was written to since; "
            "name an address where no store is."
        )
    return [writer]


@contextmanager
def _frozen(store_dir: Path) -> Iterator[Path]:
    """Yield a temporary folder with the files of a store as they are at one moment."""
    with _explained(store_dir), tempfile.TemporaryDirectory(prefix="looptrace-") as name:
        folder = Path(name)
        _freeze(store_dir, folder)
        yield folder


@contextmanager
def _explained(store_dir: Path) -> Iterator[None]:
    """Turn errors of the disk and of SQLite into one line."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"{error.filename or store_dir}: cannot be copied ({error.strerror}); check space and "
            "permissions; TMPDIR may name a folder with room for the store."
        ) from error
    except sqlite3.Error as error:
        raise StoreError(f"{store_dir / GATES_FILE}: cannot be read ({error}).") from error


def _freeze(store_dir: Path, folder: Path) -> None:
    ends_s = time.monotonic() + _WAIT_S
    while True:
        # No file is replaced meanwhile.
        with reading(store_dir):
            if not (store_dir / UNFINISHED_FILE).exists():
                # Gates may not have less than the notes say, nor the log less than the gates.
                for name in sorted(store_files(store_dir), key=_DATABASES.__contains__):
                    _link(store_dir / name, folder / name)
                return
        if time.monotonic() > ends_s:
            raise UnavailableError(
                f"{store_dir}: turns and findings lag behind the spans; if no server or ingest is "
                "at work there, run `looptrace ingest` again."
            )
        time.sleep(_LOOK_S)


def _link(source: Path, target: Path) -> None:
    """Let a file be in another folder as well, as it is now."""
    if source.name in (*_DATABASES, AUDIT_FILE):  # What changes in place.
        _copy(source, target)
        return
    make_folder(target.parent)
    try:
        os.link(source, target)  # Files are replaced, and never changed.
    except OSError:  # Another file system.
        _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    """Copy a file, which survives a loss of power; of a database what was committed."""
    make_folder(target.parent)
    if source.name in _DATABASES:
        with closing(sqlite3.connect(source)) as sql, closing(sqlite3.connect(target)) as copy:
            sql.backup(copy)
        return
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    sync_folder(target.parent)


def _copies(store_dir: Path) -> dict[str, list[str]]:
    return read_note(store_dir / _COPIES_FILE, dict[str, list[str]]) or {}


def _note(store_dir: Path, copies: dict[str, list[str]]) -> None:
    put_note(store_dir / _COPIES_FILE, copies)
