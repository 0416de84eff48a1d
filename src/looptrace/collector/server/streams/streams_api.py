"""Streams of gate events over HTTP: for all tasks, for some, or for those that a process runs."""

import time
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from secrets import token_hex

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from looptrace.analyzer.gates.agent_states import AgentKey, AgentWait, session_key
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.session_names import session_name
from looptrace.collector.api_bodies import FollowAnswer, FollowBody
from looptrace.collector.api_paths import OWN_STREAM_PATH, STREAM_HEADER, STREAM_PATH
from looptrace.collector.server.api_responses import answer_of, body_of, wrong
from looptrace.collector.server.asked_tasks import Asked, asked_of
from looptrace.collector.server.openapi import JSON, Answer, Parameter, operation
from looptrace.collector.server.streams.event_feed import SILENCE_S, EventFeed
from looptrace.collector.server.streams.hearing import NO_WAITS, Waits
from looptrace.collector.server.streams.seen_events import seen_events, seen_request, seen_waits
from looptrace.collector.server.tokens.sight import Sight, sight_of
from looptrace.rules.vocabulary import NS_PER_S

SEVERAL = "Several services have such a session, which the answer names; give `service`."
SERVICE = Parameter(
    "service", "query", "Service (`service.name`) of the sessions that are asked for."
)
# The most tasks that one stream may ask for.
STREAM_TASKS_MAX = 100
# The most digits of an event's number, so that it fits a column.
_SEQ_DIGITS_MAX = 18
_LAST_EVENT = Parameter(
    "Last-Event-ID",
    "header",
    "Number of the last event seen. Without it the stream begins with the open gates.",
)
_STREAM = "text/event-stream"
# Only the client that began a stream knows its id.
_STREAM_ID_BYTES = 16
_FOLLOW_BYTES_MAX = 256 * 1024
_EXAMPLE = '{"service": "shop", "tasks": ["4f1c"]}'
_HOST_CHARS_MAX = 120


@dataclass(frozen=True, slots=True)
class StreamsApi:
    """The parts of the server that the routes of streams use."""

    store_dir: Path
    feed: EventFeed

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(STREAM_PATH, self.stream, methods=["GET"]),
            Route(STREAM_PATH, self.stream_of_process, methods=["POST"]),
            Route(OWN_STREAM_PATH, self.change_stream, methods=["POST"]),
        ]

    @operation(
        "followGates",
        Answer(
            "Each event has its number as `id` (of those that it begins with, only the last), its "
            "type as `event`, and as `data` a GateNotice. "
            f"A comment comes at least every {SILENCE_S:.0f} s.",
            {_STREAM: GateNotice},
        ),
        {
            HTTPStatus.BAD_REQUEST: "Last-Event-ID is not a number, or there are too many tasks.",
            HTTPStatus.CONFLICT: SEVERAL,
        },
        (
            Parameter(
                "task", "query", "Only events of this task or session; several may be given."
            ),
            SERVICE,
            _LAST_EVENT,
        ),
    )
    async def stream(self, request: Request) -> Response:
        """Follow gate events as server-sent events."""
        tasks = set(request.query_params.getlist("task"))
        if len(tasks) > STREAM_TASKS_MAX:
            return wrong(HTTPStatus.BAD_REQUEST, f"give at most {STREAM_TASKS_MAX} tasks")
        service, sight = request.query_params.get("service"), sight_of(request)
        asked = Asked(is_all=True)
        if tasks:
            # The message of a refusal names services.
            asking = partial(asked_of, refuses=sight.is_whole)
            asked = await run_in_threadpool(asking, self.store_dir, sorted(tasks), service)
        return self._stream(request, asked)

    @operation(
        "followTasks",
        Answer(
            f"As `followGates`. The header `{STREAM_HEADER}` has the id of the stream, by which "
            "it is changed after the first comment.",
            {_STREAM: GateNotice},
        ),
        {HTTPStatus.BAD_REQUEST: "The body or Last-Event-ID is not valid."},
        (_LAST_EVENT,),
        body=FollowBody,
    )
    async def stream_of_process(self, request: Request) -> Response:
        """Follow gate events of some tasks, and of turns in some traces, which may change."""
        body = await body_of(request, FollowBody, _EXAMPLE, _FOLLOW_BYTES_MAX)
        sight = sight_of(request)
        asked, waits = await run_in_threadpool(self._said, body, sight)
        return self._stream(request, asked, token_hex(_STREAM_ID_BYTES), waits)

    @operation(
        "changeStream",
        Answer("The stream has begun to follow them.", {JSON: FollowAnswer}),
        {
            HTTPStatus.BAD_REQUEST: "The body is not valid.",
            HTTPStatus.NOT_FOUND: "There is no such stream; begin another one.",
        },
        body=FollowBody,
    )
    async def change_stream(self, request: Request) -> Response:
        """Let a stream follow more tasks and traces, and some traces no longer."""
        body = await body_of(request, FollowBody, _EXAMPLE, _FOLLOW_BYTES_MAX)
        sight = sight_of(request)
        reads = bool(body.tasks) or not sight.is_whole
        said = run_in_threadpool(self._said, body, sight) if reads else None
        asked, waits = self._said(body, sight) if said is None else await said
        stream_id = request.path_params["stream"]
        is_there = await self.feed.change(stream_id, asked, body.dropped, waits)
        if body.ends:
            self.feed.end(stream_id, time.time_ns())
        if not is_there:
            return wrong(HTTPStatus.NOT_FOUND, "there is no such stream; begin another one")
        return answer_of(FollowAnswer(len(body.tasks) + len(body.traces)))

    def _said(self, body: FollowBody, sight: Sight) -> tuple[Asked, Waits]:
        """Return what a process asks for, and what it waits for, as far as it sees these."""
        waits = seen_waits(self.store_dir, sight, body.service, _waits(body))
        return seen_request(self.store_dir, sight, self._asked(body)), waits

    def _asked(self, body: FollowBody) -> Asked:
        traces = tuple(body.traces)
        if not body.tasks:
            return Asked(traces=traces)
        asked = asked_of(self.store_dir, body.tasks, body.service, refuses=False)
        return replace(asked, traces=traces)

    def _stream(
        self, request: Request, asked: Asked, stream_id: str = "", waits: Waits = NO_WAITS
    ) -> Response:
        last = request.headers.get("last-event-id", "")
        if last and not (last.isdecimal() and len(last) <= _SEQ_DIGITS_MAX):
            return wrong(
                HTTPStatus.BAD_REQUEST,
                "Last-Event-ID must be the id of an event, which is a number",
            )
        headers = {"X-Accel-Buffering": "no"}
        if stream_id:
            headers[STREAM_HEADER] = stream_id
        events = self.feed.follow(asked, int(last) if last else None, stream_id, waits)
        sight = sight_of(request)
        if not sight.is_whole:
            events = seen_events(self.store_dir, sight, events)
        return StreamingResponse(events, media_type=_STREAM, headers=headers)


def _waits(body: FollowBody) -> Waits:
    """Return what a process waits for; it knows a session of its service by the id alone."""
    host = plain(body.host, _HOST_CHARS_MAX) if body.host else None
    now_ns, waits = time.time_ns(), dict[AgentKey, AgentWait]()
    for name, seconds in body.waiting.items():
        own = session_name(name, body.service)
        wait = AgentWait(now_ns - round(max(0.0, seconds) * NS_PER_S), host)
        waits |= dict.fromkeys((name, own if own != name else session_key(name)), wait)
    return waits
