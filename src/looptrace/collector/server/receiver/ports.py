"""The ports at which a server listens."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from looptrace.collector.server.receiver.http_receiver import BACKLOG
from looptrace.errors import InputError


class ServeError(InputError):
    """The server cannot start; the message is one line that says why and what to do."""


@contextmanager
def listening(host: str, port: int, option: str) -> Iterator[socket.socket]:
    """Open a port of HTTP, or of another use; `option` names it.

    Raises:
        ServeError: if it cannot be opened.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ServeError(port_error(host, port, option, error.strerror or str(error))) from error
    with listener:
        # asyncio sets it for sockets that name their protocol, which this one does not; without it
        # each answer on a connection that is kept waits 40 ms for the client.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


def port_error(host: str, port: int, option: str, reason: str) -> str:
    """Return why a port cannot be opened, and what to do."""
    reason = reason.partition(" (")[0]  # Python adds in brackets what it tried.
    return f"port {port} of {host} cannot be opened ({reason}); see --host and {option}."


def address_text(host: str, port: int) -> str:
    """Write `127.0.0.1:4318`, or `[::1]:4318`."""
    return f"{_bracketed(host)}:{port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
