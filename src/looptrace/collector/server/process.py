"""What a server sets for its whole process: threads, collector, files and SIGHUP."""

import asyncio
import gc
import logging
import os
import signal
import ssl
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any, NoReturn

from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.settings.server_limits import Limits
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.collector.server.access import Access, check_tls
from looptrace.collector.server.grpc_certificates import GrpcCertificates
from looptrace.collector.server.tokens.token_file import Holder
from looptrace.errors import LooptraceError

if sys.platform != "win32":
    import resource

_logger = logging.getLogger(__name__)

_LAST_WORD_S = 0.1

# Request threads get the interpreter back after at most this long.
_SWITCH_S = 0.001
# The thresholds of the garbage collector. A look at all objects stops every thread, for 0.2 s with
# a few thousand tasks, and by default there is one every three seconds. Hardly any object is in a
# circle: 2,330 of 840,000 were garbage after a minute of 2,000 spans/s with the collector off.
_GC_THRESHOLDS = (5_000, 20, 100)


@contextmanager
def quick_to_answer() -> Iterator[None]:
    """Keep threads and the garbage collector from delaying answers."""
    switch_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.freeze()
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)
        gc.set_threshold(*thresholds)
        gc.unfreeze()  # Objects that are still frozen at the end of a process look like a leak.


def end_within(seconds: float) -> None:
    """End the process after so many seconds, whatever its threads do.

    The status is 0, as acknowledged spans are on disk: the next start goes on where this one ends.
    """

    def watch() -> None:
        time.sleep(seconds)
        # The reader of the logs may hang, too.
        last = "the stop took %.1f s, and was cut off; the next start does what is left"
        saying = Thread(target=_logger.warning, args=(last, seconds), daemon=True)
        saying.start()
        saying.join(_LAST_WORD_S)
        os._exit(0)

    Thread(target=watch, name="looptrace-end", daemon=True).start()


def end() -> NoReturn:
    """End the process with status 0, without freeing its memory in order, which takes seconds."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


def begin_again(*options: str) -> NoReturn:
    """Replace the process by one with the same command, which has nothing in memory.

    The options are added to it.
    """
    logging.shutdown()
    sys.stdout.flush()
    os.execv(sys.executable, [*sys.orig_argv, *options])  # noqa: S606 - It is the command that runs.


def allow_files(limits: Limits) -> Limits:
    """Raise the limit of open files to the most that the user allows.

    Return the limits with as many connections as half of the files; gRPC and the store have others.
    """
    if sys.platform == "win32":
        return limits
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    if files == resource.RLIM_INFINITY or files // 2 >= limits.connections_max:
        return limits
    why = "%s connections at once instead of %s: they are half of the files that may be open"
    _logger.warning(why, files // 2, limits.connections_max)
    return replace(limits, connections_max=max(1, files // 2))


@dataclass(slots=True)
class Reload:
    """Reads tokens, certificates and settings again on SIGHUP, and logs the result in one line.

    What cannot be read, or may not be, leaves in force what was.
    """

    access: Access
    settings: Settings  # in force
    read_tokens: Callable[[], Mapping[str, Holder]]
    read_settings: Callable[[], Settings]
    on_result: Callable[[str], None] = lambda _: None
    http: ssl.SSLContext | None = None
    grpc: GrpcCertificates | None = None
    client_ca: bytes = b""  # in force

    def on_signal(self) -> None:
        """Reload on SIGHUP from now on; without it the signal would end the process."""
        if self.access.client_ca_file:
            self.client_ca = self.access.client_ca_file.read_bytes()
        if sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self)

    def __call__(self) -> None:
        """Reload."""
        results = []
        for what, renew in (
            ("tokens", self._renew_tokens),
            ("certificates", self._renew_certificates),
            ("settings", self._compare_settings),
        ):
            try:
                results.append(renew())
            except (LooptraceError, OSError) as error:
                results.append(f"the {what} stay as they were: {error}")
        result = "; ".join(result.rstrip(".") for result in results)
        self.on_result(result)
        _logger.warning("SIGHUP: %s", result)

    def _renew_tokens(self) -> str:
        before = self.access.tokens
        self.access.renew(self.read_tokens())
        now = self.access.tokens
        first = (
            " (other servers get the earlier one until a restart)"
            if self.settings.shards.urls
            else ""
        )
        return f"{len(now)} tokens are valid" + (first if before[:1] != now[:1] else "")

    def _renew_certificates(self) -> str:
        if self.access.cert_file is None:
            return "there is no certificate"
        check_tls(self.access)
        if self.grpc:
            self.grpc.renew()
        if self.http:
            self.http.load_cert_chain(self.access.cert_file, self.access.key_file, password="")
        ca_file = self.access.client_ca_file
        is_other = ca_file is not None and ca_file.read_bytes() != self.client_ca
        needs = ", but --client-ca has changed, which needs a restart" if is_other else ""
        return f"new connections get the certificate as it is now{needs}"

    def _compare_settings(self) -> str:
        before, now = (
            dict(_values(tomllib.loads(toml_of(settings)), ""))
            for settings in (self.settings, self.read_settings())
        )
        names = sorted(k for k in before.keys() | now.keys() if before.get(k) != now.get(k))
        if not names:
            return "the settings are the same"
        return f"the settings stay as they were, and a restart applies {', '.join(names)}"


def _values(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    """Return the settings of a table with their full names; a list is one value."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _values(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
