"""Retention goes by when spans arrived, and deletes only what it announced a day before."""

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import polars as pl
import pytest

from looptrace.collector.store import file_names, reader, retention, writer
from looptrace.collector.store.layout import RETENTION_FILE
from looptrace.collector.store.retention import KeptTimes, Retention, read_retention
from looptrace.collector.store.sql.connection import ask_typed
from looptrace.collector.store.tables import file_contents, parquet, replacement
from looptrace.collector.store.tables.file_contents import Having
from looptrace.collector.store.tables.replacement import NewRows, replace_rows
from looptrace.collector.store.tables.writing import TableContent, write_files
from looptrace.collector.store.writer import writing
from tests.collector.store.stored import looping, spans_of
from tests.otlp import Trace
from tests.reliability.serving import served, until

DAY_NS = 86_400 * 10**9
LIMIT_DAYS, MUCH = 30, 1 << 60
FIRST, LAST = "2026-03-02", "2026-03-09"


@dataclass(frozen=True)
class AgingStore:
    """A store whose clock is the test's."""

    folder: Path
    patch: pytest.MonkeyPatch

    def arrive(self, at_ns: int, *days: str, name: str = "") -> None:
        """Let a looping trace of each day arrive at a moment."""
        named = (looping(name or day, at=f"{day}T09:00:00+00:00") for day in days)
        self.ingest(at_ns, *named)

    def ingest(self, at_ns: int, *traces: Trace) -> None:
        """Let traces arrive at a moment."""
        with self.patch.context() as patched:
            patched.setattr(time, "time_ns", lambda: at_ns)
            writer.ingest(spans_of(*traces), self.folder)

    def look(
        self,
        at_ns: int,
        days_max: int = LIMIT_DAYS,
        bytes_max: int = MUCH,
        by_service: Mapping[str, int] | None = None,
    ) -> tuple[list[str], list[str]]:
        """Return the days that a look at a moment announces, and those that it deletes."""
        with writing(self.folder) as store:
            state, gone = store.expire(KeptTimes(days_max, by_service or {}), bytes_max, at_ns)
        return [each.day for each in state.announced], [each.day for each in gone]


@pytest.fixture
def aging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgingStore:
    """Return a store that is not there yet."""
    return AgingStore(tmp_path / "store", monkeypatch)


def stored_days(folder: Path) -> set[str]:
    """Return the days that have rows in some table."""
    found = (path for table in parquet.TABLES for path in (folder / table).glob(parquet.ANYWHERE))
    return {parquet.day_of(path) for path in found}


@pytest.fixture
def now_ns() -> int:
    """Return a moment that is far from midnight."""
    return int(datetime(2026, 11, 26, 12, tzinfo=UTC).timestamp()) * 10**9


def test_old_traces_that_arrive_now_stay(aging: AgingStore, now_ns: int) -> None:
    """Following the README, `ingest` and then `serve`, deleted all but the last day."""
    days = ("1970-01-01", FIRST, LAST, "2031-01-01")
    aging.arrive(now_ns, *days)
    for after in (0, 1, 25, LIMIT_DAYS):
        assert aging.look(now_ns + after * DAY_NS) == ([], [])
    due_ns = now_ns + (LIMIT_DAYS + 1) * DAY_NS
    assert aging.look(due_ns) == ([*days[:-1]], [])
    assert aging.look(due_ns + DAY_NS) == ([], [*days[:-1]])
    assert stored_days(aging.folder) == {days[-1]}


def test_nothing_goes_that_was_not_announced_for_a_day(aging: AgingStore, now_ns: int) -> None:
    """A restart neither skips nor repeats the wait, and other limits withdraw an announcement."""
    old_ns = now_ns - 60 * DAY_NS
    aging.arrive(old_ns, FIRST)
    aging.arrive(old_ns + DAY_NS, "2026-03-05")
    aging.arrive(now_ns, LAST)
    assert aging.look(now_ns) == ([FIRST, "2026-03-05"], [])
    assert aging.look(now_ns + DAY_NS - 1) == ([FIRST, "2026-03-05"], [])
    assert aging.look(now_ns + DAY_NS - 1, days_max=60) == ([FIRST], [])
    assert aging.look(now_ns + DAY_NS) == (["2026-03-05"], [FIRST])
    assert stored_days(aging.folder) == {"2026-03-05", LAST}
    assert read_retention(aging.folder).deleted == {FIRST: "age"}


