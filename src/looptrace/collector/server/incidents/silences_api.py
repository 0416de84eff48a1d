"""The routes of silences."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from looptrace.analyzer.gates.silences import Matchers, Silence
from looptrace.collector.api_bodies import SilenceAnswer, SilenceBody, SilenceList
from looptrace.collector.api_paths import SILENCES_PATH
from looptrace.collector.server.access import WHO
from looptrace.collector.server.api_responses import answer_of, body_of, check_writable
from looptrace.collector.server.openapi import JSON, Answer, operation
from looptrace.collector.server.tokens.sight import Sight, sight_of
from looptrace.collector.store import reader

_EXAMPLE = '{"rule": "repeated_call", "ends_ns": 1800000000000000000, "why": "known"}'


@dataclass(frozen=True, slots=True)
class SilencesApi:
    """The parts of the server that the routes use; `released` is called when a silence ends."""

    store_dir: Path
    released: Callable[[], None]

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(SILENCES_PATH, self.listed, methods=["GET"]),
            Route(SILENCES_PATH, self.make, methods=["POST"]),
            Route(SILENCES_PATH + "/{id}", self.end, methods=["DELETE"]),
        ]

    @operation("listSilences", Answer("The silences.", {JSON: SilenceList}))
    async def listed(self, request: Request) -> Response:
        """List the silences that hold now, with the gates that each holds back."""
        return answer_of(await run_in_threadpool(self.silences, sight_of(request)))

    @operation(
        "makeSilence",
        Answer("The silence.", {JSON: SilenceAnswer}),
        {
            HTTPStatus.BAD_REQUEST: "The body is not a silence.",
            HTTPStatus.CONFLICT: "It matches everything, its end is not near, or the store is "
            "read-only.",
        },
        body=SilenceBody,
    )
    async def make(self, request: Request) -> Response:
        """Hold gates back from webhooks until a time; their agents are told as ever."""
        body = await body_of(request, SilenceBody, _EXAMPLE)
        matchers = Matchers(body.rule, body.tool, body.agent, body.service, body.incident)
        said = (matchers, body.ends_ns, body.why, request.scope.get(WHO) or body.who)
        made = await run_in_threadpool(self.silence, sight_of(request), *said)
        return answer_of(SilenceAnswer(made))

    @operation(
        "endSilence",
        Answer("The silences that still hold.", {JSON: SilenceList}),
        {HTTPStatus.NOT_FOUND: "No such silence holds.", HTTPStatus.CONFLICT: "It is read-only."},
    )
    async def end(self, request: Request) -> Response:
        """End a silence; webhooks hear of the gates that still wait."""
        await run_in_threadpool(self.end_silence, request.path_params["id"])
        return answer_of(await run_in_threadpool(self.silences, sight_of(request)))

    def silences(self, sight: Sight) -> SilenceList:
        """Return the silences that hold now, and are seen."""
        with reader.open_gates(self.store_dir) as gates:
            return SilenceList(sight.silences(gates.silences()))

    def silence(
        self, sight: Sight, matchers: Matchers, ends_ns: int, why: str, who: str | None
    ) -> Silence:
        """Make a silence of what is seen."""
        check_writable(self.store_dir)
        sight.check_silence(matchers)
        with reader.open_gates(self.store_dir) as gates:
            return gates.silence(matchers, ends_ns, why, who)

    def end_silence(self, silence: str) -> None:
        """End a silence, and send what it held back."""
        check_writable(self.store_dir)
        with reader.open_gates(self.store_dir) as gates:
            gates.end_silence(silence)
        self.released()
