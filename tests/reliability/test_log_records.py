"""P3: a server joins log records and spans that come in any order, also across a restart."""

import json
import time
from pathlib import Path

import polars as pl
import pytest

from looptrace.collector.store import reader
from tests import logged
from tests.logged import LOOP, OK, logs, session, spans
from tests.reliability.serving import OK as ANSWERED
from tests.reliability.serving import served, until

TASK = "s"


@pytest.mark.parametrize(("is_killed", "is_stored"), [(True, False), (False, True)])
@pytest.mark.parametrize("first", ["logs", "spans"])
def test_a_restart_comes_between(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_killed: bool, is_stored: bool
) -> None:
    """What came first is in the log or in the store, and is joined to what comes next."""
    monkeypatch.setattr(logged, "START_S", int(time.time()) - 60)
    bare, said = session(TASK)
    healthy = session("ok", OK)
    requests = [("/v1/traces", spans(*bare, *healthy[0])), ("/v1/logs", logs(*said, *healthy[1]))]
    if first == "logs":
        requests.reverse()
    with served(tmp_path) as server:
        assert server.send(requests[0][1], requests[0][0]) == ANSWERED
        if is_stored:
            until(lambda: server.number("looptrace_storing_seq") >= 1)
        assert server.gates() == []
        (server.kill if is_killed else server.stop)()
    with served(tmp_path) as server:
        assert server.send(requests[1][1], requests[1][0]) == ANSWERED
        gates = until(server.gates)
        assert {gate["task"] for gate in gates} == {TASK}
        assert server.number("looptrace_receiver_events_total") == (
            0 if first == "logs" else len(said) + len(healthy[1])
        )
        until(server.has_stored)
    kept = pl.concat(reader.read_spans(tmp_path))
    assert kept.height == len(LOOP) + len(OK)
    assert kept["events"].str.contains("gen_ai.choice").all()


def test_a_request_of_logs_is_bounded_as_one_of_spans(tmp_path: Path) -> None:
    """Too large a record, too many of them and what is nested too deep are refused."""
    _, said = session(TASK)
    large = {**said[0], "body": {"stringValue": "x" * 5_000_000}}
    value: dict[str, object] = {"stringValue": "x"}
    for _ in range(90):
        value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
    deep = {**said[0], "body": value}
    with served(tmp_path) as server:
        status, answer = server.ask(
            "POST", "/v1/logs", json.dumps(logs(*said, large, deep)).encode()
        )
        assert status == ANSWERED
        rejected = answer["partialSuccess"]
        assert int(rejected["rejectedLogRecords"]) == 2
        many = logs(*({**said[0], "timeUnixNano": str(n + 1)} for n in range(10_001)))
        assert server.ask("POST", "/v1/logs", json.dumps(many).encode())[0] != ANSWERED
        assert server.kib("VmHWM") < 600_000