def test_the_clock_is_set_back_or_forward(aging: AgingStore, now_ns: int) -> None:
    """A server that believes for an hour that it is 2099 deletes nothing."""
    aging.arrive(now_ns, FIRST, LAST)
    wrong_ns = now_ns + 70 * 365 * DAY_NS
    assert aging.look(wrong_ns) == ([FIRST], [])
    assert aging.look(now_ns) == ([], [])
    assert aging.look(wrong_ns + 2 * DAY_NS) == ([FIRST], [])
    aging.arrive(wrong_ns, FIRST, name="later")
    assert aging.look(now_ns) == ([], [])
    assert stored_days(aging.folder) == {FIRST, LAST}


def test_an_announcement_of_a_wrong_clock_is_made_again(aging: AgingStore, now_ns: int) -> None:
    """The day of waiting begins when the clock was set back."""
    aging.arrive(now_ns - 60 * DAY_NS, FIRST)
    aging.arrive(now_ns, LAST)
    assert aging.look(now_ns + 9 * DAY_NS) == ([FIRST], [])
    assert aging.look(now_ns) == ([FIRST], [])
    assert aging.look(now_ns + DAY_NS) == ([], [FIRST])


def test_a_day_that_gets_spans_again_is_as_old_as_these(aging: AgingStore, now_ns: int) -> None:
    """Spans that come late or are dated back are kept as long as others."""
    aging.arrive(now_ns - 60 * DAY_NS, FIRST, LAST)
    aging.arrive(now_ns - 50 * DAY_NS, "2026-03-05")
    assert aging.look(now_ns) == ([FIRST, LAST], [])
    aging.arrive(now_ns, FIRST, name="late")
    assert aging.look(now_ns + DAY_NS) == (["2026-03-05"], [LAST])


def test_the_same_files_again_are_no_arrival(aging: AgingStore, now_ns: int) -> None:
    """A job that ingests a folder every night would keep it for ever."""
    aging.arrive(now_ns - 60 * DAY_NS, FIRST)
    aging.arrive(now_ns, FIRST, LAST)
    assert aging.look(now_ns) == ([FIRST], [])


def test_the_oldest_by_arrival_go_where_there_is_too_much(aging: AgingStore, now_ns: int) -> None:
    """Of days that arrived together the first go; the last day stays, whatever the limit."""
    aging.arrive(now_ns - 2 * DAY_NS, LAST)
    aging.arrive(now_ns, "2026-03-05", FIRST)
    assert aging.look(now_ns, bytes_max=1) == ([LAST, FIRST], [])
    assert aging.look(now_ns + DAY_NS, bytes_max=1) == ([], [LAST, FIRST])
    assert stored_days(aging.folder) == {"2026-03-05"}
    assert read_retention(aging.folder).deleted == {LAST: "size", FIRST: "size"}
    with reader.open_gates(aging.folder) as gates:
        assert len(gates.gates()) == 3


def test_arrival_outlives_merges_new_rules_and_copies(aging: AgingStore, now_ns: int) -> None:
    """The note is in the files, which are written again, and whose times a copy loses."""
    aging.patch.setattr(replacement, "ROWS_MIN", 1)
    aging.patch.setattr(replacement, "FILES_ALIKE", 3)
    folder, at_copy = aging.folder, replace(aging, folder=aging.folder.with_name("copy"))
    for number in range(7):
        aging.arrive(now_ns + number, FIRST, name=f"s{number % 2}-{number}")
    aging.arrive(now_ns + 40 * DAY_NS, LAST)
    for bucket in range(file_names.BUCKETS):  # Rows that go leave the others as they were.
        rows = parquet.read_bucket(folder, "spans", bucket)
        some = rows.join(rows[:1], on="trace_id", how="semi")
        which = Having("trace_id", some["trace_id"].unique())
        new = NewRows(which, some[1:], some["start_ns"][1:])
        replace_rows(folder, "spans", {bucket: new})
    copy = shutil.copytree(folder, at_copy.folder, copy_function=shutil.copy)
    (copy / "looptrace-store.rules").unlink()  # All of it is evaluated again.
    writer.ingest(pl.DataFrame(schema=spans_of(looping("none")).schema), copy)
    assert at_copy.look(now_ns + (LIMIT_DAYS + 1) * DAY_NS) == ([FIRST], [])
    assert at_copy.look(now_ns + LIMIT_DAYS * DAY_NS) == ([], [])


