"""The overview: figures of a period and of the time before, and bars that lead to tasks."""

import re
import time
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest

from looptrace.analyzer.detect.ruleset import DEFAULT
from looptrace.collector.page.figures.periods import (
    BAR_NAMES,
    PERIODS,
    Percentiles,
    StoredFigures,
    bars_of,
    figures_in,
    stored_figures,
)
from looptrace.collector.page.task_list import TaskFilter, TaskIndex
from looptrace.collector.server.tokens.sight import EVERYTHING
from looptrace.collector.store import reader, writer
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.page.conftest import Browser, words
from tests.collector.page.test_task_pages import healthy
from tests.collector.store.stored import looping, spans_of
from tests.reliability.serving import served, until

HOUR_S, DAY_S = 3_600, 86_400
NOW_NS = 1_772_442_600 * NS_PER_S  # 2026-03-02T09:10


@pytest.fixture(scope="module")
def store_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store of loops of today and of the days before, some of them resolved."""
    folder = tmp_path_factory.mktemp("overview")
    traces = [healthy("works")]
    for n, hours in enumerate((0, 2, 30, 31, 32)):
        at = datetime.fromtimestamp(NOW_NS // NS_PER_S - 600 - hours * HOUR_S, UTC).isoformat()
        traces.append(looping(f"loop-{n}", at=at))
    writer.ingest(spans_of(*traces), folder)
    with reader.open_gates(folder) as gates:
        for n, gate in enumerate(sorted(gates.gates("open"), key=lambda gate: gate.task)[2:]):
            decision = "continue" if n else "not_a_loop"
            gates.resolve(gate.id, decision, None, gate.opened_ns + (n + 1) * 60 * NS_PER_S)
    writer.ingest(spans_of(healthy("later")), folder)  # The decisions take effect.
    return folder


@pytest.fixture(scope="module")
def stored(store_dir: Path) -> StoredFigures:
    """Return what the figures are made of."""
    return stored_figures(store_dir, TaskIndex(store_dir, DEFAULT).every(1))


def test_a_period_and_the_time_before_it_are_counted_apart(stored: StoredFigures) -> None:
    """A trend is the difference of two numbers that mean the same."""
    day_ns = DAY_S * NS_PER_S
    now = figures_in(stored, NOW_NS - day_ns, NOW_NS)
    before = figures_in(stored, NOW_NS - 2 * day_ns, NOW_NS - day_ns)

    assert (now.tasks, now.looping, now.gates, now.resolved) == (4, 2, 2, 0)
    assert (now.looping_share, now.waits_s, now.no_loop_share) == (0.5, None, None)
    assert (before.tasks, before.looping, before.gates, before.resolved) == (3, 3, 3, 3)
    assert before.waits_s == pytest.approx(Percentiles(120.0, 180.0, 180.0))
    assert before.no_loop_share == pytest.approx(1 / 3)
    assert figures_in(stored, 0, 1).looping_share is None


@pytest.mark.parametrize("hours", PERIODS)
def test_bars_have_every_task_of_the_period_once(stored: StoredFigures, hours: str) -> None:
    """They are of one length, beside each other, and end after now."""
    bars = bars_of(stored, PERIODS[hours], NOW_NS)
    start_ns, end_ns = bars[0].start_ns, bars[-1].end_ns

    assert len({bar.end_ns - bar.start_ns for bar in bars}) == 1
    assert bars[0].length in BAR_NAMES.values()
    assert [bar.start_ns for bar in bars[1:]] == [bar.end_ns for bar in bars[:-1]]
    assert end_ns > NOW_NS
    whole = figures_in(stored, start_ns, end_ns)
    assert sum(bar.figures.tasks for bar in bars) == whole.tasks
    assert whole.tasks == {"1": 3, "24": 4, "": 7}.get(hours, 7)


@pytest.mark.parametrize("gated", ["", "1"])
def test_a_bar_leads_to_the_tasks_that_it_counts(
    store_dir: Path, stored: StoredFigures, gated: str
) -> None:
    """A number that nobody can look behind is not believed."""
    tasks = TaskIndex(store_dir, DEFAULT)
    for bar in bars_of(stored, PERIODS["24"], NOW_NS):
        of_time = {"since": str(bar.start_ns), "until": str(bar.end_ns), "gated": gated}
        state = {} if gated else {"state": "looping"}
        found = tasks.find(TaskFilter.of(of_time | state), 1, EVERYTHING, NOW_NS).total
        assert found == (bar.figures.gated if gated else bar.figures.looping)
    wrong = TaskFilter.of({"since": "9" * 40, "until": "x"})
    assert wrong.between_ns is None
    assert tasks.find(wrong, 1, EVERYTHING, NOW_NS).total == 7


def test_an_empty_store_has_an_overview(tmp_path: Path) -> None:
    """The first visit is before the first span."""
    writer.ingest(spans_of(healthy("one")), tmp_path)
    stored = stored_figures(tmp_path, TaskIndex(tmp_path, DEFAULT).every(1))
    nothing = StoredFigures(stored.tasks.clear(), stored.loops.clear(), stored.gates.clear())

    (bar, _) = bars_of(nothing, PERIODS[""], NOW_NS)
    assert bar.figures.tasks == 0


def test_the_page_shows_the_trend_and_links_that_hold(tmp_path: Path) -> None:
    """Each bar and row leads to a list with as many tasks."""
    started = served(tmp_path / "store", config="[server]\nstore_every_s = 1\n")
    with started as server, Browser(server.address) as browser:
        for n, ago_s in enumerate((60, 120, 26 * HOUR_S)):
            at = datetime.fromtimestamp(time.time() - ago_s, UTC).isoformat()
            assert server.send(looping(f"now-{n}", at=at).request()) == 200
        shown = "▲ up from 1 in the 24 hours before"
        until(lambda: "of 2 tasks had a loop" in words(browser, "/overview?hours=24"))
        assert shown in words(browser, "/overview?hours=24")
        page = browser.get("/overview?hours=24").text
        assert 'aria-current="true">the last 24 hours' in page
        links = [unescape(each) for each in re.findall(r'href="(/tasks\?[^"]*)"', page)]
        assert len(links) > 48
        counts = {link: words(browser, link) for link in {*links} if "state=looping&" in link}
        assert sum("2 tasks" in text for text in counts.values()) >= 1
        assert "2 tasks" in counts[next(each for each in links if "state=looping&" in each)]
        (rule,) = {each for each in links if "rule=repeated_failure" in each}
        until(lambda: "3 tasks" in words(browser, rule))  # The old one may be stored later.
        assert "With the last turn from 20" in words(browser, links[0])
        assert browser.get("/overview?hours=nonsense").status_code == 200
        # A figure that this period lacks and the time before had is not "none before".
        old = next(gate for gate in server.gates() if gate["task"] == "now-2")
        server.resolve(old["id"], "not_a_loop")
        were = "– of resolved gates were called no loop 100.0 % in the 24 hours before"
        until(lambda: were in words(browser, "/overview?hours=24"))
