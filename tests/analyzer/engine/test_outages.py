"""One failure in many sessions at once is told once; batch and live say the same of it."""

import json
import random
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from looptrace import queries
from looptrace.analyzer.engine.analysis import Analysis, Outage
from looptrace.analyzer.engine.batch import analysis_of
from looptrace.analyzer.engine.live_outages import OutageWatch
from looptrace.analyzer.engine.live_task import HORIZON_S, LATENESS_S
from looptrace.analyzer.engine.outages import (
    OutageSettings,
    calls_to_explain,
    failures_of,
    outages_of,
    with_outages,
)
from looptrace.analyzer.report.html import html_report
from looptrace.analyzer.report.json import json_report
from looptrace.analyzer.report.terminal import print_report
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.settings.sections import parsed
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json import decode_document
from looptrace.collector.store import writer
from looptrace.collector.store.sql.connection import ask
from looptrace.rules.vocabulary import NS_PER_S
from tests.commands import run
from tests.otlp import Trace, decoded_rows, tool_call
from tests.reliability.serving import OK, served, until
from tests.schemas import conflicts
from tests.seeds import seeds
from tests.turn_rows import turns_with

DOWN, TEST_FAILED, ODD = "503 Service Unavailable", "expected 42, got 41", "disk is read-only"
Call = tuple[str, float, str | None]  # session, end in seconds, error


def table(calls: list[Call]) -> pl.DataFrame:
    """Make turns of calls of one tool, each of a task of its session's name."""
    rows = [
        {"task": session, "session": session, "trace_id": session}
        | {"name": "fetch", "arguments": '{"id":1}'}
        | {"failed": error is not None, "error": error, "result": error or f"page {number}"}
        | {"start_ns": int(end_s * NS_PER_S), "end_ns": int(end_s * NS_PER_S)}
        for number, (session, end_s, error) in enumerate(calls)
    ]
    return turns_with(*rows)


def told(turns: pl.DataFrame, settings: OutageSettings | None = None) -> Analysis:
    """Analyse turns as `looptrace analyze` does, with all turns and with those that it needs."""
    failures, settings = failures_of(turns), settings or OutageSettings()
    analysis = analysis_of(turns, 0)
    found = with_outages(analysis, failures, settings)
    needed = calls_to_explain(turns, analysis.findings)
    assert with_outages(replace(analysis, turns=needed), failures, settings) == replace(
        found, turns=needed
    )
    return found


def in_sessions(count: int, error: str, apart_s: float = 1, times: int = 4) -> list[Call]:
    """Let each session fail a few times, ten seconds apart, one session a little after another."""
    return [
        (f"s{n}", n * apart_s + 10 * again, error) for n in range(count) for again in range(times)
    ]


@pytest.mark.requirement("A10")
def test_a_failure_that_many_sessions_meet_is_told_once() -> None:
    """Every session has a loop of it, and all of them are explained by one outage."""
    found = told(table(in_sessions(5, DOWN)))

    assert len({finding.task for finding in found.findings}) == 5
    (outage,) = found.outages
    assert set(outage.findings) == {finding.id for finding in found.findings}
    assert found.own == ()
    assert (outage.sessions, outage.failures) == (("s0", "s1", "s2", "s3", "s4"), 20)
    assert (outage.error_kind, outage.tool) == ("network", "fetch")
    assert (outage.first_ns, outage.last_ns, outage.known_ns) == (0, 34 * NS_PER_S, 2 * NS_PER_S)


@pytest.mark.parametrize(
    "calls",
    [
        in_sessions(2, DOWN),
        in_sessions(5, DOWN, apart_s=400),
        in_sessions(5, TEST_FAILED),
        in_sessions(1, DOWN, times=9),
    ],
    ids=["two sessions", "far apart", "the agents' own failure", "one session"],
)
def test_what_is_no_outage(calls: list[Call]) -> None:
    """These loops are the sessions' own, and none of them is left out."""
    found = told(table(calls))

    assert found.outages == ()
    assert found.own == found.findings != ()


def test_an_unknown_cause_that_many_share_is_an_outage() -> None:
    """What no pattern knows is the outside's where many sessions meet it at once."""
    assert len(told(table(in_sessions(3, ODD))).outages) == 1


