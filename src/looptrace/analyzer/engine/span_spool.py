"""Spans on their way to an analysis: the last table stays in memory, the others in files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self, TypeVar

import polars as pl

from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.errors import UnavailableError
from looptrace.processes import Engine

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SpanFile:
    """A table of spans in a file, with its number of rows and its bytes in memory."""

    path: Path
    spans: int
    bytes: int


class SpanSpool:
    """Tables of spans (`SPAN_SCHEMA`) in order; a span may occur twice.

    The files lie in a temporary folder that is deleted with the spool.
    """

    def __init__(self) -> None:
        self.spans = 0
        self.bytes = 0  # of the columns
        self._files: list[Path] = []
        self._last = SPAN_SCHEMA.to_frame()
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        """Start without spans."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the files."""
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def is_in_memory(self) -> bool:
        """Whether one table holds all spans."""
        return not self._files

    @property
    def folder(self) -> Path:
        """The folder, which is created when it is first needed.

        Raises:
            UnavailableError: if it cannot be created.
        """
        if self._folder is None:
            try:
                self._folder = TemporaryDirectory(prefix="looptrace-")
            except OSError as error:
                raise _no_room("temporary folder", error) from error
        return Path(self._folder.name)

    def add(self, spans: pl.DataFrame) -> None:
        """Add the next table.

        Raises:
            UnavailableError: if the one before it cannot be written to a file.
        """
        self._put_away()
        self._last = spans
        self._count(spans.height, int(spans.estimated_size()))

    def add_files(self, files: Iterable[SpanFile]) -> None:
        """Add tables that `write_spans` wrote into the folder."""
        self._put_away()
        for file in files:
            self._files.append(file.path)
            self._count(file.spans, file.bytes)

    def change(self, work: Callable[[pl.DataFrame], pl.DataFrame], engine: Engine = map) -> None:
        """Replace each table by the result of `work`.

        An engine does this for the tables in files and pickles `work`.

        Raises:
            UnavailableError: if there is no room for a file.
        """
        for _ in engine(partial(_change_file, work), self._files):
            pass
        self._last = work(self._last)

    def tables(self) -> Iterator[pl.DataFrame]:
        """Yield the tables; tables in files are read into memory one after the other."""
        for path in self._files:
            yield pl.read_ipc(path)
        yield self._last

    def each(self, work: Callable[[pl.DataFrame], R], engine: Engine = map) -> Iterator[R]:
        """Yield the result of `work` for each table; an engine does files, as in `change`."""
        yield from engine(partial(_of_file, work), self._files)
        yield work(self._last)

    def split(
        self, places: pl.DataFrame, engine: Engine = map
    ) -> Mapping[int, Sequence[pl.DataFrame | Path]]:
        """Hand over the spans by the `place` of their trace (`trace_id`, `place`).

        Return tables, or their files if not all spans are in memory.

        Raises:
            UnavailableError: if there is no room for a file.
        """
        found: dict[int, list[pl.DataFrame | Path]] = defaultdict(list)
        for parts in engine(partial(_split_file, places), self._files):
            for place, path in parts.items():
                found[place].append(path)
        for place, part in split_spans(self._last, places):
            path = Path() if self.is_in_memory else self.folder / f"last.{place}"
            found[place].append(part if self.is_in_memory else write_spans(part, path).path)
        return found

    def _put_away(self) -> None:
        if self._last.height:
            path = self.folder / f"{len(self._files)}.spans"
            self._files.append(write_spans(self._last, path).path)
            self._last = self._last.clear()

    def _count(self, spans: int, size_bytes: int) -> None:
        self.spans += spans
        self.bytes += size_bytes


def write_spans(spans: pl.DataFrame, path: Path) -> SpanFile:
    """Write a table of spans to a file of its own.

    Raises:
        UnavailableError: if there is no room for it.
    """
    try:
        spans.write_ipc(path, compression="lz4")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _no_room(str(path), error) from error
    return SpanFile(path, spans.height, int(spans.estimated_size()))


def _change_file(work: Callable[[pl.DataFrame], pl.DataFrame], path: Path) -> None:
    aside = path.with_suffix(".changed")
    write_spans(work(pl.read_ipc(path)), aside)
    aside.replace(path)


def _of_file(work: Callable[[pl.DataFrame], R], path: Path) -> R:
    return work(pl.read_ipc(path))


def _split_file(places: pl.DataFrame, path: Path) -> dict[int, Path]:
    """Write the spans of a file to one file for each place, and delete the file."""
    parts = {
        place: write_spans(part, path.with_name(f"{path.name}.{place}")).path
        for place, part in split_spans(pl.read_ipc(path), places)
    }
    path.unlink()
    return parts


def split_spans(spans: pl.DataFrame, places: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the spans of each place, by the `place` of their trace (`trace_id`, `place`)."""
    placed = spans.join(places, on="trace_id", maintain_order="left")
    parts = placed.partition_by("place", as_dict=True, include_key=False)
    return ((int(place), part) for (place,), part in parts.items())


def _no_room(where: str, error: Exception) -> UnavailableError:
    why = str(error).partition("\n")[0]
    return UnavailableError(
        f"{where}: cannot be written ({why}); large input needs a temporary folder with room for "
        "it, which TMPDIR may name."
    )
