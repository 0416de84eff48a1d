"""Whether the servers of an agent's process can be reached: one line when not, one when again.

The official exporters log each try, some with a traceback. What they log while they send spans for
looptrace is kept back and read for the reason; other exporters of the process log as before.
"""

import logging
import ssl
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal
from urllib.parse import urlsplit

from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.trace.export import SpanExporter

from looptrace.collector.client_tls import distrust
from looptrace.collector.worker import after_fork
from looptrace.errors import InputError, LooptraceError

_logger = logging.getLogger(__name__)

TOKEN_VARIABLE = "LOOPTRACE_TOKEN"  # noqa: S105 - the name of a variable
Use = Literal["spans", "gates"]
_REASON_CHARS_MAX = 300
_HINT = (
    f"set {TOKEN_VARIABLE} to a token that the server reads from --token-file or LOOPTRACE_TOKENS"
)


class ServerAwayError(LooptraceError, OSError):
    """Spans could not be sent; the watch has said so."""


class TokenError(InputError, OSError):
    """A server refuses the token, or asks for one."""

    def __init__(self, url: str, *, has_token: bool) -> None:
        wrong = "refuses this token" if has_token else "asks for a token"
        super().__init__(f"{url} {wrong}; {_HINT}.")
        self.reason = f"it {wrong}; {_HINT}"


@dataclass(slots=True)
class _Away:
    """A server that cannot be reached: since when, for what, and the spans that were lost."""

    url: str
    since_s: float
    uses: set[tuple[str, Use]]
    spans: int = 0


class ServerWatch:
    """Logs when a server is away, and when it is back; its ports are one server."""

    def __init__(self, *, fail_closed: bool) -> None:
        self._consequence = (
            "no step of this agent may begin until it is back (fail_closed)"
            if fail_closed
            else "this agent runs unwatched until it is back"
        )
        self._begin()
        after_fork(self._begin)

    def _begin(self) -> None:
        self._away: dict[str, _Away] = {}  # by host
        self._lock = threading.Lock()

    def lost(self, use: Use, url: str, reason: str, spans: int = 0) -> None:
        """Note that a server could not be reached for spans or gates."""
        host = urlsplit(url).hostname or url
        with self._lock:
            is_first = host not in self._away
            away = self._away.setdefault(host, _Away(url, time.time(), set()))
            away.uses.add((url, use))
            away.spans += spans
        if is_first:
            since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(away.since_s))
            _logger.warning(
                "the server at %s cannot be used since %s (%s): %s",
                *(url, since, reason[:_REASON_CHARS_MAX], self._consequence),
            )

    def reached(self, use: Use, url: str) -> None:
        """Note that a server was reached; it is back when it can be used for all again."""
        if not self._away:
            return
        host = urlsplit(url).hostname or url
        with self._lock:
            away = self._away.get(host)
            if away is None:
                return
            away.uses.discard((url, use))
            if away.uses:
                return
            del self._away[host]
        _logger.warning(
            "the server at %s is back after %.0f s, and watches this agent; "
            "%d spans of the meantime are lost",
            *(away.url, time.time() - away.since_s, away.spans),
        )


class ExportLog(logging.Filter):
    """Keeps back what exporters log on a thread that sends looptrace's spans."""

    def __init__(self) -> None:
        super().__init__()
        self._here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is for others; keep the own ones."""
        kept: list[logging.LogRecord] | None = getattr(self._here, "records", None)
        if kept is not None:
            kept.append(record)
        return kept is None

    @contextmanager
    def kept(self) -> Generator[list[logging.LogRecord], None, None]:
        """Keep the records of this thread back; yields them."""
        records: list[logging.LogRecord] = []
        self._here.records = records
        try:
            yield records
        finally:
            self._here.records = None

    def watch(self, exporter: SpanExporter | LogRecordExporter) -> None:
        """Also keep back what this kind of exporter logs."""
        for name in {kind.__module__ for kind in type(exporter).__mro__}:
            logger = logging.getLogger(name)
            if self not in logger.filters:
                # Before the exporter's own filter, which lets a text pass once a minute.
                logger.filters.insert(0, self)


EXPORT_LOG = ExportLog()


def reason_in(records: list[logging.LogRecord]) -> str:
    """Return why an export failed, from what the exporter logged of its tries."""
    for record in reversed(records):
        arguments = record.args if isinstance(record.args, tuple) else ()
        for argument in arguments:
            if reason := _reason_of(argument):
                # gRPC's logger names the details last.
                details = arguments[-1] if record.msg.endswith("etails: %s") else ""
                return f"{reason} {details}".strip()
        if record.msg.startswith("Transient error"):
            return str(arguments[0])
    return records[-1].getMessage() if records else "it did not say why"


def _reason_of(argument: object) -> str:
    if isinstance(argument, BaseException):
        return reason_of(argument)
    if type(argument) is int and argument >= HTTPStatus.BAD_REQUEST:
        hint = f"; {_HINT}" if argument == HTTPStatus.UNAUTHORIZED else ""
        return f"it answered {argument}{hint}"
    name = getattr(argument, "name", "") if type(argument).__name__ == "StatusCode" else ""
    return f"{name}; {_HINT};" if name == "UNAUTHENTICATED" else name


def reason_of(error: BaseException) -> str:
    """Return the first cause of an error in a few words."""
    if isinstance(error, TokenError):
        return error.reason
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        error = cause
        told = (*error.args, getattr(error, "reason", None))
        inner = [each for each in told if isinstance(each, BaseException)]
        cause = error.__cause__ or error.__context__ or (inner[0] if inner else None)
    if isinstance(error, ssl.SSLCertVerificationError):
        return distrust(error)
    strerror = getattr(error, "strerror", None)
    return strerror or str(error).partition("\n")[0] or type(error).__name__
