"""A server of `http.server` that answers in a thread of the test's process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from threading import Thread
from typing import TypeVar

S = TypeVar("S", bound=BaseServer)
END_S = 0.01  # By default a server looks for its end twice a second, and each test waits for that.


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
