"""The rows of `make bench` that need no server: files, stores, rules, reports, and live engines."""

import gc
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks import arrivals, live, plain
from benchmarks.generate import sessions, turns
from benchmarks.live import MS_PER_S, PERCENTILES
from benchmarks.span_shapes import CALLS, SEED, SHAPES, write_files
from benchmarks.speed import plain_reader, rules
from benchmarks.speed.figures import CPU, PEAK, WALL, Figure, Measured, Row
from benchmarks.speed.processes import BYTES_PER_MB, memory_mb, own_peak_mb, run
from benchmarks.speed.stores import make_store
from looptrace.analyzer.engine.batch import analysis_of
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.analyzer.engine.live_task import HORIZON_S
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.report.json import json_report
from looptrace.analyzer.schema.turns import numbered
from looptrace.collector.files.reader import read_spans
from looptrace.rules.vocabulary import NS_PER_S

SPANS = {"short": 100_000, "history": 140_000, "flat": 60_000}  # 140,000 histories are 500 MB.
JSON_SPANS = 30_000
SIZES = (1_000, 10_000)  # beside SPANS, which have rows of their own
INGESTED_SPANS = 50_000
STORE_TURNS = 1_000_000
STORE_TURNS_FULL = 10_000_000
RULES_TURNS = 200_000
REPORT_TURNS = 100_000  # Their report is 3 MB.
LIVE_TASKS = 1_000
# Many, so that what feeding needs for a moment is little beside them.
SESSIONS, SESSION_TURNS = 1_000, 100
SPANS_AT_ONCE, TURNS_AT_ONCE = 512, 10
# Of sessions that come and go, so many are at work at a time, and begin so long after the others.
QUIET_SESSIONS, SESSIONS_AT_WORK, BEGIN_EVERY_S = 1_000, 5, 120
TRACE_SPANS = (10, 100, 1_000, 10_000)
TASK_TURNS = (100, 1_000, 10_000, 100_000)
US_PER_S = 1_000_000
# Traces and tasks of so many spans and turns are measured at every share.
SMALL = 100
# Spans of a session in the shapes.
SESSION_SPANS = 1 + 2 * CALLS

_MS_P50, _MS_P99 = Figure("ms CPU, p50", 1, False), Figure("ms CPU, p99", 3, False)
_PEAK = Figure("MB", None, False)


