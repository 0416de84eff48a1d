"""The routes by which an admin lets a server erase what it has of somebody."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from looptrace.collector.api_bodies import Erasure, ErasureBody
from looptrace.collector.api_paths import ERASURES_PATH
from looptrace.collector.erasure.asked import ask, asked_for
from looptrace.collector.erasure.choice import Wanted
from looptrace.collector.server.access import WHO
from looptrace.collector.server.api_responses import answer_of, body_of, check_writable, wrong
from looptrace.collector.server.openapi import JSON, Answer, operation
from looptrace.collector.store.locks import StoreError

_EXAMPLE = '{"kind": "session", "name": "import-4f1c"}'


def routes(store_dir: Path, restart: Callable[[], None]) -> list[Route]:
    """Return the routes for a store; `restart` starts its server again."""
    return ErasuresApi(store_dir, restart).routes()


@dataclass(frozen=True, slots=True)
class ErasuresApi:
    """The routes; `restart` stops the server, whose next start erases."""

    store_dir: Path
    restart: Callable[[], None]

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(ERASURES_PATH, self.erase, methods=["POST"]),
            Route(ERASURES_PATH + "/{id}", self.erasure, methods=["GET"]),
        ]

    @operation(
        "erase",
        Answer("The server restarts, and erases before it accepts spans.", {JSON: Erasure}),
        {
            HTTPStatus.BAD_REQUEST: "The body is not valid.",
            HTTPStatus.CONFLICT: "Another erasure waits, or the store is read-only.",
        },
        body=ErasureBody,
    )
    async def erase(self, request: Request) -> Response:
        """Erase what the server has of a session, task, user or service, for good."""
        body = await body_of(request, ErasureBody, _EXAMPLE)
        check_writable(self.store_dir)
        wanted, who = Wanted(body.kind, body.name), request.scope.get(WHO) or None
        try:
            asked = await run_in_threadpool(ask, self.store_dir, wanted, who)
        except StoreError as error:
            return wrong(HTTPStatus.CONFLICT, str(error))
        answer = answer_of(asked)
        answer.background = BackgroundTask(self.restart)
        return answer

    @operation(
        "erasure",
        Answer("How far it is, and the rows that were erased.", {JSON: Erasure}),
        {HTTPStatus.NOT_FOUND: "It is not the last erasure."},
    )
    async def erasure(self, request: Request) -> Response:
        """Show an erasure."""
        found = await run_in_threadpool(asked_for, self.store_dir, request.path_params["id"])
        if found is None:
            return wrong(HTTPStatus.NOT_FOUND, "it is not the last erasure")
        return answer_of(found)
