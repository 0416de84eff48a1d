"""A server that runs erases what it is asked to: in its next start, which follows at once."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from looptrace.analyzer.settings import default
from looptrace.collector.erasure import asked
from looptrace.collector.erasure.choice import Wanted
from looptrace.collector.server.tokens.roles import roles_for
from looptrace.collector.store import writer
from looptrace.collector.store.layout import AUDIT_FILE, ERASURE_FILE
from looptrace.collector.store.locks import StoreError
from tests.collector.erasure.test_forgetting import ALICE, BOB, looping, texts_in
from tests.collector.store.stored import spans_of
from tests.commands import refused, run
from tests.paths import ROOT
from tests.reliability.serving import DEADLINE_S, OK, SERVE, until

POLICY = default().policy


def ask(address: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Ask a server, which may be away."""
    connection = HTTPConnection(address, timeout=DEADLINE_S)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    except (OSError, HTTPException):
        return 0, None
    finally:
        connection.close()


@contextmanager
def serving(
    store: Path, said: Path, *options: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a server at any port, which stays the same when it starts again."""
    ports = ("--http-port", "0", "--grpc-port", "0")
    with said.open("wb") as out, (said.with_suffix(".log")).open("wb") as log:
        command = [*SERVE, "--store", str(store), *ports, *options]
        process = subprocess.Popen(command, stdout=out, stderr=log, cwd=ROOT)
    try:
        found = until(lambda: re.search(r"http://([\d.:]+)", said.read_text()))
        yield found[1], process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)


def test_a_server_forgets_and_goes_on(tmp_path: Path) -> None:
    """What it has not stored yet goes, too; the process is the same for who watches it."""
    store = tmp_path / "store"
    with serving(store, tmp_path / "said") as (address, process):
        for who in ("alice", "bob"):
            assert ask(address, "POST", "/v1/traces", looping(who).request())[0] == OK
        url = f"http://{address}"
        said = run("forget", "--server", url, "--session", "alice", "--yes").output
        assert "every file was read again, and nothing is left" in said
        assert "spans" in said
        assert process.poll() is None
        until(lambda: ask(address, "GET", "/readyz")[0] == OK)
        assert [gate["task"] for gate in ask(address, "GET", "/v1/gates")[1]["gates"]] == [
            "bob@shop"
        ]
        assert ask(address, "POST", "/v1/traces", looping("carol").request())[0] == OK
        until(lambda: len(ask(address, "GET", "/v1/gates")[1]["gates"]) == 2)
    words = texts_in(store)
    assert ALICE not in words
    assert "alice" not in words
    assert BOB in words
    lines = [json.loads(line) for line in (store / AUDIT_FILE).read_text().splitlines()]
    assert [line["what"] for line in lines].count("server started") == 2


def test_what_a_kill_left_the_next_start_erases(tmp_path: Path) -> None:
    """The request is on disk before it is answered."""
    store = tmp_path / "store"
    trace_id = spans_of(looping("alice"))["trace_id"][0]
    writer.ingest(spans_of(looping("alice"), looping("bob")), store)
    noted = asked.ask(store, Wanted("task", trace_id), "ada")
    with pytest.raises(StoreError, match="another erasure waits"):
        asked.ask(store, Wanted("session", "bob"), "ada")
    asked.carry_out(store, POLICY)
    done = asked.asked_for(store, noted.id)
    assert done is not None
    assert (done.state, done.who, done.error) == ("erased", "ada", None)
    assert done.rows["spans"] > 0
    assert ALICE not in texts_in(store)
    assert trace_id not in texts_in(store)
    assert '"who":"ada"' in (store / AUDIT_FILE).read_text()
    before = (store / ERASURE_FILE).read_bytes()
    asked.carry_out(store, POLICY)  # It is done once.
    assert (store / ERASURE_FILE).read_bytes() == before
    assert asked.asked_for(store, "another") is None


def test_an_erasure_that_fails_says_so_and_ends_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket that does not answer must not keep a server from serving."""
    store = tmp_path / "store"
    writer.ingest(spans_of(looping("alice")), store)

    def fail(*_: object) -> list[str]:
        raise StoreError("s3://b/p: access is refused.")

    monkeypatch.setattr(asked, "forget_in_copies", fail)
    noted = asked.ask(store, Wanted("session", "alice"), None)
    asked.carry_out(store, POLICY)
    done = asked.asked_for(store, noted.id)
    assert done is not None
    assert (done.state, done.error) == ("failed", "s3://b/p: access is refused.")
    assert ALICE in texts_in(store)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_only_admins_erase(method: str) -> None:
    """Who decides on gates may not delete what others did."""
    assert roles_for(method, "/v1/erasures") == roles_for(method, "/v1/erasures/1") == {"admin"}


def test_one_place_is_named(tmp_path: Path) -> None:
    """Neither both nor none."""
    for where in ((), ("--store", str(tmp_path), "--server", "http://127.0.0.1:9")):
        result = refused("forget", *where, "--session", "a", "--yes")
        assert "name the store by --store, or its running server" in result
