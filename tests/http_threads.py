"""Servers of `http.server` that answer in a thread of the test's process."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer
from threading import Thread
from typing import TypeVar

S = TypeVar("S", bound=BaseServer)
END_S = 0.01  # By default a server looks for its end twice a second, and each test waits for that.


class QuietHandler(BaseHTTPRequestHandler):
    """Reads and answers requests, and writes no line for each."""

    def log_message(self, *_: object) -> None:
        """Write nothing."""

    def body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("content-length", "0")))

    def answer(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send an answer; a length among the headers stands for its own."""
        self.send_response(status)
        for name, value in ({"content-length": str(len(body))} | lowered(headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers whose names can be compared."""
    return {name.lower(): value for name, value in headers.items()}


@contextmanager
def answering(server: S) -> Iterator[S]:
    """Let a server answer until the context ends."""
    thread = Thread(target=server.serve_forever, args=(END_S,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