def _files(
    shape: str, count: int, folder: Path, share: float, *, as_json: bool = False
) -> Measured:
    """Let the command look for loops in files, as a user does, and the plain reader and loop."""
    sessions_count = max(1, int(count * share) // SESSION_SPANS)
    spans = sessions_count * SESSION_SPANS
    name = f"{shape}-{spans}{'-json' if as_json else ''}"
    paths = write_files(folder / name, shape, spans, as_json=as_json)
    ours = run(["-m", "looptrace", "analyze", *paths, "--format", "json"])
    theirs = run(["-m", "benchmarks.speed.plain_reader", *paths])
    if json.loads(ours.printed)["spans"] != json.loads(theirs.printed)["spans"]:
        raise ValueError("the two read another number of spans")
    return Measured(
        {WALL: spans / ours.wall_s, CPU: spans / ours.cpu_s, PEAK: ours.peak_mb},
        {WALL: spans / theirs.wall_s, CPU: spans / theirs.cpu_s, PEAK: theirs.peak_mb},
    )


def _file_row(shape: str, target: float, megabytes: float | None, title: str) -> Row:
    figures = {
        WALL: Figure("spans/s", target),
        CPU: Figure("spans/CPU s"),
        PEAK: Figure("MB", megabytes, False),
    }
    return Row(shape, title, figures, partial(_files, shape, SPANS[shape]))


def _sizes(folder: Path, share: float) -> Measured:
    """Measure small files of two sizes at any share; the start of the command is most of it."""
    del share
    values, theirs = dict[str, float](), dict[str, float]()
    for shape in SHAPES:
        for size in SIZES:
            each = _files(shape, size, folder, 1.0)
            values[f"{shape} {size}"] = each.values[WALL]
            theirs[f"{shape} {size}"] = each.plain[WALL]
    return Measured(values, theirs)


def _ingest(folder: Path, share: float) -> Measured:
    """Ingest files into a new store."""
    spans = max(1, int(INGESTED_SPANS * share) // SESSION_SPANS) * SESSION_SPANS
    paths = write_files(folder / f"short-{spans}", "short", spans)
    store_dir = folder / "ingested"
    shutil.rmtree(store_dir, ignore_errors=True)
    ours = run(["-m", "looptrace", "ingest", *paths, "--store", str(store_dir)])
    theirs = run(["-m", "benchmarks.speed.plain_reader", *paths])
    return Measured(
        {WALL: spans / ours.wall_s, CPU: spans / ours.cpu_s, PEAK: ours.peak_mb},
        {WALL: spans / theirs.wall_s, CPU: spans / theirs.cpu_s, PEAK: theirs.peak_mb},
    )


def _store(turns_count: int, folder: Path, share: float) -> Measured:
    """Analyse a store, and read the same files with Polars for the plain loop."""
    count = int(turns_count * share)
    store_dir = folder / f"store-{count}"
    make_store(store_dir, count)
    ours = run(["-m", "looptrace", "analyze", str(store_dir), "--format", "json"])
    theirs = run(["-m", "benchmarks.speed.stores", str(store_dir)])
    return Measured(
        {WALL: count / ours.wall_s, CPU: count / ours.cpu_s, PEAK: ours.peak_mb},
        {WALL: count / theirs.wall_s, CPU: count / theirs.cpu_s, PEAK: theirs.peak_mb},
    )


def _rules(_folder: Path, share: float) -> Measured:
    """Run the rules over turns in memory."""
    ours, peers = rules.turns_per_s(int(RULES_TURNS * share))
    values = {
        "ratio": ours[rules.FOUR] / ours[rules.PLAIN],
        "four": ours[rules.FOUR],
        "all": ours[rules.ALL],
        "whole": ours[rules.WHOLE],
        PEAK: own_peak_mb(),
    }
    of_plain = dict.fromkeys(("four", "all", "whole"), ours[rules.PLAIN])
    return Measured(values, of_plain, {"whole": peers})


def _report(_folder: Path, share: float) -> Measured:
    """Write a report of some 3 MB, beside what `json` takes for the same object."""
    analysis = analysis_of(turns(int(REPORT_TURNS * share), SEED), 0)
    json_report(analysis)
    began_s = time.process_time()
    text = json_report(analysis)
    written_s = time.process_time()
    parsed = json.loads(text)
    parsed_s = time.process_time()
    json.dumps(parsed, indent=2)
    dumped_s = time.process_time()
    us = US_PER_S / analysis.turns.height
    return Measured(
        {
            CPU: (written_s - began_s) * us,
            "size": len(text) / BYTES_PER_MB,
            PEAK: own_peak_mb(),
        },
        {CPU: (dumped_s - parsed_s) * us},
    )


def _percentiles(taken_ms: Sequence[float] | npt.NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(taken_ms, PERCENTILES)
    return float(low), float(high)


def _spans(folder: Path, share: float) -> Measured:
    """Let one more span arrive in traces of several lengths."""
    del folder
    values, theirs = dict[str, float](), dict[str, float]()
    size_max = max(TRACE_SPANS) * share
    for size in TRACE_SPANS:
        if size > max(SMALL, size_max):
            continue
        case = arrivals.Case("short", size)
        taken = _percentiles(np.array(arrivals.measured(case)).sum(axis=1))
        values[f"p50 {size}"], values[f"p99 {size}"] = taken
        by_plain = _percentiles(_plain_ms(case))
        theirs[f"p50 {size}"], theirs[f"p99 {size}"] = by_plain
    values[PEAK] = own_peak_mb()
    return Measured(values, theirs)


def _plain_ms(case: arrivals.Case) -> list[float]:
    """Return what the plain reader and loop take for each span, in milliseconds."""
    taken: list[float] = []

    def rows() -> Iterator[plain.Row]:
        reader = plain_reader.Reader()
        spans = plain_reader.protobuf_spans(case.request())
        while True:
            began_s = time.process_time()
            span = next(spans, None)
            if span is None:
                return
            if row := reader.row(*span):
                yield row  # The loop sees it before it asks for the next.
            taken.append((time.process_time() - began_s) * MS_PER_S)

    plain.loops(rows(), plain.DEFAULT)
    return taken[-arrivals.MEASURED_MAX :]


def _tasks(folder: Path, share: float) -> Measured:
    """Give each of many tasks a new turn at once."""
    del folder
    tasks = max(1, int(LIVE_TASKS * share))
    history, ticks = live.MIXED[LIVE_TASKS]
    low, high = _percentiles(live.measured(live.Case("mixed", tasks, history, ticks)))
    return Measured({"p50": low, "p99": high, PEAK: own_peak_mb()})


def _lengths(folder: Path, share: float) -> Measured:
    """Give a task one more turn, after so many before."""
    del folder
    values: dict[str, float] = {}
    length_max = max(TASK_TURNS) * share
    for length in TASK_TURNS:
        if length > max(SMALL, length_max):
            continue
        case = live.Case("healthy", 1, length, live.SINGLE_TICKS)
        values[f"p50 {length}"], values[f"p99 {length}"] = _percentiles(live.measured(case))
        values["growth"] = values[f"p50 {length}"] / values[f"p50 {TASK_TURNS[0]}"]
        # Longer than `max_iterations` allows.
        values["fires p50"], values["fires p99"] = _percentiles(
            live.measured(replace(case, work="working"))
        )
    return Measured(values | {PEAK: own_peak_mb()})


def _shared(folder: Path, share: float) -> Measured:
    """Give a session that many agents share more turns, which come late."""
    del folder
    history = max(SMALL, int(live.SHARED_TURNS_PER_S * HORIZON_S * share))
    taken_ms = live.measured(live.Case("shared", 1, history, live.SINGLE_TICKS))
    low, high = _percentiles(taken_ms)
    tick_ms = live.SHARED_TURNS / live.SHARED_TURNS_PER_S * MS_PER_S
    busy = 100 * sum(taken_ms) / len(taken_ms) / tick_ms
    return Measured({"p50": low, "p99": high, "busy": busy, PEAK: own_peak_mb()})


def _memory(folder: Path, share: float) -> Measured:
    """Fill a live engine with sessions: by turns alone, and by spans, whose traces wait too."""
    count = max(100, int(SESSIONS * share))
    engine, watched = LiveEngine(), LiveSpans()
    drafts = sessions(np.full(count, SESSION_TURNS), np.random.default_rng(SEED))
    place = pl.int_range(pl.len()).over("task") // TURNS_AT_ONCE
    parts = numbered(add_fingerprints(drafts)).with_columns(place=place).partition_by("place")
    LiveEngine().feed(parts[0].drop("place"))  # What is loaded once is no session's.
    gc.collect()
    before_mb = memory_mb()
    for part in parts:
        engine.feed(part.drop("place"))
    gc.collect()
    of_turns = memory_mb() - before_mb
    # Sessions of spans are shorter, and a turn of them takes as much.
    paths = write_files(folder / f"sessions-{count}", "short", count * SESSION_SPANS)
    spans = read_spans(paths).spans.sort("end_ns", maintain_order=True)
    LiveSpans().take(spans.head(SPANS_AT_ONCE))
    gc.collect()
    before_mb = memory_mb()
    for part in spans.iter_slices(SPANS_AT_ONCE):
        watched.take(part)
    gc.collect()
    of_spans = (memory_mb() - before_mb) * SESSION_TURNS / (spans.height / count)
    return Measured(
        {
            "turns": of_turns * 1_000 / count,
            "spans": of_spans * 1_000 / count,
            PEAK: own_peak_mb(),
        }
    )


def _memory_of_quiet(_folder: Path, share: float) -> Measured:
    """Let sessions come and go, as those of a server do; measure what each more of them adds."""
    groups = max(60, int(QUIET_SESSIONS * share) // SESSIONS_AT_WORK)
    rng, engine = np.random.default_rng(SEED), LiveEngine()
    place = pl.int_range(pl.len()).over("task") // TURNS_AT_ONCE
    before_mb = 0.0
    for group in range(groups):
        drafts = sessions(np.full(SESSIONS_AT_WORK, SESSION_TURNS), rng)
        times = pl.col("start_ns", "end_ns") + group * BEGIN_EVERY_S * NS_PER_S
        drafts = drafts.with_columns(times, task=pl.concat_str("task", pl.lit(f"-{group}")))
        turns = numbered(add_fingerprints(drafts)).with_columns(place=place)
        for part in turns.partition_by("place", maintain_order=True, include_key=False):
            engine.feed(part)
        if group == groups // 4:  # From now on as many are at work at any time.
            gc.collect()
            before_mb = memory_mb()
    gc.collect()
    held_mb = memory_mb() - before_mb
    count = (groups - 1 - groups // 4) * SESSIONS_AT_WORK
    return Measured({"turns": held_mb * 1_000 / count, PEAK: own_peak_mb()})


ROWS = (
    _file_row("short", 80_000, None, "OTLP files to findings, short contents"),
    Row(
        "short-json",
        "the same as OTLP/JSON lines",
        {WALL: Figure("spans/s", 80_000), CPU: Figure("spans/CPU s"), PEAK: _PEAK},
        partial(_files, "short", JSON_SPANS, as_json=True),
    ),
    _file_row("history", 50_000, 600, "OTLP files with histories, 500 MB"),
    _file_row("flat", 25_000, None, "OTLP files with flat messages"),
    Row("sizes", "OTLP files of several sizes", {}, _sizes),
    Row(
        "store",
        f"analyze a store of {STORE_TURNS:,} turns",
        {WALL: Figure("turns/s", 600_000), CPU: Figure("turns/CPU s"), PEAK: _PEAK},
        partial(_store, STORE_TURNS),
    ),
    Row(
        "ingest",
        "ingest into a store",
        {WALL: Figure("spans/s", 50_000), CPU: Figure("spans/CPU s"), PEAK: _PEAK},
        _ingest,
    ),
    Row(
        "rules",
        "rules over turns in memory",
        {
            "ratio": Figure("times the plain loop, the four rules that both have", 10),
            "four": Figure("turns/CPU s, four rules"),
            "all": Figure("turns/CPU s, all rules"),
            "whole": Figure("turns/CPU s, turns to findings"),
            PEAK: _PEAK,
        },
        _rules,
    ),
    Row(
        "span",
        "live, one new span",
        {f"p50 {n}": Figure(f"ms CPU, p50, a trace of {n:,}", 0.03, False) for n in TRACE_SPANS}
        | {f"p99 {n}": Figure(f"ms CPU, p99, a trace of {n:,}", 0.3, False) for n in TRACE_SPANS}
        | {PEAK: _PEAK},
        _spans,
    ),
    Row(
        "tasks",
        f"live, {LIVE_TASKS:,} tasks with a new turn each",
        {
            "p50": Figure("ms CPU, p50", 10, False),
            "p99": Figure("ms CPU, p99", 20, False),
            PEAK: _PEAK,
        },
        _tasks,
    ),
    Row(
        "lengths",
        "live, one new turn of a working task",
        {f"p50 {n}": Figure(f"ms CPU, p50, a task of {n:,}", 0.03, False) for n in TASK_TURNS}
        | {f"p99 {n}": Figure(f"ms CPU, p99, a task of {n:,}", 0.3, False) for n in TASK_TURNS}
        | {
            "growth": Figure("times the cost, 100,000 turns : 100", 1.5, False),
            "fires p50": Figure("ms CPU, p50, where a rule fires at each turn", 0.5, False),
            "fires p99": Figure("ms CPU, p99, where a rule fires at each turn", 1, False),
            PEAK: _PEAK,
        },
        _lengths,
    ),
    Row(
        "shared",
        f"live, a session of {live.SHARED_TURNS_PER_S} turns/s that come up to "
        f"{live.SHARED_LATE_S_MAX} s late",
        {
            "p50": Figure(f"ms CPU, p50, {live.SHARED_TURNS} new turns", None, False),
            "p99": Figure(f"ms CPU, p99, {live.SHARED_TURNS} new turns", None, False),
            "busy": Figure("% of a core", None, False),
            PEAK: _PEAK,
        },
        _shared,
    ),
    Row(
        "memory",
        f"live, memory of a session of {SESSION_TURNS} turns",
        {
            "turns": Figure("KB, of turns", 24, False),
            "spans": Figure("KB, of spans, with their traces", None, False),
            PEAK: _PEAK,
        },
        _memory,
    ),
    Row(
        "memory-quiet",
        "the same, of each session more that was quiet for a minute",
        {"turns": Figure("KB, of turns", 24, False), PEAK: _PEAK},
        _memory_of_quiet,
    ),
    Row(
        "report",
        "JSON report",
        {CPU: Figure("µs CPU a turn", 1, False), "size": Figure("MB of text"), PEAK: _PEAK},
        _report,
    ),
)
FULL_ROWS = (
    Row(
        "store-full",
        f"analyze a store of {STORE_TURNS_FULL:,} turns",
        {
            WALL: Figure("turns/s", 600_000),
            CPU: Figure("turns/CPU s"),
            PEAK: Figure("MB", 1_500, False),
        },
        partial(_store, STORE_TURNS_FULL),
    ),
)
