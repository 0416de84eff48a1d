"""Events of log records are stored with their spans, whichever comes first."""

import json
from pathlib import Path
from random import Random

import polars as pl
import pytest

from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.analyzer.normalize.span_ties import with_ties
from looptrace.analyzer.schema.distinct_spans import whole_spans
from looptrace.collector.coding_agents.otlp_logs import decode_json
from looptrace.collector.otlp.span_table import span_table
from looptrace.collector.store import reader
from looptrace.collector.store.writer import ingest, writing
from tests.logged import logs, session, spans
from tests.otlp import spans_in
from tests.seeds import seeds


def rows() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the spans of two sessions, and the events of their log records."""
    both = [*session("one"), *session("two", form="details")]
    said = json.dumps(logs(*both[1], *both[3])).encode()
    return spans_in(spans(*both[0], *both[2])), span_table(decode_json(said).rows)


def stored(store_dir: Path) -> pl.DataFrame:
    """Return the spans of a store."""
    return pl.concat(reader.read_spans(store_dir)).sort("trace_id", "span_id")


@pytest.mark.parametrize("seed", seeds(4))
def test_any_order_gives_the_same_store(seed: int, tmp_path: Path) -> None:
    """Parts come in any order and twice, by ingests or from a server's log."""
    bare, said = rows()
    ingest(pl.concat([bare, said]), tmp_path / "whole")
    every = [*bare.iter_slices(6), *said.iter_slices(12)] * 2
    Random(seed).shuffle(every)
    for part in every if seed % 2 else ():
        assert ingest(part, tmp_path / "parts").losses == ()
    with writing(tmp_path / "parts", DEFAULT) as writer:
        for part in every if not seed % 2 else ():
            writer.add(with_ties(part))

    assert stored(tmp_path / "parts").equals(stored(tmp_path / "whole"))
    assert stored(tmp_path / "whole").height == bare.height
    for table in ("turns", "findings"):
        whole, parts = (
            pl.read_parquet(sorted((tmp_path / name).rglob(f"{table}*/**/*.parquet")))
            for name in ("whole", "parts")
        )
        assert whole.height == parts.height > 0


def test_spans_count_and_events_do_not(tmp_path: Path) -> None:
    """What `ingest` says is the number of spans; records alone wait in the store for theirs."""
    bare, said = rows()

    first = ingest(said, tmp_path)
    assert (first.spans_new, first.spans_known) == (0, 0)
    assert whole_spans(stored(tmp_path)).is_empty()
    second = ingest(bare, tmp_path)
    assert (second.spans_new, second.spans_known) == (bare.height, 0)
    again = ingest(pl.concat([said, bare]), tmp_path)
    assert (again.spans_new, again.spans_known) == (0, bare.height)
    assert again.losses == ()
