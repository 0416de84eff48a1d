import gc
import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import looptrace
from looptrace import queries
from looptrace.analyzer.schema.turn import Turn
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.collector.files import read_spans
from looptrace.collector.store import writer
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.errors import InputError
from tests.commands import ended
from tests.paths import ROOT, TRACES

LOOP = TRACES / "flaky_import_loop.jsonl"
NOTEBOOK = ROOT / "examples/notebook.ipynb"


def test_the_import_is_light() -> None:
    """An agent's process that imports looptrace must not load Polars for names it never uses."""
    code = "import sys, looptrace; print({'polars', 'duckdb', 'opentelemetry'} & set(sys.modules))"
    assert ended(sys.executable, "-c", code).stdout == "set()\n"


def test_a_turn_has_every_column() -> None:
    """A column that a turn lacks would make every turn fail to be read."""
    assert list(Turn.__annotations__) == TURN_SCHEMA.names()


def test_files_and_their_store_say_the_same(tmp_path: Path) -> None:
    """What a program sees must not depend on how the traces came in."""
    writer.ingest(read_spans([str(LOOP)]).spans, tmp_path / "store")
    stored, read = looptrace.open(tmp_path / "store"), looptrace.analyze(LOOP)

    assert list(stored.findings) == list(read.findings) != []
    assert stored.findings[0].turns[0].role == "first"
    assert list(stored.gates) == list(read.gates) != []
    columns = {field.name for field in fields(StoredGate)} - {"agent_state", "unless_decided"}
    assert set(read.gates.to_polars().columns) == columns
    assert stored.turns.to_polars().equals(read.turns.to_polars())
    assert [turn.kind for turn in read.turns[:3]] == ["user", "model", "tool"]
    assert read.task(read.tasks[0]).events


def test_sql_and_queries_answer_as_frames() -> None:
    """A notebook goes on with a frame, whichever way it asked."""
    store = looptrace.analyze([TRACES])
    counts = store.sql("SELECT count(*) AS n FROM turns")
    names = [name for name in queries.names() if not queries.load(name).parameters]

    assert counts["n"].to_list() == [len(store.turns)]
    assert {name: store.query(name).columns for name in names} == {
        name: [column.name for column in queries.load(name).columns] for name in names
    }
    assert store.query("turns_of_task", task="import-4f1c@order-import").height > 0


def test_mistakes_are_named(tmp_path: Path) -> None:
    """The error for a mistyped name has the near one, and the parameters of a query."""
    store = looptrace.analyze(LOOP)
    writer.prepare(tmp_path / "store")

    with pytest.raises(InputError, match="import-4f1c"):
        store.task("import-4f1")
    with pytest.raises(InputError, match="gates_by_day"):
        store.query("gates_by_dy")
    with pytest.raises(InputError, match="it takes: task"):
        store.query("turns_of_task")
    with pytest.raises(InputError, match=r"looptrace\.open"):
        looptrace.analyze(tmp_path / "store")
    with pytest.raises(InputError):
        store.sql("DROP TABLE turns")
    with pytest.raises(IndexError):
        store.findings[99]


def test_the_temporary_store_goes_with_the_answer() -> None:
    """A notebook that analyses again and again must not fill the disk."""
    store = looptrace.analyze(LOOP)
    folder = store.folder
    assert folder.is_dir()
    del store
    gc.collect()
    assert not folder.exists()


def test_a_notebook_shows_the_strip(tmp_path: Path) -> None:
    """The strip has arcs, and neither its styles nor a trace's text reach beyond the cell."""
    hostile = LOOP.read_text(encoding="utf-8").replace("orders_february.csv", "<script>x()")
    (tmp_path / "hostile.jsonl").write_text(hostile, encoding="utf-8")
    html = looptrace.analyze(tmp_path)._repr_html_()

    assert 'class="arc"' in html
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert not re.search(r":root|(^|\s)body\b", html)
    assert (
        "No loops found." in looptrace.analyze(TRACES / "bulk_rename_healthy.jsonl")._repr_html_()
    )


def test_the_example_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each code cell runs after those before it, as in a notebook."""
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    space: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), space)  # noqa: S102 - the project's own cells
    assert isinstance(space["store"], looptrace.TraceStore)
    assert any("docs/python.md" in "".join(cell["source"]) for cell in cells)
