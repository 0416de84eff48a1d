"""Stored findings are not computed again, and missing ones are."""

import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.detect.loops import loops_in
from looptrace.analyzer.engine import batch, detection_source
from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.report import wording
from looptrace.analyzer.settings import default
from looptrace.collector import store_analysis
from looptrace.collector.files.reader import read_spans
from looptrace.collector.store import layout, reader, writer
from looptrace.collector.store.buckets.evaluated import read_evaluated
from looptrace.collector.store.file_names import BUCKETS, DATA
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.retention import NOTICE_NS, KeptTimes
from looptrace.collector.store.tables import task_parts
from tests.paths import ROOT

TRACES = [str(path) for path in sorted((ROOT / "examples/traces").glob("*.json*"))]
POLICY = default().policy


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of the examples, with findings by the default settings."""
    folder = tmp_path_factory.mktemp("evaluated") / "store"
    writer.ingest(read_spans(TRACES).spans, folder, POLICY)
    return folder


@pytest.fixture(scope="module")
def whole(examples: Path) -> tuple[Analysis, int]:
    """Return what is found where all of it is evaluated, and of how many turns."""
    return evaluated(examples, code="another")


@pytest.fixture
def store(examples: Path, tmp_path: Path) -> Path:
    """Return a copy of it, which a test may change."""
    return shutil.copytree(examples, tmp_path / "store")


def evaluated(folder: Path, *, code: str | None = None) -> tuple[Analysis, int]:
    """Analyse a store; return the findings, and the number of evaluated turns."""
    heights: list[int] = []

    def noted(turns: pl.DataFrame, *given: object, **named: object) -> Analysis:
        heights.append(turns.height)
        return batch.analysis_of(turns, *given, **named)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store_analysis, "analysis_of", noted)
        if code is not None:
            patched.setattr(detection_source, "_code", lambda: code)
        return store_analysis.analyse_store(folder, default()), sum(heights)


def assert_same(found: Analysis, whole: Analysis) -> None:
    """Compare all that an analysis says."""
    assert found.turns.equals(whole.turns)
    for name in ("summary", "findings", "events", "tasks", "outages", "skipped"):
        assert getattr(found, name) == getattr(whole, name), name


def test_only_tasks_with_findings_are_evaluated_again(
    store: Path, whole: tuple[Analysis, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is reported is what evaluating all would report, also where parts are small."""
    expected, every = whole
    found, some = evaluated(store)
    assert found.findings
    assert_same(found, expected)
    assert found.turns.height == some < every == sum(map(len, reader.read_turns(store)))
    monkeypatch.setattr(task_parts, "PART_TURNS", 1)
    for code in (None, "another"):
        assert_same(evaluated(store, code=code)[0], expected)


def test_a_report_reads_the_turns_that_it_shows(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tasks with findings of a large store take more memory than the hundred of a page."""
    every = store_analysis.analyse_store(store, default())
    monkeypatch.setattr(wording, "GROUPS_SHOWN_MAX", 2)
    shown = store_analysis.analyse_store(store, default(), turns="shown")
    tasks = {loop.lead.task for loop in loops_in(every.own)[:2]}
    of_tasks = every.turns.filter(pl.col("task").is_in(tasks))

    assert 0 < shown.turns.height < every.turns.height
    assert shown.turns.sort("task", "turn").equals(of_tasks.sort("task", "turn"))
    assert shown.findings == every.findings
    assert store_analysis.analyse_store(store, default(), turns="none").turns.is_empty()


def _touch_unfinished(store: Path) -> None:
    (store / layout.UNFINISHED_FILE).touch()


def _lose_a_file(store: Path) -> None:
    """Move away the file with the most findings, as one does who met it damaged."""
    files = store.glob(f"findings/day=*/bucket=*/{DATA}")
    max(files, key=lambda path: pl.read_parquet(path).height).unlink()


def _lose_the_note(store: Path) -> None:
    (store / layout.EVALUATED_FILE).unlink()


@pytest.mark.parametrize(
    ("change", "is_all"), [(_touch_unfinished, True), (_lose_a_file, False), (_lose_the_note, True)]
)
def test_what_is_not_surely_evaluated_is_evaluated(
    store: Path, whole: tuple[Analysis, int], change: Callable[[Path], None], is_all: bool
) -> None:
    """An ingest that was killed, a file that went, and no note at all leave no loop out."""
    expected, every = whole
    least = 0 if is_all else evaluated(store)[1]
    change(store)
    found, some = evaluated(store)
    assert_same(found, expected)
    assert some == every if is_all else least <= some <= every


def test_a_damaged_note_is_named(store: Path) -> None:
    """It names the file, which may be deleted."""
    (store / layout.EVALUATED_FILE).write_text("{")
    with pytest.raises(StoreError, match=r"looptrace-store\.judged: cannot be read.*delete it"):
        store_analysis.analyse_store(store, default())


def test_a_task_whose_oldest_days_went_is_evaluated(tmp_path: Path) -> None:
    """The rest of it may be another loop, without a finding in the store."""
    spans = read_spans(TRACES).spans
    folder = tmp_path / "days"
    shifted = spans.with_columns(
        pl.col("start_ns", "end_ns") - pl.col("start_ns").min().over("trace_id") + _midnight_ns()
    )
    writer.ingest(shifted, folder, POLICY)
    before, _ = evaluated(folder)
    with writer.writing(folder, POLICY) as open_store:
        open_store.expire(KeptTimes(1), 1, time.time_ns())
        _, gone = open_store.expire(KeptTimes(1), 1, time.time_ns() + NOTICE_NS)
    assert [each.day for each in gone] == ["2026-03-02"]
    assert read_evaluated(folder)
    whole, every = evaluated(folder, code="another")
    found, some = evaluated(folder)
    assert before.findings != whole.findings != ()
    assert_same(found, whole)
    assert some <= every


def _midnight_ns() -> int:
    """Return some seconds before the third of March, so that the examples have two days."""
    return int(datetime(2026, 3, 2, 23, 59, 50, tzinfo=UTC).timestamp()) * 10**9


def test_a_server_notes_what_it_adds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that others evaluated in part is evaluated whole."""
    spans = read_spans(TRACES).spans
    traces = spans["trace_id"].unique().sort()
    some = spans["trace_id"].is_in(traces[::2].implode())
    with monkeypatch.context() as patched:
        patched.setattr(detection_source, "_code", lambda: "earlier")
        writer.ingest(spans.filter(some), tmp_path, POLICY)
    with writer.writing(tmp_path, POLICY) as open_store:
        for part in spans.filter(~some).iter_slices(40):
            open_store.add(part)
    assert_same(evaluated(tmp_path)[0], evaluated(tmp_path, code="other")[0])
    source = detection_source.detection_source(POLICY)
    own = {number for number, noted in read_evaluated(tmp_path).items() if noted.source == source}
    earlier = set(spans.filter(some)["trace_id"])
    mixed = {
        number
        for number in range(BUCKETS)
        if not earlier.isdisjoint(reader.read_turns_in(tmp_path, number)["trace_id"])
    }
    assert own
    assert own.isdisjoint(mixed)
