"""Access to the server, and the check that its configuration is safe.

A server that only this machine reaches requires nothing. Any other requires a token or a
certificate, or it does not start. Tokens come from a file or from the environment, never from the
command line, which every user of a machine can read.

No other site may use a browser to reach the server: requests with a foreign origin are refused, and
so are requests with a foreign host name to a server that only this machine reaches.
"""

import ipaddress
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]
import msgspec
from google.rpc.code_pb2 import NOT_FOUND, PERMISSION_DENIED, UNAUTHENTICATED, UNAVAILABLE  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from starlette.routing import BaseRoute, Match

from looptrace.collector.server.receiver.strangers import accepted
from looptrace.collector.server.tokens.proxy import SigningProxy
from looptrace.collector.server.tokens.roles import OPEN_PATHS, Role, refusal, roles_for
from looptrace.collector.server.tokens.service_guard import ServiceGuard
from looptrace.collector.server.tokens.token_file import (
    TOKENS_VARIABLE,
    AccessError,
    Holder,
    is_same,
)

TOKEN_CHARS_MIN = 16
# The key of the name of a request's token, in its scope.
WHO = "looptrace.who"
_SENT_BY_GRPC = "/v1/traces"
_WRONG_ROLE = "this token is that of a person; spans take that of an agent or an admin"
_ONLY_HTTP = "this token is for some services alone; it sends spans over HTTP"
_NO_SERVICES = "this token is for some services alone, and the answer has all services"
_OPEN_SERVICE = "/grpc.health.v1.Health/"
_HTTP_STATUS = {
    NOT_FOUND: HTTPStatus.NOT_FOUND,
    PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}
_CODES = {status: code for code, status in _HTTP_STATUS.items()}
_PROTOBUF = "application/x-protobuf"
_HTML = "text/html"
_NOSNIFF = (b"x-content-type-options", b"nosniff")
_CACHE = b"cache-control"
_WHO = "give a token in the header `Authorization: Bearer ...`"

Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(slots=True)
class Access:
    """The address on which the server listens, and what it requires.

    Each of several tokens is valid, so that tokens can be replaced, or each person has one; a
    server that runs gets new ones by `renew`. With `client_ca_file` only clients with a certificate
    of it are accepted. `hosts` are further names of a server on a loopback address. No
    representation shows a token.
    """

    host: str = "127.0.0.1"
    tokens: tuple[str, ...] = field(default=(), repr=False)
    holders: Mapping[str, Holder] = field(default_factory=dict, repr=False)  # by token
    cert_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    hosts: tuple[str, ...] = ()
    proxy: SigningProxy | None = None

    @property
    def is_asked(self) -> bool:
        """Whether a request needs a token, or a proxy that names a person."""
        return bool(self.tokens) or self.proxy is not None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def valid(self) -> list[str]:
        """The tokens that may be used now."""
        now_s = time.time()
        return [each for each in self.tokens if self.holder(each).is_valid(now_s)]

    def asking(self, headers: Mapping[str, Sequence[str]], address: str) -> Holder | None:
        """Return who asks, by the headers (in lower case) of a request; None for a stranger."""
        token = token_of(headers.get("authorization", []), self)
        if token is not None or not self.is_asked:
            return self.holder(token)
        return self.proxy.holder(headers, address) if self.proxy else None

    def holder(self, token: str | None) -> Holder:
        """Return whose a token is; who needs none may do everything."""
        return self.holders.get(token or "", Holder())

    def renew(self, tokens: Mapping[str, Holder]) -> None:
        """Require one of these tokens from now on; each has its holder.

        Raises:
            AccessError: if the server may not run with them; then the earlier ones stay.
        """
        check_access(replace(self, tokens=tuple(tokens), holders=tokens))
        # A request that is being checked finds its holder.
        self.holders = {**self.holders, **tokens}
        self.tokens, self.holders = tuple(tokens), tokens


