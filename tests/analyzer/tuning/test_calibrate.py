"""Thresholds come out of tasks that were well, kind by kind, and keep to the alarms wanted."""

import time
from functools import cache, partial
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import numbered
from looptrace.analyzer.settings.sections import Settings, default, load, parsed
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.testing.notation import turns_in
from looptrace.analyzer.tuning.backtest import backtest
from looptrace.analyzer.tuning.calibrate import (
    TASKS_AN_ALARM_MIN,
    TASKS_MIN,
    Calibration,
    CalibrationError,
    calibrated,
    sorted_out,
)
from looptrace.collector.store import writer
from looptrace.rules.vocabulary import NS_PER_S
from tests.commands import printed, refused
from tests.otlp import Trace, tool_call

DAY_S = 86_400
DAYS = 10
NOW_NS = 100 * DAY_S * NS_PER_S

BRIEF = "read(a)->text edit(a)->ok"
# A person would not call this a loop, and three in a row are one by default.
PATIENT = "(ping(60)->ok) x{times} edit(a)->ok"
STUCK = "read(a)->text x9"


written = cache(turns_in)


def task(name: str, text: str, kind: str | None = None, day: int = 0) -> pl.DataFrame:
    """Return the turns of a task on a day."""
    shift_ns = day * DAY_S * NS_PER_S
    times = pl.col("start_ns", "end_ns", "order_ns") + shift_ns
    return written(text).with_columns(
        times, task=pl.lit(name), task_kind=pl.lit(kind, pl.String), session=pl.lit(name)
    )


