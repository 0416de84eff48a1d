"""Sources of incidents: servers, stores, or several of them, shown as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

import click

from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.incidents import STATES, IncidentState, IncidentWord, NoIncidentError
from looptrace.analyzer.gates.silences import Matchers, Silence
from looptrace.cli.shared.gate_sources import server_at
from looptrace.cli.shared.stores import store_copy, written_again
from looptrace.collector.gates_client import RemoteGates
from looptrace.collector.store.gate_file.incidents import Incident, IncidentDetails
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.reader import open_gates

T = TypeVar("T")


class IncidentSource(Protocol):
    """The incidents of a store or of a server."""

    def incidents(self, state: IncidentState | None = None, /) -> list[Incident]:
        """Return incidents: those that need somebody first, then those with the newest gates."""

    def incident(self, incident: str, /) -> IncidentDetails:
        """Return an incident with its gates."""

    def say(self, incident: str, word: IncidentWord, /) -> Incident:
        """Record what a person says of an incident."""

    def resolve_incident(
        self, incident: str, decision: str, note: str | None, who: str | None = None, /
    ) -> list[str]:
        """Record one decision on all open gates of an incident; return their ids."""

    def silences(self) -> list[Silence]:
        """Return the silences that hold now, the first to end first."""

    def silence(
        self, matchers: Matchers, ends_ns: int, why: str, who: str | None = None, /
    ) -> Silence:
        """Hold the openings of matching gates back from webhooks until a time."""

    def end_silence(self, silence: str, /) -> None:
        """End a silence now."""


def incidents_of(stores: Sequence[Path | str], servers: Sequence[str]) -> IncidentSource:
    """Return the incidents of a store or a server, or of several of them.

    Raises:
        UsageError: if none is named, or an address is not one.
    """
    stored = (
        StoredIncidents(store) if isinstance(store, Path) else ObjectIncidents(store)
        for store in stores
    )
    sources: list[IncidentSource] = [*stored, *(RemoteGates(server_at(url)) for url in servers)]
    if not sources:
        raise click.UsageError("name a store by --store, or a running server by --server.")
    return sources[0] if len(sources) == 1 else IncidentsOfSeveral(sources)


class StoredIncidents:
    """The incidents of a store on disk, which is opened again for each look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def incidents(self, state: IncidentState | None = None) -> list[Incident]:
        """Return incidents: those that need somebody first, then those with the newest gates."""
        with open_gates(self._folder) as store:
            return store.incidents(state)

    def incident(self, incident: str) -> IncidentDetails:
        """Return an incident with its gates."""
        with open_gates(self._folder) as store:
            return store.incident(incident)

    def say(self, incident: str, word: IncidentWord) -> Incident:
        """Record what a person says of an incident."""
        return self._written(lambda store: store.say(incident, word))

    def resolve_incident(
        self, incident: str, decision: str, note: str | None, who: str | None = None
    ) -> list[str]:
        """Record one decision on all open gates of an incident; return their ids."""
        return self._written(lambda store: store.resolve_incident(incident, decision, note, who))

    def silences(self) -> list[Silence]:
        """Return the silences that hold now, the first to end first."""
        with open_gates(self._folder) as store:
            return store.silences()

    def silence(
        self, matchers: Matchers, ends_ns: int, why: str, who: str | None = None
    ) -> Silence:
        """Hold the openings of matching gates back from webhooks until a time."""
        return self._written(lambda store: store.silence(matchers, ends_ns, why, who))

    def end_silence(self, silence: str) -> None:
        """End a silence now."""
        self._written(lambda store: store.end_silence(silence))

    def _written(self, write: Callable[[GateStore], T]) -> T:
        with open_gates(self._folder) as store:
            return write(store)


class ObjectIncidents(StoredIncidents):
    """The incidents of a store on object storage."""

    def __init__(self, url: str) -> None:
        super().__init__(store_copy(url))
        self._url = url

    def _written(self, write: Callable[[GateStore], T]) -> T:
        """Write to the store; where another writer is first, once more."""

        def work(folder: Path) -> T:
            with open_gates(folder) as store:
                return write(store)

        return written_again(self._url, work)


