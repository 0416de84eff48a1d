"""One safe request to a receiver.

A name is looked up once, each address of the answer is checked, and the connection goes to the
checked address, so a name cannot change in between. Redirects are not followed, the environment's
proxies are not used, and only the needed part of an answer is read.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from http import HTTPStatus
from secrets import token_bytes
from threading import Thread
from typing import Any, Protocol

import httpcore

from looptrace.analyzer.text.display import plain
from looptrace.collector.content.redaction import KEY_BYTES, redact_text
from looptrace.collector.retry_after import seconds
from looptrace.collector.webhooks.address_policy import may_be_reached
from looptrace.collector.webhooks.retry_policy import EndpointResponse

CONNECT_S = 5.0  # looking up, TCP and TLS, each
TOTAL_S = 15.0
BODY_S = 2.0  # An answer counts as soon as its status arrives.
ANSWER_BYTES_MAX = 65_536
# Of several addresses of a name so many are tried.
ADDRESSES_MAX = 3
_TEXT_CHARS_MAX = 200

Resolve = Callable[[str, int], list[str]]


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A request, and the private networks in which its receiver may be."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    allow_private: tuple[str, ...] = ()
    method: str = "POST"


class Net(Protocol):
    """A sender of requests."""

    async def send(self, request: WebhookRequest) -> EndpointResponse:
        """Send a request once; whatever fails is said in the answer."""


def lookup(host: str, port: int) -> list[str]:
    """Return the addresses of a name, as this machine knows them."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


@dataclass(frozen=True, slots=True)
class Http:
    """Sends over the network."""

    resolve: Resolve = lookup
    total_s: float = TOTAL_S
    key: bytes = field(default_factory=partial(token_bytes, KEY_BYTES), repr=False)  # of hashes

    async def send(self, request: WebhookRequest) -> EndpointResponse:
        """Send a request once; whatever fails is said in the answer."""
        try:
            async with asyncio.timeout(self.total_s):
                return await self._answer(request)
        except TimeoutError:
            return EndpointResponse(None, f"no answer within {self.total_s:g} s")
        except (OSError, UnicodeError, httpcore.NetworkError, httpcore.ProtocolError) as error:
            return EndpointResponse(None, self._plain(f"no connection: {_words(error)}"))
        except httpcore.TimeoutException:
            return EndpointResponse(None, f"no connection within {CONNECT_S:g} s")

    async def _answer(self, request: WebhookRequest) -> EndpointResponse:
        public = request.url.startswith("https://")
        backend = _Vetted(self.resolve, request.allow_private, public=public)
        timeouts = {"connect": CONNECT_S}
        async with (
            httpcore.AsyncConnectionPool(_tls(), network_backend=backend) as pool,
            pool.stream(
                request.method,
                request.url,
                headers=list(request.headers.items()),
                content=request.body,
                extensions={"timeout": timeouts},
            ) as response,
        ):
            headers = {name.lower(): value for name, value in response.headers}
            waits = headers.get(b"retry-after", b"").decode("latin-1")
            ok = HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES
            body = await _beginning(response)
            return EndpointResponse(
                response.status,
                "" if ok else f"it answered {response.status}",
                seconds(waits, 0.0),
                self._plain(body.decode("utf-8", "replace")),
                body,
            )

    def _plain(self, text: str) -> str:
        """Return the beginning of a text that others wrote, in one line and without secrets."""
        return plain(redact_text(text, self.key), _TEXT_CHARS_MAX)


async def _beginning(response: httpcore.Response) -> bytes:
    """Read so much of a body as there is in a moment."""
    body = bytearray()
    with suppress(TimeoutError, httpcore.NetworkError, httpcore.ProtocolError):
        async with asyncio.timeout(BODY_S):
            async for chunk in response.aiter_stream():
                body += chunk[: ANSWER_BYTES_MAX - len(body)]
                if len(body) >= ANSWER_BYTES_MAX:
                    break
    return bytes(body)


class _Vetted(httpcore.AnyIOBackend):
    """Connects to the vetted addresses of a name, which it looks up once."""

    def __init__(self, resolve: Resolve, allow_private: tuple[str, ...], *, public: bool) -> None:
        self._resolve = resolve
        self._allow_private = allow_private
        self._public = public

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *others: Any, **named: Any
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that may be reached and answers."""
        try:
            async with asyncio.timeout(CONNECT_S):
                addresses = await _looked_up(self._resolve, host, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout from error
        reachable = [
            address
            for address in addresses
            if may_be_reached(address, self._allow_private, public=self._public)
        ]
        if not reachable:
            why = "is not public" if self._public else "is not in the networks that http may use"
            said = ", ".join(addresses[:ADDRESSES_MAX]) or "no address"
            raise httpcore.ConnectError(f"{said} {why}; allow_private can name it")
        *earlier, last = reachable[:ADDRESSES_MAX]
        each_s = (timeout or CONNECT_S) / (len(earlier) + 1)
        for address in earlier:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await super().connect_tcp(address, port, each_s, *others, **named)
        return await super().connect_tcp(last, port, each_s, *others, **named)


async def _looked_up(resolve: Resolve, host: str, port: int) -> list[str]:
    """Look a name up on a thread of its own, which is left behind where it hangs."""
    addresses: Future[list[str]] = Future()
    Thread(target=_settle, args=(addresses, resolve, host, port), daemon=True).start()
    return await asyncio.wrap_future(addresses)


def _settle(found: Future[list[str]], resolve: Resolve, host: str, port: int) -> None:
    found.set_running_or_notify_cancel()
    try:
        found.set_result(resolve(host, port))
    except Exception as error:  # It is raised again over there.
        found.set_exception(error)


@cache
def _tls() -> ssl.SSLContext:
    """Return what certificates are checked by: those that this machine trusts."""
    return ssl.create_default_context()


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
