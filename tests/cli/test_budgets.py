"""Budgets of several tasks as a stranger uses them: settings, traces, gates, and more money."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from looptrace.collector.store import writer
from tests.cli.test_gates import listed
from tests.collector.page.conftest import Browser
from tests.collector.store.stored import looping, spans_of
from tests.commands import json_of, printed, run
from tests.otlp import Trace
from tests.reliability.forked import Forked
from tests.reliability.serving import OK, served, until

SETTINGS = 'prices = "genai-prices"\n[budgets]\nsession_money = 0.05\n'
RESPONSE: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 2_000,
    "gen_ai.usage.output_tokens": 100,
}
NOTE = "Of the money of session s1 0.02 more may be spent by all tasks together."


def spending(
    responses: int, *, name: str = "", at: str = "2026-03-02T09:00:00+00:00"
) -> list[dict[str, Any]]:
    """Return requests of two tasks that spend 0.006 dollars with each response, in turn."""
    traces = [Trace("s1", name=f"{task}{name}", service="api", at=at) for task in "ab"]
    for number in range(responses):
        task = {"looptrace.task.id": f"task-{'ab'[number % 2]}"}
        traces[number % 2].span("chat gpt-4o", None, RESPONSE | task, start_s=number * 2.0)
    requests = [request for trace in traces for request in trace.requests()]
    return sorted(requests, key=_end)


def _end(request: dict[str, Any]) -> str:
    (resource,) = request["resourceSpans"]
    return str(resource["scopeSpans"][0]["spans"][0]["endTimeUnixNano"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with traces of two tasks, and settings with a budget of their session."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "looptrace.toml").write_text(SETTINGS, encoding="utf-8")
    lines = "".join(json.dumps(request) + "\n" for request in spending(12))
    (tmp_path / "traces.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def test_files_a_store_and_a_backtest_say_the_same(folder: Path) -> None:
    """The gate of each task that goes on, at the same turn."""
    gated = [("task-a", 5), ("task-b", 5)]
    run("ingest", folder / "traces.jsonl", "--store", folder / "s")

    for source in ("traces.jsonl", "s"):
        report = json_of("analyze", folder / source)
        events = [each for each in report["events"] if each["type"] == "gate_opened"]
        assert sorted((event["task"], event["turn"]) for event in events) == gated
        compared = json_of("backtest", folder / source, "--b", "balanced")
        assert [(each["task"], each["a"]["turn"]) for each in compared["gates"]] == gated
        assert [each["b"] for each in compared["gates"]] == [None, None]
    assert sorted(gate["task"] for gate in listed(folder / "s")) == ["task-a", "task-b"]
    assert {gate["reason"].partition(",")[0] for gate in listed(folder / "s")} == {
        "money of session s1: 0.05 of 0.05 USD are spent (108 %)",
        "money of session s1: 0.06 of 0.05 USD are spent (120 %)",
    }


def rows_of(*query: str) -> list[dict[str, Any]]:
    """Return the rows of a query on the store."""
    found = printed("query", *query, "--store", "s", "--format", "json")
    rows: list[dict[str, Any]] = json.loads(found)
    return rows


def test_queries_say_the_same_money_as_reports(folder: Path) -> None:
    """By the prices of the settings, or those that are given; without any, money is empty."""
    run("ingest", folder / "traces.jsonl", "--store", "s")
    report = json_of("analyze", "s")
    in_loops = sum(finding["cost"]["money"] for finding in report["findings"])
    assert in_loops == pytest.approx(6 * 0.006)

    assert rows_of("loop_cost_by_day")[0]["money"] == pytest.approx(in_loops)
    assert rows_of("findings_by_rule_and_agent")[0]["money"] == pytest.approx(in_loops)
    (spent,) = rows_of("spending")
    assert (spent["service"], spent["model"], spent["money"]) == ("api", "gpt-4o", 0.072)
    assert [row["money"] for row in rows_of("turns_of_task", "--param", "task=task-a")] == [
        0.006
    ] * 6

    own = 'currency = "EUR"\n[models."gpt*"]\ninput_per_million = 1000\noutput_per_million = 0\n'
    (folder / "own.toml").write_text(own, encoding="utf-8")
    assert rows_of("spending", "--prices", "own.toml")[0]["money"] == 12 * 2
    (folder / "looptrace.toml").unlink()
    assert [row["money"] for row in rows_of("spending")] == [None]


def test_one_decision_gives_all_tasks_more(folder: Path) -> None:
    """The amount is added once, and the agents are told."""
    run("ingest", folder / "traces.jsonl", "--store", folder / "s")
    first, second = listed(folder / "s")

    told = run(
        *("gates", "resolve", first["id"], "--store", folder / "s"),
        *("--decision", "continue", "--add", "0.02"),
    )

    assert told.exit_code == 0, told.output
    assert listed(folder / "s") == []
    notes = {gate["id"]: gate["note"] for gate in listed(folder / "s", "--all")}
    assert notes == {first["id"]: NOTE, second["id"]: NOTE}
    assert run("ingest", folder / "traces.jsonl", "--store", folder / "s").exit_code == 0
    assert listed(folder / "s") == []


def test_an_amount_needs_a_budget(folder: Path) -> None:
    """It would be lost without a word."""
    writer.ingest(spans_of(looping("s1")), folder / "s")
    (gate,) = listed(folder / "s")
    resolve = ("gates", "resolve", gate["id"], "--store", folder / "s", "--decision", "continue")

    refused = run(*resolve, "--add", "2")
    assert "to which nothing can be added; leave the amount out" in refused.stderr
    assert run(*resolve).exit_code == 0


@pytest.mark.parametrize("amount", ["0", "-1", "nan", "inf"])
def test_an_amount_is_more_than_nothing(folder: Path, amount: str) -> None:
    """A budget is never made smaller by a decision to go on."""
    run("ingest", folder / "traces.jsonl", "--store", folder / "s")
    gate = listed(folder / "s")[0]["id"]

    refused = run(
        *("gates", "resolve", gate, "--store", folder / "s"),
        *("--decision", "continue", f"--add={amount}"),
    )

    assert "it must be more than 0" in refused.stderr
    assert len(listed(folder / "s")) == 2


def test_a_server_knows_after_a_kill_what_was_spent(folder: Path) -> None:
    """Neither what it stored nor what is only in its log counts twice, or not at all."""
    now_s = time.time()
    times = (time.gmtime(now_s - before_s) for before_s in (90, 2))
    early, late = (time.strftime("%Y-%m-%dT%H:%M:%S+00:00", each) for each in times)
    options = ("--config", str(folder / "looptrace.toml"))
    with served(folder / "s", *options) as server:
        assert {server.send(request) for request in spending(8, at=early)} == {OK}
        until(lambda: server.number("looptrace_detection_spans_total") == 8)
        assert server.gates() == []
        server.kill()
    with served(folder / "s", *options) as server:
        until(server.is_ready)
        assert {server.send(request) for request in spending(1, name="2", at=late)} == {OK}
        until(server.gates)
        (gate,) = server.gates()
        assert gate["reason"].startswith("money of session s1: 0.05 of 0.05 USD are spent (108 %)")

        decided = server.resolve(gate["id"], "continue", add=0.02, who="Ada")

        assert decided["note"] == NOTE
        until(lambda: server.gates()[0]["status"] == "resolved")


def test_a_burst_over_three_processes_is_stopped_live_and_found_in_batch(folder: Path) -> None:
    """Three agents of a service, and none knows the others; the server stops each of them."""
    (folder / "looptrace.toml").write_text("[budgets]\nservice_minute_tokens = 60_000\n")
    options, tasks = ("--config", str(folder / "looptrace.toml")), ("a", "b", "c")
    with served(folder / "s", *options) as server:
        code = "import runpy; runpy.run_module('tests.reliability.spending_agent', {}, '__main__')"
        # Alone, each would spend 2,000,000 tokens, 20,000 a second.
        agents = [Forked(["-c", code, server.address, task, "0.05", "2000"]) for task in tasks]
        responses = [int(each.rest()) for each in agents]
        opened = server.gates()
        until(server.has_stored)
    assert sum(responses) * 1_000 >= 60_000
    assert max(responses) < 2_000
    assert sorted(gate["task"] for gate in opened) == [f"{task}@api" for task in tasks]
    title = "tokens a minute of service api"
    assert {gate["signature"] for gate in opened} == {title}

    report = json_of("analyze", folder / "s")

    events = [event for event in report["events"] if event["type"] == "gate_opened"]
    # A response that came late may open a gate of another task a turn sooner here.
    found = sorted((event["task"], event["rule"]) for event in events)
    assert found == [(f"{task}@api", "service_minute_tokens_budget") for task in tasks]


def test_the_page_shows_money_and_takes_an_amount(folder: Path) -> None:
    """Beside the tokens of a gate, a task and the Overview; the form adds for all tasks."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - 60))
    options = ("--config", str(folder / "looptrace.toml"))
    with served(folder / "s", *options) as server, Browser(server.address) as browser:
        assert {server.send(request) for request in spending(12, at=now)} == {OK}
        until(lambda: len(server.gates()) == 2)
        gate = server.gates()[0]["id"]
        until(lambda: "USD 0.02, 9.0 s in the loop" in browser.get(f"/gates/{gate}").text)
        assert "12.6 k, USD 0.04" in browser.get("/task?id=task-a").text
        assert '<td class="number">0.04' in browser.get("/overview").text
        money = 'looptrace_loops_money{currency="USD"} 0.036'
        until(lambda: money in browser.get("/metrics").text)
        page, action = f"/gates/{gate}", f"/gates/{gate}/resolve"

        browser.submit(page, action, decision="continue", add="2 dollars")
        assert {gate["decision"] for gate in server.gates()} == {None}
        browser.submit(page, action, decision="continue", add="0.02", who="Ada")

        until(lambda: {gate["status"] for gate in server.gates()} == {"resolved"})
        assert {gate["note"] for gate in server.gates()} == {NOTE}