def test_a_loop_of_more_than_the_outage_stays() -> None:
    """Where the agent also does something else again and again, that is its own loop."""
    own = [("s0", 100 + n, TEST_FAILED) for n in range(4)]
    found = told(table([*in_sessions(5, DOWN), *own]))

    assert {finding.task for finding in found.own} == {"s0"}
    assert all(finding.turn_first > 4 for finding in found.own)


@pytest.mark.parametrize("seed", seeds(8))
def test_a_task_of_several_agents_is_explained_by_the_calls_of_each(seed: int) -> None:
    """A finding of one agent is explained, whatever the other agents of its task do meanwhile."""
    chance = random.Random(seed)
    agents = [chance.choice("ab") for _ in range(120)]
    calls: list[Call] = [
        (f"s{number // 20}", number, ODD if agent == "a" else TEST_FAILED)
        for number, agent in enumerate(agents)
    ]
    found = told(table(calls).with_columns(agent=pl.Series(agents)))

    of_a = {finding.id for finding in found.findings if finding.agent == "a"}
    assert {finding for outage in found.outages for finding in outage.findings} == of_a
    assert of_a


def test_a_pause_ends_an_outage() -> None:
    """The same failure an hour later is another outage, with its own loops."""
    later = [(session, at + 3_600, error) for session, at, error in in_sessions(3, DOWN)]
    found = told(table(in_sessions(3, DOWN) + later))

    assert [outage.failures for outage in found.outages] == [12, 12]


def test_settings_say_what_an_outage_is() -> None:
    """Fewer sessions within less time, as the file says."""
    settings = parsed(b"[outages]\nsessions_min = 2\nwithin_s = 5\n", "x.toml")
    calls: list[Call] = [("a", 0, DOWN), ("b", 4, DOWN), ("a", 100, DOWN), ("b", 106, DOWN)]

    (outage,) = told(table(calls), settings.outages).outages
    assert (outage.first_ns, outage.last_ns) == (0, 4 * NS_PER_S)
    assert parsed(toml_of(settings).encode(), "y.toml") == settings
    with pytest.raises(SettingsError, match=r"x.toml:2: outages.sessions_min is 1; it must be"):
        parsed(b"[outages]\nsessions_min = 1\n", "x.toml")


call = st.tuples(
    st.sampled_from(["s1", "s2", "s3"]),
    st.sampled_from([1, 5, 20, 20, 40, 130]),
    st.sampled_from([DOWN, DOWN, DOWN, "401 Unauthorized", TEST_FAILED]),
)


