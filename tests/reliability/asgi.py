"""Serves an ASGI app on a real port, within the test's process."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

END_S = 10.0


@contextmanager
def serving(app: Any, host: str = "127.0.0.1", port: int = 0, **options: Any) -> Iterator[int]:
    """Serve at a port, by default any, with these options of uvicorn; return the port."""
    config = uvicorn.Config(app, lifespan="off", log_level="debug", **options)
    config.load()
    server = uvicorn.Server(config)
    with socket.create_server((host, port)) as sock:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        try:
            yield sock.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(END_S)
