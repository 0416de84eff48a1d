"""A proxy before the S3 server of the tests, which counts requests and does what networks do."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from threading import Lock
from urllib.parse import urlsplit

from tests.http_threads import QuietHandler, answering
from tests.ports import HOST

# What an answer becomes, by the method and path of its request: None ends the connection.
Change = Callable[[str, str, bytes], bytes | None]


class Proxy(ThreadingHTTPServer):
    """A proxy of one server; what it does to answers can be changed while it runs."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__((HOST, 0), _Handler)
        self.upstream = urlsplit(upstream).netloc
        # Azure's has the account in its path.
        self.endpoint = f"http://{HOST}:{self.server_port}{urlsplit(upstream).path}"
        self.requests: Counter[str] = Counter()
        self.change: Change = lambda _method, _path, body: body
        self.ignores_conditions = False
        self.lock = Lock()

    def handle_error(self, *_: object) -> None:
        """Stay silent: clients are killed in the middle."""


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _forward(self) -> None:
        body = self.body()
        headers = dict(self.headers.items())
        if self.server.ignores_conditions:
            headers = {n: v for n, v in headers.items() if not n.lower().startswith("if-")}
        connection = HTTPConnection(self.server.upstream)
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        with self.server.lock:
            self.server.requests[_kind(self.command, self.path)] += 1
        changed = self.server.change(self.command, self.path, content)
        if changed is None:
            self.close_connection = True
            return
        own = ("content-length", "connection", "transfer-encoding")
        kept = {n: value for n, value in answer.getheaders() if n.lower() not in own}
        self.answer(answer.status, changed, kept)

    do_GET = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815 - the names of http.server


@contextmanager
def proxy_of(upstream: str) -> Iterator[Proxy]:
    """Run a proxy of a server until the context ends."""
    with answering(Proxy(upstream)) as proxy:
        yield proxy


def _kind(method: str, path: str) -> str:
    return "LIST" if method == "GET" and "list-type=" in path else method