def check_access(access: Access) -> None:
    """Check that the server may start with a configuration.

    Raises:
        AccessError: if it may not.
    """
    if any(len(token) < TOKEN_CHARS_MIN for token in access.tokens):
        raise AccessError(
            f"a token has fewer than {TOKEN_CHARS_MIN} characters; draw a longer one."
        )
    if not all(token.isascii() and token.isprintable() for token in access.tokens):
        raise AccessError("a token has characters that no header can have; draw another one.")
    if (access.cert_file is None) != (access.key_file is None):
        raise AccessError("a certificate and its key come together; give both, or neither.")
    if access.client_ca_file and not access.cert_file:
        raise AccessError(
            "certificates of clients need TLS; give the server's own and its key too."
        )
    if not (access.is_local or access.is_asked or access.client_ca_file):
        raise AccessError(
            f"{access.host} is reached from other machines and would let everyone in; give "
            f"tokens in a file or in {TOKENS_VARIABLE}, or the authority of clients' certificates, "
            "or listen on 127.0.0.1."
        )


def check_tls(access: Access) -> None:
    """Check that certificates and keys can be used.

    Raises:
        AccessError: if they cannot.
    """
    if access.cert_file is None:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    file = access.cert_file
    try:
        # The empty password avoids a prompt in the terminal for the password of a key.
        context.load_cert_chain(access.cert_file, access.key_file, password="")
        if access.client_ca_file:
            file = access.client_ca_file
            context.load_verify_locations(file)
    except OSError as error:
        raise AccessError(
            f"{file}: cannot be used, or its key ({error.strerror or error}); both are PEM, and "
            "the key has no password."
        ) from error


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a name or an address."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def tls_options(access: Access) -> dict[str, Any]:
    """Return the options of uvicorn for TLS; none where there is no certificate."""
    if access.cert_file is None:
        return {}
    options = {"ssl_certfile": str(access.cert_file), "ssl_keyfile": str(access.key_file)}
    if access.client_ca_file is None:
        return options
    return {
        **options,
        "ssl_ca_certs": str(access.client_ca_file),
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
    }


def address_of(scope: Scope) -> str:
    """Return the address that a request comes from, "" where it has none."""
    return str((scope.get("client") or ("",))[0])


def token_of(authorization: Iterable[str], access: Access) -> str | None:
    """Return the token of the `Authorization` header; None where it is not one of these."""
    given = list(authorization)
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return known_token(token.strip(), access) if scheme.lower() == "bearer" else None


def known_token(given: str, access: Access) -> str | None:
    """Return a token; None where the server does not know it."""
    # All tokens are compared, so that the time reveals nothing.
    same = [token for token in access.valid if is_same(given, token)]
    return same[0] if same else None


def may_not(role: Role, method: str, path: str) -> str | None:
    """Return why a role may not make a request; None where it may."""
    allowed = roles_for(method, path)
    return None if role in allowed else refusal(role, allowed)


def foreign(headers: Mapping[str, list[str]], access: Access) -> str | None:
    """Return why a request may come from the page of another site; None where it does not."""
    hosts, origins = headers.get("host", []), headers.get("origin", [])
    if len(hosts) != 1 or len(origins) > 1:
        return "a request needs one Host, and at most one Origin"
    name = _hostname(hosts[0])
    if access.is_local and not (is_loopback(name) or name in access.hosts):
        return "the Host is not a name of this server; add it by --allow-host"
    if origins and urlsplit(origins[0]).netloc.lower() != hosts[0].lower():
        return "the Origin is not this server"
    return None


