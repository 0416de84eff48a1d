"""Ports of this machine: free ones for servers, and one at which nobody answers."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice

HOST = "127.0.0.1"
# Below those that the system gives to connections, and others in each process of the tests: nobody
# takes one before its server has begun, or while that one begins again.
_PROCESSES, _EACH = 100, 120
_FIRST = 20_000 + os.getpid() % _PROCESSES * _EACH
_ports = cycle(range(_FIRST, _FIRST + _EACH))


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses, all different."""
    return list(islice(filter(_is_free, _ports), count))


def _is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


@contextmanager
def closed_port() -> Iterator[int]:
    """Hold a port at which nobody listens; yields it."""
    with socket.socket() as closed:
        closed.bind((HOST, 0))
        yield closed.getsockname()[1]
