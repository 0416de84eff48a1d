"""The check of requests by tokens with services, before any handler."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.routing import BaseRoute, Match, Route

from looptrace.analyzer.detect.budgets.rules import BUDGET_NAMES
from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.text.session_names import SeveralServicesError
from looptrace.collector.server.asked_tasks import tasks_of
from looptrace.collector.server.tokens.seen_routes import RouteScope, seen_on
from looptrace.collector.server.tokens.sight import SIGHT, Sight
from looptrace.collector.server.tokens.token_file import Holder
from looptrace.collector.store import reader
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.collector.store.locks import StoreError

_logger = logging.getLogger(__name__)

_NOT_HERE = "there is none of it among what this token may see"
_OF_OTHERS = "some gates of it are of other services, too; decide on each gate"
_OF_BUDGET = "a budget of several tasks takes a decision by a token for all services"
_NOT_USABLE = "the store cannot be used now; try again later"


@dataclass(frozen=True, slots=True)
class UnseenAnswer:
    """Why a request is refused, and with which status."""

    status: HTTPStatus
    why: str


@dataclass(frozen=True, slots=True)
class ServiceGuard:
    """Checks requests for some routes to a store."""

    store_dir: Path
    routes: Sequence[BaseRoute]

    async def refusal(self, scope: Any, holder: Holder) -> UnseenAnswer | None:
        """Return why a holder may not make a request; note in its scope what it sees."""
        sight = sight_of_holder(holder)
        scope[SIGHT] = sight
        if sight.is_whole:
            return None
        route, given = _matched(self.routes, scope)
        if route is None:
            return None  # Nothing answers it.
        seen = seen_on(scope["method"], route.path)
        if seen is RouteScope.NEVER:
            why = f"this token is for {sight.text} alone, and the answer has all services"
            return UnseenAnswer(HTTPStatus.FORBIDDEN, why)
        try:
            return await run_in_threadpool(self._checked, seen, sight, given, scope)
        except StoreError as error:  # Its path concerns only the operator of the server.
            _logger.warning("%s", error)
            return UnseenAnswer(HTTPStatus.SERVICE_UNAVAILABLE, _NOT_USABLE)

    def _checked(
        self, seen: RouteScope, sight: Sight, given: Mapping[str, str], scope: Any
    ) -> UnseenAnswer | None:
        gates = list[StoredGate]()
        match seen:
            case RouteScope.GATE | RouteScope.DECIDED_GATE:
                gates = self._gate(given["id"])
                is_seen = bool(sight.gates(self.store_dir, gates))
            case RouteScope.INCIDENT | RouteScope.DECIDED_INCIDENT:
                gates = self._gates_of_incident(given["id"])
                is_seen = bool(sight.gates(self.store_dir, gates))
            case RouteScope.SILENCE:
                is_seen = self._silence(sight, given["id"])
            case RouteScope.TASK_IN_PATH | RouteScope.TASK_IN_QUERY:
                query = QueryParams(scope["query_string"])
                is_path = seen is RouteScope.TASK_IN_PATH
                named = (given["id"], query.get("service")) if is_path else (query.get("id", ""),)
                is_seen = self._task(sight, *named)
            case _:
                return None
        if not is_seen:
            return UnseenAnswer(HTTPStatus.NOT_FOUND, _NOT_HERE)
        if seen in (RouteScope.DECIDED_GATE, RouteScope.DECIDED_INCIDENT):
            return self._undecidable(sight, gates)
        return None

    def _undecidable(self, sight: Sight, gates: Sequence[StoredGate]) -> UnseenAnswer | None:
        """Return why a request may not decide on gates, some of which are seen."""
        if len(sight.gates(self.store_dir, gates)) < len(gates):
            return UnseenAnswer(HTTPStatus.FORBIDDEN, _OF_OTHERS)
        if any(gate.rule in BUDGET_NAMES for gate in gates):
            return UnseenAnswer(HTTPStatus.FORBIDDEN, _OF_BUDGET)
        return None

    def _gate(self, gate_id: str) -> list[StoredGate]:
        with reader.open_gates(self.store_dir) as gates:
            try:
                return [gates.gate(gate_id).gate]
            except GateError:  # Its message names others.
                return []

    def _gates_of_incident(self, incident: str) -> list[StoredGate]:
        with reader.open_gates(self.store_dir) as gates:
            try:
                whole_id = gates.incident(incident).incident.id
            except GateError:  # Its message names others.
                return []
            every = gates.gates()
        return [each for each in every if each.incident == whole_id and each.status != "withdrawn"]

    def _silence(self, sight: Sight, silence: str) -> bool:
        with reader.open_gates(self.store_dir) as gates:
            return any(each.id == silence for each in sight.silences(gates.silences()))

    def _task(self, sight: Sight, name: str, service: str | None = None) -> bool:
        """Return whether a name means tasks that are seen, and no other."""
        try:
            tasks = {name, *tasks_of(self.store_dir, name, service)}
        except SeveralServicesError:  # Its message names them.
            return False
        seen = sight.tasks(self.store_dir, tasks)
        return bool(seen) and not sight.hidden(self.store_dir, tasks - seen)


def sight_of_holder(holder: Holder) -> Sight:
    """Return what the holder of a token sees."""
    return Sight(frozenset(holder.services) if holder.services else None)


def _matched(routes: Sequence[BaseRoute], scope: Any) -> tuple[Route | None, Mapping[str, str]]:
    """Return the route that answers a request, and the parameters in its path."""
    for route in routes:
        match, child = route.matches(scope)
        if match is Match.FULL and isinstance(route, Route):
            return route, child["path_params"]
    return None, {}