def test_files_without_the_note_arrived_when_they_were_written(
    aging: AgingStore, now_ns: int
) -> None:
    """A store of an earlier version keeps its days until their files are old."""
    with aging.patch.context() as patched:
        patched.setattr("looptrace.collector.store.tables.writing.ARRIVED", "something else")
        aging.arrive(now_ns, FIRST, LAST)
    for path in aging.folder.rglob("*.parquet"):
        file_contents.forget(path)
    written_ns = time.time_ns()
    assert aging.look(written_ns + LIMIT_DAYS * DAY_NS) == ([], [])
    assert aging.look(written_ns + (LIMIT_DAYS + 1) * DAY_NS) == ([FIRST], [])
    for path in (aging.folder / "spans").glob(f"day={FIRST}/*/*.parquet"):
        os.utime(path, ns=(now_ns, written_ns + 9 * DAY_NS))
    assert aging.look(written_ns + (LIMIT_DAYS + 1) * DAY_NS) == ([LAST], [])


def test_spans_of_a_clock_that_was_not_set_go_like_others(aging: AgingStore) -> None:
    """Their day is 1970, and the tables of a store may lose all of their rows of a day."""
    names = [f"1970 {number}" for number in range(8)]  # in several buckets
    spans = spans_of(*(looping(name, at="1970-01-01T09:00:00+00:00") for name in names))
    writer.ingest(spans, aging.folder)
    aging.arrive(time.time_ns() + DAY_NS, LAST)
    late_ns = time.time_ns() + 90 * DAY_NS
    assert aging.look(late_ns)[0] == ["1970-01-01"]
    assert aging.look(late_ns + DAY_NS) == ([], ["1970-01-01"])
    assert aging.look(late_ns + DAY_NS) == ([], [])
    assert set(pl.concat(reader.read_turns(aging.folder))["task"]) == {LAST}
    with ask_typed(aging.folder, "SELECT count(*) FROM spans WHERE start_ns < 1e15") as answer:
        assert [row for batch in answer.batches for row in batch] == [(0,)]


def test_it_says_what_goes_and_how_much(aging: AgingStore, now_ns: int) -> None:
    """In one sentence for each cause, with the range of days."""
    aging.arrive(now_ns - 60 * DAY_NS, FIRST, "2026-03-05")
    aging.arrive(now_ns, LAST)
    with writing(aging.folder) as store:
        state, _ = store.expire(KeptTimes(LIMIT_DAYS), MUCH, now_ns)
    (text,) = retention.texts_of(state.announced)
    size = sum(each.bytes for each in state.announced)
    spans = spans_of(looping(FIRST)).height * 2
    assert text == (
        f"2 days ({FIRST} to 2026-03-05) with {spans} spans and {spans} turns, {size:,} bytes, "
        "because their spans arrived more than `retention_days` ago"
    )


OWN = {"dev": 5, "billing": 365}


def services_of(folder: Path) -> dict[str, set[str | None]]:
    """Return the services that each table has; of findings those of their sessions."""
    with ask_typed(
        folder,
        "SELECT 'spans', service FROM spans UNION SELECT 'turns', service FROM turns "
        "UNION SELECT 'findings', split_part(session, ' ', 1) FROM findings",
    ) as answer:
        found: dict[str, set[str | None]] = {table: set() for table in parquet.TABLES}
        for table, service in (row for batch in answer.batches for row in batch):
            found[table].add(service)
    return found


def test_services_have_times_of_their_own(aging: AgingStore, now_ns: int) -> None:
    """What a test environment sends goes first, and what an audit needs stays in the same files."""
    names = ("dev", "shop", "billing")
    at = f"{FIRST}T09:00:00+00:00"
    traces = [looping(f"{name} {n}", at=at, service=name) for name in names for n in range(4)]
    aging.ingest(now_ns, *traces)
    aging.arrive(now_ns + 1_000 * DAY_NS, LAST)
    everything = {*names, *services_of(aging.folder)["spans"]}
    assert aging.look(now_ns + 5 * DAY_NS, by_service=OWN) == ([], [])
    for after, going, staying in (
        (6, "dev", everything - {"dev"}),
        (31, "shop", everything - {"dev", "shop"}),
        (366, "billing", everything - {*names}),
    ):
        at_ns = now_ns + after * DAY_NS
        assert aging.look(at_ns, by_service=OWN) == ([FIRST], [])
        assert going in services_of(aging.folder)["findings"]
        assert aging.look(at_ns + DAY_NS, by_service=OWN) == ([], [FIRST])
        assert aging.look(at_ns + 2 * DAY_NS, by_service=OWN) == ([], [])
        left = services_of(aging.folder)
        assert left["spans"] == left["turns"] == staying
        assert going not in left["findings"]
        writer.ingest(spans_of(), aging.folder)  # It finds the store as it left it.
        assert services_of(aging.folder) == left
    assert FIRST not in stored_days(aging.folder)


