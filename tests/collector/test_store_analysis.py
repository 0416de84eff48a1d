"""Any engine can analyse a store bucket by bucket."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

import looptrace
from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.settings import default
from looptrace.collector.files.reader import read_spans
from looptrace.collector.store import writer
from tests.paths import ROOT

TRACES = [str(path) for path in sorted((ROOT / "examples/traces").glob("*.json*"))]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> looptrace.TraceStore:
    """Return a store of the examples."""
    folder = tmp_path_factory.mktemp("judged") / "store"
    writer.ingest(read_spans(TRACES).spans, folder)
    return looptrace.open(folder)


def test_an_engine_is_called_as_map_is(store: looptrace.TraceStore) -> None:
    """It gets each bucket once, and what it returns is what the files say."""
    parts: list[object] = []

    def threads(work: Callable[[Any], Any], buckets: Iterable[Any]) -> Iterator[Any]:
        parts.extend(buckets)
        with ThreadPoolExecutor(4) as pool:
            return iter(list(pool.map(work, parts)))

    whole = analyse(read_spans(TRACES).spans)
    assert whole.findings
    for found in (store.detect(), store.detect(engine=threads)):
        assert found.findings == whole.findings
        assert found.events == whole.events
        assert found.summary == whole.summary
    assert len(parts) == 16


def test_settings_decide_and_the_store_stays_as_it_is(store: looptrace.TraceStore) -> None:
    """Judging tries settings; only `ingest` writes."""
    before = store.findings.to_polars()
    settings = default()
    none = replace(
        settings,
        policy=replace(settings.policy, rule_set=replace(settings.policy.rule_set, rules=())),
    )

    assert store.detect(none).findings == ()
    assert store.findings.to_polars().equals(before)


def test_dask_finds_what_one_process_finds(store: looptrace.TraceStore) -> None:
    """The lines of the page, with worker processes that Dask has started."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def dask(work: Callable[[Any], Any], buckets: Iterable[Any]) -> Any:
            return client.gather(client.map(work, list(buckets), pure=False))

        found = store.detect(engine=dask)

    here = store.detect()
    assert here.findings
    assert (found.findings, found.events, found.outages) == (
        here.findings,
        here.events,
        here.outages,
    )
