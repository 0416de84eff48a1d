import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from looptrace.collector.server.access import Access
from looptrace.collector.store import writer
from looptrace.collector.store.locks import StoreError
from tests.collector.store.stored import call, looping, spans_of
from tests.commands import json_of, printed, refused, run
from tests.otlp import Trace
from tests.reliability.test_access import guarded

requirement = pytest.mark.requirement
HOSTILE = "task \x1b[31m[red]\u202e"


def listed(folder: Path, *more: str) -> list[dict[str, Any]]:
    """Return the listed gates."""
    found: list[dict[str, Any]] = json_of("gates", "list", "--store", folder, *more)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a store with one gate."""
    writer.ingest(spans_of(looping("s1")), tmp_path / "s")
    return tmp_path / "s"


@requirement("D4")
@requirement("A16")
def test_a_person_finds_reads_and_resolves_a_gate(folder: Path) -> None:
    """The next ingest applies it, and a later gate of the same loop shows the note."""
    (gate,) = listed(folder)
    shown = run("gates", "show", "--store", folder, gate["id"]).stdout
    assert "total is 3" in shown
    assert "LADDER" in shown
    assert "notes that worked" not in shown

    said = ("--decision", "continue", "--note", "Ask Ada.")
    resolved = printed("gates", "resolve", "--store", folder, gate["id"], *said)
    assert "next `looptrace ingest`" in resolved
    assert "No gate is open" in run("gates", "list", "--store", folder).stdout
    assert listed(folder) == []
    for command in (("list", "--all"), ("show", str(gate["id"]))):
        told = run("gates", *command, "--store", folder).stdout
        assert "resolved: continue" in told
        assert "open," not in told
    writer.ingest(spans_of(looping("s2")), folder)

    (later,) = listed(folder)
    assert later["task"] == "s2"
    assert [one["status"] for one in listed(folder, "--all")] == ["open", "resolved"]
    assert "Ask Ada." in run("gates", "show", "--store", folder, later["id"]).stdout
    details = json_of("gates", "show", "--store", folder, later["id"])
    assert [note["note"] for note in details["notes"]] == ["Ask Ada."]
    assert "Ask Ada." in run("escalation", folder, "--gate", later["id"]).stdout
    assert len(details["event"]["history"]) == 3


def test_what_cannot_be_done_is_one_line(folder: Path, tmp_path: Path) -> None:
    """A mistyped id, a second decision and a folder of something else are no tracebacks."""
    (gate,) = listed(folder)
    decided = ("--decision", "cancel")
    assert run("gates", "resolve", "--store", folder, gate["id"], *decided).exit_code == 0
    wrong = gate["id"][:-1] + "x"
    for arguments, words in (
        (("resolve", "--store", folder, gate["id"], *decided), "already resolved, by cancel"),
        (("resolve", "--store", folder, wrong, *decided), f"Did you mean {gate['id']}?"),
        (("show", "--store", folder, "nope"), "there is no gate 'nope'"),
        (("list", "--store", tmp_path), "is not a store"),
        (("metrics", "--store", tmp_path), "is not a store"),
    ):
        result = refused("gates", *arguments)
        assert words in result
        assert len(result.splitlines()) == 1
    result = refused("gates", "resolve", "--store", folder, gate["id"], "--decision", "forget")
    assert "not_a_loop" in result


def test_the_beginning_of_an_id_is_enough(tmp_path: Path) -> None:
    """Nobody types sixteen digits; a beginning of two ids is an error that names both."""
    # More than there are first digits.
    writer.ingest(spans_of(*(looping(f"s{number}") for number in range(17))), tmp_path / "s")
    ids = [gate["id"] for gate in listed(tmp_path / "s")]
    firsts = [gate_id[0] for gate_id in ids]
    shared = next(first for first in firsts if firsts.count(first) > 1)
    first, second = [gate_id for gate_id in ids if gate_id[0] == shared][:2]

    for command in (
        ("gates", "show", "--store", tmp_path / "s", shared),
        ("gates", "resolve", "--store", tmp_path / "s", shared, "--decision", "continue"),
        ("escalation", tmp_path / "s", "--gate", shared),
    ):
        several = refused(*command)
        assert first in several
        assert second in several

    for enough in (first[:12], first):
        assert f"gate {first}" in run("gates", "show", "--store", tmp_path / "s", enough).stdout
    assert first in run("escalation", tmp_path / "s", "--gate", first[:12]).stdout
    resolve = ("gates", "resolve", "--store", tmp_path / "s", first[:12], "--decision", "continue")
    assert f"Gate {first} of task" in run(*resolve).stdout
    assert f"gate {first} is already resolved" in run(*resolve).stderr
    assert "there is no gate ''" in run("gates", "show", "--store", tmp_path / "s", "").stderr


@pytest.mark.parametrize(
    ("token", "words"),
    [(None, "asks for a token"), ("a-token-of-another-day", "refuses this token")],
)
def test_a_wrong_token_says_so(token: str | None, words: str) -> None:
    """In one line, with the address and where a good one comes from."""
    with guarded(Access(tokens=("a-token-of-20-letters",))) as port:
        url = f"http://127.0.0.1:{port}"
        for arguments in (("gates", "list"), ("gates", "show", "4c7c"), ("watch",)):
            command = [*arguments, "--server", url]
            result = refused(*command, LOOPTRACE_TOKEN=token)
            assert f"{url} {words}; set LOOPTRACE_TOKEN" in result
            assert len(result.splitlines()) == 1


def test_nothing_is_cut_in_a_pipe(folder: Path) -> None:
    """A program reads whole cells, and whole lines."""
    long = "SELECT repeat('ab ', 90) AS words, task FROM gates"
    for columns, is_whole in ((None, True), ("80", False)):
        arguments = ["query", "--store", str(folder), "--sql", long]
        shown = run(*arguments, COLUMNS=columns).stdout
        assert ("ab " * 89 in shown) == is_whole
        assert ("…" in shown) != is_whole
    arguments = ["gates", "show", "--store", str(folder), listed(folder)[0]["id"]]
    shown = run(*arguments).stdout
    assert max(map(len, shown.splitlines())) > 100


def test_a_store_without_gates_says_so(folder: Path) -> None:
    """An empty list is an answer; a missing file is not."""
    writer.ingest(spans_of(looping("s1")).clear(), folder / "none")
    assert "No gate is open" in run("gates", "list", "--store", folder / "none").stdout
    assert "There is no gate" in run("gates", "list", "--store", folder / "none", "--all").stdout
    (folder / "looptrace-store.gates.db").unlink()
    assert "no file of gates" in run("gates", "list", "--store", folder).stderr
    assert not (folder / "looptrace-store.gates.db").exists()


def test_a_damaged_file_is_one_line(folder: Path) -> None:
    """Also for an ingest, which then changes nothing."""
    (folder / "looptrace-store.gates.db").write_bytes(b"Chapter 1. " * 999)
    for arguments in (
        ("gates", "list", "--store", folder),
        ("gates", "metrics", "--store", folder),
    ):
        result = run(*arguments)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
        assert "move it away" in result.stderr
    with pytest.raises(StoreError, match="not a database"):
        writer.ingest(spans_of(looping("s1")), folder)
    (folder / "looptrace-store.gates.db").unlink()
    writer.ingest(spans_of(looping("s1")), folder)
    assert len(listed(folder)) == 1


def test_hostile_names_stay_on_their_line(tmp_path: Path) -> None:
    """Names come from traces, that is from anybody."""
    trace = Trace("s")
    for _ in range(5):
        call(trace, {"looptrace.task.id": HOSTILE, "gen_ai.agent.name": HOSTILE}, tool=HOSTILE)
    writer.ingest(spans_of(trace), tmp_path)
    (gate,) = listed(tmp_path)
    assert gate["task"] == HOSTILE
    for arguments in (
        ("list", "--store", tmp_path),
        ("show", "--store", tmp_path, gate["id"]),
        ("metrics", "--store", tmp_path),
    ):
        shown = run("gates", *arguments).stdout
        assert "\x1b[31m" not in shown
        assert "\u202e" not in shown
        assert "[red]" in shown


@requirement("A15")
def test_metrics_are_printed(folder: Path) -> None:
    """In words, and as JSON."""
    found = json_of("gates", "metrics", "--store", folder)
    assert (found["tasks"], found["loop_detection_rate"], found["gates_open"]) == (1, 1.0, 1)
    shown = run("gates", "metrics", "--store", folder).stdout
    assert "loop detection rate" in shown
    assert "false positive rate" in shown


@requirement("A14")
def test_an_ingest_writes_what_it_told_as_json_lines(folder: Path, tmp_path: Path) -> None:
    """A file grows by what was new, and on standard output nothing else is printed."""
    (tmp_path / "s2.jsonl").write_text(looping("s2").lines())
    log = tmp_path / "events.jsonl"
    ingest = ("ingest", tmp_path / "s2.jsonl", "--store", folder, "--events")
    first, again = run(*ingest, log), run(*ingest, log)
    assert "gates opened 1, open 2" in first.stdout
    assert "gates opened 0, open 2" in again.stdout
    (line,) = map(json.loads, log.read_text().splitlines())
    assert (line["event"], line["task"], line["loop_count"]) == ("gate_triggered", "s2", 2)

    (gate, _) = (one["id"] for one in listed(folder))
    run("gates", "resolve", "--store", folder, gate, "--decision", "reviewed")
    printed = run(*ingest, "-")
    names = [json.loads(text)["event"] for text in printed.stdout.splitlines()]
    assert names == ["gate_resolved", "loop_counter_reset"]
    assert "gates opened 0, open 1" in printed.stderr


def test_another_program_reads_the_gates_in_sql(folder: Path) -> None:
    """The tables are documented, so that other tools can read them."""
    with closing(sqlite3.connect(folder / "looptrace-store.gates.db")) as sql:
        rows = sql.execute("SELECT task, rule, status FROM gates").fetchall()
    assert rows == [("s1", "repeated_failure", "open")]


def test_an_ingest_decides_by_the_settings(tmp_path: Path) -> None:
    """Without pivots the first loop that asks for one is a gate."""
    trace = Trace("s")
    same = [{"role": "assistant", "parts": [{"type": "text", "content": "No way."}]}]
    given = [{"role": "tool", "parts": [{"type": "tool_call_response", "response": "error"}]}]
    for _ in range(3):
        said = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(same)}
        trace.span("chat", None, {**said, "gen_ai.input.messages": json.dumps(given)})
    (tmp_path / "s.jsonl").write_text(trace.lines())
    (tmp_path / "strict.toml").write_text("[recovery]\nmax_pivots = 0\n")
    ingest = ("ingest", tmp_path / "s.jsonl", "--store", tmp_path / "store")
    assert "gates opened 0, open 0" in run(*ingest).stdout
    assert "gates opened 1, open 1" in run(*ingest, "--config", tmp_path / "strict.toml").stdout
    (gate,) = listed(tmp_path / "store")
    assert gate["why"] == "MAX_PIVOTS_EXCEEDED"
