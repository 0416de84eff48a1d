"""The page as an application: its paths, its access, and the headers of every answer."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from looptrace.analyzer.gates.decisions import GateError, NoGateError
from looptrace.collector import decision_links
from looptrace.collector.decision_links import DecisionLinks
from looptrace.collector.page import incident_pages, rendering
from looptrace.collector.page.changes import ChangeStream
from looptrace.collector.page.decision_pages import DecisionPages
from looptrace.collector.page.gate_pages import GatePages
from looptrace.collector.page.incident_pages import IncidentPages
from looptrace.collector.page.operations import Operations
from looptrace.collector.page.other_servers import OtherServers
from looptrace.collector.page.overview import Overview
from looptrace.collector.page.rendering import Renderer, url
from looptrace.collector.page.sessions import SignIns
from looptrace.collector.page.task_list import TaskFilter, TaskIndex
from looptrace.collector.page.task_pages import TaskPages
from looptrace.collector.server.access import WHO, Receive, Scope, Send, may_not
from looptrace.collector.server.api_responses import bounded_body
from looptrace.collector.server.receiver.strangers import accepted
from looptrace.collector.server.service import Options, Service
from looptrace.collector.server.tokens.service_guard import ServiceGuard, UnseenAnswer
from looptrace.collector.server.tokens.sight import EVERYTHING, SIGHT
from looptrace.collector.store.key import content_key
from looptrace.collector.store.locks import StoreError
from looptrace.collector.trace_links import TraceLinks
from looptrace.errors import LooptraceError

_logger = logging.getLogger(__name__)

SIGN_IN, SIGN_OUT, CHANGES = "/sign-in", "/sign-out", "/changes"
DECIDE = f"{decision_links.PATH}/{{id}}"
ASSETS = "/assets/{digest}/{name}"
# The paths that need no sign-in.
_OPEN = (SIGN_IN, "/assets/", f"{decision_links.PATH}/")
_FORM = "application/x-www-form-urlencoded"
_FIELDS_MAX = 20
_WRONG_TOKEN = "This is not a token of this server, or it has ended."  # noqa: S105
_FOREIGN_FORM = (
    "This form was not opened in this browser, or its cookie is gone. Nothing was changed. "
    "Go back, reload the page, and send it again."
)
_NOT_USABLE = "The store cannot be used now. Try again later; the server's log says why."

# Starlette runs those that are no coroutines on threads, so that arriving spans do not wait.
Handler = Callable[[Request], Response | Awaitable[Response]]
FormHandler = Callable[[Request, Mapping[str, str]], Response]


class Site:
    """The page of a service, as an ASGI application."""

    def __init__(self, service: Service, options: Options) -> None:
        key = content_key(options.store_dir)
        hours = options.settings.page.sign_in_hours
        self._on_store_error = service.on_store_error
        self._sessions = SignIns(options.access, key, hours)
        senders = service.shards.senders.values() if service.shards else ()
        self._others = OtherServers([sender.server for sender in senders])
        self._changes = ChangeStream(service, self._others)
        self._renderer = Renderer(
            self._sessions,
            self._changes.state,
            lambda: service.archiver.retention,
            lambda: service.detector.shown.understood,
            service.promises.withdrawn,
            options.settings.page.url,
        )
        self._listed = TaskIndex(
            options.store_dir, options.settings.policy.rule_set, service.feed.hearing.heard
        )
        self._overview = Overview(
            service.gates, self._renderer, self._changes.version, self._listed
        )
        self._preparing: asyncio.Task[None] | None = None
        self.routes = self._made(service, options)
        self._guard = ServiceGuard(options.store_dir, self.routes)
        self._app = Starlette(
            routes=self.routes,
            exception_handlers={
                HTTPException: self._not_served,
                GateError: self._not_done,
                StoreError: self._not_usable,
            },
        )
        self._first_segments = {route.path.split("/")[1] for route in self.routes}

    def serves(self, path: str) -> bool:
        """Return whether a path belongs to the page."""
        return path.split("/")[1] in self._first_segments if path.startswith("/") else False

    async def _prepare(self) -> None:
        """Compute in advance what the first visitor would wait for; log a failure."""
        try:
            await self._overview.prepare()
            await run_in_threadpool(
                self._listed.find, TaskFilter(), self._changes.version(), EVERYTHING
            )
        except LooptraceError as error:
            _logger.warning("the first look at the page will take longer: %s", error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request to a visitor who may see the page."""

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in rendering.HEADERS.items():
                    headers[name] = value
            await send(message)

        request = Request(scope)
        # The routed path, because that of `request.url` also depends on the Host header.
        path = scope["path"]
        may_enter = self._sessions.may_enter(request, time.time())
        if may_enter and self._preparing is None:
            self._preparing = asyncio.create_task(self._prepare())
        unseen = await self._unseen(request) if may_enter else None
        if may_enter and (why := self._may_not(request, path)):
            refused = self._renderer.error(request, HTTPStatus.FORBIDDEN, f"Not done: {why}.")
            await refused(scope, receive, send_guarded)
        elif unseen:
            refused = self._renderer.error(request, unseen.status, f"Not done: {unseen.why}.")
            await refused(scope, receive, send_guarded)
        elif may_enter or path.startswith(_OPEN):
            scope.setdefault(SIGHT, EVERYTHING)  # A link shows its gate to everyone who has it.
            scope[WHO] = self._sessions.who(request, time.time())
            if may_enter:
                accepted(scope)
            await self._app(scope, receive, send_guarded)
        else:
            await self._turned_away(request)(scope, receive, send_guarded)

    def _may_not(self, request: Request, path: str) -> str | None:
        """Return why the role of a visitor does not allow a request; None where it does."""
        if path == SIGN_OUT or path.startswith(_OPEN):
            return None
        return may_not(self._sessions.holder(request, time.time()).role, request.method, path)

    async def _unseen(self, request: Request) -> UnseenAnswer | None:
        """Return why the services of a visitor do not allow a request; None where they do."""
        holder = self._sessions.holder(request, time.time())
        return await self._guard.refusal(request.scope, holder)

    def _turned_away(self, request: Request) -> Response:
        """Ask for a token; reload a page first that another site links to.

        The browser sends the cookie only with this site's own links, so that a visitor from the
        link of a pager seems to be signed out until the page itself links to the same place.
        """
        if request.method not in ("GET", "HEAD"):
            why = "Nothing was changed. Sign in, and send it again; your note is kept."
            title, status = "You are signed out", HTTPStatus.UNAUTHORIZED
            to = url(SIGN_IN, to=_target(request))
            about = {"title": title, "why": why, "to": to, "to_text": "Sign in"}
            return self._renderer.page(request, "error.html.j2", status, **about)
        here = _target(request)
        if request.scope["path"] == CHANGES:
            return Response("Sign in.\n", HTTPStatus.UNAUTHORIZED, media_type="text/plain")
        if request.headers.get("sec-fetch-site") == "cross-site":
            return self._renderer.page(request, "again.html.j2", here=here)
        return RedirectResponse(url(SIGN_IN, to=here), HTTPStatus.SEE_OTHER)

    def _made(self, service: Service, options: Options) -> list[Route]:
        links = TraceLinks(options.settings.page.trace_url)
        version = self._changes.version
        tasks = TaskPages(service.gates, self._renderer, links, self._listed, version)
        operations = Operations(service, options.settings, self._renderer)
        gates = GatePages(
            service.gates, self._renderer, links, service.archiver.ask, self._others, self._is_empty
        )
        links_of_messages = DecisionLinks(content_key(options.store_dir))
        decisions = DecisionPages(gates, self._renderer, links_of_messages)
        return [
            _get("/", gates.gates),
            _get(DECIDE, decisions.ask),
            self._post(DECIDE, decisions.decide),
            _get("/gates/{id}", gates.gate),
            _get("/gates/{id}/report", gates.report),
            _to_page("/gates/{id}/resolve", "/gates/{id}"),
            self._post("/gates/{id}/resolve", gates.resolve),
            *self._of_incidents(service, gates),
            _get("/tasks", tasks.all),
            _get("/task", tasks.task),
            _get("/task/turn", tasks.turn),
            _get("/task/why", tasks.why),
            _get("/overview", self._overview.show),
            _get("/rules", operations.rules),
            _get("/settings", operations.in_force),
            _get("/webhooks", operations.webhooks),
            _to_page("/webhooks/{name:path}/{act}", "/webhooks"),
            self._post("/webhooks/{name:path}/test", operations.try_webhook),
            self._post("/webhooks/{name:path}/replay", operations.send_again),
            self._post("/webhooks/{name:path}/enable", operations.enable_webhook),
            _get("/health", operations.health),
            _get(CHANGES, self._changes.follow),
            _get(SIGN_IN, self._ask_token),
            self._post(SIGN_IN, self._sign_in),
            self._post(SIGN_OUT, self._sign_out),
            Route(ASSETS, rendering.asset, methods=["GET"]),
        ]

    def _of_incidents(self, service: Service, gates: GatePages) -> list[Route]:
        api = service.gates
        incidents = IncidentPages(api.incidents, api.silences, gates, self._renderer)
        one = f"{incident_pages.PATH}/{{id}}"
        return [
            _get(incident_pages.PATH, incidents.all),
            _get(one, incidents.one),
            self._post(one, incidents.say),
            _get(f"{one}/exception", incidents.exception),
            _to_page(f"{one}/decide", one),
            self._post(f"{one}/decide", incidents.decide),
            _to_page("/silences", incident_pages.PATH),
            self._post("/silences", incidents.silence),
            _to_page("/silences/{id}/end", incident_pages.PATH),
            self._post("/silences/{id}/end", incidents.end_silence),
        ]

    def _is_empty(self) -> bool:
        return self._listed.is_empty(self._changes.version())

    def _post(self, path: str, handler: FormHandler) -> Route:
        """Return the route of a form, which accepts only the page's own forms."""

        async def handle(request: Request) -> Response:
            try:
                form = await _form(request)
            except ValueError as error:
                why = f"The form cannot be read: {error}."
                return self._renderer.error(request, HTTPStatus.BAD_REQUEST, why)
            if not self._sessions.is_own_form(request, form):
                return self._renderer.error(request, HTTPStatus.FORBIDDEN, _FOREIGN_FORM)
            return await run_in_threadpool(handler, request, form)

        return Route(path, handle, methods=["POST"])

    def _ask_token(self, request: Request) -> Response:
        to = _own_path(request.query_params.get("to", ""))
        if self._sessions.may_enter(request, time.time()):
            return RedirectResponse(to, HTTPStatus.SEE_OTHER)
        return self._renderer.page(request, "sign_in.html.j2", to=to, error="")

    def _sign_in(self, request: Request, form: Mapping[str, str]) -> Response:
        to = _own_path(form.get("to", ""))
        response: Response = RedirectResponse(to, HTTPStatus.SEE_OTHER)
        if self._sessions.sign_in(response, form.get("token", "").strip(), time.time()):
            return response
        status = HTTPStatus.UNAUTHORIZED
        return self._renderer.page(request, "sign_in.html.j2", status, to=to, error=_WRONG_TOKEN)

    def _sign_out(self, _request: Request, _form: Mapping[str, str]) -> Response:
        response = RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
        self._sessions.sign_out(response)
        return response

    def _not_served(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
        response = self._renderer.error(request, status, "There is no such page.")
        response.headers.update(getattr(error, "headers", None) or {})
        return response

    def _not_done(self, request: Request, error: Exception) -> Response:
        is_none = isinstance(error, NoGateError)
        status = HTTPStatus.NOT_FOUND if is_none else HTTPStatus.CONFLICT
        return self._renderer.error(request, status, str(error))

    def _not_usable(self, request: Request, error: Exception) -> Response:
        self._on_store_error(error)
        return self._renderer.error(request, HTTPStatus.SERVICE_UNAVAILABLE, _NOT_USABLE)


def _get(path: str, handler: Handler) -> Route:
    return Route(path, handler, methods=["GET"])


def _to_page(path: str, page: str) -> Route:
    """Redirect a visit to the address of a form to the page that has the form."""

    async def to_page(request: Request) -> Response:
        return RedirectResponse(page.format(**request.path_params), HTTPStatus.SEE_OTHER)

    return _get(path, to_page)


async def _form(request: Request) -> dict[str, str]:
    """Read a form; the last value of a repeated field counts."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise ValueError(f"it is not {_FORM}")
    body = await bounded_body(request)
    return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX))


def _target(request: Request) -> str:
    path, query = quote(request.scope["path"]), request.scope["query_string"].decode("latin-1")
    return _own_path(f"{path}?{query}" if query else path)


def _own_path(to: str) -> str:
    """Return a path of this site; any other address becomes the start page."""
    parts = urlsplit(to)
    is_own = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if is_own and not (parts.scheme or parts.netloc or "\\" in to) else "/"
