"""The routes of incidents: lists, details, words of people, and decisions on all gates of one."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from looptrace.analyzer.gates.incidents import STATES, IncidentState, IncidentWord
from looptrace.collector.api_bodies import (
    DecidedGates,
    IncidentAnswer,
    IncidentDecisionBody,
    IncidentList,
    WordBody,
)
from looptrace.collector.api_paths import INCIDENTS_PATH
from looptrace.collector.server.access import WHO
from looptrace.collector.server.api_responses import answer_of, body_of, check_writable, wrong
from looptrace.collector.server.openapi import JSON, Answer, Parameter, operation
from looptrace.collector.server.tokens.sight import Sight, sight_of
from looptrace.collector.store import reader
from looptrace.collector.store.gate_file.incidents import Incident, IncidentDetails

INCIDENTS_MAX = 1_000
_NO_INCIDENT = "There is no such incident, or the id is the beginning of several."


@dataclass(frozen=True, slots=True)
class IncidentsApi:
    """The parts of the server that the routes use; `decided` is called after a decision."""

    store_dir: Path
    decided: Callable[[], None]

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = INCIDENTS_PATH + "/{id}"
        return [
            Route(INCIDENTS_PATH, self.incidents, methods=["GET"]),
            Route(one, self.incident, methods=["GET"]),
            Route(one, self.say, methods=["POST"]),
            Route(one + "/decide", self.decide, methods=["POST"]),
        ]

    @operation(
        "listIncidents",
        Answer("The incidents.", {JSON: IncidentList}),
        {HTTPStatus.BAD_REQUEST: "The state is not valid."},
        (Parameter("state", "query", "Only incidents in this state.", IncidentState),),
    )
    async def incidents(self, request: Request) -> Response:
        """List incidents: those that need somebody first, then those with the newest gates."""
        state = request.query_params.get("state")
        if state not in (None, *STATES):
            return wrong(HTTPStatus.BAD_REQUEST, f"state must be one of {', '.join(STATES)}")
        return answer_of(await run_in_threadpool(self.incident_list, sight_of(request), state))

    @operation(
        "showIncident",
        Answer("The incident.", {JSON: IncidentDetails}),
        {HTTPStatus.NOT_FOUND: _NO_INCIDENT},
    )
    async def incident(self, request: Request) -> Response:
        """Show an incident with its gates, the notes that ended some, and what people said."""
        asked = request.path_params["id"], sight_of(request)
        return answer_of(await run_in_threadpool(self.details, *asked))

    @operation(
        "setIncident",
        Answer("The incident, with its history.", {JSON: IncidentAnswer}),
        {
            HTTPStatus.BAD_REQUEST: "The body is not a change of an incident.",
            HTTPStatus.NOT_FOUND: _NO_INCIDENT,
            HTTPStatus.CONFLICT: "The incident cannot be set so, or the store is read-only.",
        },
        body=WordBody,
    )
    async def say(self, request: Request) -> Response:
        """Set the state or the owner of an incident; its gates are as they were."""
        body = await body_of(request, WordBody, '{"state": "acknowledged"}')
        who = request.scope.get(WHO) or body.who
        about = (body.state, body.until_ns, body.owner, who, body.why)
        word = IncidentWord(time.time_ns(), *about)  # type: ignore[arg-type] # The store checks it.
        said = await run_in_threadpool(self.set_incident, request.path_params["id"], word)
        return answer_of(IncidentAnswer(said))

    @operation(
        "decideIncident",
        Answer("The gates that were decided on.", {JSON: DecidedGates}),
        {
            HTTPStatus.BAD_REQUEST: "The body is not a decision.",
            HTTPStatus.NOT_FOUND: _NO_INCIDENT,
            HTTPStatus.CONFLICT: "No gate of it is open, the decision is not valid, or the store "
            "is read-only.",
        },
        body=IncidentDecisionBody,
    )
    async def decide(self, request: Request) -> Response:
        """Resolve all open gates of an incident with one decision; a later gate waits again."""
        body = await body_of(request, IncidentDecisionBody, '{"decision": "continue"}')
        said = (request.path_params["id"], body.decision, body.note)
        who = request.scope.get(WHO) or body.who
        return answer_of(DecidedGates(await run_in_threadpool(self.resolve_gates, *said, who)))

    def incident_list(
        self, sight: Sight, state: IncidentState | None = None, limit: int = INCIDENTS_MAX
    ) -> IncidentList:
        """Return those that are seen: which need somebody first, then with the newest gates."""
        with reader.open_gates(self.store_dir) as gates:
            if sight.is_whole:
                return IncidentList(gates.incidents(state, limit), gates.count_incidents())
            every = gates.incidents()
        seen = sight.incidents(self.store_dir, every)
        return IncidentList([e for e in seen if state in (None, e.state)][:limit], len(seen))

    def details(self, incident: str, sight: Sight) -> IncidentDetails:
        """Return an incident with its words, and the gates and notes that are seen."""
        with reader.open_gates(self.store_dir) as gates:
            details = gates.incident(incident)
        return details if sight.is_whole else sight.of_incident(self.store_dir, details)

    def set_incident(self, incident: str, word: IncidentWord) -> Incident:
        """Record what a person says of an incident."""
        check_writable(self.store_dir)
        with reader.open_gates(self.store_dir) as gates:
            return gates.say(incident, word)

    def resolve_gates(
        self, incident: str, decision: str, note: str | None, who: str | None
    ) -> list[str]:
        """Decide on all gates of an incident that wait, and notify their agents at once."""
        check_writable(self.store_dir)
        with reader.open_gates(self.store_dir) as gates:
            resolved = gates.resolve_incident(incident, decision, note, who)
        self.decided()
        return resolved
