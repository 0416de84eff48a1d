"""Gates over HTTP: lists, decisions, and streams.

An answer is JSON. An error is `{"error": "..."}`, one line that says what to do. The stream has
server-sent events: the id of each is the number of the event in the store, and its data is a
`GateNotice`.

A method raises `GateError` where there is no such gate, a decision is refused, or the store cannot
be written.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, get_args

import msgspec
import polars as pl
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.gates.waiting import unless_decided
from looptrace.analyzer.report.escalation import Escalation, PastNote, escalation_of
from looptrace.analyzer.report.escalation_markdown import escalation_json, escalation_markdown
from looptrace.analyzer.schema.turns import IS_STEP
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.times import utc_ms
from looptrace.collector.agent_states import with_agents
from looptrace.collector.api_bodies import (
    DecisionBody,
    GateAnswer,
    GateList,
    ListedTask,
    ShownGate,
    ShownTask,
    TaskList,
    WarmingList,
    WarmingTask,
)
from looptrace.collector.api_paths import GATE_METRICS_PATH, RESOLVE_PATH, WARMING_PATH
from looptrace.collector.server.access import WHO
from looptrace.collector.server.api_responses import (
    API_PATH,
    answer_of,
    body_of,
    check_writable,
    described,
    wrong,
)
from looptrace.collector.server.asked_tasks import asked_of, tasks_of
from looptrace.collector.server.incidents.incidents_api import IncidentsApi
from looptrace.collector.server.incidents.silences_api import SilencesApi
from looptrace.collector.server.openapi import JSON, Answer, Parameter, operation
from looptrace.collector.server.streams.event_feed import EventFeed
from looptrace.collector.server.streams.streams_api import SERVICE, SEVERAL, StreamsApi
from looptrace.collector.server.tokens.sight import Sight, sight_of
from looptrace.collector.server.warming import warming_tasks
from looptrace.collector.store import reader
from looptrace.collector.store.buckets.turns_around import read_turns_around
from looptrace.collector.store.gate_file.stored_gates import GateDetails, GateStatus, StoredGate
from looptrace.collector.store.gate_metrics import GateMetrics, metrics_of, standing_of

GATES_PATH = "/v1/gates"
TASKS_PATH = "/v1/tasks"
TASK_PATH = TASKS_PATH + "/{id:path}"
GATES_MAX = TASKS_MAX = 1_000
_MARKDOWN = "text/markdown"
_NO_GATE = "There is no such gate, or the id is the beginning of several."
NO_TURNS_YET = "the turns of this gate are not in the store yet; ask again"
_NO_TURNS = "Markdown was asked for, and the turns are not in the store yet; ask again."


@dataclass(frozen=True, slots=True)
class GatesApi:
    """The parts of the server that the routes use.

    `decided` is called when a person has decided, and `stored` waits a moment until the store has
    the processed spans.
    """

    store_dir: Path
    settings: Settings
    feed: EventFeed
    decided: Callable[[], None]
    stored: Callable[[], Coroutine[Any, Any, None]]

    @property
    def incidents(self) -> IncidentsApi:
        """The routes of incidents."""
        return IncidentsApi(self.store_dir, self.decided)

    @property
    def silences(self) -> SilencesApi:
        """The routes of silences."""
        return SilencesApi(self.store_dir, self.decided)

    def routes(self) -> list[Route]:
        """Return the routes; the stream and metrics come before gates, whose ids they might be."""
        return [
            *StreamsApi(self.store_dir, self.feed).routes(),
            Route(GATE_METRICS_PATH, self.metrics, methods=["GET"]),
            Route(GATES_PATH, self.gates, methods=["GET"]),
            Route(GATES_PATH + "/{id}", self.gate, methods=["GET"]),
            Route(RESOLVE_PATH, self.resolve, methods=["POST"]),
            *self.incidents.routes(),
            *self.silences.routes(),
            Route(TASKS_PATH, self.tasks, methods=["GET"]),
            Route(WARMING_PATH, self.warming, methods=["GET"]),
            Route(TASK_PATH, self.task, methods=["GET"]),
            Route(API_PATH, described, methods=["GET"]),
        ]

    @operation(
        "listGates",
        Answer("The gates.", {JSON: GateList}),
        {HTTPStatus.BAD_REQUEST: "The status is not valid.", HTTPStatus.CONFLICT: SEVERAL},
        (
            Parameter("status", "query", "Only gates with this status.", GateStatus),
            Parameter("task", "query", "Only gates of the task or session with this id."),
            SERVICE,
        ),
    )
    async def gates(self, request: Request) -> Response:
        """List gates, the open ones first, then the newest."""
        status = request.query_params.get("status")
        if status not in (None, *get_args(GateStatus)):
            names = ", ".join(get_args(GateStatus))
            return wrong(HTTPStatus.BAD_REQUEST, f"status must be one of {names}")
        task, service = request.query_params.get("task"), request.query_params.get("service")
        asked = status, task, service, sight_of(request)
        listed = await run_in_threadpool(self._gates_of, *asked)  # type: ignore[arg-type] # It was checked.
        return answer_of(listed)

    @operation(
        "showGate",
        Answer("The gate; Markdown where `Accept` names it.", {JSON: ShownGate, _MARKDOWN: str}),
        {HTTPStatus.NOT_FOUND: _NO_GATE, HTTPStatus.SERVICE_UNAVAILABLE: _NO_TURNS},
    )
    async def gate(self, request: Request) -> Response:
        """Show a gate with its history."""
        await self.stored()
        gate_id = request.path_params["id"]
        markdown = _MARKDOWN in request.headers.get("accept", "")
        sight = sight_of(request)
        return await run_in_threadpool(self._gate, gate_id, sight, markdown=markdown)

    @operation(
        "resolveGate",
        Answer("The gate, with the decision.", {JSON: GateAnswer}),
        {
            HTTPStatus.BAD_REQUEST: "The body is not a decision.",
            HTTPStatus.NOT_FOUND: _NO_GATE,
            HTTPStatus.CONFLICT: "The gate is not open, the decision is not valid, or the store is "
            "read-only.",
        },
        body=DecisionBody,
    )
    async def resolve(self, request: Request) -> Response:
        """Resolve a gate."""
        body = await body_of(request, DecisionBody, '{"decision": "continue"}')
        said = (request.path_params["id"], body.decision, body.note)
        who = request.scope.get(WHO) or body.who
        return answer_of(
            GateAnswer(await run_in_threadpool(self.resolve_gate, *said, who, body.add))
        )

    @operation("gateMetrics", Answer("The figures.", {JSON: GateMetrics}))
    async def metrics(self, _request: Request) -> Response:
        """Show how often tasks loop, how often they are stopped, and how often that was wrong."""
        await self.stored()
        return answer_of(await run_in_threadpool(self._metrics))

    @operation("listTasks", Answer("The tasks.", {JSON: TaskList}))
    async def tasks(self, request: Request) -> Response:
        """List tasks, those that wait for a person first, then the most recently active."""
        await self.stored()
        return answer_of(await run_in_threadpool(self.task_list, sight_of(request)))

    @operation(
        "showTask",
        Answer("The task.", {JSON: ShownTask}),
        {HTTPStatus.NOT_FOUND: "There is no such task.", HTTPStatus.CONFLICT: SEVERAL},
        (SERVICE,),
    )
    async def task(self, request: Request) -> Response:
        """Show the state of a task: its status, its gates, its attempts."""
        await self.stored()
        name, service = request.path_params["id"], request.query_params.get("service")
        shown = await run_in_threadpool(self._task_named, name, service)
        if shown is None:
            return wrong(HTTPStatus.NOT_FOUND, "there is no such task; give its whole id")
        return answer_of(shown)

    @operation(
        "listWarmingTasks",
        Answer("The tasks, the most recently active first.", {JSON: WarmingList}),
    )
    async def warming(self, request: Request) -> Response:
        """List the active tasks in which a rule is one attempt short of a loop."""
        await self.stored()
        return answer_of(WarmingList(await run_in_threadpool(self._warming, sight_of(request))))

    def _warming(self, sight: Sight) -> list[WarmingTask]:
        found = warming_tasks(self.store_dir, self.settings.policy.rule_set)
        seen = sight.tasks(self.store_dir, (each.task for each in found))
        return [each for each in found if each.task in seen]

    def _gates_of(
        self, status: GateStatus | None, task: str | None, service: str | None, sight: Sight
    ) -> GateList:
        if task is None:
            return self.gate_list(sight, status)
        # The message of a refusal names services.
        tasks = asked_of(self.store_dir, [task], service, refuses=sight.is_whole).tasks
        listed = [self.gate_list(sight, status, each) for each in tasks]
        gates = [gate for each in listed for gate in each.gates]
        return GateList(gates, sum(each.total for each in listed))

    def _task_named(self, name: str, service: str | None) -> ShownTask | None:
        """Return the task with a name, else the task of the session with that name."""
        shown = map(self.shown_task, tasks_of(self.store_dir, name, service))
        return next(filter(None, shown), None)

    def gate_list(
        self,
        sight: Sight,
        status: GateStatus | None = None,
        task: str | None = None,
        limit: int = GATES_MAX,
    ) -> GateList:
        """Return the gates that are seen, the open ones first, then the newest."""
        with reader.open_gates(self.store_dir) as gates:
            listed = gates.gates(status, task, limit if sight.is_whole else -1)
            # A gate that opens between two reads would be counted and not listed.
            total = len(listed) if len(listed) < limit else gates.count(status, task)
        if not sight.is_whole:
            listed = sight.gates(self.store_dir, listed)
            total = len(listed)
        return GateList(self.with_agents(listed[:limit]), total)

    def with_agents(self, gates: Sequence[StoredGate]) -> list[StoredGate]:
        """Return gates, the open ones with the state of their agents."""
        return with_agents(self.store_dir, gates, self.feed.hearing.heard())

    def _metrics(self) -> GateMetrics:
        with reader.open_gates(self.store_dir) as gates:
            return metrics_of(
                gates, reader.worked(self.store_dir), reader.read_loops(self.store_dir)
            )

    def task_list(self, sight: Sight, limit: int = TASKS_MAX) -> TaskList:
        """Return the seen tasks that have turns in the store, or a state in the gate store."""
        with reader.open_gates(self.store_dir) as gates:
            standing = standing_of(gates)
        table = reader.read_tasks(self.store_dir).join(
            standing, on="task", how="full", coalesce=True
        )
        if not sight.is_whole:
            table = table.filter(pl.col("task").is_in(sight.every_task(self.store_dir)))
        table = table.sort(
            pl.col("status").fill_null("active") == "active",
            -pl.col("last_ns"),
            "task",
            nulls_last=False,
        )
        listed = [
            ListedTask(
                task=row["task"],
                status=row["status"] or "active",
                loop_count=row["loop_count"] or 0,
                pivots=row["pivots"] or 0,
                service=row["service"] or row["told_service"] or "",
                agents=row["agents"] or [],
                turns=row["turns"] or 0,
                last_turn=None if row["last_ns"] is None else utc_ms(row["last_ns"]),
                waits_since=utc_ms(row["waits_ns"]) if row["waits_ns"] else None,
            )
            for row in table.head(limit).iter_rows(named=True)
        ]
        return TaskList(listed, table.height)

    def resolve_gate(
        self,
        gate_id: str,
        decision: str,
        note: str | None,
        who: str | None,
        add: float | None = None,
    ) -> StoredGate:
        """Record the decision of a person, and what it adds to a budget; notify agents at once."""
        check_writable(self.store_dir)
        with reader.open_gates(self.store_dir) as gates:
            gate = gates.resolve(gate_id, decision, note, who=who, add=add)
        self.decided()
        return gate

    def gate_details(self, gate_id: str, sight: Sight) -> GateDetails:
        """Return a gate, its opening event, and the notes on gates like it that are seen."""
        with reader.open_gates(self.store_dir) as gates:
            details = gates.gate(gate_id, self.settings.policy.rule_set.meaning)
        details = sight.of_details(self.store_dir, details)
        (gate,) = self.with_agents([details.gate])
        return replace(details, gate=replace(gate, unless_decided=self.unless_decided(details)))

    def unless_decided(self, details: GateDetails) -> str:
        """Return what happens to an open gate on which nobody has decided; "" for nothing."""
        is_over = details.gate.status != "open" or details.gate.decision
        return "" if is_over else unless_decided(details.event, self.settings.waiting)

    def _gate(self, gate_id: str, sight: Sight, *, markdown: bool) -> Response:
        details = self.gate_details(gate_id, sight)
        report = self._report(details)
        if markdown:
            if report is None:
                return wrong(HTTPStatus.SERVICE_UNAVAILABLE, NO_TURNS_YET)
            return Response(escalation_markdown(report), media_type=_MARKDOWN)
        text = escalation_json(report, self.settings.directives) if report else "null"
        report_json = msgspec.Raw(text.encode())
        return answer_of(ShownGate(details.gate, details.event, details.notes, report_json))

    def report_markdown(self, gate_id: str, sight: Sight) -> str | None:
        """Return the report on a gate for a debugging agent; None where no turns are stored."""
        report = self._report(self.gate_details(gate_id, sight))
        return escalation_markdown(report) if report else None

    def _report(self, details: GateDetails) -> Escalation | None:
        """Return the report on a gate; None where its turns are not in the store.

        Only gates that an earlier version opened have no finding.
        """
        gate_id = details.gate.id
        with reader.open_gates(self.store_dir) as gates:
            events = [event for _, event in gates.events(task=details.gate.task)]
            finding, opinion = gates.finding(gate_id), gates.opinions(gate_id).get(gate_id)
        finding = finding or self._detected(details)
        turns = None if finding is None else read_turns_around(self.store_dir, finding)
        if finding is None or turns is None:
            return None
        notes = [PastNote.of(note) for note in details.notes]
        return escalation_of(details.event, finding, turns, events, opinion, notes)

    def _detected(self, details: GateDetails) -> Finding | None:
        turns = reader.read_turns_of(self.store_dir, details.gate.task)
        findings = detect(turns, self.settings.policy).findings
        return next((each for each in findings if each.id == details.event.finding), None)

    def shown_task(self, task: str, turns: pl.DataFrame | None = None) -> ShownTask | None:
        """Return the state of a task; None if it has neither gates nor turns."""
        with reader.open_gates(self.store_dir) as gates:
            known, state = gates.tasks(), gates.state(task)
            listed = gates.gates(task=task)
        turns = reader.read_turns_of(self.store_dir, task) if turns is None else turns
        if turns.is_empty() and task not in known:
            return None
        attempts = turns.filter(kind="attempt").sort("turn", "order_ns", "span_id")
        last = attempts.row(-1, named=True) if attempts.height else {}
        return ShownTask(
            task=task,
            status=state.status,
            loop_count=state.loop_count,
            pivots=state.pivots,
            turns=turns.filter(IS_STEP).height,
            attempts=attempts.height,
            last_attempt=utc_ms(last["end_ns"]) if last else None,
            last_status=last.get("name"),
            last_blockers=last.get("arguments"),
            gates=listed,
        )
