"""`looptrace`, or other code, as forks of one process; imports are most of the time of a start.

That process begins with the first command and ends with the tests. It has imported what a server
needs, and found a loop without Polars, whose pool would not live through a fork: the core has its
patterns then, which each server would compile anew. A fork has its own environment, input and
output, and ends as an interpreter does.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages
from typing import IO

from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.analyzer.schema.spans import NO_ITEMS, STATUS_ERROR
from tests.paths import ROOT

_MESSAGE_BYTES_MAX = 1 << 20
_ENDED_S = 30.0
# What a server imports: its commands, and what lies behind them.
_PACKAGES = (
    "looptrace.rules",
    *(f"looptrace.collector.{part}" for part in ("server", "store", "page", "erasure")),
)
_MODULES = ("looptrace.cli.main", "looptrace.cli.services.serve", "uvicorn")


class Forked:
    """A process with what tests use of `subprocess.Popen`.

    Its arguments are those of `looptrace`, or `-c`, a program, and what that finds in `sys.argv`.
    """

    def __init__(self, arguments: Sequence[str], errors: int = 2) -> None:
        read, write = os.pipe()
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with _lock:
            message = json.dumps([[*arguments], dict(os.environ)]).encode()
            socket.send_fds(_parent(), [message], [theirs.fileno(), 0, write, errors])
        os.close(write)
        theirs.close()
        self.stdout: IO[str] = os.fdopen(read, encoding="utf-8")
        self.pid = int(self._end.recv(_MESSAGE_BYTES_MAX))
        self.returncode: int | None = None
        self._asking = threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit code; that of a signal is negative."""
        # Another thread may ask, too, and only one of them hears of the end.
        if not self._asking.acquire(timeout=-1 if timeout is None else timeout):
            raise subprocess.TimeoutExpired(f"looptrace, as {self.pid}", timeout or 0)
        try:
            if self.returncode is None:
                self._end.settimeout(timeout)
                self.returncode = int(self._end.recv(_MESSAGE_BYTES_MAX))
                self._end.close()
                self.stdout.close()
            return self.returncode
        except (TimeoutError, BlockingIOError):
            raise subprocess.TimeoutExpired(f"looptrace, as {self.pid}", timeout or 0) from None
        finally:
            self._asking.release()

    def rest(self) -> str:
        """Return what it still prints until it ends."""
        printed = self.stdout.read()
        self.wait()
        return printed

    def poll(self) -> int | None:
        """Return the exit code, or nothing while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, number: int) -> None:
        """Send a signal, where it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it without a warning."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """End it as a service manager does."""
        self.send_signal(signal.SIGTERM)


_lock = threading.Lock()
_parents: dict[int, socket.socket] = {}  # by the process of the tests, which may fork, too


def _parent() -> socket.socket:
    """Return the connection to the process that forks; it is started for the first."""
    if os.getpid() not in _parents:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = theirs.fileno()
        command = [sys.executable, "-m", "tests.reliability.forked", str(number)]
        process = subprocess.Popen(command, pass_fds=[number], cwd=ROOT)
        theirs.close()
        _parents[os.getpid()] = ours

        def end() -> None:
            ours.close()
            process.wait(_ENDED_S)

        atexit.register(end)
    return _parents[os.getpid()]


def _fork(control: socket.socket) -> list[str]:
    """Fork for each message; return its arguments in the fork that is to run the command."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Keepers leave nothing behind.
    while True:
        data, files, _, _ = socket.recv_fds(control, _MESSAGE_BYTES_MAX, 4)
        if not data:  # The tests are over.
            sys.exit()
        arguments, environment = json.loads(data)
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            child = os.fork()
            if child:
                _keep(child, files)
            for number, file in enumerate(files[1:]):
                os.dup2(file, number)
            for file in files:
                os.close(file)
            # The old ones may know of their files what does not hold for these.
            sys.stdin, sys.stdout, sys.stderr = (
                open(number, mode, 1, encoding="utf-8", closefd=False)  # noqa: SIM115
                for number, mode in enumerate("rww")
            )
            os.environ.clear()
            os.environ.update(environment)
            return list(arguments)
        for file in files:
            os.close(file)


def _keep(child: int, files: Sequence[int]) -> None:
    """Say who runs the command, and how that ended; never returns."""
    for file in files[1:]:
        os.close(file)
    with socket.socket(fileno=files[0]) as said:
        said.sendall(str(child).encode())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with suppress(BrokenPipeError):  # Nobody waits for it.
            said.sendall(str(code).encode())
    os._exit(0)


def _import() -> None:
    for name in (*_MODULES, *_PACKAGES):
        import_module(name)
    for name in _PACKAGES:
        for module in walk_packages(sys.modules[name].__path__, f"{name}."):
            import_module(module.name)


def _find_a_loop() -> None:
    failed = {"gen_ai.tool.name": "run_tests", "gen_ai.tool.call.result": "Error: 1 failed"}
    said = (None, "agent", None, json.dumps(failed), NO_ITEMS, NO_ITEMS)
    spans = [
        ("1", str(n), None, "execute_tool run_tests", n, n, STATUS_ERROR, *said) for n in range(6)
    ]
    live = LiveSpans()
    live.take_rows(spans)
    if not live.engine.findings():
        raise RuntimeError("six failures are no loop, so that the core was not used")


if __name__ == "__main__":
    _import()
    _find_a_loop()
    if threading.active_count() > 1:
        raise RuntimeError("a thread has started, which does not live through a fork")
    with socket.socket(fileno=int(sys.argv[1])) as messages:
        given = _fork(messages)
    if given[0] == "-c":
        sys.argv = ["-c", *given[2:]]
        exec(given[1], {"__name__": "__main__"})  # noqa: S102 - of a test
    else:
        from looptrace.__main__ import main

        sys.argv = ["looptrace", *given]
        main()
