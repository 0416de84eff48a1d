"""Locks of a store: one ingest at a time, and any number of readers.

A replaced file is always whole, but an engine opens a file several times while it reads, and would
mix the old one with the new one. So looptrace's own readers prevent that files are replaced during
one query or one bucket. The system frees every lock when its process ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from looptrace.errors import LooptraceError

if sys.platform != "win32":
    import fcntl

# The prefix of all files of a store that belong to no table.
NAME = "looptrace-store"
MARKER = f"{NAME}.json"  # Marks a folder as a store; readers and replacers lock it.
_INGESTING = f"{NAME}.lock"

# What makes all again that follows from the spans.
EVALUATE = "run `looptrace ingest --store STORE`, or start its server"


class StoreError(LooptraceError):
    """The store cannot be used; the message is one line that says where, why and what to do."""


class DamagedFileError(StoreError):
    """A file of the store is not what looptrace wrote."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path

    def __reduce__(self) -> tuple[type[DamagedFileError], tuple[Path, str]]:
        return DamagedFileError, (self.path, str(self))  # It may come from another process.


@contextmanager
def ingesting(store_dir: Path) -> Iterator[None]:
    """Keep other ingests out.

    Raises:
        StoreError: if another one is at work.
    """
    path = store_dir / _INGESTING
    try:
        if sys.platform == "win32":
            lock = os.open(path, os.O_CREAT | os.O_EXCL)
        else:
            lock = os.open(path, os.O_CREAT | os.O_RDWR)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, FileExistsError) as error:
        raise StoreError(
            f"{path}: another ingest or a server is using this store; wait until it ends, "
            "or send the spans to the server."
        ) from error
    try:
        yield
    finally:
        os.close(lock)
        if sys.platform == "win32":
            path.unlink()


@contextmanager
def reading(store_dir: Path) -> Iterator[None]:
    """Prevent changes to the files of a store meanwhile."""
    with _marker_locked(store_dir, alone=False):
        yield


@contextmanager
def replacing(store_dir: Path) -> Iterator[None]:
    """Wait until there are no readers, and make new ones wait meanwhile."""
    with _marker_locked(store_dir, alone=True):
        yield


@contextmanager
def _marker_locked(store_dir: Path, *, alone: bool) -> Iterator[None]:
    """Lock the marker. A new store has none yet, nor readers; Windows replaces no open file."""
    marker = store_dir / MARKER
    if sys.platform == "win32" or not marker.exists():
        yield
        return
    with marker.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def sync_folder(folder: Path) -> None:
    """Make the files created, renamed and deleted in a folder survive a loss of power.

    Raises:
        OSError: if that cannot be written.
    """
    if sys.platform == "win32":  # Folders cannot be opened there.
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, so that they survive a loss of power.

    Raises:
        OSError: if that cannot be written.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)
