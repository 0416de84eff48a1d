"""`looptrace gates`: the gates of a store, and what a person decides about them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import utc_s
from looptrace.collector.gates_client import RemoteGates
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.store.gate_metrics import AgentMetrics, GateMetrics, metrics_of
from looptrace.collector.store.gates import (
    DECISIONS,
    GateDetails,
    GateStatus,
    StoredGate,
)
from looptrace.collector.store.reader import open_gates, worked

_CELL_LENGTH_MAX = 120
_LINE_LENGTH_MAX = 500
_AGENTS_SHOWN_MAX = 10
_INDENT = 2

# In the environment, because a command line is seen by all who are on the machine.
_TOKEN = "LOOPTRACE_TOKEN"  # noqa: S105 - its name
_where = click.argument("where", metavar="STORE|URL")
_store = click.argument("store_dir", metavar="STORE", type=click.Path(path_type=Path))
_format = click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "json"]),
    default="terminal",
    show_default=True,
    help="How to print it.",
)


@click.group()
def gates() -> None:
    """Show gates, and record what a person decides about them.

    STORE is the folder of a store, URL the address of a server that runs, such as
    http://localhost:4318. A server's token is read from LOOPTRACE_TOKEN.
    """


@gates.command(name="list")
@_where
@click.option("--all", "every", is_flag=True, help="Also those that are open no longer.")
@_format
def list_gates(where: str, every: bool, form: str) -> None:
    """List the open gates, the newest first."""
    with _gates_at(where) as known:
        found = known.gates(None if every else "open")
    if form == "json":
        _print_json(found)
    elif found:
        _print_gates(found)
    else:
        click.echo("There is no gate." if every else "No gate is open; --all shows all gates.")


@gates.command()
@_where
@click.argument("gate_id", metavar="ID")
@_format
def show(where: str, gate_id: str, form: str) -> None:
    """Show the gate ID: why it opened, what failed before, and notes that worked."""
    with _gates_at(where) as known:
        found = known.gate(gate_id)
    if form == "json":
        _print_json(found)
    else:
        _print_details(found)


@gates.command()
@_where
@click.argument("gate_id", metavar="ID")
@click.option("--decision", required=True, type=click.Choice(DECISIONS), help="What you decide.")
@click.option("--note", help="What the agent, and whoever meets this loop again, should know.")
def resolve(where: str, gate_id: str, decision: str, note: str | None) -> None:
    """Resolve the gate ID, as a message of a person to the agent would.

    `continue` means with another approach, and `not_a_loop` that there was no need to stop.
    """
    with _gates_at(where) as known:
        task = known.resolve(gate_id, decision, note).task
    effect = (
        "The agent is told now."
        if _is_url(where)
        else "The counters begin anew with the next `looptrace ingest` into this store."
    )
    named = plain(task, _CELL_LENGTH_MAX)
    click.echo(f"Gate {gate_id} of task {named} is resolved: {decision}. {effect}")


@gates.command()
@click.argument("url", metavar="URL")
@_format
def watch(url: str, form: str) -> None:
    """Print what is told of loops as the server at URL tells it, until it ends or Ctrl-C.

    The openings of the gates that are open now come first.
    """
    for told in RemoteGates(_server(url)).watch():
        line = msgspec.json.encode(told).decode() if form == "json" else _told(told)
        click.echo(line)


@gates.command()
@_store
@_format
def metrics(store_dir: Path, form: str) -> None:
    """Print how often the tasks of STORE loop, and how often they are stopped."""
    with open_gates(store_dir) as store:
        found = metrics_of(store, worked(store_dir))
    if form == "json":
        _print_json(found)
    else:
        _print_metrics(found)


class _Known(Protocol):
    """Gates that are known, of a store or of a server."""

    def gates(self, status: GateStatus | None = None, /) -> list[StoredGate]: ...

    def gate(self, gate_id: str, /) -> GateDetails: ...

    def resolve(self, gate_id: str, decision: str, note: str | None, /) -> StoredGate: ...


def _is_url(where: str) -> bool:
    return where.startswith(("http://", "https://"))


def _gates_at(where: str) -> AbstractContextManager[_Known]:
    return nullcontext(RemoteGates(_server(where))) if _is_url(where) else open_gates(Path(where))


def _server(url: str) -> Server:
    try:
        return Server(url, os.environ.get(_TOKEN))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _told(told: GateNotice) -> str:
    what = told.type.replace("_", " ")
    by = f", {told.rule}" if told.rule else ""
    return plain(f"{what}: task {told.task}{by}: {told.reason}", _LINE_LENGTH_MAX)


def _print_json(found: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())


def _print_gates(found: Sequence[StoredGate]) -> None:
    console = Console()
    for gate in found:
        whose = f"task {gate.task}" + (f", agent {gate.agent}" if gate.agent else "")
        head = f"{gate.id}, {_status(gate)}, {utc_s(gate.opened_ns)}, {whose}"
        console.print(Text(plain(head, _LINE_LENGTH_MAX), style="bold"))
        console.print(Padding(Text(plain(gate.reason, _LINE_LENGTH_MAX)), (0, 0, 0, _INDENT)))


def _print_details(found: GateDetails) -> None:
    gate, event = found.gate, found.event
    about = [
        ("task", gate.task),
        ("agent", gate.agent or "-"),
        ("status", _status(gate)),
        ("opened", utc_s(gate.opened_ns)),
        ("why", f"{gate.why}: {gate.reason}"),
        ("rule", gate.rule),
        ("signature", gate.signature),
        ("loop count", str(gate.loop_count)),
    ]
    if gate.resolved_ns is not None:
        about.append(("resolved", utc_s(gate.resolved_ns)))
    if gate.note:
        about.append(("note", gate.note))
    console = Console()
    console.print(Text(f"gate {gate.id}", style="bold"))
    console.print(_pairs(about))
    _print_list(
        console,
        "failures before it",
        (f"turn {f.turn}: {f.agent} {f.label}: {f.error or f.signature}" for f in event.history),
    )
    _print_list(
        console,
        "notes that worked before",
        (f"{utc_s(n.resolved_ns)} {n.decision or 'message'}: {n.note}" for n in found.notes),
    )


def _print_list(console: Console, title: str, lines: Iterable[str]) -> None:
    for number, line in enumerate(lines):
        if not number:
            console.print(Text(f"\n{title}", style="bold"))
        console.print(Padding(Text(plain(line, _LINE_LENGTH_MAX)), (0, 0, 0, _INDENT)))


def _print_metrics(found: GateMetrics) -> None:
    numbers = [
        (field.name.replace("_", " "), _number(getattr(found, field.name)))
        for field in fields(found)
        if field.name != "agents"
    ]
    console = Console()
    console.print(_pairs(numbers))
    names = [field.name for field in fields(AgentMetrics)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in names:
        table.add_column(name.replace("_", " "), justify="left" if name == "agent" else "right")
    for agent in found.agents[:_AGENTS_SHOWN_MAX]:
        named = plain(agent.agent, _CELL_LENGTH_MAX) or "-"
        table.add_row(Text(named), *(_number(getattr(agent, name)) for name in names[1:]))
    console.print(table)


def _pairs(pairs: Iterable[tuple[str, str]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in pairs:
        table.add_row(Text(name, style="dim"), Text(plain(value, _LINE_LENGTH_MAX)))
    return table


def _status(gate: StoredGate) -> str:
    if gate.status == "open" and gate.decision:
        return f"open, decided: {gate.decision}"
    return f"{gate.status}: {gate.decision}" if gate.decision else gate.status


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
