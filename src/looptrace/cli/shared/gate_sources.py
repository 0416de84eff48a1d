"""Sources of gates: servers, stores, or several of them, shown as one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import click

from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.directives import notice_of
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.settings.sections import Settings
from looptrace.cli.shared.stores import store_copy, store_option, written_again
from looptrace.collector.agent_states import with_agents
from looptrace.collector.api_bodies import WarmingTask
from looptrace.collector.gates_client import RemoteGates
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.sdk.server_watch import TOKEN_VARIABLE
from looptrace.collector.server.warming import warming_tasks
from looptrace.collector.store.gate_file.stored_gates import GateDetails, GateStatus, StoredGate
from looptrace.collector.store.gate_metrics import GateMetrics, metrics_of, together
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.reader import open_gates, read_loops, worked
from looptrace.errors import InputError, LooptraceError, UnavailableError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Stores = Sequence[Path | str]
Servers = Sequence[str]

# The time between two looks at a store.
LOOK_S = 2.0


class GateSource(Protocol):
    """The gates of a store or of a server."""

    def gates(self, status: GateStatus | None = None, /) -> list[StoredGate]:
        """Return gates, the open ones first, then the newest."""

    def gate(self, gate_id: str, meaning: Meaning | None = None, /) -> GateDetails:
        """Return a gate with what led to it."""

    def resolve(
        self,
        gate_id: str,
        decision: str,
        note: str | None,
        /,
        *,
        who: str | None = None,
        add: float | None = None,
    ) -> StoredGate:
        """Record what a person decided, who, and what it adds to a budget; returns the gate."""

    def metrics(self) -> GateMetrics:
        """Return how often tasks loop, and how often they are stopped."""

    def warming(self) -> list[WarmingTask]:
        """Return the tasks where a rule is one attempt short of a loop."""

    def watch(self) -> Iterator[GateNotice]:
        """Follow the events, beginning with the openings of gates that are open."""


def source_options(command: F) -> F:
    """Add --store and --server; the command gets the sources as `stores` and `servers`."""
    several = "; several are shown as one."
    server = click.option(
        "--server",
        "servers",
        metavar="URL",
        multiple=True,
        help=f"Address of a running server, such as http://localhost:4318{several} Its token is "
        f"read from {TOKEN_VARIABLE}.",
    )
    store = f"Folder of a store, or s3://BUCKET/PREFIX{several}"
    return store_option("written", store, required=False, multiple=True)(server(command))


def source_of(
    stores: Sequence[Path | str], servers: Sequence[str], settings: Settings
) -> GateSource:
    """Return the gates of a store or a server, or of several of them.

    Raises:
        UsageError: if none is named, or an address is not one.
    """
    stored = (
        GatesOnDisk(store, settings) if isinstance(store, Path) else ObjectGates(store, settings)
        for store in stores
    )
    sources: list[GateSource] = [*stored, *(RemoteGates(server_at(url)) for url in servers)]
    if not sources:
        raise click.UsageError("name a store by --store, or a running server by --server.")
    return sources[0] if len(sources) == 1 else GatesOfSeveral(sources)


def server_at(url: str) -> Server:
    """Return the server at an address, with the token of the environment.

    Raises:
        UsageError: if the address is not one.
    """
    try:
        # In the environment, because everybody on the machine can see a command line.
        return Server(url, os.environ.get(TOKEN_VARIABLE))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


class GatesOnDisk:
    """The gates of a store on disk, which is opened again for each look."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings

    def gates(self, status: GateStatus | None = None) -> list[StoredGate]:
        """Return gates, the open ones first, then the newest."""
        with open_gates(self._folder) as store:
            gates = store.gates(status)
        return with_agents(self._folder, gates)

    def gate(self, gate_id: str, meaning: Meaning | None = None) -> GateDetails:
        """Return a gate with what led to it."""
        with open_gates(self._folder) as store:
            details = store.gate(gate_id, meaning)
        (gate,) = with_agents(self._folder, [details.gate])
        return replace(details, gate=gate)

    def resolve(
        self,
        gate_id: str,
        decision: str,
        note: str | None,
        *,
        who: str | None = None,
        add: float | None = None,
    ) -> StoredGate:
        """Record what a person decided, and who; returns the gate."""
        with open_gates(self._folder) as store:
            return store.resolve(gate_id, decision, note, who=who, add=add)

    def metrics(self) -> GateMetrics:
        """Return how often tasks loop, and how often they are stopped."""
        with open_gates(self._folder) as store:
            return metrics_of(store, worked(self._folder), read_loops(self._folder))

    def warming(self) -> list[WarmingTask]:
        """Return the tasks where a rule is one attempt short of a loop."""
        return warming_tasks(self._folder, self._settings.policy.rule_set)

    def watch(self) -> Iterator[GateNotice]:
        """Follow the events, beginning with the openings of gates that are open."""
        with open_gates(self._folder) as store:
            seq = store.last_seq()
            opened = [store.gate(gate.id).event for gate in reversed(store.gates("open"))]
        yield from (notice_of(event, self._settings.directives) for event in opened)
        while True:
            time.sleep(LOOK_S)
            with open_gates(self._folder) as store:
                told = list(store.events(seq))
            for _, event in told:
                if not event.is_left_alone:
                    yield notice_of(event, self._settings.directives)
            seq = told[-1][0] if told else seq


