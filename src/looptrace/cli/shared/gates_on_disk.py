"""The gates and incidents of a store, as commands show them and decide on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.gates.directives import notice_of
from looptrace.analyzer.gates.incidents import IncidentState, IncidentWord
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.gates.silences import Matchers, Silence
from looptrace.analyzer.settings.sections import Settings
from looptrace.cli.shared.stores import written_again
from looptrace.collector.agent_states import with_agents
from looptrace.collector.api_bodies import WarmingTask
from looptrace.collector.server.warming import warming_tasks
from looptrace.collector.store.gate_file.incidents import Incident, IncidentDetails
from looptrace.collector.store.gate_file.stored_gates import GateDetails, GateStatus, StoredGate
from looptrace.collector.store.gate_metrics import GateMetrics, metrics_of
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.reader import open_gates, read_loops, worked
from looptrace.errors import InputError

T = TypeVar("T")

# The time between two looks at a store.
LOOK_S = 2.0


class GatesOnDisk:
    """The gates and incidents of a store, which is opened again for each look.

    Of one on object storage, at `url`, the folder is a copy, to which nothing is written.
    """

    def __init__(self, folder: Path, settings: Settings, url: str = "") -> None:
        self._folder = folder
        self._settings = settings
        self._url = url

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
        """Record what a person decided, who, and what it adds to a budget; return the gate."""
        return self._written(lambda store: store.resolve(gate_id, decision, note, who=who, add=add))

    def metrics(self) -> GateMetrics:
        """Return how often tasks loop, and how often they are stopped."""
        with open_gates(self._folder) as store:
            return metrics_of(store, worked(self._folder), read_loops(self._folder))

    def warming(self) -> list[WarmingTask]:
        """Return the tasks where a rule is one attempt short of a loop."""
        return warming_tasks(self._folder, self._settings.policy.rule_set)

    def watch(self) -> Iterator[GateNotice]:
        """Follow the events, beginning with the openings of gates that are open.

        Raises:
            InputError: on object storage, where nothing happens until the next ingest.
        """
        if self._url:
            raise InputError(
                f"{self._url}: is on object storage, which has no stream of gates; "
                "watch a server by --server, or ask with `looptrace gates list`."
            )
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
        """Write to the store; on object storage once more where another writer is first."""

        def work(folder: Path) -> T:
            with open_gates(folder) as store:
                return write(store)

        return written_again(self._url, work) if self._url else work(self._folder)
