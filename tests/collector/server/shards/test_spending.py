"""What servers tell each other of budgets, and what of it is kept."""

import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from looptrace.analyzer.detect.budgets.charges import Share
from looptrace.analyzer.settings.given import settings_of
from looptrace.collector.erasure.choice import Choice, Wanted
from looptrace.collector.erasure.gate_rows import GateRows
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.server.shards.forwarder import REDUCED_HEADER
from looptrace.collector.server.shards.spending import (
    SPENDING_PATH,
    Spending,
    SpendingMessage,
    SpendingNews,
    SpendingTeller,
)
from looptrace.collector.store import reader, writer
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.layout import GATES_FILE
from tests.analyzer.detect.test_budget_ties import REQUEST
from tests.collector.store.stored import spans_of
from tests.otlp import Trace
from tests.ports import free_ports
from tests.reliability.asgi import serving
from tests.reliability.serving import until

OWN, OTHER = "http://127.0.0.1:9", "http://127.0.0.1:1"
NOW_NS = time.time_ns()
SPENT = Share(NOW_NS, service="api", tokens=1_000)
ADDED = Share(NOW_NS, budget="tokens of session s1", added=500.0)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with two tasks of a session, both with a gate of its budget."""
    traces = [Trace("s1", name=name, service="api") for name in "ab"]
    for trace, task in zip(traces, "ab", strict=True):
        for number in range(3):
            attributes = {**REQUEST, "looptrace.task.id": task}
            trace.span("chat m", attributes=attributes, start_s=number + (task == "b") / 2)
    policy = settings_of({"budgets": {"session_tokens": 2_000}}).policy
    writer.ingest(spans_of(*traces), tmp_path / "s", policy)
    return tmp_path / "s"


@pytest.fixture
def woken() -> list[str]:
    """Return what the detector was woken for, which is empty."""
    return []


@pytest.fixture
def heard(store: Path, woken: list[str]) -> Iterator[tuple[Spending, TestClient]]:
    """Return the part of a server that hears one other."""
    news = SpendingNews(lambda: woken.append("news"))
    spending = Spending(store, OWN, [Server(OTHER)], "full", 0.1, news)
    with TestClient(Starlette(routes=[spending.route()])) as client:
        yield spending, client
    assert spending.close(10.0)


def told(client: TestClient, *shares: Share, by: str = OTHER, reduced: str = "full") -> Any:
    """Tell a server; return its answer."""
    body = msgspec.json.encode(SpendingMessage(by, [*shares]))
    return client.post(SPENDING_PATH, content=body, headers={REDUCED_HEADER: reduced})


def test_what_is_told_again_is_no_news(
    heard: tuple[Spending, TestClient], store: Path, woken: list[str]
) -> None:
    """A server that comes back tells all of today; what is another replaces what was."""
    spending, client = heard
    more = msgspec.structs.replace(SPENT, tokens=3_000)
    for share, news in ((SPENT, 1), (SPENT, 1), (more, 2), (more, 2)):
        assert told(client, share).status_code == HTTPStatus.OK
        assert len(woken) == news
    with reader.open_gates(store) as gates:
        ((seq, server, share),) = gates.spent_elsewhere()
        assert (server, share) == (OTHER, more)
        assert gates.spent_elsewhere(seq) == []
    assert spending.ages_s()[OTHER] < 60


def test_a_decision_there_is_one_on_the_open_gates_here_once(
    heard: tuple[Spending, TestClient], store: Path
) -> None:
    """A gate that opens later waits for a person, whatever the other tells again."""
    _, client = heard
    assert told(client, ADDED).status_code == HTTPStatus.OK
    with reader.open_gates(store) as gates:
        found = [(each.decision, each.note) for each in gates.gates()]
        note = "Of the tokens of session s1 500 more may be spent by all tasks together."
        assert found == [("continue", note)] * 2
        decided = gates.resolutions()
        assert {(each.budget, each.added, each.added_ns) for each in decided} == {
            ("tokens of session s1", 500.0, NOW_NS)
        }
        assert told(client, ADDED).status_code == HTTPStatus.OK
        assert gates.resolutions() == decided


def test_old_days_are_not_kept(heard: tuple[Spending, TestClient], store: Path) -> None:
    """A day counts until it ends, a session for as long as it may go on."""
    _, client = heard
    before_ns = NOW_NS - 3 * 86_400 * 10**9
    old, of_session = Share(before_ns, tokens=1), Share(before_ns, session="s", tokens=1)
    told(client, old, of_session)
    told(client, SPENT)
    with reader.open_gates(store) as gates:
        assert [share for _, _, share in gates.spent_elsewhere()] == [of_session, SPENT]


def test_an_erasure_takes_what_others_told(heard: tuple[Spending, TestClient], store: Path) -> None:
    """The names of users and services are there."""
    others = Share(NOW_NS, user="ada", tokens=1)
    told(heard[1], SPENT, others)
    with GateRows.open(store / GATES_FILE) as rows:
        rows.forget(Choice(Wanted("service", "api")))
    with GateStore.open(store / GATES_FILE, create=False) as gates:
        assert [share for _, _, share in gates.spent_elsewhere()] == [others]


@pytest.mark.parametrize(
    ("by", "reduced", "share", "status"),
    [
        (OTHER, "hashed", SPENT, HTTPStatus.CONFLICT),
        ("http://127.0.0.1:2", "full", SPENT, HTTPStatus.BAD_REQUEST),
        (OTHER, "full", Share(NOW_NS, service="x" * 2_000), HTTPStatus.BAD_REQUEST),
        (OTHER, "full", msgspec.structs.replace(ADDED, added=-1.0), HTTPStatus.BAD_REQUEST),
    ],
)
def test_what_does_not_fit_is_refused(
    by: str,
    reduced: str,
    share: Share,
    status: HTTPStatus,
    heard: tuple[Spending, TestClient],
    store: Path,
) -> None:
    """Another key hashes users otherwise; a budget is never made smaller."""
    assert told(heard[1], share, by=by, reduced=reduced).status_code == status
    with reader.open_gates(store) as gates:
        assert gates.spent_elsewhere() == []


def test_what_a_server_was_not_told_waits(
    store: Path, woken: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Of what changes meanwhile the newest is told; the outage is logged once."""
    spending = Spending(store, OWN, [], "full", 0.1, SpendingNews(lambda: woken.append("news")))
    spending._heard_s[OTHER] = 0.0
    (port,) = free_ports(1)  # Nobody listens there now.
    teller = SpendingTeller(Server(f"http://127.0.0.1:{port}"), OTHER, "full", 0.1)
    teller.add([SPENT])
    teller.add([msgspec.structs.replace(SPENT, tokens=2_000)])
    until(lambda: "it gets the sums of this server when it answers" in caplog.text)
    assert teller.waiting == 1
    with serving(Starlette(routes=[spending.route()]), port=port):
        until(lambda: teller.waiting == 0)
        assert teller.close(10.0)
    with reader.open_gates(store) as gates:
        assert [share.tokens for _, _, share in gates.spent_elsewhere()] == [2_000]
    assert caplog.text.count("it gets the sums of this server") == 1
