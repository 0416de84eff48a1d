"""What is known of a file without reading it is what the file says, by whomever it was written."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace.collector.store.tables import parquet
from looptrace.collector.store.tables.file_contents import (
    MADE_WITH,
    Having,
    file_made_with,
    file_rows,
    forget,
    hashes_of,
    learn,
    may_have,
    note,
)


def write(path: Path, values: list[str | None], note: str = "") -> None:
    """Replace a file as a writer does: by another one of that name."""
    aside = path.with_name("aside")
    pl.DataFrame({"task": values}, {"task": pl.String}).write_parquet(
        aside, metadata={MADE_WITH: note}
    )
    aside.replace(path)


def having(*values: str) -> Having:
    """Return the condition that a task is one of these."""
    return Having("task", pl.Series(values, dtype=pl.String))


def has(path: Path, condition: Having) -> bool:
    """Return whether a file may have rows of a condition."""
    return may_have(path, condition.column, *hashes_of([condition.values]))


def test_a_replaced_file_is_read_again(tmp_path: Path) -> None:
    """A writer in another process may have replaced it."""
    path = tmp_path / "data.parquet"
    write(path, ["a", None, "b"], "one")
    assert (file_rows(path), file_made_with(path)) == (3, "one")
    assert has(path, having("x", "b"))
    assert not has(path, having("c"))
    assert not has(path, having())
    write(path, ["c"], "two")
    assert (file_rows(path), file_made_with(path)) == (1, "two")
    assert has(path, having("c"))
    assert not has(path, having("a", "b"))
    forget(path)
    write(path, [])
    assert not has(path, having("c"))


def test_a_written_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer knows what is in it; only a column that nobody has asked for yet is read."""
    path = tmp_path / "data.parquet"
    write(path, ["a"], "one")
    assert has(path, having("a"))
    write(path, ["b", None, "b"], "two")
    note({path: (pl.read_parquet(path), "two", 7)})
    for name in ("scan_parquet", "read_parquet", "read_parquet_metadata"):
        monkeypatch.setattr(pl, name, None)
    assert (file_rows(path), file_made_with(path)) == (3, "two")
    assert has(path, having("b"))
    assert not has(path, having("a"))
    monkeypatch.undo()
    write(path, ["c"], "three")  # By another process.
    assert (file_rows(path), file_made_with(path)) == (1, "three")
    assert has(path, having("c"))


def test_a_value_beyond_all_others_is_not_found(tmp_path: Path) -> None:
    """The nearest hash is another one, also at both ends."""
    path = tmp_path / "data.parquet"
    write(path, [str(n) for n in range(0, 2_000, 2)])
    for number in range(2_000):
        assert has(path, having(str(number))) == (number % 2 == 0)


def test_rows_are_read_from_the_files_that_may_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any of the conditions is enough, and no other file is opened."""
    for bucket, values in enumerate([["a", "x"], ["b"], ["c"]]):
        folder = tmp_path / "turns" / "day=2026-03-14" / f"bucket={bucket:02}"
        folder.mkdir(parents=True)
        write(folder / "data.parquet", [*values])
    wanted, scanned = [having("a"), having("b", "y")], list[list[Path]]()
    which = wanted[0].expr | wanted[1].expr
    read = parquet.read_where(tmp_path, "turns", which, ["task"])
    assert parquet.read_where(tmp_path, "turns", which, ["task"], wanted).equals(read)
    scan = pl.scan_parquet

    def noted(paths: list[Path], **how: Any) -> pl.LazyFrame:
        scanned.append(paths)
        return scan(paths, **how)

    monkeypatch.setattr(pl, "scan_parquet", noted)
    assert parquet.read_where(tmp_path, "turns", which, ["task"], wanted).equals(read)
    assert [[path.parent.name for path in paths] for paths in scanned] == [
        ["bucket=00", "bucket=01"]
    ]
    assert parquet.read_where(tmp_path, "turns", which, ["task"], [having("z")]).is_empty()


def test_values_read_together_are_those_of_each_file(tmp_path: Path) -> None:
    """A file without rows has none of them."""
    paths = [tmp_path / name for name in ("one", "two", "none")]
    written: tuple[list[str | None], ...] = (["a", "b", "a"], ["c", None], [])
    for path, values in zip(paths, written, strict=True):
        write(path, values)
    learn(paths, "task")
    found = [[has(path, having(value)) for value in "abc"] for path in paths]
    assert found == [[True, True, False], [False, False, True], [False, False, False]]
