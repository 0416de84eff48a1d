"""The files of a store, and the check that a folder is one."""

import json
import os
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from looptrace.collector.store.file_names import BUCKETS
from looptrace.collector.store.locks import EVALUATE, MARKER, NAME, StoreError, sync_folder
from looptrace.typed_json import decoded

T = TypeVar("T")

# This file exists while turns and findings may lag behind the spans.
UNFINISHED_FILE = f"{NAME}.unfinished"
RULES_FILE = f"{NAME}.rules"  # `Evaluated`, as JSON.
EVALUATED_FILE = f"{NAME}.judged"  # The source of each bucket's findings, and its number of rows.
RETENTION_FILE = f"{NAME}.retention"  # The days that are to be deleted, and those that were.
GATES_FILE = f"{NAME}.gates.db"
AUDIT_FILE = f"{NAME}.audit.jsonl"
# What a server was asked to erase, until the next start has done it, and then its result.
ERASURE_FILE = f"{NAME}.erasure"
# The promises of learned limits that a server withdrew.
PROMISES_FILE = f"{NAME}.promises"
LOG_FILE = f"{NAME}.log.db"  # Spans that a server acknowledged and has not stored yet.

SCHEMA_VERSION = 8
COLUMNS_VERSION = 8  # The first version with the columns of now.
# The versions that can be read; writers migrate an earlier one.
_VERSIONS_READ = range(1, SCHEMA_VERSION + 1)


class Evaluated(NamedTuple):
    """What the last evaluation came from, and what it left in the file of the gates.

    A file with fewer events is not the one that was written.
    """

    settings: str = ""  # the hash of those that findings and gates come from
    events: int = 0
    decisions: int = 0
    key: str = ""  # the digest of the store's key, where it has one
    is_served: bool = False  # there is the log of a server


# As many events as no file has: the gates of the store are to be found again.
EVENTS_LOST = 1 << 62


def read_evaluated(store_dir: Path) -> Evaluated:
    """Return the note of the last evaluation."""
    path = store_dir / RULES_FILE
    noted = path.read_bytes() if path.is_file() else b""
    try:
        return decoded(noted, Evaluated)
    except msgspec.DecodeError:  # An earlier version noted the settings alone.
        return Evaluated(noted.decode(errors="replace"))


def write_evaluated(store_dir: Path, evaluated: Evaluated) -> None:
    """Note an evaluation."""
    put_note(store_dir / RULES_FILE, evaluated)


def is_store(path: Path) -> bool:
    """Return whether a path is a store's folder, also one that has lost its marker."""
    return (path / MARKER).is_file() or (path / RULES_FILE).is_file()


def require_store(store_dir: Path) -> int:
    """Check that a folder is a store that this version can read; returns the store's schema.

    Raises:
        StoreError: if it is not a store, or one of a newer version.
    """
    marker = store_dir / MARKER
    if not is_store(store_dir):
        raise StoreError(
            f"{store_dir}: is not a store; check the path, or make one with `looptrace ingest`."
        )
    if not marker.is_file():
        raise StoreError(f"{marker}: is not there; to make it again, {EVALUATE}.")
    try:
        written = json.loads(marker.read_bytes())
        version, buckets = int(written["schema"]), int(written["buckets"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"{marker}: cannot be read ({error}); move it away, and to make it again, {EVALUATE}."
        ) from error
    if version not in _VERSIONS_READ or buckets != BUCKETS:
        raise StoreError(
            f"{store_dir}: was written by another version of looptrace (schema {version}, "
            f"{buckets} buckets; known is schema {SCHEMA_VERSION}, {BUCKETS} buckets); "
            "update looptrace."
        )
    return version


def write_marker(store_dir: Path, version: int = SCHEMA_VERSION) -> None:
    """Mark a folder as a store of this version."""
    marker = {"schema": version, "buckets": BUCKETS}
    _replace(store_dir / MARKER, f"{json.dumps(marker)}\n")


def gates_path(store_dir: Path) -> Path:
    """Return the file with the gates of a store.

    Raises:
        StoreError: if the folder is no store, or its gates were never written.
    """
    require_store(store_dir)
    path = store_dir / GATES_FILE
    if not path.is_file():
        raise StoreError(f"{store_dir}: has no file of gates; to find them again, {EVALUATE}.")
    return path


def read_note(path: Path, kind: type[T], if_damaged: str = "delete it") -> T | None:
    """Return the value in a small file of the store; None where there is no such file.

    Raises:
        StoreError: if it is not what looptrace wrote; `if_damaged` is the advice then.
    """
    try:
        return decoded(path.read_bytes(), kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); {if_damaged}.") from error


def put_note(path: Path, value: object) -> None:
    """Write a value as JSON, for `read_note`; whole, or leave the file as it was."""
    write_note(path, msgspec.json.encode(value).decode())


def write_note(path: Path, text: str) -> None:
    """Write a small file of the store whole, or leave it as it was."""
    try:
        _replace(path, text)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror}); check space and permissions."
        ) from error


def _replace(path: Path, text: str) -> None:
    aside = path.with_name(f"{path.name}.tmp")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)
