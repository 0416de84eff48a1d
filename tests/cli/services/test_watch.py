import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from looptrace.analyzer.engine.policy import DEFAULT
from looptrace.cli.shared.keyboard import keys_in
from looptrace.cli.shared.watch_screen import BACKSPACE, ENTER, ESCAPE, ScreenDecision, WatchScreen
from looptrace.collector.api_bodies import WarmingTask
from looptrace.collector.server.warming import warming_tasks
from looptrace.collector.store import reader, writer
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from tests.collector.store.stored import looping, spans_of
from tests.reliability.forked import Forked
from tests.reliability.serving import OK, served, until
from tests.reliability.serving import looping as live_loop

DEADLINE_S = 30.0
WATCH = [sys.executable, "-m", "looptrace", "watch"]


def gate(gate_id: str, task: str = "t1") -> StoredGate:
    """Make an open gate."""
    reason = "total is 3 came 5 times \x1b[31m"
    about = (task, "repeated_call", "sig", "LADDER", "helper", reason, 4, 10**9)
    return StoredGate(gate_id, *about, "open", None, None, None)


def drawn(screen: WatchScreen, width: int = 80, height: int = 24) -> str:
    """Draw the screen as text."""
    console = Console(file=io.StringIO(), width=width, height=height)
    with console.capture() as text:
        console.print(screen.render("http://x", 65 * 10**9, console))
    return text.get()


def test_keys_choose_a_gate_and_resolve_it_with_a_note() -> None:
    """A letter decides, the note can be mended, and nothing is sent before enter."""
    screen = WatchScreen()
    screen.show([gate("g1"), gate("g2", "t2")], [])
    pressed = [screen.press(key) for key in ["j", "c", *"Ask Adq", BACKSPACE, "a", ENTER]]

    assert pressed[:-1] == [None] * (len(pressed) - 1)
    assert pressed[-1] == ScreenDecision("g2", "continue", "Ask Ada")
    assert [screen.press(key) for key in ("x", ESCAPE, ENTER)] == [None] * 3
    assert [screen.press(key) for key in ("k", "n", ENTER)][-1] == ScreenDecision(
        "g1", "not_a_loop", None
    )


def test_to_go_on_needs_a_note() -> None:
    """As on the page: without one the agent is likely to fail in the same way again."""
    screen = WatchScreen()
    screen.show([gate("g1")], [])
    assert [screen.press(key) for key in ("c", ENTER, " ", ENTER)] == [None] * 4
    assert "write one" in drawn(screen)
    assert screen.press("A") is None
    assert "write one" not in drawn(screen)
    assert screen.press(ENTER) == ScreenDecision("g1", "continue", "A")
    assert [screen.press(key) for key in ("x", ENTER)][-1] == ScreenDecision("g1", "cancel", None)


@pytest.mark.parametrize("pressed", ["x", "", "rnxc"])
def test_keys_without_a_name_do_nothing(pressed: str) -> None:
    """Whoever moves the cursor in a note, or pages down, decides on nothing."""
    screen = WatchScreen()
    screen.show([gate("g1")], [])
    for key in keys_in(pressed[:1]):
        screen.press(key)
    was_typing = screen.is_typing
    codes = ("[C", "[D", "[3~", "[5~", "[1;5A", "[H", "[F", "OP", "[15~", "[<0;3;4M", "x", "n", "c")
    keys = [key for code in codes for key in keys_in(f"\x1b{code}")]

    assert keys == []
    assert screen.is_typing == was_typing
    others = [screen.press(key) for key in keys_in("azeyup gh\t\x7f\r")]
    assert others[:-1] == [None] * (len(others) - 1)
    assert (others[-1] is None) == (not was_typing)


def test_a_gate_that_goes_takes_its_note_with_it() -> None:
    """A note for one gate must never resolve another."""
    screen = WatchScreen()
    screen.show([gate("g1"), gate("g2")], [])
    screen.press("c")
    screen.show([gate("g2")], [])

    assert screen.press(ENTER) is None
    assert "open no longer" in screen.message or not screen.is_typing


