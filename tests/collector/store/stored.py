"""Traces as spans, and what a store of them holds."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json import decode_document
from looptrace.collector.store import writer
from tests.otlp import Trace, decoded_rows, tool_call
from tests.seeds import seeds


class Killed(BaseException):
    """Ends an ingest as a kill does: nothing catches it."""


def killed_stores(before: Path, write: Callable[[Path], object]) -> Iterator[Path]:
    """Yield copies of a store, each killed at another write of the day, and one that was not."""
    whole, written = before.with_name("not-killed"), list[int]()
    shutil.copytree(before, whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", written.append)
        write(whole)
    assert len(written) > 5
    for writes in seeds(len(written)):
        folder, left = before.with_name(f"killed-{writes}"), iter(range(writes))
        shutil.copytree(before, folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda _, left=left: _kill(left))
            with pytest.raises(Killed):
                write(folder)
        yield folder
    yield whole


def call(
    trace: Trace,
    attributes: Mapping[str, str] | None = None,
    n: int = 0,
    tool: str = "run_tests",
    parent: str | None = None,
) -> str:
    """Add a tool's span that failed, with the same words each time."""
    said = tool_call(tool, json.dumps({"path": "tests/test_cart.py", "n": n}))
    said |= {"error.message": "AssertionError: total is 3", **(attributes or {})}
    return trace.span(f"execute_tool {tool}", parent, said, status="error")


def looping(session: str, at: str = "2026-03-02T09:00:00+00:00", **kwargs: Any) -> Trace:
    """Return a trace with one call that fails five times."""
    trace = Trace(session, at=at, **kwargs)
    for _ in range(5):
        call(trace)
    return trace


def working(session: str, **kwargs: Any) -> Trace:
    """Return a trace with calls that all differ."""
    trace = Trace(session, **kwargs)
    for n in range(3):
        call(trace, n=n, tool=f"tool_{n}")
    return trace


def spans_of(*traces: Trace) -> pl.DataFrame:
    """Read the traces as the collector does."""
    rows = []
    for trace in traces:
        document = Frame(1, json.dumps(trace.request()).encode())
        rows += decoded_rows(decode_document("test", document))
    return pl.DataFrame(rows, schema=SPAN_SCHEMA, orient="row")


def late_ties() -> pl.DataFrame:
    """Return spans, some of which tie traces together that seem separate.

    Two traces without a session are tied by one span each, a third by a link, and two by a task.
    """
    first, second = (Trace(f"t{n}", session_key=None, service="agent") for n in range(2))
    for trace in (first, second):
        call(trace)
        call(trace)
        call(trace, {"gen_ai.conversation.id": "shopping"})
    third = Trace("t3", session_key=None, service="agent")
    call(third)
    third.span("resume", None, {}, links=[(first.trace_id, "1" * 16)])
    job = [Trace(f"j{n}", session_key=None, service="agent") for n in range(2)]
    for trace in job:
        call(trace, {"looptrace.task.id": "job"})
    sessions = [looping(f"s{n}", name=str(n % 2), service="agent") for n in range(4)]
    midnight = looping("midnight", at="2026-03-02T23:59:58+00:00", service="agent")
    again = working("s1", name="again", service="agent")
    return spans_of(first, second, third, *job, *sessions, midnight, again)


def files_of(folder: Path) -> Iterator[Path]:
    """Find all Parquet files of a store."""
    return folder.glob("*/day=*/bucket=*/data*.parquet")


def content(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Read all rows of a store by file; a file without rows says nothing."""
    rows = {
        str(path.relative_to(folder)): pl.read_parquet(
            path, glob=False, hive_partitioning=False
        ).rows()
        for path in files_of(folder)
    }
    return {name: found for name, found in rows.items() if found}


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the time of writing and the identity of each file."""
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_ino) for p in files_of(folder)}


def fresh(folder: Path, spans: pl.DataFrame) -> dict[str, list[tuple[Any, ...]]]:
    """Return the content of a new store of these spans."""
    writer.ingest(spans, folder)
    return content(folder)


def _kill(left: Iterator[int]) -> None:
    if next(left, None) is None:
        raise Killed
