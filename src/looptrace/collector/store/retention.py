"""Retention: which days of a store are deleted, announced a day before, and which were deleted.

A day is as old as its newest span, by when that arrived in the store. Services with a time of their
own go before the rest of a day, or stay longer. Nothing is deleted that was not announced a day
before, so that nobody loses data to a setting, or to a clock, by surprise.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import polars as pl
from msgspec.structs import replace

from looptrace.analyzer.detect.counters import DAY_S
from looptrace.analyzer.report.wording import counted
from looptrace.analyzer.text.times import utc_day
from looptrace.collector.store.layout import RETENTION_FILE, put_note, read_note
from looptrace.collector.store.tables.parquet import (
    ANYWHERE,
    TABLES,
    arrived_ns_of,
    day_of,
    rows_of,
)
from looptrace.collector.store.tables.removal import delete_days
from looptrace.collector.store.tables.service_rows import count_rows, delete_rows
from looptrace.rules.vocabulary import NS_PER_S

NOTICE_NS = DAY_S * NS_PER_S

Cause = Literal["age", "size", "service"]
CAUSES: dict[Cause, str] = {
    "age": "their spans arrived more than `retention_days` ago",
    "size": "the store has more than `retention_bytes_max`",
    "service": "some services have another time (`[[retention]]`)",
}


class ServicePart(NamedTuple):
    """Services of a day: `only` some, or all `but` some; without either, the whole day."""

    only: tuple[str, ...] = ()
    but: tuple[str, ...] = ()

    def which(self) -> pl.Expr:
        """Return the condition of their rows; a row without a service is of none of the named."""
        named = pl.col("service").is_in([*self.only, *self.but]).fill_null(value=False)
        return ~named if self.but else named


_ALL = ServicePart()


@dataclass(frozen=True, slots=True)
class KeptTimes:
    """For how many days spans are kept: those of some services, and all others."""

    days: int
    by_service: Mapping[str, int] = field(default_factory=dict)

    def expired(self, arrived: str, now_ns: int) -> ServicePart | None:
        """Return the services of a day that arrived then that go; None where none does."""
        every = (self.days, *self.by_service.values())
        gone = {days for days in every if arrived < utc_day(now_ns - days * DAY_S * NS_PER_S)}
        if gone.issuperset(every):
            return _ALL
        named = sorted(name for name, days in self.by_service.items() if days in gone)
        if self.days in gone:
            return ServicePart(but=tuple(sorted(self.by_service.keys() - {*named})))
        return ServicePart(tuple(named)) if named else None


class ExpiringDay(msgspec.Struct, frozen=True):
    """A day that is to be deleted, why, how much it has, and since when that is announced.

    Of its services `only` some may go, or all `but` some.
    """

    day: str
    cause: Cause
    spans: int
    turns: int
    bytes: int
    announced_ns: int
    only: tuple[str, ...] = ()
    but: tuple[str, ...] = ()

    @property
    def part(self) -> ServicePart:
        """The services of the day that go."""
        return ServicePart(self.only, self.but)


class Retention(msgspec.Struct, frozen=True):
    """The days of a store that are to be deleted, and why days were deleted."""

    announced: Sequence[ExpiringDay] = ()
    deleted: dict[str, Cause] = {}

    @property
    def deletes_ns(self) -> int:
        """When the first of the announced days are deleted, in nanoseconds since 1970."""
        return min(each.announced_ns for each in self.announced) + NOTICE_NS

    def cause(self, at_ns: int) -> Cause | None:
        """Return why the day of a moment was deleted; None where it was not."""
        return self.deleted.get(utc_day(at_ns))


class _Day:
    def __init__(self) -> None:
        self.rows = Counter[str]()  # by table
        self.bytes = 0
        self.span_arrived_ns = 0
        self.written_ns = 0

    def add(self, table: str, path: Path) -> None:
        self.rows[table] += rows_of(path)
        self.bytes += path.stat().st_size
        self.written_ns = max(self.written_ns, path.stat().st_mtime_ns)
        if table == "spans":
            self.span_arrived_ns = max(self.span_arrived_ns, arrived_ns_of(path))

    @property
    def arrived(self) -> str:
        """The day on which the last span of it arrived; turns may be of spans of another day."""
        return utc_day(self.span_arrived_ns or self.written_ns)


def read_retention(store_dir: Path) -> Retention:
    """Return what was announced and deleted."""
    return read_note(store_dir / RETENTION_FILE, Retention) or Retention()


def expire(
    store_dir: Path, limits: KeptTimes, bytes_max: int, now_ns: int
) -> tuple[Retention, Sequence[ExpiringDay]]:
    """Delete the days that were announced a day ago, and announce others that are due.

    Due are days whose last span arrived longer ago than the limits allow, and then the oldest until
    the rest fits. The day of the last arrival stays. Returns what is announced now, and the deleted
    days.
    """
    before = read_retention(store_dir)
    # A clock that was set back has announced nothing yet.
    since = {(e.day, e.part): e.announced_ns for e in before.announced if e.announced_ns <= now_ns}
    due = [
        replace(each, announced_ns=since.get((each.day, each.part), now_ns))
        for each in _due(store_dir, limits, bytes_max, now_ns)
    ]
    gone = [each for each in due if now_ns - each.announced_ns >= NOTICE_NS]
    deleted = before.deleted | {each.day: each.cause for each in gone}
    noted = Retention(due, deleted)
    if noted != before:  # Before the days are deleted, so that each that is gone is noted.
        put_note(store_dir / RETENTION_FILE, noted)
    delete_days(store_dir, [each.day for each in gone if each.part == _ALL])
    for each in gone:
        if each.part != _ALL:
            delete_rows(store_dir, each.day, each.part.which())
    return Retention([each for each in due if each not in gone], deleted), gone


def texts_of(days: Sequence[ExpiringDay]) -> Iterator[str]:
    """Yield for each cause which days are deleted, how much they have, and why."""
    for cause, why in CAUSES.items():
        if some := [day for day in days if day.cause == cause]:
            names = sorted(day.day for day in some)
            range_text = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
            spans, turns, size = (
                sum(getattr(day, name) for day in some) for name in ("spans", "turns", "bytes")
            )
            yield (
                f"{counted(len(names), 'day')} ({range_text}) with {counted(spans, 'span')} and "
                f"{counted(turns, 'turn')}, {size:,} bytes, because {why}"
            )


def _due(store_dir: Path, limits: KeptTimes, bytes_max: int, now_ns: int) -> Sequence[ExpiringDay]:
    """Return the days that are too old or too much, the oldest first, as if announced now."""
    days: dict[str, _Day] = defaultdict(_Day)
    for table in TABLES:
        for path in (store_dir / table).glob(ANYWHERE):
            if rows_of(path):
                days[day_of(path)].add(table, path)
    kept_bytes = sum(day.bytes for day in days.values())
    due: list[ExpiringDay] = []
    # Days that arrived together go by their own time.
    for name, day in sorted(days.items(), key=lambda each: (each[1].arrived, each[0]))[:-1]:
        part = limits.expired(day.arrived, now_ns)
        if part == _ALL or kept_bytes > bytes_max:
            kept_bytes -= day.bytes
            cause: Cause = "age" if part == _ALL else "size"
            spans, turns = day.rows["spans"], day.rows["turns"]
            due.append(ExpiringDay(name, cause, spans, turns, day.bytes, now_ns))
        elif part is None:
            break
        else:
            due += _due_part(store_dir, name, day, part, now_ns)
    return due


def _due_part(
    store_dir: Path, name: str, day: _Day, part: ServicePart, now_ns: int
) -> Iterator[ExpiringDay]:
    """Yield what is to be deleted of some services; nothing where they have nothing."""
    which = part.which()
    spans, turns = (count_rows(store_dir, table, name, which) for table in ("spans", "turns"))
    if spans or turns:
        size = round(day.bytes * (spans + turns) / (day.rows["spans"] + day.rows["turns"]))
        yield ExpiringDay(name, "service", spans, turns, size, now_ns, *part)
