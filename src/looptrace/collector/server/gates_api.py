"""Gates over HTTP: to see them, to decide on them, and to follow them as they come.

An answer is JSON. What is wrong with a request is told as `{"error": "..."}`, one line that says
what to do. The stream is one of server-sent events: each has the number of the event in the store
as its id, and as data the fields of `sdk.agent_gate.Told`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.gates.directives import Directives, notice_of
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.report.escalation import Escalation, escalation_of
from looptrace.analyzer.report.escalation_markdown import escalation_json, escalation_markdown
from looptrace.analyzer.schema.turns import IS_STEP
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import utc_day, utc_ms
from looptrace.collector.api_paths import RESOLVE_PATH, STREAM_PATH
from looptrace.collector.store import reader
from looptrace.collector.store.gates import (
    GateDetails,
    GateError,
    GateStatus,
    NoGateError,
    StoredGate,
)
from looptrace.collector.store.locks import StoreError

_logger = logging.getLogger(__name__)

GATES_PATH = "/v1/gates"
TASK_PATH = "/v1/tasks/{id:path}"
API_PATH = "/openapi.json"
GATES_MAX = 1_000
BODY_BYTES_MAX = 64 * 1024
# A stream says that it is there at least this often; clients wait four times as long.
SILENCE_S = 15.0
# Of the number of an event, so that it fits a column.
_SEQ_DIGITS_MAX = 18
_ERROR_LENGTH_MAX = 500
_MARKDOWN = "text/markdown"
_JSON = "application/json"


class Changes:
    """Tells those who follow the gates that there is news; made on the event loop."""

    def __init__(self) -> None:
        self.is_over = False
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def tell(self) -> None:
        """Wake all who wait; from any thread."""
        self._loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """Let nobody wait any more."""
        self.is_over = True
        self._wake()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for news, or for so long; says whether there is news."""
        try:
            return await asyncio.wait_for(self._news.wait(), timeout_s)
        except TimeoutError:
            return False

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


