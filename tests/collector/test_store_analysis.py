"""A store is judged the same by one process, by several, and by a cluster that loses workers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.outages import OutageSettings
from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.cli.main import main
from looptrace.collector import store_analysis
from looptrace.collector.files.reader import read_spans
from looptrace.collector.store import writer
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store_analysis import (
    BucketAnalysis,
    StoreBucket,
    analyse_store,
    judge_bucket,
)
from looptrace.errors import UnavailableError
from looptrace.processes import Processes, Workers
from looptrace.ray_cluster import RayCluster
from tests.paths import ROOT
from tests.reliability.serving import looping

has_ray = pytest.mark.skipif(find_spec("ray") is None, reason="looptrace[ray] is not installed")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store of all examples, and of one task with more turns than all of them."""
    folder = tmp_path_factory.mktemp("stored") / "store"
    spans = read_spans([str(ROOT / "examples/traces")]).spans
    writer.ingest(spans, folder)
    large = folder.with_name("large.json")
    large.write_text(json.dumps(looping("skewed", 400).request()))
    writer.ingest(read_spans([str(large)]).spans, folder)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """Start a cluster with workers of its own."""
    with RayCluster() as started:
        yield started


def judged(store: Path, workers: Workers) -> Analysis:
    """Judge a store."""
    return analyse_store(store, DEFAULT, OutageSettings(), workers)


def assert_same(one: Analysis, other: Analysis) -> None:
    """Assert that two analyses say the same, in the same order."""
    assert one.findings == other.findings
    assert one.events == other.events
    assert one.summary == other.summary
    assert one.tasks == other.tasks
    assert one.outages == other.outages
    assert one.turns.equals(other.turns)


def test_processes_find_what_one_does(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most buckets of a small store are empty, and one has most of the turns."""
    alone = judged(store, Processes(1))
    assert len(alone.findings) > 10
    assert max(alone.turns["turn"]) == 400
    monkeypatch.setattr(store_analysis, "SPANS_MIN", 1)
    with Processes(2) as workers:
        assert_same(judged(store, workers), alone)


@has_ray
def test_a_cluster_finds_what_one_process_does(store: Path, cluster: RayCluster) -> None:
    """Who outgrows a machine changes an option, and gets the same report."""
    assert_same(judged(store, cluster), judged(store, Processes(1)))


def _judge_after_a_kill(part: StoreBucket) -> BucketAnalysis:
    """Judge a bucket; of every third one the first worker is killed."""
    killed = part.store_dir.with_name(f"killed-{part.bucket}")
    if part.bucket % 3 == 0 and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return judge_bucket(part)


@has_ray
def test_a_task_whose_worker_is_killed_is_run_again(
    store: Path, cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines come and go, and nothing is lost or judged twice."""
    monkeypatch.setattr(store_analysis, "judge_bucket", _judge_after_a_kill)
    found = judged(store, cluster)
    monkeypatch.undo()

    assert len(list(store.parent.glob("killed-*"))) == 6
    assert_same(found, judged(store, Processes(1)))


def _die(_part: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@has_ray
def test_what_kills_every_worker_is_said(cluster: RayCluster) -> None:
    """A bucket that no worker has memory for must not be tried for ever."""
    with pytest.raises(UnavailableError, match="ended 6 times"):
        list(cluster.map(_die, [1]))


@has_ray
def test_what_is_wrong_with_a_store_is_said(tmp_path: Path, cluster: RayCluster) -> None:
    """As it is without a cluster, and not as a failure of Ray."""
    part = StoreBucket(tmp_path, 0, DEFAULT)
    with pytest.raises(StoreError) as alone:
        judge_bucket(part)
    with pytest.raises(StoreError) as far:
        list(cluster.map(judge_bucket, [part]))
    assert str(far.value) == str(alone.value)


def test_options_of_a_cluster_that_cannot_be_are_refused(store: Path) -> None:
    """Each with what to do instead."""
    traces = str(ROOT / "examples/traces")

    def said(*options: str) -> str:
        done = CliRunner().invoke(main, ["analyze", *options])
        assert done.exit_code == 2
        return " ".join(done.stderr.split())

    assert "judges a store; put the traces into one" in said(traces, "--engine", "ray")
    assert "add --engine ray" in said(str(store), "--address", "127.0.0.1:1")


@pytest.mark.skipif(find_spec("ray") is not None, reason="looptrace[ray] is installed")
def test_what_is_missing_is_named(store: Path) -> None:
    """An extra is asked for by its name."""
    done = CliRunner().invoke(main, ["analyze", str(store), "--engine", "ray"])
    assert (done.exit_code, "needs looptrace[ray]" in done.stderr) == (2, True)
