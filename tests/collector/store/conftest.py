"""Stores that tests share."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from looptrace.collector.store import writer
from looptrace.collector.store.gates import GateStore
from tests.collector.store.stored import late_ties


@pytest.fixture(scope="session")
def store_of_late_ties(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of `late_ties`, which tests copy, because making one takes a second."""
    folder = tmp_path_factory.mktemp("late_ties") / "store"
    writer.ingest(late_ties(), folder)
    return folder


@pytest.fixture
def stored(store_of_late_ties: Path, tmp_path: Path) -> Path:
    """Return a store of `late_ties` to change."""
    return shutil.copytree(store_of_late_ties, tmp_path / "stored")


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[GateStore]:
    """Return a new store of gates."""
    with GateStore.open(tmp_path / "gates.db") as store:
        yield store