def test_the_screen_shows_gates_and_warm_ups() -> None:
    """Both fit a small terminal, and no text of a trace controls it."""
    screen = WatchScreen()
    screen.show(
        [gate(f"g{i}") for i in range(30)], [WarmingTask("t9", "", "", 0, "repeated_call", 2, 3)]
    )
    text = drawn(screen)

    assert "30 open gates" in text
    assert "open for 1 min 4 s" in text
    assert "repeated_call 2 of 3" in text
    assert "\x1b" not in text
    assert len(text.splitlines()) <= 24
    assert len(drawn(screen, width=40, height=12).splitlines()) <= 14


def test_arrows_are_one_key() -> None:
    """Terminals send an arrow as several characters, of which the first alone is escape."""
    assert keys_in("\x1b[Aq\x1b\r\x7f") == ["up", "q", "escape", "enter", "backspace"]


def test_a_task_one_attempt_short_warms_up(tmp_path: Path) -> None:
    """A task that loops is a loop; one that rests warms up no longer."""
    writer.ingest(spans_of(live_loop("s1", 2), looping("s2")), tmp_path)
    (task,) = reader.read_turns_of(tmp_path, "s1")["end_ns"].tail(1)

    (warm,) = warming_tasks(tmp_path, DEFAULT.rule_set, now_ns=task)
    assert (warm.task, warm.needed - warm.attempts) == ("s1", 1)
    assert warming_tasks(tmp_path, DEFAULT.rule_set) == []


@contextmanager
def at_terminal(*where: str) -> Iterator[int]:
    """Run `looptrace watch` at a terminal; returns its other side."""
    mine, its = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen([*WATCH, *where], stdin=its, stdout=its, stderr=its, env=env) as process:
        os.close(its)
        try:
            yield mine
            os.write(mine, b"q")
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()
            os.close(mine)


def read_until(terminal: int, words: str) -> None:
    """Read the screen until it shows these words."""
    seen, deadline_s = "", time.monotonic() + DEADLINE_S
    while words not in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen):
        assert time.monotonic() < deadline_s, seen[-2000:]
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65536).decode(errors="replace")


def test_a_store_is_watched_and_a_key_resolves(tmp_path: Path) -> None:
    """On disk, without a server: what an ingest adds appears, and a decision is recorded."""
    store = tmp_path / "store"
    writer.ingest(spans_of(looping("s1")), store)
    with at_terminal("--store", str(store)) as terminal:
        read_until(terminal, "1 open gate")
        os.write(terminal, b"zy\r\x1b[Cc\r")
        read_until(terminal, "write one")
        os.write(terminal, b"Ask Bob\x1b[D\x1bOH\x7f\x7f\x7fAda.\r")
        read_until(terminal, "is resolved: continue")
        read_until(terminal, "No gate is open.")
    with reader.open_gates(store) as opened:
        (decided,) = opened.gates()
    assert (decided.decision, decided.note) == ("continue", "Ask Ada.")


def test_a_server_is_watched_and_a_key_resolves(tmp_path: Path) -> None:
    """A gate appears as it opens, and the decision takes effect in the server."""
    with (
        served(tmp_path / "store") as server,
        at_terminal("--server", f"http://{server.address}") as terminal,
    ):
        read_until(terminal, "No gate is open.")
        assert server.send(live_loop("s1", 6).request()) == OK
        read_until(terminal, "1 open gate")
        os.write(terminal, b"x\r")
        read_until(terminal, "is resolved: cancel")
        until(lambda: not server.gates("status=open"))


def test_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    """A pipe gets a line for each event, and no screen."""
    store = tmp_path / "store"
    writer.ingest(spans_of(looping("s1")), store)
    process = Forked(["watch", "--store", str(store)])
    assert process.stdout.readline().startswith("gate opened: task s1, ")
    writer.ingest(spans_of(looping("s2")), store)
    lines = iter(process.stdout.readline, "")
    assert next(line for line in lines if "task s2" in line)
    process.terminate()
    process.wait(DEADLINE_S)
