"""`looptrace watch`: open gates and tasks close to a loop, full screen, resolved by keys."""

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.live import Live

from looptrace.analyzer.settings.sections import Settings
from looptrace.cli.config import config_option
from looptrace.cli.gates import notice_line
from looptrace.cli.shared.gate_sources import GateSource, source_of, source_options
from looptrace.cli.shared.gates_on_disk import LOOK_S
from looptrace.cli.shared.keyboard import keyboard
from looptrace.cli.shared.options import format_option
from looptrace.cli.shared.watch_screen import QUIT, ScreenDecision, WatchScreen
from looptrace.errors import LooptraceError

# The longest time for a key, or until the next look at the source.
_TICK_S = 0.25


@click.command()
@source_options
@format_option
@config_option
def watch(
    stores: Sequence[Path | str], servers: Sequence[str], form: str, settings: Settings
) -> None:
    """Show the open gates, and the tasks one attempt short of a loop, until q is pressed.

    A store is read again every 2 s. A key begins a decision about the selected gate, and enter
    sends it. If standard output is not a terminal, each event is a line; with `--format json` it
    is always a line of JSON. Open gates come first.
    """
    source = source_of(stores, servers, settings)
    where = ", ".join(map(str, (*stores, *servers)))
    console = Console()
    if form == "json":
        for notice in source.watch():
            click.echo(msgspec.json.encode(notice).decode())
    elif console.is_terminal and sys.stdin.isatty():
        _watch_screen(source, where, console)
    else:
        for notice in source.watch():
            click.echo(notice_line(notice))


def _watch_screen(source: GateSource, where: str, console: Console) -> None:
    """Show the screen, and look again after an event, or after a while."""
    screen, news = WatchScreen(), threading.Event()
    screen.show(source.gates("open"), source.warming())
    threading.Thread(target=_follow, args=(source, news), daemon=True).start()
    looked_s = time.monotonic()

    def draw() -> None:
        live.update(screen.render(where, time.time_ns(), console), refresh=True)

    with keyboard() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        draw()
        while True:
            for key in keys(_TICK_S):
                if key == QUIT and not screen.is_typing:
                    return
                if resolution := screen.press(key):
                    screen.message = _resolved(source, resolution)
                    news.set()
            if news.is_set() or time.monotonic() - looked_s > LOOK_S:
                news.clear()
                _look(source, screen)
                looked_s = time.monotonic()
            draw()


def _follow(source: GateSource, news: threading.Event) -> None:
    """Signal each event at once; otherwise the next look waits its turn."""
    while True:
        try:
            for _ in source.watch():
                news.set()
        except LooptraceError:
            news.set()  # The next look shows the error.
        time.sleep(LOOK_S)


def _look(source: GateSource, screen: WatchScreen) -> None:
    try:
        screen.show(source.gates("open"), source.warming())
    except LooptraceError as error:
        screen.message = str(error)


def _resolved(source: GateSource, resolution: ScreenDecision) -> str:
    try:
        gate = source.resolve(*resolution)
    except LooptraceError as error:
        return str(error)
    return f"Gate {gate.id} of task {gate.task} is resolved: {resolution.decision}."
