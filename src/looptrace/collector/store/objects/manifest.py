"""The manifest of a store on object storage: the object of each file."""

import re
from collections.abc import Mapping

import msgspec

from looptrace.collector.store.file_names import NAME_PATTERN
from looptrace.collector.store.locks import NAME, StoreError
from looptrace.collector.store.objects.client import Objects, Version
from looptrace.typed_json import decoded

MANIFEST = f"{NAME}.manifest.json"
FORMAT = 1
# The files of a store. Locks belong to one machine.
_TABLE = r"(?P<table>spans|turns|findings)/day=[\d-]+/bucket=(?P<bucket>\d+)"
_NOTE = rf"{NAME}\.(json|rules|judged|key|gates\.db|log\.db|audit\.jsonl)"
TABLE_FILE = re.compile(rf"{_TABLE}/{NAME_PATTERN}")
NOTE_FILE = re.compile(_NOTE)
# The objects that writers make from them; a writer's id is in the name.
OBJECT = re.compile(rf"{_TABLE}/[0-9a-f]+(-\d+-\d+)?\.parquet|{_NOTE}\.[0-9a-f]+")


class FileObject(msgspec.Struct, frozen=True):
    """The object that is a file of the store."""

    object: str
    bytes: int
    sha256: str
    rows: int  # of a table's file; of others 0


class Manifest(msgspec.Struct, frozen=True):
    """The files of a store after one writer, by their names in its folder.

    Objects are never changed: the writer of a file makes a new object. A reader of the earlier
    manifest may go on with the old one, which is `retired` and deleted a day later.
    """

    writer: str  # new for each writing, so that no two manifests are the same
    files: Mapping[str, FileObject]
    retired: Mapping[str, int]  # objects, and the seconds since 1970 at which they were replaced
    format: int = FORMAT


def read_manifest(objects: Objects) -> tuple[Manifest, Version] | None:
    """Return the manifest and its version, or None."""
    stored = objects.get(MANIFEST)
    if stored is None:
        return None
    try:
        manifest = decoded(stored.content, Manifest)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"{objects.url}/{MANIFEST}: is not a manifest of looptrace ({error}); "
            "put back an earlier version of it, or make a new store from the traces."
        ) from error
    if manifest.format != FORMAT:
        raise StoreError(
            f"{objects.url}: was written by another version of looptrace (format "
            f"{manifest.format}; known is {FORMAT}); update looptrace."
        )
    for name in manifest.files:
        if not (TABLE_FILE.fullmatch(name) or NOTE_FILE.fullmatch(name)):
            raise StoreError(f"{objects.url}/{MANIFEST}: names a file that no store has.")
    return manifest, stored.version