def watched(turns: pl.DataFrame, seed: int, settings: OutageSettings) -> list[Outage]:
    """Feed turns late by up to the lateness promised, some twice, in batches of random sizes."""
    chance = random.Random(seed)
    order = sorted(
        [*range(turns.height), *chance.sample(range(turns.height), turns.height // 4)],
        key=lambda row: turns["end_ns"][row] + chance.randint(0, LATENESS_S * NS_PER_S),
    )
    watch, start = OutageWatch(settings), 0
    last: dict[tuple[str, int], Outage] = {}
    while start < len(order):
        size = chance.randint(1, 15)
        for outage in watch.feed(turns[order[start : start + size]]):
            # One whose first failure came late is known under the id that it has since.
            known = [
                key for key in last if key[0] == outage.signature and key[1] >= outage.first_ns
            ]
            for key in known:
                if last[key].first_ns <= outage.last_ns:
                    del last[key]
            last[outage.signature, outage.first_ns] = outage
        start += size
    assert watch.late == 0
    return sorted(last.values(), key=lambda outage: (outage.first_ns, outage.signature))


@given(st.lists(call, min_size=1, max_size=80), st.integers(0, 2**32))
@pytest.mark.requirement("F2")
def test_batch_and_live_agree_on_outages(gaps: list[Any], seed: int) -> None:
    """Whatever the batch sizes and the order of arrival."""
    now, calls = 0, []
    for session, gap, error in gaps:
        now += gap
        calls.append((session, now, error))
    turns, settings = table(calls), OutageSettings(within_s=100)

    assert watched(turns, seed, settings) == outages_of(failures_of(turns), settings)


def test_what_a_watch_keeps_does_not_grow() -> None:
    """An outage of hours holds the failures that may still move, and no more."""
    calls: list[Call] = [(f"s{n % 4}", n * 10, DOWN) for n in range(2_000)]
    turns, watch = table(calls), OutageWatch()
    for start in range(0, turns.height, 50):
        watch.feed(turns.sort("end_ns")[start : start + 50])
    (held,) = watch._held.values()

    assert held.waiting.height <= HORIZON_S // 10 + 1
    last_ns = turns.select(pl.col("end_ns").max()).item()
    watch.forget(last_ns + NS_PER_S)
    assert len(watch) == 1
    watch.forget(last_ns + 86_400 * NS_PER_S)
    assert len(watch) == 0


def printed(found: Analysis) -> str:
    """Return the report as a terminal of 100 columns shows it."""
    console = Console(file=StringIO(), width=100, color_system=None)
    print_report(found, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_reports_tell_an_outage_and_not_its_loops() -> None:
    """A person reads one paragraph; a machine has the findings too, and what explains them."""
    found = told(table(in_sessions(7, DOWN)))
    text, page, report = printed(found), html_report(found), json.loads(json_report(found))

    assert "No loops found; 1 outage." in text
    assert "7 sessions met error:" in text
    assert "in s0, s1, s2, s3, s4 and 2 more" in " ".join(text.split())
    assert "1970" not in text + page
    assert "task s0" not in text
    assert '<h2 id="outages">Outages</h2>' in page
    assert "loop-1" not in page
    assert len(report["outages"][0]["findings"]) == len(report["findings"]) > 0
    assert conflicts(report, "findings.schema.json") == []
    assert "Outages" not in html_report(replace(found, outages=()))


def trace_of(session: str, second: int) -> Trace:
    """Give a trace of a session that fails four times."""
    trace = Trace(session, at=f"2026-03-02T09:00:{second:02d}+00:00")
    for _ in range(4):
        attributes = tool_call("fetch", '{"id": 7}', error="HTTPError") | {"error.message": DOWN}
        trace.span("execute_tool fetch", None, attributes, status="error")
    return trace


def test_a_store_tells_the_outage_that_its_files_tell(tmp_path: Path) -> None:
    """Sessions lie in many files of a store, and the query sees the same."""
    traces = [trace_of(f"session-{n}", n) for n in range(6)]
    rows: list[Any] = []
    for one in traces:
        rows += decoded_rows(decode_document("test", Frame(1, json.dumps(one.request()).encode())))
    file, folder = tmp_path / "traces.jsonl", tmp_path / "store"
    file.write_text("".join(one.lines() for one in traces))
    writer.ingest(pl.DataFrame(rows, schema=SPAN_SCHEMA, orient="row"), folder)

    def outages(path: Path) -> Any:
        result = run("analyze", path, "--format", "json")
        return json.loads(result.stdout)["outages"]

    (outage,) = outages(folder)
    assert [outage] == outages(file)
    with ask(folder, queries.load("outages").sql, {}) as answer:
        (row,) = [
            dict(zip(answer.columns, each, strict=True)) for part in answer.batches for each in part
        ]
    assert row["signature"] == outage["signature"]
    assert (row["sessions"], row["failures"]) == (6, outage["failures"])


def test_loops_of_an_outage_do_not_fail_a_build(tmp_path: Path) -> None:
    """`--fail-on finding` is about the agents, and an outage is not theirs."""
    file = tmp_path / "traces.jsonl"
    for count, wanted in ((2, 1), (3, 0)):
        file.write_text("".join(trace_of(f"session-{n}", n).lines() for n in range(count)))
        result = run("analyze", file, "--fail-on", "finding")
        assert result.exit_code == wanted


KNOWN = "an outage in"


def test_a_server_logs_an_outage_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is known while it lasts, and more failures of it are no other outage."""
    with served(tmp_path / "store") as server:
        for n in range(3):
            assert server.send(trace_of(f"session-{n}", n).request()) == OK
        logged: list[str] = []

        def is_known() -> bool:
            logged.append(capfd.readouterr().err)
            return KNOWN in "".join(logged)

        until(is_known)
        assert server.send(trace_of("session-4", 4).request()) == OK
    logged.append(capfd.readouterr().err)

    assert "".join(logged).count(KNOWN) == 1
