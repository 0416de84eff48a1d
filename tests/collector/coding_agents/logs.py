"""Reads sources as the commands do, and shows the turns of them in few words."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.collector.files.reader import read_spans
from tests.paths import ROOT

SESSIONS = ROOT / "examples" / "sessions"


def lines(items: Iterable[dict[str, Any]]) -> bytes:
    """Return JSON lines."""
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


def turns(*paths: str) -> pl.DataFrame:
    """Return the turns of sources without problems."""
    found = read_spans(paths)
    assert found.skipped == ()
    return turns_of(found.spans)[0]


def shown(table: pl.DataFrame) -> list[str]:
    """Return each turn as `kind: agent what outcome`."""
    return [
        " ".join(
            str(row[name]) for name in ("kind", "agent", "name", "text", "result") if row[name]
        )
        + (" !" if row["failed"] else "")
        for row in table.iter_rows(named=True)
    ]


def rules(paths: Sequence[str]) -> set[str]:
    """Name the rules that find a loop in sources."""
    found = read_spans(paths)
    assert found.skipped == ()
    return {finding.rule for finding in analyse(found.spans, found.skipped).findings}
