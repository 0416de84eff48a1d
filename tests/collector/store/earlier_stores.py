"""Makes `data/earlier_stores.tar.xz`: stores by earlier versions, as a user has them at an upgrade.

`python -m tests.collector.store.earlier_stores` checks each commit out, has its own `looptrace`
ingest the same traces, decides on two gates, and leaves one event in the outbox. All other events
count as delivered. The versions run with the installed packages.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.otlp import Trace, tool_call
from tests.paths import ROOT

ARCHIVE = Path(__file__).parent / "data/earlier_stores.tar.xz"
# The schema of the gates, and the last commit with it that a store was made by, or the first.
COMMITS = {
    "gates_1": "4dccdf5",
    "gates_2": "c93a46d",
    "gates_3": "863eb5c",
    "gates_4": "8ccbb71",
    "gates_4_late_names": "9994e3a",
    "gates_5": "40d27c4",
    "gates_6": "20afb77",
    "gates_7": "d94a0d2",
    "gates_8": "a84fc3d",
    "gates_8_many_files": "0db74d1",
    "gates_10": "341f26f",
}
# The first schema of these whose commands take the store by --store, and need a compiled core.
COMPILED = ("gates_10",)
APPLIED, WAITING = "failing-0", "failing-1"  # tasks with a decision that an ingest has read, or not
NOTE = "The fixture is in conftest.py."
_LEAVE_ONE = "DELETE FROM outbox WHERE event <> (SELECT min(event) FROM outbox)"
_WAIT = """
    INSERT INTO outbox SELECT id, 'first', at_ns, at_ns, 0, NULL, NULL FROM events
    WHERE type = 'gate_opened' ORDER BY seq LIMIT 1
"""


def _call(trace: Trace, tool: str, arguments: str, result: str, error: str = "") -> None:
    attributes = tool_call(tool, arguments, result=result) | (
        {"error.type": error} if error else {}
    )
    trace.span(f"execute_tool {tool}", None, attributes, status="error" if error else "ok")


def traces() -> list[Trace]:
    """Return agents that loop in several ways."""
    failing = [Trace(f"failing-{number}", name=f"f{number}") for number in range(3)]
    failing.append(Trace("shopping", name="s", service="shop"))
    failing.append(Trace("none", name="n", session_key=None))
    for trace in failing:
        for _ in range(7):
            _call(trace, "run_tests", '{"path": "a.py"}', "Error: 1 failed", "TestError")
    polling, cycle, varied = (Trace(name, name=name) for name in ("polling", "cycle", "varied"))
    for number in range(9):
        _call(polling, "get_status", '{"id": 7}', "pending")
        _call(cycle, "open_file", '{"p": "a"}', "text")
        _call(cycle, "edit_file", '{"p": "a", "x": 1}', "Error: no match", "EditError")
        _call(varied, "fetch", json.dumps({"page": number}), "Error: timed out", "Timeout")
    return [*failing, polling, cycle, varied]


def _make(schema: str, store: Path, folder: Path) -> None:
    """Make a store by the commit of a schema."""
    commit, is_compiled = COMMITS[schema], schema in COMPILED
    tree = folder / commit
    subprocess.run(["git", "worktree", "add", "-q", "--detach", tree, commit], check=True, cwd=ROOT)
    try:
        if is_compiled:
            (core,) = (ROOT / "src/looptrace").glob("_core.*.so")
            shutil.copy(core, tree / "src/looptrace")

        def run(*arguments: Any) -> None:
            command = [sys.executable, "-m", "looptrace", *map(str, arguments)]
            environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
            subprocess.run(command, check=True, cwd=folder, env=environment)

        run("ingest", "traces", "--store", store)
        path = store / "looptrace-store.gates.db"
        with closing(sqlite3.connect(path)) as sql:
            ids = dict(sql.execute("SELECT task, id FROM gates WHERE status = 'open'").fetchall())
        decided = ["--decision", "reviewed", "--note", NOTE]
        at = ("--store", store) if is_compiled else (store,)
        run("gates", "resolve", *at, ids[APPLIED], *decided)
        run("ingest", "traces", "--store", store)
        run("gates", "resolve", *at, ids[WAITING], *decided)
        with closing(sqlite3.connect(path)) as sql, sql:
            has_endpoints = sql.execute("SELECT 1 FROM pragma_table_list('endpoints')").fetchone()
            if has_endpoints:
                sql.execute("INSERT INTO endpoints (name, delivered) VALUES ('first', 9)")
            sql.execute(_WAIT if has_endpoints else _LEAVE_ONE)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], check=True, cwd=ROOT)


def main() -> None:
    """Make all of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "traces").mkdir()
        for number, trace in enumerate(traces()):
            text = json.dumps(trace.request())
            (folder / "traces" / f"{number}.json").write_text(text, encoding="utf-8")
        for schema in COMMITS:
            _make(schema, folder / "stores" / schema, folder)
        base = str(ARCHIVE).removesuffix(".tar.xz")
        shutil.make_archive(base, "xztar", folder / "stores")


if __name__ == "__main__":
    main()
