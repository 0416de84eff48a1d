"""Where traces are read from: paths, patterns, folders, standard input and APIs, as bytes.

A source that cannot be opened, or breaks off, is reported and never raised to the reader's user.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from looptrace.analyzer.schema.spans import Skipped
from looptrace.collector.otlp.frames import (
    FRAME_BYTES_MAX,
    GZIP_MAGIC,
    ZSTD_MAGIC,
    DamagedError,
    too_long,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from looptrace.collector.importers.apis import ApiAddress

    PackedStream = io.BufferedReader[Any] | gzip.GzipFile | zstd.ZstdFile

# The names that a folder is searched for; a file that is named itself may have any ending.
TRACE_ENDINGS = (
    ".json", ".jsonl", ".ndjson", ".pb", ".binpb", ".otlp", ".bin", ".traj", ".eval",
)  # fmt: skip
PACKED_ENDINGS = (".gz", ".zst")
STANDARD_INPUT = "-"

# How much is unpacked at once.
CHUNK_BYTES = 1 << 20
# How much compressed input is read at once.
READ_BYTES = 1 << 17
# Unpacked bytes that are allowed whatever the ratio, so that small repetitive files pass.
TRUSTED_BYTES = 64 << 20
# Unpacked bytes for a packed one, above which input is taken for a decompression bomb.
# The ids alone keep real traces below 100; gzip ends at 1032.
UNPACKED_RATIO_MAX = 500

_BOMB = (
    f"unpacks to more than {UNPACKED_RATIO_MAX} times its size, so it may be a decompression bomb; "
    f"if it is not, unpack it and read it unpacked"
)
# A file that was packed again by its upload is packed twice.
PACKINGS_MAX = 3
_MAGIC_BYTES = 4
_ZIP_MAGIC = b"PK\x03\x04"
# Where an archive has such files, the others say nothing of turns: the samples of a log of Inspect
# (UKGovernmentBEIS/inspect_ai src/inspect_ai/log/_recorders/eval.py), and exported chats.
_OF_ARCHIVES = tuple(map(re.compile, (r"samples/.+\.json", r"(?:.+/)?conversations[^/]*\.json")))
_PLAIN = "plain"

_TRACE_NAME = re.compile(
    "[^.].*({})({})?".format(
        "|".join(map(re.escape, TRACE_ENDINGS)), "|".join(map(re.escape, PACKED_ENDINGS))
    ),
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?:[a-z]+\+)?https?://.")
_MAGICAL = re.compile(r"[*?\[]")
_NO_FILES = (
    f"no trace files in this folder: looked for names ending in {' '.join(TRACE_ENDINGS)}, also "
    f"with {' or '.join(PACKED_ENDINGS)}; name other files one by one"
)


@dataclass(frozen=True, slots=True)
class Source:
    """One stream of bytes to read: a file, an API, or standard input where both are None."""

    name: str
    path: Path | None = None
    identity: tuple[int, int] | None = None  # device and inode: the file behind all its names
    bytes_on_disk: int = 0  # 0 where it is not known beforehand; unpacked, of a `member`
    api: ApiAddress | None = None
    member: str = ""  # of the archive that is the file


def find_sources(paths: Sequence[str]) -> tuple[list[Source], list[Skipped]]:
    """Find what `paths` name: files, folders, patterns and `-`, each file once, in their order."""
    sources: dict[tuple[int, int] | None, Source] = {}
    skipped = []
    for path in paths:
        for entry in _sources_of(path):
            if isinstance(entry, Skipped):
                skipped.append(entry)
            else:
                sources.setdefault(entry.identity, entry)
    return list(sources.values()), skipped


def unpacked(source: Source, on_read: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the bytes of a source in chunks, unpacked if they are gzip or zstd.

    `on_read` gets the number of bytes on disk that are read so far. Raises DamagedError
    after the last chunk that could be read.
    """
    if source.api is not None:
        from looptrace.collector.importers.apis import answers  # noqa: PLC0415 - as below

        yield from answers(source.api, on_read)
        return
    try:
        with _open(source) as stream:
            yield from _unpacked(stream, on_read)
    except OSError as error:
        raise DamagedError(_trouble(error)) from error


