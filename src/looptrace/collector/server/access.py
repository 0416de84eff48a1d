"""Access to the server, and the check that its configuration is safe.

A server that only this machine reaches requires nothing. Any other requires a token or a
certificate, or it does not start. Tokens come from a file or from the environment, never from the
command line, which every user of a machine can read.

No other site may use a browser to reach the server: requests with a foreign origin are refused, and
so are requests with a foreign host name to a server that only this machine reaches.
"""

from __future__ import annotations

import hmac
import ipaddress
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]
import msgspec
from google.rpc.code_pb2 import PERMISSION_DENIED, UNAUTHENTICATED  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from starlette.routing import BaseRoute, Match

from looptrace.collector.server.receiver.strangers import accepted
from looptrace.errors import InputError

TOKEN_CHARS_MIN = 16
TOKENS_VARIABLE = "LOOPTRACE_TOKENS"
# The key of the name of a request's token, in its scope.
WHO = "looptrace.who"
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_OPEN_SERVICE = "/grpc.health.v1.Health/"
_HTTP_STATUS = {
    PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
}
_PROTOBUF = "application/x-protobuf"
_HTML = "text/html"
_NOSNIFF = (b"x-content-type-options", b"nosniff")
_CACHE = b"cache-control"
_WHO = "give a token in the header `Authorization: Bearer ...`"

Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class AccessError(InputError):
    """The server may not start like this; the message is one line that says why, and what to do."""


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
    names: Mapping[str, str] = field(default_factory=dict, repr=False)  # names by token
    cert_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    hosts: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    def renew(self, tokens: Mapping[str, str]) -> None:
        """Require one of these tokens from now on; each has its name.

        Raises:
            AccessError: if the server may not run with them; then the earlier ones stay.
        """
        check_access(replace(self, tokens=tuple(tokens), names=tokens))
        self.names = {**self.names, **tokens}  # A request that is being checked finds its name.
        self.tokens, self.names = tuple(tokens), tokens


def read_tokens(file: Path | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the tokens of a file, or else those of the environment, each with its name.

    A line of a file has a token, or a name and a token; the environment has tokens between blanks.

    Raises:
        AccessError: if the file cannot be read or holds none.
    """
    if file is None:
        return dict.fromkeys(environ.get(TOKENS_VARIABLE, "").split(), "")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AccessError(f"{file}: the tokens cannot be read ({_reason(error)}).") from error
    tokens: dict[str, str] = {}
    for line in lines:
        *name, token = line.split() or [""]
        if token:
            tokens[token] = " ".join(name)
    if not tokens:
        raise AccessError(
            f"{file}: holds no token; write one per line, with or without a name before it."
        )
    return tokens


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
    if not (access.is_local or access.tokens or access.client_ca_file):
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


class GrpcCertificates:
    """The certificates of a gRPC server, which can be read again while it runs.

    Raises:
        AccessError: by each method, if a file cannot be read.
    """

    def __init__(self, cert_file: Path, key_file: Path, client_ca_file: Path | None) -> None:
        self._files = (cert_file, key_file, client_ca_file)
        self._new: grpc.ServerCertificateConfiguration | None = None  # for the next connection

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of the server."""
        needs_client = self._files[2] is not None
        return grpc.dynamic_ssl_server_credentials(self._read(), self._take_new, needs_client)

    def renew(self) -> None:
        """Read the files again, for new connections."""
        self._new = self._read()

    def _take_new(self) -> grpc.ServerCertificateConfiguration | None:
        new, self._new = self._new, None
        return new

    def _read(self) -> grpc.ServerCertificateConfiguration:
        try:
            cert, key, roots = (file.read_bytes() if file else None for file in self._files)
        except OSError as error:
            raise AccessError(f"{error.filename}: cannot be read ({_reason(error)}).") from error
        return grpc.ssl_server_certificate_configuration([(key, cert)], roots)


def grpc_certificates(access: Access) -> GrpcCertificates | None:
    """Return the certificates of a gRPC server; None where there is none."""
    if access.cert_file is None or access.key_file is None:
        return None
    return GrpcCertificates(access.cert_file, access.key_file, access.client_ca_file)


def is_allowed(authorization: Iterable[str], access: Access) -> bool:
    """Return whether the `Authorization` header holds one of the tokens, where one is needed."""
    return not access.tokens or token_of(authorization, access) is not None


def token_of(authorization: Iterable[str], access: Access) -> str | None:
    """Return the token of the `Authorization` header; None where it is not one of these."""
    given = list(authorization)
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return known_token(token.strip(), access) if scheme.lower() == "bearer" else None


def known_token(given: str, access: Access) -> str | None:
    """Return a token; None where the server does not know it."""
    data = given.encode("utf-8", "surrogateescape")
    # All tokens are compared in full, so that the time reveals nothing.
    same = [token for token in access.tokens if hmac.compare_digest(data, token.encode())]
    return same[0] if same else None


def foreign(headers: Mapping[str, list[str]], access: Access) -> str | None:
    """Return why a request may come from the page of another site; None where it does not."""
    hosts, origins = headers.get("host", []), headers.get("origin", [])
    if len(hosts) != 1 or len(origins) > 1:
        return "one Host is due, and at most one Origin"
    name = _hostname(hosts[0])
    if access.is_local and not (is_loopback(name) or name in access.hosts):
        return "this server is not called by that Host"
    if origins and urlsplit(origins[0]).netloc.lower() != hosts[0].lower():
        return "the Origin is another site"
    return None


class Page(Protocol):
    """An application for people, with paths of its own and its own sign-in."""

    def serves(self, path: str) -> bool:
        """Return whether a path belongs to the page."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""


class AccessMiddleware:
    """Passes allowed requests on, and answers the others with OTLP's errors.

    A browser that asks for a path outside of the application's `routes` gets a page that says so.
    """

    def __init__(
        self,
        app: App,
        access: Access,
        page: Page | None = None,
        routes: Sequence[BaseRoute] = (),
    ) -> None:
        self._app = app
        self._routes = routes
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
        elif not is_allowed(headers.get("authorization", []), self._access):
            await _refuse(send, headers, Status(code=UNAUTHENTICATED, message=_WHO))
        else:
            accepted(scope)
            token = token_of(headers.get("authorization", []), self._access)
            scope[WHO] = self._access.names.get(token or "")
            await self._app(scope, receive, send)

    def _is_for_people(self, scope: Scope, headers: Mapping[str, list[str]]) -> bool:
        """Return whether the page answers: its paths, and those that a browser asks for in vain."""
        if self._page and self._page.serves(scope["path"]):
            return True
        # Only browsers name HTML among what they accept.
        wants_html = any(_HTML in value for value in headers.get("accept", []))
        return wants_html and all(route.matches(scope)[0] == Match.NONE for route in self._routes)


def _guarded(send: Send) -> Send:
    """Return a sender of answers that no browser takes for another type, and nobody keeps.

    An answer that may be kept says so itself.
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
        is_open = handler_call_details.method.startswith(_OPEN_SERVICE)
        if is_open or is_allowed(given, self._access):
            return await continuation(handler_call_details)
        # A handler of streams neither reads nor unpacks the message.
        return grpc.stream_unary_rpc_method_handler(_refuse_call)


async def _refuse_call(_messages: object, context: grpc.aio.ServicerContext) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, _WHO)


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


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return str(error.strerror) if isinstance(error, OSError) else "it is not UTF-8"