def many(kind: str | None, text: str, count: int, name: str = "") -> list[pl.DataFrame]:
    """Return the turns of tasks of a kind, spread over the days, in one frame."""
    turns, days = written(text), [n * DAYS // count for n in range(count)]
    own = pl.DataFrame({"own": [f"{name}{kind}-{n}" for n in range(count)], "day": days})
    times = pl.col("start_ns", "end_ns", "order_ns") + pl.col("day") * DAY_S * NS_PER_S
    every = own.join(turns, how="cross", maintain_order="left_right").with_columns(
        times, task="own", task_kind=pl.lit(kind, pl.String), session="own"
    )
    return [every.select(turns.columns)]


def found(
    tasks: list[pl.DataFrame], alarms_per_day: float = 1, settings: Settings | None = None
) -> Calibration:
    """Calibrate on tasks."""
    parts = [sorted_out(numbered(pl.concat(tasks)), settings or default(), NOW_NS)]
    return calibrated(parts, settings or default(), alarms_per_day)


def thresholds(calibration: Calibration) -> dict[tuple[str | None, str], tuple[int, int]]:
    """Return what is proposed: now and then."""
    return {(one.kind, one.rule): (one.now, one.then) for one in calibration.proposals}


@pytest.mark.requirement("B10")
def test_a_kind_of_task_that_repeats_more_gets_a_higher_threshold() -> None:
    """Work that pings three times in a row is well where all of it does so, and only there."""
    waits, briefs = many("ops", PATIENT.format(times=3), 200), many("code", BRIEF, 200)
    proposed = found([*waits, *briefs])
    told = thresholds(proposed)

    assert told["ops", "repeated_call"] == (3, 4)
    assert ("code", "repeated_call") not in told
    assert (proposed.alarms_now, proposed.alarms_then) == (200, 0)
    assert dict(proposed.tasks) == {"ops": 200, "code": 200}


def test_the_settings_do_what_was_told() -> None:
    """Judged with them, no task that was well raises an alarm, and a loop still does."""
    well = [*many("ops", PATIENT.format(times=3), 200), *many("code", BRIEF, 200)]
    proposed = parsed(toml_of(found(well).settings).encode(), "x.toml")

    assert proposed == found(well).settings
    turns = numbered(pl.concat([*well, task("stuck", STUCK, "ops")]))
    after = backtest([turns], default(), proposed)
    assert after.a.findings > 200
    assert [row.task for row in after.rows if row.b] == ["stuck"]


def test_as_many_alarms_as_are_wanted_are_left() -> None:
    """Where one task a day may alarm, the threshold is as low as that allows."""
    usual, rare = many(None, BRIEF, 600), many(None, PATIENT.format(times=3), 6, "rare ")
    strict, lenient = found([*usual, *rare], 0.1), found([*usual, *rare], 1)

    assert thresholds(strict)[None, "repeated_call"] == (3, 4)
    assert thresholds(lenient)[None, "repeated_call"] == (3, 2)
    assert strict.alarms_then <= 0.1 * strict.days
    assert 0 < lenient.alarms_then <= lenient.days


def test_few_tasks_a_day_lower_no_threshold_until_all_alarm() -> None:
    """With one task a day, one alarm a day would be all of them."""
    proposed = found(many(None, BRIEF, 2 * TASKS_AN_ALARM_MIN), 1_000)

    assert proposed.alarms_then <= 2
    assert thresholds(proposed)[None, "max_iterations"] == (1_000, 2)


def test_a_rule_that_no_task_comes_near_stays() -> None:
    """Tasks without attempts are no evidence about attempts."""
    rules = {rule for _, rule in thresholds(found(many(None, BRIEF, 200)))}

    assert rules.isdisjoint({"blocked_task_spin", "degradation", "chant", "phase_visits"})


def test_only_tasks_that_were_well_count() -> None:
    """A gate that a person confirmed, or that waits, is no evidence of healthy work."""
    stuck = task("stuck", STUCK)
    decided = {name: turns_in(f"{STUCK} user(Stop.)") for name in ("continue", "not_a_loop")}
    gated = [
        turns.with_columns(
            task=pl.lit(name),
            session=pl.lit(name),
            name=pl.when(pl.col("kind") == "user").then(pl.lit(name)).otherwise("name"),
        )
        for name, turns in decided.items()
    ]
    well = many(None, BRIEF, 200)
    proposed = found([*well, stuck, *gated])

    assert dict(proposed.tasks) == {None: 201}
    assert proposed.left_out == 1
    assert (proposed.loops, proposed.loops_found_now, proposed.loops_found_then) == (1, 1, 1)


def test_tasks_that_go_on_are_left_out() -> None:
    """The end of a task that was active a minute ago is unknown, unless it is done."""
    running = [task(f"now {n}", BRIEF, day=100) for n in range(5)]
    done = [task(f"done {n}", f"{BRIEF} attempt(done)", day=100) for n in range(5)]

    assert dict(found([*many(None, BRIEF, 50), *running, *done]).tasks) == {None: 55}


def test_small_kinds_are_judged_with_the_others() -> None:
    """Ten tasks of a kind say too little for thresholds of its own."""
    few = many("rare", PATIENT.format(times=3), TASKS_MIN - 1)
    proposed = found([*few, *many(None, BRIEF, 100)])

    assert set(proposed.tasks) == {None}
    with pytest.raises(CalibrationError, match=f"there are {TASKS_MIN - 1} finished tasks"):
        found(few)


def test_what_is_set_for_a_phase_still_holds() -> None:
    """Proposals stand before it, and take the place of what was set for the kind alone."""
    said = """
        [[overrides]]
        task_kind = "ops"
        [overrides.rules.repeated_call]
        attempts_min = 10
        [overrides.rules.cycle]
        enabled = false
        [[overrides]]
        phase = "wait"
        [overrides.rules.repeated_call]
        enabled = false
    """
    settings = parsed(said.encode(), "x.toml")
    proposed = found(many("ops", PATIENT.format(times=3), 200), settings=settings).settings
    kind, off, phase = proposed.policy.rule_set.overrides

    assert (kind.task_kind, off.rules, phase.phase) == ("ops", {"cycle": None}, "wait")
    assert thresholds(found(many("ops", PATIENT.format(times=3), 200), settings=settings))[
        "ops", "repeated_call"
    ] == (10, 4)
    assert parsed(toml_of(proposed).encode(), "y.toml") == proposed


def traces(path: Path, count: int) -> Path:
    """Write traces of tasks that read one thing three times."""
    lines = []
    for n in range(count):
        trace = Trace(f"session-{n}", at=f"2026-03-{1 + n % 20:02d}T09:00:00+00:00")
        for _ in range(3):
            attributes = tool_call("read", '{"file": "a"}', result="text") | {
                "looptrace.task.kind": "reading"
            }
            trace.span("execute_tool read", None, attributes)
        lines.append(trace.lines())
    path.write_text("".join(lines))
    return path


def test_the_command_proposes_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written unasked, and what was there before stays where it was."""
    monkeypatch.chdir(tmp_path)
    before = '# mine\nprofile = "balanced"\n'
    Path("looptrace.toml").write_text(before)
    file = str(traces(tmp_path / "traces.jsonl", 120))

    calibrate = partial(printed, "calibrate", file)
    said = " ".join(calibrate().split())
    assert "120 finished tasks without a loop in 19.0 days: reading 120." in said
    assert "reading repeated_call.attempts_min 3 4 6.32 0.00" in said
    assert Path("looptrace.toml").read_text() == before
    assert " ".join(calibrate("--write").split()) == said
    assert Path("looptrace.toml").read_text().startswith(before)
    assert not Path("looptrace.toml.before").exists()
    assert load(Path("looptrace.toml")).policy.rule_set.overrides[0].task_kind == "reading"
    assert "The settings in force stay: 0.00 false alarms a day." in " ".join(calibrate().split())


def test_a_file_that_the_settings_did_not_come_from_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proposals for one file must not be mixed with what another says."""
    monkeypatch.chdir(tmp_path)
    here = "[recovery] # mine\nmax_pivots = 3\n"
    Path("looptrace.toml").write_text(here)
    Path("other.toml").write_text("[rules.stutter]\nenabled = false\n")
    file = str(traces(tmp_path / "traces.jsonl", 120))
    printed("calibrate", file, "--write", "--config", "other.toml")

    assert Path("looptrace.toml.before").read_text() == here
    assert load(Path("looptrace.toml")).policy.recovery.max_pivots == 2


def test_errors_are_one_line(tmp_path: Path) -> None:
    """An empty store, too few tasks, a variable that would win: what is wrong, and exit with 2."""
    empty, few = tmp_path / "store", str(traces(tmp_path / "few.jsonl", 3))
    writer.ingest(SPAN_SCHEMA.to_frame(), empty)
    cases: list[tuple[list[str], dict[str, str], str]] = [
        ([str(empty)], {}, "there are 0 finished tasks"),
        ([few], {}, "there are 3 finished tasks without a loop; at least 30 are needed"),
        ([few, "--write"], {"LOOPTRACE_MAX_PIVOTS": "1"}, "LOOPTRACE_MAX_PIVOTS is set"),
        ([str(tmp_path / "none")], {}, "none"),
    ]
    for arguments, environment, wanted in cases:
        assert wanted in refused("calibrate", *arguments, **environment)


def test_the_clock_is_that_of_the_machine() -> None:
    """Tasks of the last hour are not finished, whatever the newest turn of the traces."""
    now = [task(f"now {n}", BRIEF) for n in range(40)]
    shift_ns = time.time_ns() - 60 * NS_PER_S
    late = [t.with_columns(pl.col("start_ns", "end_ns", "order_ns") + shift_ns) for t in now]
    parts = [sorted_out(numbered(pl.concat(late)), default(), time.time_ns())]

    with pytest.raises(CalibrationError, match="there are 0 finished tasks"):
        calibrated(parts, default(), 1)