def unpacked_message(message: bytes) -> bytes:
    """Return the bytes of a message, unpacked if they are gzip or zstd. Raises DamagedError."""
    if not message.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        return message
    parts, bytes_left = [], FRAME_BYTES_MAX
    for chunk in _unpacked(io.BytesIO(message), lambda _: None):
        bytes_left -= len(chunk)
        if bytes_left < 0:
            raise DamagedError(too_long("message"))
        parts.append(chunk)
    return b"".join(parts)


def _sources_of(path: str) -> list[Source | Skipped]:
    if path == STANDARD_INPUT:
        return [Source("<stdin>")]
    if _ADDRESS.match(path):
        return _at_address(path)
    try:
        state = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the path.
        if _MAGICAL.search(path):
            return _matching(path)
        if "://" in path:
            return [Skipped(path, "traces are read from this machine; copy them here first")]
        return [Skipped(path, "no such file or folder; check the path")]
    except OSError as error:
        return [Skipped(path, _trouble(error))]
    return _in_folder(path) if stat.S_ISDIR(state.st_mode) else _file(path, state)


def _at_address(path: str) -> list[Source | Skipped]:
    # The libraries of HTTP and TLS take longer to import than a small file to read.
    from looptrace.collector.importers.apis import BadAddressError, parse_address  # noqa: PLC0415

    try:
        # Two addresses are never the same source.
        return [Source(path, identity=(-1, hash(path)), api=parse_address(path))]
    except BadAddressError as error:
        return [Skipped(path, str(error))]


def _file(path: str, state: os.stat_result) -> list[Source | Skipped]:
    is_regular = stat.S_ISREG(state.st_mode)
    identity = (state.st_dev, state.st_ino)
    if is_regular and _is_archive(path):
        return _in_archive(path, identity)
    return [Source(path, Path(path), identity, state.st_size if is_regular else 0)]


def _is_archive(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MAGIC_BYTES) == _ZIP_MAGIC
    except OSError:
        return False  # Whoever reads it says why.


def _in_archive(path: str, identity: tuple[int, int]) -> list[Source | Skipped]:
    """Find the trace files of a ZIP archive, each of which is unpacked as it is read."""
    import zipfile  # noqa: PLC0415 - few need it, and it takes a while to import

    try:
        with zipfile.ZipFile(path) as archive:
            members = [each for each in archive.infolist() if not each.is_dir()]
    except zipfile.BadZipFile as error:
        return [Skipped(path, f"a damaged ZIP archive ({error}); copy or export it again")]
    kinds = ([each for each in members if own.fullmatch(each.filename)] for own in _OF_ARCHIVES)
    named = [each for each in members if _TRACE_NAME.fullmatch(Path(each.filename).name)]
    chosen = next(filter(None, kinds), named)
    found: list[Source | Skipped] = []
    for each in chosen:
        name, at = f"{path}/{each.filename}", (*identity, each.filename)
        most = max(TRUSTED_BYTES, UNPACKED_RATIO_MAX * each.compress_size)
        if each.file_size > most:
            found.append(Skipped(name, _BOMB))
        else:
            own = (-1, hash(at))
            found.append(Source(name, Path(path), own, each.file_size, member=each.filename))
    return found or [Skipped(path, "an archive without trace files; name it unpacked")]


