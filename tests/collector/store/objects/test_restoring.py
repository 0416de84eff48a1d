"""`looptrace restore`: a server goes on from a copy made under load, after its disk is gone."""

import random
import shutil
import threading
import time
from pathlib import Path

import polars as pl
import pytest

from looptrace.collector.store import reader, writer
from looptrace.collector.store.publishing.copying import copy_to_folder, restore
from tests.collector.store.stored import looping, spans_of
from tests.commands import run
from tests.reliability.forked import Forked
from tests.reliability.serving import OK, Served, served, stored, until
from tests.reliability.serving import looping as looping_trace

KILLS = 6
SESSIONS = 12
# Nobody listens there.
WEBHOOKS = """
[[webhooks]]
name = "away"
url = "http://127.0.0.1:9/"
secrets = ["env:AWAY_SECRET"]
allow_private = ["127.0.0.0/8"]
"""


@pytest.fixture(params=["folder", "bucket"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where no copy is yet."""
    if request.param == "folder":
        return str(tmp_path / "copy")
    return str(request.getfixturevalue("url"))


def send(server: Served, numbers: range) -> set[str]:
    """Send looping sessions, and return the traces of those that were acknowledged."""
    traces = [looping_trace(f"s{number}", 6) for number in numbers]
    return {each.trace_id for each in traces if server.send(each.request()) == OK}


def test_a_server_goes_on_from_a_copy_after_a_kill(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was acknowledged before the copy is there: spans, gates, decisions, the outbox."""
    random.seed(11)
    folder, again = tmp_path / "store", tmp_path / "restored"
    monkeypatch.setenv("AWAY_SECRET", "whsec_" + "bG9vcHRyYWNl" * 3)
    with served(folder, "--no-grpc", config=WEBHOOKS) as server:
        before = send(server, range(SESSIONS))
        until(lambda: server.number("looptrace_gates_open") == SESSIONS)
        with reader.open_gates(folder) as gates:
            decided = gates.gates("open")[0].id
        at = ("--server", f"http://{server.address}")
        given = ("--decision", "reviewed", "--note", "seen")
        resolved = run("gates", "resolve", decided, *given, *at)
        assert resolved.exit_code == 0, resolved.output
        load = threading.Thread(target=send, args=(server, range(SESSIONS, 4 * SESSIONS)))
        load.start()
        copied = run("copy", target, "--store", folder)
        assert copied.exit_code == 0, copied.output
        time.sleep(random.random())
        server.kill()
        load.join()
    shutil.rmtree(folder)

    done = run("restore", target, "--store", again)
    assert done.exit_code == 0, done.output
    with reader.open_gates(again) as gates:
        kept = gates.gate(decided).gate
        assert (kept.decision, kept.note) == ("reviewed", "seen")
    waiting = run("webhooks", "list", "--store", again)
    assert waiting.stdout.count("away") >= 1, waiting.stdout
    spans = stored(again)
    assert before <= {*spans["trace_id"]}
    with served(again, "--no-grpc", config=WEBHOOKS) as server:
        until(server.is_ready)
        until(lambda: server.number("looptrace_gates_open") >= SESSIONS - 1)
        assert send(server, range(99, 100))
        # A copy waits for turns and findings, which a server may leave to its next start.
        until(server.has_stored)
    copied = run("copy", target, "--store", again)
    assert copied.exit_code == (2 if "://" not in target else 0), copied.output


def test_a_killed_copy_leaves_the_one_before(tmp_path: Path) -> None:
    """A folder has a whole copy at any moment, the new one or that before."""
    random.seed(5)
    folder, copy = tmp_path / "store", tmp_path / "copy"
    both = looping("one"), looping("two")
    writer.ingest(spans_of(*both), folder)
    copy_to_folder(folder, copy)
    traces = {each.trace_id for each in both}
    for number in range(KILLS):
        writer.ingest(spans_of(looping(f"s{number}")), folder)
        process = Forked(["copy", str(copy), "--store", str(folder)])
        time.sleep(random.random() / 2)
        process.kill()
        process.wait()
        whole = copy if copy.exists() else copy.with_name("copy.old")
        assert traces <= set[str]().union(*(each["trace_id"] for each in tables(whole)))
    copy_to_folder(folder, copy)
    restore(str(copy), tmp_path / "restored")
    assert run("analyze", tmp_path / "restored").stdout == run("analyze", folder).stdout
    assert not [path for path in tmp_path.iterdir() if path.suffix in {".part", ".old"}]


def tables(folder: Path) -> list[pl.DataFrame]:
    """Return the spans of a store."""
    return list(reader.read_spans(folder))


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    """Neither a folder of somebody else by a copy, nor a store by one that is restored."""
    folder, other = tmp_path / "store", tmp_path / "other"
    writer.ingest(spans_of(looping("one")), folder)
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    refused = run("copy", other, "--store", folder)
    assert (refused.exit_code, "is not a copy of" in refused.output) == (2, True)
    copy_to_folder(folder, tmp_path / "copy")
    for source, target in ((tmp_path / "copy", folder), (other, tmp_path / "new")):
        refused = run("restore", source, "--store", target)
        assert refused.exit_code == 2, refused.output
    refused = run("restore", tmp_path / "typo", "--store", tmp_path / "new")
    assert ("`looptrace copy`" in refused.output, "ingest" in refused.output) == (True, False)
    assert not (tmp_path / "new").exists()
    assert (other / "thesis.txt").read_text() == "mine"
    assert "no such folder" not in run("copy", tmp_path / "a" / "b", "--store", folder).output
    assert run("forget", "--session", "one", "--store", folder, "--yes").exit_code == 0
    for copy in (tmp_path / "copy", tmp_path / "a" / "b"):
        assert not any(table.height for table in tables(copy))