@dataclass(frozen=True, slots=True)
class _Since:
    """Where a stream begins: after an event, with the openings of the gates open then."""

    seq: int
    opened: tuple[GateEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class GatesApi:
    """What the routes work with.

    `decided` is called when a person has decided, and `stored` waits a moment until the store has
    what was judged.
    """

    store_dir: Path
    settings: Settings
    changes: Changes
    decided: Callable[[], None]
    stored: Callable[[], Awaitable[None]]

    def routes(self) -> list[Route]:
        """Return the routes; the stream comes before the gates, whose ids it might be one of."""
        return [
            Route(STREAM_PATH, self.stream, methods=["GET"]),
            Route(GATES_PATH, self.gates, methods=["GET"]),
            Route(GATES_PATH + "/{id}", self.gate, methods=["GET"]),
            Route(RESOLVE_PATH, self.resolve, methods=["POST"]),
            Route(TASK_PATH, self.task, methods=["GET"]),
            Route(API_PATH, _described, methods=["GET"]),
        ]

    async def gates(self, request: Request) -> Response:
        """List gates, the open ones first, then the newest."""
        status = request.query_params.get("status")
        if status not in (None, *get_args(GateStatus)):
            return _wrong(400, f"status must be one of {', '.join(get_args(GateStatus))}")
        task = request.query_params.get("task")

        def found() -> Any:
            with reader.open_gates(self.store_dir) as gates:
                return gates.gates(status, task)  # type: ignore[arg-type] # It was checked.

        listed = await run_in_threadpool(found)
        return _answer({"gates": listed[:GATES_MAX], "total": len(listed)})

    async def gate(self, request: Request) -> Response:
        """Show a gate with what led to it; as Markdown where that is asked for."""
        await self.stored()
        gate_id = request.path_params["id"]
        markdown = _MARKDOWN in request.headers.get("accept", "")
        try:
            return await run_in_threadpool(self._gate, gate_id, markdown=markdown)
        except GateError as error:
            return _wrong(404, str(error))

    async def resolve(self, request: Request) -> Response:
        """Record what a person decided."""
        try:
            said = msgspec.json.decode(await _body(request), type=_Decision)
        except (ValueError, msgspec.DecodeError) as error:
            return _wrong(400, f'the body must be like {{"decision": "continue"}}: {error}')
        gate_id = request.path_params["id"]

        def resolved() -> StoredGate:
            with reader.open_gates(self.store_dir) as gates:
                return gates.resolve(gate_id, said.decision, said.note)

        try:
            gate = await run_in_threadpool(resolved)
        except NoGateError as error:
            return _wrong(404, str(error))
        except GateError as error:
            return _wrong(409, str(error))
        self.decided()
        return _answer({"gate": gate})

    async def task(self, request: Request) -> Response:
        """Say how a task stands: its status, its gate, its attempts."""
        await self.stored()
        shown = await run_in_threadpool(self._task, request.path_params["id"])
        return _answer(shown) if shown else _wrong(404, "there is no such task; give its whole id")

    async def stream(self, request: Request) -> Response:
        """Follow what is told of gates, from the last event that was seen on.

        Whoever has seen none begins with the gates that are open now.
        """
        last = request.headers.get("last-event-id", "")
        if last and not (last.isdecimal() and len(last) <= _SEQ_DIGITS_MAX):
            return _wrong(400, "Last-Event-ID must be the id of an event, which is a number")
        task = request.query_params.get("task")
        since = _Since(int(last)) if last else await run_in_threadpool(self._open_now, task)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        events = self._events(since, task)
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _events(self, since: _Since, task: str | None) -> AsyncIterator[str]:
        directives = self.settings.directives
        seq = since.seq
        for event in since.opened:
            yield _event(seq, event, directives)
        yield ": here\n\n"
        while not self.changes.is_over:
            for number, event in await run_in_threadpool(self._after, seq, task):
                seq = number
                yield _event(seq, event, directives)
            if not await self.changes.wait(SILENCE_S):
                yield ": still here\n\n"

    def _after(self, seq: int, task: str | None) -> list[tuple[int, GateEvent]]:
        with reader.open_gates(self.store_dir) as gates:
            return list(gates.events(seq, task))

    def _open_now(self, task: str | None) -> _Since:
        with reader.open_gates(self.store_dir) as gates:
            opened = [gates.gate(gate.id).event for gate in gates.gates("open", task)]
            return _Since(gates.last_seq(), tuple(opened))

    def _gate(self, gate_id: str, *, markdown: bool) -> Response:
        with reader.open_gates(self.store_dir) as gates:
            details = gates.gate(gate_id)
            events = [event for _, event in gates.events(task=details.gate.task)]
        report = self._report(details, events)
        if markdown:
            if report is None:
                return _wrong(503, "the turns of this gate are not in the store yet; ask again")
            return Response(escalation_markdown(report), media_type=_MARKDOWN)
        text = escalation_json(report, self.settings.directives) if report else "null"
        about = {"gate": details.gate, "event": details.event, "notes": details.notes}
        return _answer({**about, "report": msgspec.Raw(text.encode())})

    def _report(self, details: GateDetails, events: list[GateEvent]) -> Escalation | None:
        """Put together what led to a gate; None where its turns are not in the store yet."""
        turns = reader.read_turns_of(self.store_dir, details.gate.task)
        judged = detect(turns, self.settings.policy)
        finding = next((f for f in judged.findings if f.id == details.event.finding), None)
        if finding is None:
            return None
        notes = [(note.note, utc_day(note.resolved_ns)) for note in details.notes]
        return escalation_of(details.event, finding, turns, events, notes=notes)

    def _task(self, task: str) -> dict[str, Any] | None:
        with reader.open_gates(self.store_dir) as gates:
            known, state = gates.tasks(), gates.state(task)
            listed = gates.gates(task=task)
        turns = reader.read_turns_of(self.store_dir, task)
        if turns.is_empty() and task not in known:
            return None
        attempts = turns.filter(kind="attempt").sort("turn", "order_ns", "span_id")
        last = attempts.row(-1, named=True) if attempts.height else None
        return {
            "task": task,
            "status": state.status,
            "loop_count": state.loop_count,
            "pivots": state.pivots,
            "turns": turns.filter(IS_STEP).height,
            "attempts": attempts.height,
            "last_attempt": last and utc_ms(last["end_ns"]),
            "last_status": last and last["name"],
            "last_blockers": last and last["arguments"],
            "gates": listed,
        }


class _Decision(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a resolution."""

    decision: str
    note: str | None = None


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise ValueError(f"it has more than {BODY_BYTES_MAX} bytes")
    return bytes(body)


def _event(seq: int, event: GateEvent, directives: Directives) -> str:
    data = msgspec.json.encode(asdict(notice_of(event, directives))).decode()
    return f"id: {seq}\nevent: {event.type}\ndata: {data}\n\n"


def _answer(content: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type=_JSON)


def _wrong(status: int, error: str) -> Response:
    return _answer({"error": plain(error, _ERROR_LENGTH_MAX)}, status)


def _described(_request: Request) -> Response:
    """Answer with what this file answers, as OpenAPI has it."""
    return Response(files(__package__).joinpath("openapi.json").read_bytes(), media_type=_JSON)


def _not_served(request: Request, error: Exception) -> Response:
    """Answer where there is nothing at a path, or not by this method."""
    status, headers = (404, None)
    if isinstance(error, HTTPException):
        status, headers = error.status_code, error.headers
    answer = _wrong(status, f"{request.method} {request.url.path}: there is none; see {API_PATH}")
    answer.headers.update(headers or {})
    return answer


def _not_usable(_request: Request, error: Exception) -> Response:
    """Answer where the store cannot be used; where that is concerns whoever runs the server."""
    _logger.warning("%s", error)
    return _wrong(503, "the store cannot be used now; try again later")


# What a path answers that raises, or is none.
ERRORS: dict[Any, Callable[[Request, Exception], Response]] = {
    HTTPException: _not_served,
    StoreError: _not_usable,
}