class ObjectGates(GatesOnDisk):
    """The gates of a store on object storage, as they are when they are first asked for."""

    def __init__(self, url: str, settings: Settings) -> None:
        super().__init__(store_copy(url), settings)
        self._url = url

    def resolve(
        self,
        gate_id: str,
        decision: str,
        note: str | None,
        *,
        who: str | None = None,
        add: float | None = None,
    ) -> StoredGate:
        """Record what a person decided, and who; where another writer is first, once more."""
        return written_again(
            self._url,
            lambda folder: GatesOnDisk(folder, self._settings).resolve(
                gate_id, decision, note, who=who, add=add
            ),
        )

    def watch(self) -> Iterator[GateNotice]:
        """Refuse, because nothing happens there until the next ingest.

        Raises:
            InputError: always.
        """
        raise InputError(
            f"{self._url}: is on object storage, which has no stream of gates; "
            "watch a server by --server, or ask with `looptrace gates list`."
        )


class GatesOfSeveral:
    """The gates of several sources as those of one; if one does not answer, none are shown."""

    def __init__(self, sources: Sequence[GateSource]) -> None:
        self._sources = sources

    def gates(self, status: GateStatus | None = None) -> list[StoredGate]:
        """Return gates, the open ones first, then the newest."""
        every = [gate for gates in self._all(lambda each: each.gates(status)) for gate in gates]
        return sorted(every, key=lambda gate: (gate.status != "open", -gate.opened_ns))

    def gate(self, gate_id: str, meaning: Meaning | None = None) -> GateDetails:
        """Return the gate of the one source that has it."""
        return self._of(gate_id).gate(gate_id, meaning)

    def resolve(
        self,
        gate_id: str,
        decision: str,
        note: str | None,
        *,
        who: str | None = None,
        add: float | None = None,
    ) -> StoredGate:
        """Record a decision at the source that has the gate."""
        return self._of(gate_id).resolve(gate_id, decision, note, who=who, add=add)

    def metrics(self) -> GateMetrics:
        """Return the figures of all sources together."""
        return together(self._all(lambda each: each.metrics()))

    def warming(self) -> list[WarmingTask]:
        """Return the tasks of all."""
        return [task for tasks in self._all(lambda each: each.warming()) for task in tasks]

    def watch(self) -> Iterator[GateNotice]:
        """Follow all at once, until all have ended; an error of one ends all."""
        told: SimpleQueue[GateNotice | LooptraceError | None] = SimpleQueue()
        for source in self._sources:
            threading.Thread(target=_follow, args=(source, told), daemon=True).start()
        following = len(self._sources)
        while following:
            notice = told.get()
            if isinstance(notice, StoreError):
                raise _without(notice) from notice
            if isinstance(notice, LooptraceError):
                raise notice
            if notice is None:
                following -= 1
            else:
                yield notice

    def _all(self, ask: Callable[[GateSource], T]) -> list[T]:
        """Return what each source answers.

        Raises:
            UnavailableError: if one of them does not answer.
        """
        try:
            return [ask(source) for source in self._sources]
        except StoreError as error:
            raise _without(error) from error

    def _of(self, gate_id: str) -> GateSource:
        """Return the one source with a gate; one that does not answer may have others only.

        Raises:
            GateError: if there is none, or more than one.
            UnavailableError: if a source does not answer that may have it.
        """
        having, missing, silent = list[GateSource](), list[GateError](), list[StoreError]()
        is_whole_id = False
        for source in self._sources:
            try:
                is_whole_id |= source.gate(gate_id).gate.id == gate_id
                having.append(source)
            except GateError as error:
                missing.append(error)
            except StoreError as error:
                silent.append(error)
        if silent and not is_whole_id:
            raise _without(silent[0]) from silent[0]
        if not having:
            raise missing[0]
        if len(having) > 1:
            raise GateError(
                f"{gate_id} begins the ids of gates of {len(having)} servers; give more characters"
            )
        return having[0]


def _without(error: StoreError) -> UnavailableError:
    return UnavailableError(f"{error} Without it in the list, the others are shown.")


def _follow(source: GateSource, told: SimpleQueue[GateNotice | LooptraceError | None]) -> None:
    try:
        for notice in source.watch():
            told.put(notice)
        told.put(None)
    except LooptraceError as error:
        told.put(error)
