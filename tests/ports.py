"""Ports of this machine: free ones for servers, and one at which nobody answers."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

HOST = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses, all different."""
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in opened]


@contextmanager
def closed_port() -> Iterator[int]:
    """Hold a port at which nobody listens; yields it."""
    with socket.socket() as closed:
        closed.bind((HOST, 0))
        yield closed.getsockname()[1]
