"""Worker processes that share work on several cores."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Protocol, Self, TypeVar

from looptrace.errors import UnavailableError

T = TypeVar("T")
R = TypeVar("R")

_POLARS_THREADS = "POLARS_MAX_THREADS"


class Engine(Protocol):
    """An engine that does the parts of some work, like `map`, with results in their order."""

    def __call__(self, work: Callable[[T], R], parts: Iterable[T], /) -> Iterator[R]:
        """Yield the result of `work` for each part."""


class Processes:
    """A number of worker processes; they start with the first parts, and end with the context.

    They are spawned and not forked, because threads of Polars do not survive a fork. Neither they
    nor this process collect garbage meanwhile: the work makes millions of objects without reference
    cycles, and a search for cycles would take a tenth of the time.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._executor: ProcessPoolExecutor | None = None
        self._held: Connection | None = None  # Workers end when no process holds it any more.
        self._collects = False  # whether garbage collection was on before

    def __enter__(self) -> Self:
        """Begin; nothing is started yet."""
        self._collects = gc.isenabled()
        gc.disable()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the processes, after an error in the middle of their work."""
        if self._collects:
            gc.enable()
        if self._executor is None or self._held is None:
            return
        if kind is not None:
            self._held.close()
        self._executor.shutdown(wait=kind is None, cancel_futures=True)
        self._held.close()

    def map(self, work: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        """Yield the result of `work`, a function of a module, for each part, in their order.

        Raises:
            UnavailableError: if a process was killed.
        """
        before = os.environ.get(_POLARS_THREADS)
        os.environ[_POLARS_THREADS] = "1"  # Each process has one core for itself.
        try:
            results = [self._started().submit(work, part) for part in parts]
        finally:
            if before is None:
                del os.environ[_POLARS_THREADS]
            else:
                os.environ[_POLARS_THREADS] = before
        try:
            for result in results:
                yield result.result()
        except BrokenProcessPool as error:
            raise UnavailableError(
                "a worker process was killed, perhaps because the machine is short of memory; "
                "try fewer with --jobs, or --jobs 1."
            ) from error

    def _started(self) -> ProcessPoolExecutor:
        if self._executor is None:
            context = get_context("spawn")
            ends_with, self._held = context.Pipe(duplex=False)
            self._executor = ProcessPoolExecutor(self.jobs, context, _begin, (ends_with,))
        return self._executor


def cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin(ends_with: Connection) -> None:
    """Let this worker end when the process that started it ends, and not by Ctrl-C itself."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(ends_with,), daemon=True).start()


def _end_with(connection: Connection) -> None:
    connection.poll(None)  # Nothing is ever sent, so this returns when the other side is gone.
    os._exit(1)
