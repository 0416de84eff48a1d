"""What is known of a file without reading it is what the file says, by whomever it was written."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from looptrace.collector.store.tables.file_contents import (
    MADE_WITH,
    Having,
    file_made_with,
    file_rows,
    forget,
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


def test_a_replaced_file_is_read_again(tmp_path: Path) -> None:
    """A writer in another process may have replaced it."""
    path = tmp_path / "data.parquet"
    write(path, ["a", None, "b"], "one")
    assert (file_rows(path), file_made_with(path)) == (3, "one")
    assert may_have(path, having("x", "b"))
    assert not may_have(path, having("c"))
    assert not may_have(path, having())
    write(path, ["c"], "two")
    assert (file_rows(path), file_made_with(path)) == (1, "two")
    assert may_have(path, having("c"))
    assert not may_have(path, having("a", "b"))
    forget(path)
    write(path, [])
    assert not may_have(path, having("c"))


def test_a_written_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer knows what is in it; only a column that nobody has asked for yet is read."""
    path = tmp_path / "data.parquet"
    write(path, ["a"], "one")
    assert may_have(path, having("a"))
    write(path, ["b", None, "b"], "two")
    note(path, pl.read_parquet(path), "two")
    for name in ("scan_parquet", "read_parquet", "read_parquet_metadata"):
        monkeypatch.setattr(pl, name, None)
    assert (file_rows(path), file_made_with(path)) == (3, "two")
    assert may_have(path, having("b"))
    assert not may_have(path, having("a"))
    monkeypatch.undo()
    write(path, ["c"], "three")  # By another process.
    assert (file_rows(path), file_made_with(path)) == (1, "three")
    assert may_have(path, having("c"))


def test_a_value_beyond_all_others_is_not_found(tmp_path: Path) -> None:
    """The nearest hash is another one, also at both ends."""
    path = tmp_path / "data.parquet"
    write(path, [str(n) for n in range(0, 2_000, 2)])
    for number in range(2_000):
        assert may_have(path, having(str(number))) == (number % 2 == 0)
