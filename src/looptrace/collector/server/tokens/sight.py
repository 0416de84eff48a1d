"""What a request may see of a store: everything, or what is of some services alone.

A task is of the services of all of its turns and loops. Where these are not known, or another
service has a part in it, a token with services does not see it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from starlette.requests import Request

from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.notes import ResolutionNote
from looptrace.analyzer.gates.silences import Matchers, Silence
from looptrace.collector.store import reader
from looptrace.collector.store.gate_file.incidents import Incident, IncidentDetails
from looptrace.collector.store.gate_file.stored_gates import GateDetails, StoredGate

# The key of the sight of a request, in its scope.
SIGHT = "looptrace.sight"


@dataclass(frozen=True, slots=True)
class Sight:
    """The services of which a request sees the tasks; None for all there are."""

    services: frozenset[str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether everything is seen."""
        return self.services is None

    @property
    def text(self) -> str:
        """The services in words."""
        return ", ".join(sorted(self.services or ()))

    @property
    def spans(self) -> pl.Expr:
        """The condition of the spans that are seen, among those of the traces of a seen task."""
        if self.services is None:
            return pl.lit(value=True)
        return pl.col("service").is_in(list(self.services))

    def tasks(self, store_dir: Path, tasks: Iterable[str]) -> set[str]:
        """Return which of some tasks are seen."""
        if self.services is None:
            return set(tasks)
        found = _services_of(store_dir, set(tasks))
        return {task for task, services in found.items() if services <= self.services}

    def hidden(self, store_dir: Path, tasks: Iterable[str]) -> set[str]:
        """Return which of some tasks are there and not seen."""
        if self.services is None:
            return set()
        found = _services_of(store_dir, set(tasks))
        return {task for task, services in found.items() if not services <= self.services}

    def every_task(self, store_dir: Path) -> set[str]:
        """Return all tasks of a store that are seen."""
        found = _services_of(store_dir, None)
        return {t for t, of in found.items() if self.services is None or of <= self.services}

    def gates(self, store_dir: Path, gates: Sequence[StoredGate]) -> list[StoredGate]:
        """Return the gates that are seen."""
        seen = self.tasks(store_dir, (gate.task for gate in gates))
        return [gate for gate in gates if gate.task in seen]

    def notes(self, store_dir: Path, notes: Sequence[ResolutionNote]) -> tuple[ResolutionNote, ...]:
        """Return the notes of gates that are seen."""
        seen = self.tasks(store_dir, (note.task for note in notes))
        return tuple(note for note in notes if note.task in seen)

    def of_details(self, store_dir: Path, details: GateDetails) -> GateDetails:
        """Return a gate with the notes that are seen."""
        return replace(details, notes=self.notes(store_dir, details.notes))

    def incidents(self, store_dir: Path, incidents: Sequence[Incident]) -> list[Incident]:
        """Return the incidents with a gate that is seen, each with the reason of such a gate."""
        if self.services is None:
            return list(incidents)
        with reader.open_gates(store_dir) as store:
            every = [gate for gate in store.gates() if gate.status != "withdrawn"]
        gates = sorted(self.gates(store_dir, every), key=lambda gate: gate.opened_ns)
        reasons = {gate.incident: gate.reason for gate in gates}
        return [replace(e, reason=reasons[e.id]) for e in incidents if e.id in reasons]

    def of_incident(self, store_dir: Path, details: IncidentDetails) -> IncidentDetails:
        """Return an incident with a seen gate, with the gates and notes that are seen."""
        (incident,) = self.incidents(store_dir, [details.incident])
        gates = tuple(self.gates(store_dir, details.gates))
        notes = self.notes(store_dir, details.notes)
        return replace(details, incident=incident, gates=gates, notes=notes)

    def silences(self, silences: Iterable[Silence]) -> list[Silence]:
        """Return the silences of services that are seen."""
        return [
            each
            for each in silences
            if self.services is None or each.matchers.service in self.services
        ]

    def check_silence(self, matchers: Matchers) -> None:
        """Refuse a silence of services that the token does not see.

        Raises:
            GateError: if it is one.
        """
        if self.services is not None and matchers.service not in self.services:
            raise GateError(f"with this token a silence needs one of these services: {self.text}.")


EVERYTHING = Sight()
# Of a request that nobody has checked.
_NOTHING = Sight(frozenset())


def sight_of(request: Request) -> Sight:
    """Return what a request may see: nothing, where nobody has said it."""
    sight = request.scope.get(SIGHT, _NOTHING)
    assert isinstance(sight, Sight)  # noqa: S101 - Only the access check sets it.
    return sight


def _services_of(store_dir: Path, tasks: Collection[str] | None) -> dict[str, set[str]]:
    """Return the services of some tasks, or of all, by task; "" for one that is not known."""
    services: dict[str, set[str]] = defaultdict(set)
    which = pl.lit(value=True) if tasks is None else pl.col("task").is_in(list(tasks))
    # The turn of a person's decision has the name of the decision, and no service.
    has_one = (
        pl.col("service").is_not_null() | (pl.col("kind") != "user") | pl.col("name").is_null()
    )
    turns = reader.read_rows(store_dir, "turns", which & has_one, ["task", "service"]).unique()
    for task, service in turns.iter_rows():
        services[task].add(service or "")
    with reader.open_gates(store_dir) as gates:
        for task, service in gates.services_of(tasks):
            services[task].add(service)
    return services
