"""A store on disk copied to object storage, again and again: what is there is sent once.

A server keeps its store on a disk. Its copy is for those who analyse and query it elsewhere.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from looptrace.collector.store.layout import (
    GATES_FILE,
    UNFINISHED_FILE,
    require_store,
    write_note,
)
from looptrace.collector.store.locks import NAME, StoreError, reading
from looptrace.collector.store.objects.manifest import FileObject
from looptrace.collector.store.objects.publisher import ID_BYTES, publish, store_files
from looptrace.collector.store.objects.snapshot import Snapshot, snapshot_at
from looptrace.errors import UnavailableError

# The writers of the last manifests of each copy, by its address.
_COPIES_FILE = f"{NAME}.copies"
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
        # Before, because whoever is killed then has published, and must be known.
        _note(store_dir, {**_copies(store_dir), snapshot.url: [*known, writer]})
        return publish(folder, snapshot, writer)


def _require_copy(store_dir: Path, snapshot: Snapshot) -> list[str]:
    """Return the writer of what is at an address, none if nothing is there.

    Raises:
        StoreError: if it is not a copy of this store as it was left.
    """
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
    try:
        with tempfile.TemporaryDirectory(prefix="looptrace-") as name:
            folder = Path(name)
            _freeze(store_dir, folder)
            yield folder
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
                # Gates come last: they may not have less than the notes say.
                for name in sorted(store_files(store_dir), key=GATES_FILE.__eq__):
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
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.name == GATES_FILE:
        with closing(sqlite3.connect(source)) as sql, closing(sqlite3.connect(target)) as copy:
            sql.backup(copy)
        return
    try:
        os.link(source, target)  # Files are replaced, and never changed.
    except OSError:  # Another file system.
        shutil.copyfile(source, target)


def _copies(store_dir: Path) -> dict[str, list[str]]:
    note = store_dir / _COPIES_FILE
    try:
        return msgspec.json.decode(note.read_bytes(), type=dict[str, list[str]])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise StoreError(f"{note}: cannot be read ({error}); delete it.") from error


def _note(store_dir: Path, copies: dict[str, list[str]]) -> None:
    write_note(store_dir / _COPIES_FILE, msgspec.json.encode(copies).decode())
