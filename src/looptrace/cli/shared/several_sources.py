"""Several sources of gates and incidents, shown as one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.incidents import STATES, IncidentState, IncidentWord, NoIncidentError
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.gates.silences import Matchers, Silence
from looptrace.cli.shared.gates_on_disk import GatesOnDisk
from looptrace.collector.api_bodies import WarmingTask
from looptrace.collector.gates_client import RemoteGates
from looptrace.collector.store import gate_metrics
from looptrace.collector.store.gate_file.incidents import Incident, IncidentDetails
from looptrace.collector.store.gate_file.stored_gates import GateDetails, GateStatus, StoredGate
from looptrace.collector.store.gate_metrics import GateMetrics
from looptrace.collector.store.locks import StoreError
from looptrace.errors import LooptraceError, UnavailableError

T = TypeVar("T")
OneSource: TypeAlias = GatesOnDisk | RemoteGates


class GatesOfSeveral:
    """The gates and incidents of several sources as those of one: those of the same loop are one.

    If a source does not answer, none are shown.
    """

    def __init__(self, sources: Sequence[OneSource]) -> None:
        self._sources = sources

    def gates(self, status: GateStatus | None = None) -> list[StoredGate]:
        """Return gates, the open ones first, then the newest."""
        every = self._every(lambda each: each.gates(status))
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
        return gate_metrics.together(self._all(lambda each: each.metrics()))

    def warming(self) -> list[WarmingTask]:
        """Return the tasks of all."""
        return self._every(lambda each: each.warming())

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

    def incidents(self, state: IncidentState | None = None) -> list[Incident]:
        """Return incidents: those that need somebody first, then those with the newest gates."""
        by_id: dict[str, list[Incident]] = {}
        for each in self._every(lambda source: source.incidents()):
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
        listed = self._every(lambda source: source.silences())
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

    def _all(self, ask: Callable[[OneSource], T]) -> list[T]:
        try:
            return [ask(source) for source in self._sources]
        except StoreError as error:
            raise _without(error) from error

    def _every(self, ask: Callable[[OneSource], list[T]]) -> list[T]:
        return [each for answer in self._all(ask) for each in answer]

    def _having(self, ask: Callable[[OneSource], T]) -> list[T]:
        """Return what each source answers that has the incident."""
        found, missing = list[T](), list[GateError]()
        for source in self._sources:
            try:
                found.append(ask(source))
            except GateError as error:
                missing.append(error)
        if not found:
            raise missing[0]
        return found

    def _of(self, gate_id: str) -> OneSource:
        """Return the one source with a gate; one that does not answer may have others only.

        Raises:
            GateError: if there is none, or more than one.
            UnavailableError: if a source does not answer that may have it.
        """
        having: list[OneSource] = []
        missing, silent = list[GateError](), list[StoreError]()
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


def _follow(source: OneSource, told: SimpleQueue[GateNotice | LooptraceError | None]) -> None:
    try:
        for notice in source.watch():
            told.put(notice)
        told.put(None)
    except LooptraceError as error:
        told.put(error)


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