class Page(Protocol):
    """An application for people, with paths of its own and its own sign-in."""

    def serves(self, path: str) -> bool:
        """Return whether a path belongs to the page."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""


class AccessMiddleware:
    """Passes allowed requests on, and answers the others with OTLP's errors.

    A browser that asks for a path outside of the application's `routes` gets the reason as a page.
    Without a `guard` tokens with services are refused.
    """

    def __init__(
        self,
        app: App,
        access: Access,
        page: Page | None = None,
        routes: Sequence[BaseRoute] = (),
        guard: ServiceGuard | None = None,
    ) -> None:
        self._app = app
        self._routes = routes
        self._guard = guard
        self._access = access
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        send = _guarded(send)
        if scope["type"] == "websocket":  # Nothing here uses WebSocket.
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        if why := foreign(headers, self._access):
            await _refuse(send, headers, Status(code=PERMISSION_DENIED, message=why))
        elif self._page and self._is_for_people(scope, headers):
            await self._page(scope, receive, send)
        elif (holder := self._access.asking(headers, address_of(scope))) is None:
            await _refuse(send, headers, Status(code=UNAUTHENTICATED, message=_WHO))
        else:
            accepted(scope)
            if refused := await self._refusal(scope, holder):
                await _refuse(send, headers, refused)
                return
            scope[WHO] = holder.name
            await self._app(scope, receive, send)

    async def _refusal(self, scope: Scope, holder: Holder) -> Status | None:
        """Return why a holder may not make a request; None where it may."""
        if why := may_not(holder.role, scope["method"], scope["path"]):
            return Status(code=PERMISSION_DENIED, message=why)
        if self._guard is None:
            return Status(code=PERMISSION_DENIED, message=_NO_SERVICES) if holder.services else None
        unseen = await self._guard.refusal(scope, holder)
        return Status(code=_CODES[unseen.status], message=unseen.why) if unseen else None

    def _is_for_people(self, scope: Scope, headers: Mapping[str, list[str]]) -> bool:
        """Return whether the page answers: its paths, and those that a browser asks for in vain."""
        if self._page and self._page.serves(scope["path"]):
            return True
        # Only browsers name HTML among what they accept.
        wants_html = any(_HTML in value for value in headers.get("accept", []))
        return wants_html and all(route.matches(scope)[0] == Match.NONE for route in self._routes)


def _guarded(send: Send) -> Send:
    """Return a sender of answers that no browser takes for another type, and nobody keeps.

    An answer that may be cached has a header of its own.
    """

    async def send_guarded(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), _NOSNIFF]
            if all(name.lower() != _CACHE for name, _ in headers):
                headers.append((_CACHE, b"no-store"))
            message = {**message, "headers": headers}
        await send(message)

    return send_guarded


class AccessInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Refuses calls without a token, where one is needed; health checks need none."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        """Pass a call to its handler, or to a handler that refuses it."""
        said = handler_call_details.invocation_metadata
        given = [str(value) for name, value in said if name == "authorization"]
        holder = self._access.asking({"authorization": given}, "")
        refused = None
        if holder is None:
            refused = grpc.StatusCode.UNAUTHENTICATED, _WHO
        elif may_not(holder.role, "POST", _SENT_BY_GRPC):
            refused = grpc.StatusCode.PERMISSION_DENIED, _WRONG_ROLE
        elif holder.services:
            refused = grpc.StatusCode.PERMISSION_DENIED, _ONLY_HTTP
        if refused is None or handler_call_details.method.startswith(_OPEN_SERVICE):
            return await continuation(handler_call_details)
        # A handler of streams neither reads nor unpacks the message.
        return grpc.stream_unary_rpc_method_handler(partial(_refuse_call, *refused))


async def _refuse_call(
    code: grpc.StatusCode, why: str, _messages: object, context: grpc.aio.ServicerContext
) -> None:
    await context.abort(code, why)


async def _refuse(send: Send, headers: Mapping[str, list[str]], status: Status) -> None:
    kind = headers.get("content-type", [""])[0].partition(";")[0].strip().lower()
    if kind == _PROTOBUF:
        body = status.SerializeToString()
    else:
        kind = "application/json"
        body = msgspec.json.encode({"code": status.code, "message": status.message})
    fields = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    if status.code == UNAUTHENTICATED:
        fields.append((b"www-authenticate", b"Bearer"))
    # The rest of the request is not read, so that the connection cannot go on.
    fields.append((b"connection", b"close"))
    code = _HTTP_STATUS[status.code]
    await send({"type": "http.response.start", "status": code, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