class IncidentsOfSeveral:
    """The incidents of several sources: those of the same loop are one."""

    def __init__(self, sources: Sequence[IncidentSource]) -> None:
        self._sources = sources

    def incidents(self, state: IncidentState | None = None) -> list[Incident]:
        """Return incidents: those that need somebody first, then those with the newest gates."""
        by_id: dict[str, list[Incident]] = {}
        for source in self._sources:
            for each in source.incidents():
                by_id.setdefault(each.id, []).append(each)
        every = [together(parts) for parts in by_id.values()]
        listed = [each for each in every if state in (None, each.state)]
        return sorted(listed, key=lambda each: (STATES.index(each.state), -each.last_ns, each.id))

    def incident(self, incident: str) -> IncidentDetails:
        """Return an incident with its gates in all sources."""
        parts = self._having(lambda source: source.incident(incident))
        if len({part.incident.id for part in parts}) > 1:
            raise NoIncidentError(f"several incidents begin with {incident!r}.")
        gates = sorted(
            (gate for part in parts for gate in part.gates),
            key=lambda gate: (gate.status != "open", -gate.opened_ns, gate.id),
        )
        notes = sorted(
            (note for part in parts for note in part.notes), key=lambda note: -note.resolved_ns
        )
        words = sorted((w for part in parts for w in part.words), key=lambda word: word.at_ns)
        whole = together([part.incident for part in parts])
        return IncidentDetails(whole, tuple(gates), tuple(notes), tuple(words))

    def say(self, incident: str, word: IncidentWord) -> Incident:
        """Record what a person says of an incident, wherever it has gates."""
        whole_id = self.incident(incident).incident.id
        return together(self._having(lambda source: source.say(whole_id, word)))

    def resolve_incident(
        self, incident: str, decision: str, note: str | None, who: str | None = None
    ) -> list[str]:
        """Record one decision on all open gates of an incident; return their ids."""
        whole = self.incident(incident).incident
        if not whole.gates_open:
            raise GateError(f"no gate of incident {whole.id} is open.")
        open_at = [
            source
            for source in self._sources
            if any(each.id == whole.id and each.gates_open for each in source.incidents())
        ]
        return [
            gate
            for source in open_at
            for gate in source.resolve_incident(whole.id, decision, note, who)
        ]

    def silences(self) -> list[Silence]:
        """Return the silences that hold now, the first to end first."""
        listed = [each for source in self._sources for each in source.silences()]
        return sorted(listed, key=lambda each: (each.ends_ns, each.id))

    def silence(
        self, matchers: Matchers, ends_ns: int, why: str, who: str | None = None
    ) -> Silence:
        """Hold the openings of matching gates back from webhooks, of each source by its own."""
        made, *_ = [source.silence(matchers, ends_ns, why, who) for source in self._sources]
        return made

    def end_silence(self, silence: str) -> None:
        """End a silence now."""
        self._having(lambda source: source.end_silence(silence))

    def _having(self, ask: Callable[[IncidentSource], T]) -> list[T]:
        """Return what each source answers that has the incident.

        Raises:
            GateError: if none has it.
        """
        found, missing = list[T](), list[GateError]()
        for source in self._sources:
            try:
                found.append(ask(source))
            except GateError as error:
                missing.append(error)
        if not found:
            raise missing[0]
        return found


def together(parts: Iterable[Incident]) -> Incident:
    """Return one incident of its parts in several stores, in the state of the one to look at."""
    first, *others = sorted(parts, key=lambda part: (STATES.index(part.state), -part.last_ns))
    whole = first
    for part in others:
        whole = replace(
            whole,
            first_ns=min(whole.first_ns, part.first_ns),
            last_ns=max(whole.last_ns, part.last_ns),
            tasks=whole.tasks + part.tasks,
            gates=whole.gates + part.gates,
            gates_open=whole.gates_open + part.gates_open,
            seconds=round(whole.seconds + part.seconds, 3),
            input_tokens=whole.input_tokens + part.input_tokens,
            output_tokens=whole.output_tokens + part.output_tokens,
            owner=whole.owner or part.owner,
            money=_sum_of(whole, part),
            has_unpriced=whole.has_unpriced or part.has_unpriced,
            currency=whole.currency or part.currency,
            versions=tuple(dict.fromkeys((*whole.versions, *part.versions))),
        )
    return whole


def _sum_of(one: Incident, other: Incident) -> float | None:
    """Return the money of two parts, where it is known; another currency does not count."""
    if one.money is None or other.money is None:
        return other.money if one.money is None else one.money
    return one.money + (other.money if one.currency == other.currency else 0)
