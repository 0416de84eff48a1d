"""Spans on their way to an analysis: in memory, or in files if they are many."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self, TypeVar

import polars as pl

from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.errors import UnavailableError

R = TypeVar("R")

# Bytes of columns that are held in memory; what is more goes to files, with all before it, which
# takes an eighth of the time of an analysis.
HELD_BYTES_MAX = 96 << 20


class SpanSpool:
    """Tables of spans (`SPAN_SCHEMA`) in order; a span may occur twice.

    The files lie in a temporary folder that is deleted with the spool.
    """

    def __init__(self) -> None:
        self.spans = 0
        self.bytes = 0  # of the columns
        self._files: list[Path] = []
        self._held = [SPAN_SCHEMA.to_frame()]
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
        """Whether all spans are."""
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
        """Add the next table. The first one stays in memory, whatever its size, if no other comes.

        Raises:
            UnavailableError: if tables cannot be written to files.
        """
        self.spans += spans.height
        self.bytes += int(spans.estimated_size())
        self._held = [table for table in self._held if table.height] + [spans]
        if self._files or (len(self._held) > 1 and self.bytes > HELD_BYTES_MAX):
            for table in self._held:
                path = self.folder / f"{len(self._files)}.spans"
                self._files.append(_written(table, path))
            self._held.clear()

    def change(self, work: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Replace each table by the result of `work`.

        Raises:
            UnavailableError: if there is no room for a file.
        """
        for path in self._files:
            aside = path.with_suffix(".changed")
            _written(work(pl.read_ipc(path)), aside).replace(path)
        self._held = list(map(work, self._held))

    def tables(self) -> Iterator[pl.DataFrame]:
        """Yield the tables; tables in files are read into memory one after the other."""
        yield from self._held
        yield from map(pl.read_ipc, self._files)

    def split(self, places: pl.DataFrame) -> Mapping[int, Sequence[pl.DataFrame | Path]]:
        """Hand over the spans by the `place` of their trace (`trace_id`, `place`).

        Return tables, or their files if not all spans are in memory. The spool is empty then.

        Raises:
            UnavailableError: if there is no room for a file.
        """
        found: dict[int, list[pl.DataFrame | Path]] = defaultdict(list)
        while self._held:
            for place, part in split_spans(self._held.pop(0), places):
                found[place].append(part)
        for path in self._files:
            for place, part in split_spans(pl.read_ipc(path), places):
                found[place].append(_written(part, path.with_name(f"{path.name}.{place}")))
            path.unlink()
        self._files = []
        return found


def _written(spans: pl.DataFrame, path: Path) -> Path:
    try:
        spans.write_ipc(path, compression="lz4")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _no_room(str(path), error) from error
    return path


def split_spans(spans: pl.DataFrame, places: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the spans of each place, by the `place` of their trace (`trace_id`, `place`)."""
    placed = spans.select("trace_id").join(places, on="trace_id", maintain_order="left")["place"]
    if placed.is_sorted():  # Slices copy no texts.
        starts = placed.arg_unique().to_list()
        for start, stop in pairwise([*starts, spans.height]):
            yield int(placed[start]), spans[start:stop]
        return
    parts = spans.with_columns(place=placed).partition_by("place", as_dict=True, include_key=False)
    yield from ((int(place), part) for (place,), part in parts.items())


def _no_room(where: str, error: Exception) -> UnavailableError:
    why = str(error).partition("\n")[0]
    return UnavailableError(
        f"{where}: cannot be written ({why}); large input needs a temporary folder with room for "
        "it, which TMPDIR may name."
    )
