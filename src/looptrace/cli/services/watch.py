"""`looptrace watch`: open gates and tasks that warm up, on the whole screen, resolved by keys."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import click
from rich.console import Console
from rich.live import Live

from looptrace.analyzer.gates.directives import notice_of
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.settings.sections import Settings
from looptrace.cli.config import config_option
from looptrace.cli.gates import is_url, notice_line, server_at
from looptrace.cli.shared.keyboard import keyboard
from looptrace.cli.shared.watch_screen import QUIT, Resolution, WatchScreen
from looptrace.collector.api_bodies import WarmingTask
from looptrace.collector.gates_client import RemoteGates
from looptrace.collector.server.warming import warming_tasks
from looptrace.collector.store.gates import GateStatus, StoredGate
from looptrace.collector.store.reader import open_gates
from looptrace.errors import LooptraceError

# How long a key or the next look at what is known may take.
_TICK_S = 0.25
# Between two looks, where no news came before.
_LOOK_S = 2.0


class _Source(Protocol):
    """Gates and tasks, of a store or of a server."""

    def gates(self, status: GateStatus | None = None, /) -> list[StoredGate]: ...

    def resolve(self, gate_id: str, decision: str, note: str | None, /) -> StoredGate: ...

    def warming(self) -> list[WarmingTask]: ...

    def watch(self) -> Iterator[GateNotice]: ...


@click.command()
@click.argument("where", metavar="URL|STORE")
@config_option
def watch(where: str, settings: Settings) -> None:
    """Show the open gates, and the tasks one attempt short of a loop, until q is pressed.

    URL is the address of a server that runs, whose token is read from LOOPTRACE_TOKEN; STORE is
    the folder of a store, which is read again every 2 s. A key resolves the gate that is chosen.
    Where standard output is no terminal, each thing that is told is a line.
    """
    source: _Source = (
        RemoteGates(server_at(where)) if is_url(where) else _StoredGates(Path(where), settings)
    )
    console = Console()
    if console.is_terminal and sys.stdin.isatty():
        _watch_screen(source, where, console)
    else:
        for notice in source.watch():
            click.echo(notice_line(notice))


class _StoredGates:
    """What a server tells, of a store on disk, which is opened anew for each look."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings

    def gates(self, status: GateStatus | None = None) -> list[StoredGate]:
        with open_gates(self._folder) as store:
            return store.gates(status)

    def resolve(self, gate_id: str, decision: str, note: str | None) -> StoredGate:
        with open_gates(self._folder) as store:
            return store.resolve(gate_id, decision, note)

    def warming(self) -> list[WarmingTask]:
        return warming_tasks(self._folder, self._settings.policy.rule_set)

    def watch(self) -> Iterator[GateNotice]:
        """Follow the events, beginning with the openings of gates that are open."""
        with open_gates(self._folder) as store:
            seq = store.last_seq()
            opened = [store.gate(gate.id).event for gate in reversed(store.gates("open"))]
        yield from (notice_of(event, self._settings.directives) for event in opened)
        while True:
            time.sleep(_LOOK_S)
            with open_gates(self._folder) as store:
                told = list(store.events(seq))
            for _, event in told:
                yield notice_of(event, self._settings.directives)
            seq = told[-1][0] if told else seq


def _watch_screen(source: _Source, where: str, console: Console) -> None:
    """Show the screen, and look again when something is told, or after a while."""
    screen, news = WatchScreen(), threading.Event()
    screen.show(source.gates("open"), source.warming())
    threading.Thread(target=_follow, args=(source, news), daemon=True).start()
    looked_s = time.monotonic()

    def draw() -> None:
        live.update(screen.render(where, time.time_ns(), console), refresh=True)

    with (
        keyboard() as keys,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        draw()
        while True:
            for key in keys(_TICK_S):
                if key == QUIT and not screen.is_typing:
                    return
                if resolution := screen.press(key):
                    screen.message = _resolved(source, resolution)
                    news.set()
            if news.is_set() or time.monotonic() - looked_s > _LOOK_S:
                news.clear()
                _look(source, screen)
                looked_s = time.monotonic()
            draw()


def _follow(source: _Source, news: threading.Event) -> None:
    """Say that there is news as soon as something is told; without it each look waits its turn."""
    while True:
        try:
            for _ in source.watch():
                news.set()
        except LooptraceError:
            news.set()  # The look that follows shows what is wrong.
        time.sleep(_LOOK_S)


def _look(source: _Source, screen: WatchScreen) -> None:
    try:
        screen.show(source.gates("open"), source.warming())
    except LooptraceError as error:
        screen.message = str(error)


def _resolved(source: _Source, resolution: Resolution) -> str:
    try:
        gate = source.resolve(*resolution)
    except LooptraceError as error:
        return str(error)
    return f"Gate {gate.id} of task {gate.task} is resolved: {resolution.decision}."