def _matching(pattern: str) -> list[Source | Skipped]:
    """Find what a pattern that the shell left alone names, hidden files only if it names them."""
    parts = Path(pattern).parts
    first = next(i for i, part in enumerate(parts) if _MAGICAL.search(part))
    folder, below = Path(*parts[:first]), parts[first:]
    if below == ("**",):
        return _sources_of(str(folder))
    try:
        matches = sorted(folder.glob("/".join(below)))
    except (ValueError, OSError) as error:
        return [Skipped(pattern, f"not a usable pattern: {error}; `**` must stand alone")]
    if not any(part.startswith(".") for part in below):
        matches = [path for path in matches if not _hidden(path.relative_to(folder))]
    if "**" in below:  # The files of the folders that match are matched themselves.
        matches = [path for path in matches if not path.is_dir()]
    if not matches:
        return [Skipped(pattern, "no file matches this pattern; check the folder and the ending")]
    return [entry for path in matches for entry in _sources_of(str(path))]


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _in_folder(folder: str) -> list[Source | Skipped]:
    """Find the trace files of a folder and of those in it, each folder entered once."""
    entries: list[Source | Skipped] = []
    entered = set()

    def refused(error: OSError) -> None:
        entries.append(Skipped(str(error.filename), _trouble(error)))

    for root, folders, files in os.walk(folder, onerror=refused, followlinks=True):
        state = Path(root).stat()
        if (state.st_dev, state.st_ino) in entered:  # A symbolic link led back here.
            folders.clear()
            continue
        entered.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(root, name) for name in sorted(files) if _TRACE_NAME.fullmatch(name)):
            if path.is_file() or not path.exists():  # Not a pipe, which might never end.
                entries += _sources_of(str(path))
    return entries or [Skipped(folder, _NO_FILES)]


class _CountedReader(io.RawIOBase):
    """A stream that counts the bytes that were read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        taken = self._stream.read(len(view))
        view[: len(taken)] = taken
        self.bytes_read += len(taken)
        return len(taken)


@contextmanager
def _member(source: Source) -> Iterator[IO[bytes]]:
    """Open a file of an archive."""
    import zipfile  # noqa: PLC0415 - as above

    try:
        with zipfile.ZipFile(source.path or "") as archive:
            try:
                file = archive.open(source.member)
            except RuntimeError as error:  # It is encrypted, or packed in an unknown way.
                raise DamagedError(_not_unpacked(error)) from error
            with file:
                yield file
    except zipfile.BadZipFile as error:
        raise DamagedError(_not_unpacked(error)) from error


def _not_unpacked(error: Exception) -> str:
    return f"cannot be unpacked ({error}); unpack it and read it unpacked"


def _open(source: Source) -> AbstractContextManager[IO[bytes]]:
    """Open a source; standard input is not closed afterwards."""
    if source.member:
        return _member(source)
    if source.path is not None:
        return source.path.open("rb")
    if sys.stdin is None:  # So it is where a shell closed it.
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return nullcontext(sys.stdin.buffer)


def _unpacked(stream: IO[bytes], on_read: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the unpacked bytes of a stream in chunks; raises DamagedError where they break off."""
    packed = _CountedReader(stream)
    source = io.BufferedReader(packed, READ_BYTES)
    bytes_done, kind = 0, _kind(source)
    try:
        reader = _reader(source)
        while chunk := reader.read1(CHUNK_BYTES):
            bytes_done += len(chunk)
            if bytes_done > max(TRUSTED_BYTES, UNPACKED_RATIO_MAX * packed.bytes_read):
                raise DamagedError(_BOMB)
            on_read(packed.bytes_read)
            yield chunk
    except EOFError as error:
        raise DamagedError(f"the {kind} data is cut off; copy or export the file again") from error
    except (gzip.BadGzipFile, zlib.error, zstd.ZstdError) as error:
        raise DamagedError(f"the {kind} data is damaged; copy or export the file again") from error


def _reader(packed: io.BufferedReader[Any]) -> PackedStream:
    """Return the reader that unpacks a stream, chosen by how it begins, also if packed again."""
    reader: PackedStream = packed
    for _ in range(PACKINGS_MAX):
        kind = _kind(reader)
        if kind == _PLAIN:
            break
        reader = (
            gzip.GzipFile(fileobj=reader, mode="rb") if kind == "gzip" else zstd.ZstdFile(reader)
        )
    return reader


def _kind(stream: PackedStream) -> str:
    """Return the name of a stream's packing, by its first bytes."""
    magic = stream.peek(_MAGIC_BYTES)
    if magic.startswith(GZIP_MAGIC):
        return "gzip"
    return "zstd" if magic.startswith(ZSTD_MAGIC) else _PLAIN


def _trouble(error: OSError) -> str:
    """Return in words what the operating system refused."""
    if isinstance(error, PermissionError):
        return "permission denied; make it readable for this user"
    return f"cannot be read: {(error.strerror or str(error)).lower()}; check the path"
