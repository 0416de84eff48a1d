"""What is promised of the network: no step into networks of one's own, and none waits for another.

All servers are real and on loopback, and nothing reaches further.
"""

import asyncio
import gc
import shutil
import ssl
import subprocess
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from random import Random

import pytest

from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.outbox import Outbox
from looptrace.collector.webhooks import client
from looptrace.collector.webhooks.address_policy import may_be_reached
from looptrace.collector.webhooks.client import Http, WebhookRequest, lookup
from looptrace.collector.webhooks.dispatcher import Dispatcher
from looptrace.collector.webhooks.retry_policy import EndpointResponse
from tests import http_threads
from tests.collector.store.test_outbox import HOOK, event, recorded
from tests.http_threads import QuietHandler
from tests.reliability.forked import Forked
from tests.reliability.serving import until

KILLS, KILLED_EVENTS = 4, 60
LOOPBACK = ("127.0.0.0/8",)
NOT_PUBLIC = (
    "0.0.0.0",  # noqa: S104
    *("0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.254"),
    *("127.0.0.1", "127.255.255.254", "169.254.0.1", "169.254.169.254", "172.16.0.1"),
    *("172.31.255.255", "192.0.0.1", "192.0.0.11", "192.0.0.171", "192.0.2.1"),
    *("192.88.99.1", "192.168.0.1", "198.18.0.1"),
    *("198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250"),
    *("240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1"),
    *("::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:2::1", "2001:10::1"),
    *("2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "5f00::1", "fc00::1"),
    # Metadata and other services of clouds, also in each way to write IPv4 in IPv6.
    *("168.63.129.16", "::ffff:168.63.129.16", "::168.63.129.16", "64:ff9b::a83f:8110"),
    *("64:ff9b:1::a83f:8110", "2002:a83f:8110::1", "2001:0:a83f:8110::1", "2a00::5efe:a83f:8110"),
    *("2a00::200:5efe:a9fe:a9fe", "::ffff:0:168.63.129.16", "100.100.100.200", "192.0.0.192"),
    *("161.26.0.10", "166.9.12.3", "169.254.0.23", "169.254.170.2", "fd20:ce::254", "fd00:c1::1"),
    *("::ffff:100.100.100.200", "64:ff9b::6464:64c8", "2002:c000:c0::", "fd00:ec2::23"),
    *("fd00:ec2::254", "fd12:3456::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "ff0e::1"),
)
PUBLIC = (
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.0.1", "172.32.0.1", "100.63.255.255"),
    *("100.128.0.1", "2606:4700:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"),
)
# Other ways to write loopback, as a name in an address.
SPELLED = ("127.1", "0x7f.1", "2130706433", "0177.0.0.1", "[::ffff:127.0.0.1]", "localhost")


def send(request: WebhookRequest, http: Http | None = None) -> EndpointResponse:
    """Send a request from a new process's point of view."""
    return asyncio.run((http or Http()).send(request))


def to(url: str, *, allow: tuple[str, ...] = LOOPBACK) -> WebhookRequest:
    """Return a small request."""
    return WebhookRequest(url, {"webhook-id": "1"}, b"{}", allow)


class Server:
    """A receiver on loopback, and the requests that it got."""

    def __init__(self, answer: Callable[[QuietHandler], None]) -> None:
        self.hits: list[tuple[str, str]] = []  # host, id
        self.requests: list[tuple[bytes, dict[str, str]]] = []
        outer = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = self.body()
                outer.hits.append((self.headers["host"], self.headers["webhook-id"]))
                outer.requests.append((body, dict(self.headers)))
                with suppress(OSError):
                    answer(self)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_port
        self.url = f"http://127.0.0.1:{self.port}/"


def answering(status: int, **headers: str) -> Callable[[QuietHandler], None]:
    """Answer with a status."""

    def answer(handler: QuietHandler) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.answer(status, b"said", named)

    return answer


@contextmanager
def serving(
    answer: Callable[[QuietHandler], None] | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Server]:
    """Run a server."""
    server = Server(answer or answering(204))
    if tls:
        server.http.socket = tls.wrap_socket(server.http.socket, server_side=True)
    with http_threads.answering(server.http):
        yield server


def hook_toml(url: str, *more: str, form: str = "standard") -> str:
    """Return the settings of a webhook for gates to a receiver on loopback, and further lines."""
    hook = f'[[webhooks]]\nname = "a"\nurl = "{url}"\nformat = "{form}"\nactions = ["gate"]'
    return "\n".join((hook, 'allow_private = ["127.0.0.1"]', *more, ""))


# --- Where it may go -----------------------------------------------------------------------------


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_no_address_of_ones_own_is_connected_to(address: str) -> None:
    """P14: neither where it is written in the address, nor where a name leads to it."""
    literal = f"[{address}]" if ":" in address else address
    for url, resolve in (
        (f"https://{literal}/", lookup),
        ("https://hooks.example/", lambda _host, _port: [address]),
    ):
        answer = send(to(url, allow=()), Http(resolve))
        assert answer.status is None
        assert "is not public" in answer.error


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_reached(address: str) -> None:
    """P14: a check that let nothing through would keep every promise. Over http none is public."""
    assert may_be_reached(address, (), public=True)
    assert not may_be_reached(address, (), public=False)


def test_there_are_sixty_vectors() -> None:
    """P14: the list is as long as promised."""
    assert len({*NOT_PUBLIC, *PUBLIC}) >= 60


@pytest.mark.parametrize("host", SPELLED)
def test_other_spellings_of_loopback_are_refused(host: str) -> None:
    """P14: what counts is the address that the connection would go to, not its spelling."""
    with serving() as server:
        for scheme in ("https", "http"):
            answer = send(to(f"{scheme}://{host}:{server.port}/", allow=("10.0.0.0/8",)))
            assert answer.status is None
            assert "is not " in answer.error
        assert server.hits == []
        if host != "localhost":  # It may have an address of IPv6, which is not among these.
            assert send(to(f"http://{host}:{server.port}/")).status == 204


def test_a_name_is_looked_up_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """P14: a name that leads elsewhere at the second look is never looked at twice.

    Proxies of the environment are not used, because they would look once more.
    """
    looks: list[str] = []

    def rebinding(host: str, _port: int) -> list[str]:
        looks.append(host)
        return ["127.0.0.1"] if len(looks) == 1 else ["169.254.169.254"]

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with serving() as server:
        answer = send(to(f"http://hooks.example:{server.port}/"), Http(rebinding))
        assert answer.status == 204
        assert looks == ["hooks.example"]
        assert server.hits == [(f"hooks.example:{server.port}", "1")]


def test_only_the_vetted_addresses_of_a_name_are_tried() -> None:
    """P14: a name that leads to good and to bad addresses leads to the good ones."""
    with serving() as server:
        both = Http(lambda _host, _port: ["10.0.0.1", "127.0.0.2", "127.0.0.1"])
        # Nobody listens at 127.0.0.2, and the next address is tried.
        assert send(to(f"http://hooks.example:{server.port}/"), both).status == 204


def test_redirects_are_not_followed() -> None:
    """P14: a 302 to loopback is a failure, and nothing knocks there."""
    with serving() as inner, serving(answering(302, location=inner.url)) as outer:
        answer = send(to(outer.url))
        assert (answer.status, answer.error) == (302, "it answered 302")
        assert (len(outer.hits), inner.hits) == (1, [])


# --- What comes back -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "accepted"),
    [(200, True), (204, True), (299, True), (304, False), (400, False), (410, False), (503, False)],
)
def test_only_2xx_is_accepted(status: int, accepted: bool) -> None:
    """P12: any other status is a failure, with its Retry-After."""
    with serving(answering(status, retry_after="7")) as server:
        answer = send(to(server.url))
    assert (answer.status, not answer.error, answer.retry_after_s) == (status, accepted, 7)


def test_an_endless_answer_costs_no_memory() -> None:
    """P14: of 10 GB some 64 KiB are read, and the status counts."""
    written = 0

    def endless(handler: QuietHandler) -> None:
        nonlocal written
        handler.send_response(200)
        handler.send_header("content-length", "10000000000")
        handler.end_headers()
        block = b"x" * 65_536
        while True:
            written += handler.wfile.write(block)

    with serving(endless) as server:
        send(to(server.url))
        tracemalloc.start()
        try:
            answer = send(to(server.url))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert answer.status == 200
    assert peak < 1024 * 1024
    assert written < 50_000_000  # The system's buffers hold some.


def dripping(handler: QuietHandler, until: threading.Event) -> None:
    """Send a status line a byte a moment."""
    while not until.wait(0.05):
        handler.wfile.write(b"H")


def test_what_drips_is_cut_off() -> None:
    """P14: a time for all of it, not for each byte."""
    over = threading.Event()
    with serving(partial(dripping, until=over)) as server:
        answer = send(to(server.url), Http(total_s=0.5))
        over.set()
    assert (answer.status, answer.error) == (None, "no answer within 0.5 s")


def test_whatever_is_no_http_is_a_failure() -> None:
    """P11: a receiver that talks nonsense, or is not there, is tried again later."""

    def nonsense(handler: QuietHandler) -> None:
        handler.wfile.write(b"\0" * 100)

    with serving(nonsense) as server:
        assert "no connection" in send(to(server.url)).error
        gone = server.url
    assert "no connection" in send(to(gone)).error
    assert "no connection" in send(to(f"https://{'a' * 70}.example/")).error


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ssl.SSLContext]:
    """Make a certificate for `hooks.example` that this process trusts."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=x"]
    named = ["-addext", "subjectAltName=DNS:hooks.example"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *made, *named]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    client._tls.cache_clear()
    yield context
    client._tls.cache_clear()


def test_the_certificate_is_that_of_the_name(tls: ssl.SSLContext) -> None:
    """P14: the connection goes to the vetted address, and the name is still what is checked."""
    local = Http(lambda _host, _port: ["127.0.0.1"])
    with serving(tls=tls) as server:
        assert send(to(f"https://hooks.example:{server.port}/"), local).status == 204
        answer = send(to(f"https://other.example:{server.port}/"), local)
        assert "CERTIFICATE_VERIFY_FAILED" in answer.error
        assert len(server.hits) == 1


# --- One endpoint and the others -----------------------------------------------------------------


def hooks_of(urls: list[str]) -> tuple[Webhook, ...]:
    """Name a webhook for each address."""
    return tuple(
        replace(HOOK, name=str(number), url=url, allow_private=LOOPBACK)
        for number, url in enumerate(urls)
    )


def test_one_endpoint_that_hangs_delays_none_of_nine(tmp_path: Path) -> None:
    """P15: the nine have everything while the tenth is still in its first try; P25: then it stops.

    What hangs stays in the outbox, and comes with the next start.
    """
    path, over, hung = tmp_path / "gates.db", threading.Event(), threading.Event()
    with GateStore.open(path):
        pass  # The dispatcher makes no store.

    def hanging(_: QuietHandler) -> None:
        hung.set()
        over.wait(60)

    with serving(hanging) as slow, serving() as fine:
        hooks = hooks_of([slow.url, *[fine.url] * 9])
        deliverer = Dispatcher(path, hooks, {})
        deliverer.start()
        recorded(path, *map(event, range(1, 11)), hooks=hooks, now_ns=time.time_ns())
        deliverer.wake()
        until(lambda: len(fine.hits) == 90)
        assert hung.is_set()
        assert len(slow.hits) == 1
        until(lambda: len(deliverer.results()) == 9)
        until(lambda: sum(deliverer.results().values()) == 90)
        assert deliverer.close(6.0)  # The hung receiver would take for ever.
        over.set()
        with Outbox.open(path) as outbox:
            found = {each.name: (each.pending, each.delivered) for each in outbox.endpoints()}
        assert found == {"0": (10, 0)} | {str(number): (0, 10) for number in range(1, 10)}

    with serving() as back:
        later = Dispatcher(path, hooks_of([back.url]), {})
        later.start()
        until(lambda: len(back.hits) == 10)
        assert later.close(5.0)


class Broken:
    """A network with one part that raises an unexpected error."""

    async def send(self, request: WebhookRequest) -> EndpointResponse:
        """Raise, or accept."""
        if request.url.endswith("/0"):
            raise ValueError("what nobody thought of")
        return EndpointResponse(204)


def test_an_error_of_our_own_stops_no_other_endpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """P15: it is logged and counted, and the event waits."""
    path, hooks = tmp_path / "gates.db", hooks_of([f"http://a/{number}" for number in range(2)])
    recorded(path, event(1), event(2), hooks=hooks, now_ns=time.time_ns())
    deliverer = Dispatcher(path, hooks, {}, Broken())
    deliverer.start()
    until(lambda: deliverer.results() == {("0", "error"): 1, ("1", "delivered"): 2})
    assert deliverer.close(5.0)
    assert "what nobody thought of" in caplog.text
    with Outbox.open(path) as outbox:
        assert outbox.endpoint("0").pending == 2


# Delivers until it is killed.
DELIVERING = """
import sys, time
from pathlib import Path
from random import Random
from looptrace.collector.webhooks.dispatcher import Dispatcher
from tests.reliability.test_webhook_network import hooks_of
from tests.http_threads import QuietHandler
deliverer = Dispatcher(Path(sys.argv[1]), hooks_of([sys.argv[2]]), {})
deliverer.start()
time.sleep(60)
"""


def has_received(server: Server, count: int) -> bool:
    """Return whether this many different events have come."""
    return len({name for _, name in server.hits}) >= count


def test_sigkill_loses_no_event(tmp_path: Path) -> None:
    """P11: a real process, killed in the middle of its work; each kill costs one copy at most."""
    path = tmp_path / "gates.db"
    with serving() as server:
        hooks = hooks_of([server.url])
        recorded(path, *map(event, range(1, KILLED_EVENTS + 1)), hooks=hooks, now_ns=time.time_ns())
        kills = 0
        while not has_received(server, KILLED_EVENTS):
            some = len(server.hits) + Random(kills).randint(1, 2 * KILLED_EVENTS // KILLS)
            process = Forked(["-c", DELIVERING, str(path), server.url])
            try:
                until(partial(has_received, server, min(some, KILLED_EVENTS)))
            finally:
                process.kill()
                process.wait()
            kills += 1
    assert kills >= KILLS // 2
    assert KILLED_EVENTS <= len(server.hits) <= KILLED_EVENTS + kills


def test_a_deliverer_that_has_nothing_to_do_stops_at_once(tmp_path: Path) -> None:
    """P25: whether it was started or not, and also twice."""
    path = tmp_path / "gates.db"
    with GateStore.open(path):
        pass  # The dispatcher makes no store.
    idle = Dispatcher(path, hooks_of(["http://127.0.0.1:9/"]), {})
    assert idle.close(5.0)
    idle.start()
    idle.wake()
    assert idle.close(5.0)
    assert idle.close(5.0)
    idle.wake()
    del idle
    gc.collect()  # An event loop that was left open would be warned of here, which fails the test.


def test_an_answer_is_shown_without_secrets() -> None:
    """P17: a receiver may send back the secret that it was given, and people see what it said."""

    def echo(request: QuietHandler) -> None:
        body = b"denied: Authorization: Bearer 0123456789abcdef0123"
        request.send_response(403)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    with serving(echo) as receiver:
        answer = send(to(receiver.url))

    assert "0123456789abcdef0123" not in answer.text
    assert answer.text.startswith("denied: Authorization: Bearer [redacted:")
