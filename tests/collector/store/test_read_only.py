"""A store on a file system that is mounted to be read only is read like any other."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import looptrace
from looptrace.collector.store import reader, writer
from looptrace.collector.store.locks import StoreError
from tests.collector.store.earlier_stores import ARCHIVE
from tests.collector.store.stored import looping, spans_of
from tests.commands import refused, run


@contextmanager
def mounted(store: Path, at: Path) -> Iterator[Path]:
    """Mount a folder a second time, to be read only."""
    at.mkdir()
    if subprocess.run(["mount", "--bind", store, at], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a folder")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", at], check=True)
        yield at
    finally:
        subprocess.run(["umount", at], check=True)


@pytest.mark.parametrize("made_by", ["now", "gates_3", "gates_8", "killed"])
def test_a_store_on_a_read_only_mount_is_read(tmp_path: Path, made_by: str) -> None:
    """An archive is kept so that nobody can change it, and may be of an earlier version."""
    store = tmp_path / "store"
    if made_by.startswith("gates"):
        shutil.unpack_archive(ARCHIVE, tmp_path, filter="data")
        shutil.copytree(tmp_path / made_by, store)
    else:
        original = tmp_path / "original"
        writer.ingest(spans_of(looping("s1")), original)
        if made_by == "killed":
            with reader.open_gates(original) as gates:  # Its log is not in the file yet.
                gates.resolve(gates.gates("open")[0].id, "cancel", None)
                shutil.copytree(original, store)
        else:
            shutil.copytree(original, store)
    with mounted(store, tmp_path / "fixed") as fixed:
        with reader.open_gates(fixed) as gates:
            gate = gates.gates()[0]
            assert (gate.decision == "cancel") == (made_by == "killed")
        shown = [
            run("gates", "list", "--store", fixed, "--all"),
            run("gates", "show", "--store", fixed, gate.id),
            run("query", "gates", "--store", fixed, "--format", "json"),
            run("analyze", fixed),
            run("explain", fixed, "--task", gate.task),
        ]
        assert [each.exit_code for each in shown] == [0] * len(shown), shown
        assert [each for each in shown[:3] if gate.task not in each.output] == []
        assert run("doctor", "--store", fixed).output
        opened = looptrace.open(str(fixed))
        assert gate.id in {each.id for each in opened.gates}
        assert opened.task(gate.task).turns
        said = refused("gates", "resolve", "--store", fixed, gate.id, "--decision", "reviewed")
        assert "\n" not in said.strip()
        with pytest.raises(StoreError, match="Read-only file system"):
            writer.ingest(spans_of(looping("s2")), fixed)
