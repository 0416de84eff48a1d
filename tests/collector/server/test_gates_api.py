import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from starlette.requests import Request

from looptrace.analyzer.engine import batch
from looptrace.analyzer.settings.sections import default
from looptrace.collector.server.gates_api import GatesApi
from looptrace.collector.server.streams.hearing import Hearing
from looptrace.collector.server.tokens.sight import EVERYTHING, SIGHT
from looptrace.collector.store import layout, writer
from looptrace.collector.store.reader import open_gates
from tests.collector.store.stored import call, looping, spans_of, working
from tests.commands import printed
from tests.otlp import Trace


async def _nothing() -> None:
    """Wait for nothing: the store has it all."""


def api_of(store_dir: Path) -> GatesApi:
    """Return the interface to a store."""
    feed = cast("Any", SimpleNamespace(hearing=Hearing(lambda: None)))
    return GatesApi(store_dir, default(), feed, lambda: None, _nothing)


def shown(store_dir: Path, gate_id: str, media_type: str = "application/json") -> tuple[int, bytes]:
    """Ask for a gate as a request does; returns status and body."""
    api = api_of(store_dir)
    asked = {"headers": [(b"accept", media_type.encode())], "path_params": {"id": gate_id}}
    request = Request({"type": "http", **asked, SIGHT: EVERYTHING})
    answer = asyncio.run(api.gate(request))
    return answer.status_code, bytes(answer.body)


@pytest.fixture
def gate_id(tmp_path: Path) -> str:
    """Make a store in which a gate opened at the fifth of eight calls."""
    trace = looping("s1")
    for _ in range(3):
        call(trace)
    writer.ingest(spans_of(trace, working("s2")), tmp_path)
    with open_gates(tmp_path) as gates:
        (gate,) = gates.gates("open", task="s1")
    return gate.id


def _detecting(*_: object) -> NoReturn:
    raise AssertionError("a rule was run")


def test_showing_a_gate_runs_no_rule(
    tmp_path: Path, gate_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person may look as often as they like, however long the task is."""
    monkeypatch.setattr(batch, "find_stretches", _detecting)
    for media_type in ("application/json", "text/markdown"):
        status, body = shown(tmp_path, gate_id, media_type)
        assert status == 200
        assert b"run_tests" in body
    printed("gates", "show", "--store", tmp_path, gate_id)


def test_a_gate_of_an_early_version_is_shown_as_it_was(
    tmp_path: Path, gate_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stored without its finding, which is detected then, and says the same."""
    before = shown(tmp_path, gate_id)
    with closing(sqlite3.connect(tmp_path / layout.GATES_FILE)) as sql, sql:
        sql.execute("UPDATE gates SET finding = NULL")

    assert shown(tmp_path, gate_id) == before
    assert b'"repeat"' in before[1]
    monkeypatch.setattr(batch, "find_stretches", _detecting)
    with pytest.raises(AssertionError, match="a rule was run"):
        shown(tmp_path, gate_id)


def test_a_gate_whose_turns_are_not_stored_has_no_report(tmp_path: Path, gate_id: str) -> None:
    """The gate opens before its spans are in the store's files, and stays when their day goes."""
    for path in tmp_path.glob("turns/day=2026*/*/data.parquet"):
        path.unlink()
    status, body = shown(tmp_path, gate_id)
    assert (status, body.endswith(b'"report":null}')) == (200, True)
    assert shown(tmp_path, gate_id, "text/markdown")[0] == 503


def test_a_task_whose_turns_are_not_stored_has_a_service(tmp_path: Path) -> None:
    """A gate opens before its spans are in the store's files, and its events name the service."""
    trace = Trace("s1", service="fixer")
    for _ in range(8):
        call(trace)
    writer.ingest(spans_of(trace), tmp_path)
    (stored,) = api_of(tmp_path).task_list(EVERYTHING).tasks
    for path in tmp_path.glob("turns/day=2026*/*/data.parquet"):
        path.unlink()
    (listed,) = api_of(tmp_path).task_list(EVERYTHING).tasks
    assert (stored.service, stored.turns) == ("fixer", 8)
    assert (listed.service, listed.turns) == ("fixer", 0)