def test_what_goes_of_a_day_is_counted(aging: AgingStore, now_ns: int) -> None:
    """The announcement names the part of the day that goes."""
    at = f"{FIRST}T09:00:00+00:00"
    aging.ingest(now_ns, *(looping(name, at=at, service=name) for name in ("dev", "shop")))
    aging.arrive(now_ns + 9 * DAY_NS, LAST)
    with writing(aging.folder) as store:
        state, _ = store.expire(KeptTimes(LIMIT_DAYS, OWN), MUCH, now_ns + 9 * DAY_NS)
    (day,) = state.announced
    assert (day.only, day.but) == (("dev",), ())
    assert day.spans == spans_of(looping("dev")).height
    (text,) = retention.texts_of(state.announced)
    assert text.endswith("because some services have another time (`[[retention]]`)")


def test_an_empty_file_of_an_earlier_version_is_no_day(aging: AgingStore, now_ns: int) -> None:
    """Earlier versions had one in each table, for its columns, which is read like others."""
    for table, schema in parquet.TABLES.items():
        path = parquet.folder_of(aging.folder, table, "1970-01-01", 0) / "data.parquet"
        write_files(aging.folder, {path: TableContent(schema.to_frame())})
    aging.arrive(now_ns, FIRST, LAST)
    assert aging.look(time.time_ns() + 90 * DAY_NS)[0] == [FIRST]
    with ask_typed(aging.folder, "SELECT DISTINCT day::VARCHAR FROM spans ORDER BY ALL") as answer:
        assert next(answer.batches) == [(FIRST,), (LAST,)]
    noted = {parquet.bucket_made_with(aging.folder, "turns", n) for n in range(file_names.BUCKETS)}
    assert len(noted - {None}) == 1
    late = spans_of(looping("late", at="1970-01-01T09:00:00+00:00"))
    writer.ingest(late, aging.folder)
    assert pl.concat(reader.read_spans(aging.folder))["end_ns"].lt(DAY_NS).sum() == late.height


def write_old(folder: Path, now_ns: int) -> None:
    """Say in each file of the first day that its spans arrived long ago."""
    for path in (folder / "spans").glob(f"day={FIRST}/*/*.parquet"):
        rows = pl.read_parquet(path, hive_partitioning=False)
        rows.write_parquet(path, metadata={"looptrace.arrived_ns": str(now_ns - 60 * DAY_NS)})


def test_a_server_announces_and_deletes_and_says_which(tmp_path: Path) -> None:
    """It announces at its first start, deletes a day later, and names the cause where it knows."""
    store, now_ns = tmp_path / "store", time.time_ns()
    names = (FIRST, LAST)
    writer.ingest(spans_of(*(looping(n, at=f"{n}T09:00:00+00:00") for n in names)), store)
    write_old(store, now_ns)
    with served(store, "--no-grpc") as server:
        until(lambda: "Soon to be deleted: 1 day" in server.page("/health"))
        for path in ("/tasks", "/overview"):
            assert f"1 day ({FIRST}) with" in server.page(path)
        assert 'looptrace_storing_expired_parts_total{cause="age"} 0.0' in server.page("/metrics")
    assert stored_days(store) == {FIRST, LAST}
    note = read_retention(store)
    earlier = [
        msgspec.structs.replace(each, announced_ns=now_ns - DAY_NS - 1) for each in note.announced
    ]
    (store / RETENTION_FILE).write_bytes(msgspec.json.encode(Retention(earlier)))
    with served(store, "--no-grpc") as server:
        until(lambda: 'expired_parts_total{cause="age"} 1.0' in server.page("/metrics"))
        assert 'looptrace_storing_expired_parts_total{cause="size"} 0.0' in server.page("/metrics")
        gone, unknown = server.page(f"/task?id={FIRST}"), server.page("/task?id=never")
    assert stored_days(store) == {LAST}
    assert "deleted, because of <code>retention_days</code>" in gone
    assert "deleted" not in unknown
    shutil.rmtree(store / "turns" / f"day={LAST}")
    with served(store, "--no-grpc") as server:
        lost = server.page(f"/task?id={LAST}")
    assert "The store has no turns of this." in lost
    assert "deleted" not in lost
