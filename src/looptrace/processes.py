"""Worker processes that share work on several cores."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
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
    """A number of processes, of which this one is the first; they end with the context.

    Others start with the first parts. They are spawned and not forked, because threads of Polars do
    not survive a fork. No process collects garbage meanwhile: the work makes millions of objects
    without reference cycles, and a search for cycles would take a tenth of the time.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._workers: ProcessPoolExecutor | None = None
        self._held: Connection | None = None  # Workers end when no process holds it any more.
        # Threads that each wait for a worker, so that a part that no worker has begun is free.
        self._feeders: ThreadPoolExecutor | None = None
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
        if self._workers is None or self._held is None or self._feeders is None:
            return
        if kind is not None:
            self._held.close()
        self._feeders.shutdown(wait=kind is None, cancel_futures=True)
        self._workers.shutdown(wait=kind is None, cancel_futures=True)
        self._held.close()

    def map(self, work: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        """Yield the result of `work`, a function of a module, for each part, in their order.

        This process does the last parts while the others do the first.

        Raises:
            UnavailableError: if a process was killed.
        """
        every = list(parts)
        if self.jobs == 1 or len(every) == 1:
            yield from map(work, every)
            return
        workers, feeders = self._started()
        results = [feeders.submit(lambda p: workers.submit(work, p).result(), p) for p in every]
        try:
            for place in range(len(every)):
                self._share(work, every, results, place)
                yield results[place].result()
        except BrokenProcessPool as error:
            raise UnavailableError(
                "a worker process was killed, perhaps because the machine is short of memory; "
                "try fewer with --jobs, or --jobs 1."
            ) from error

    @staticmethod
    def _share(
        work: Callable[[T], R], parts: list[T], results: list[Future[R]], place: int
    ) -> None:
        """Do parts that no worker has begun, from the last, until the result at a place exists."""
        for last in reversed(range(place, len(parts))):
            if results[place].done():
                return
            if results[last].cancel():
                results[last] = Future()
                results[last].set_result(work(parts[last]))

    def _started(self) -> tuple[ProcessPoolExecutor, ThreadPoolExecutor]:
        if self._workers is None or self._feeders is None:
            context = get_context("spawn")
            ends_with, self._held = context.Pipe(duplex=False)
            self._workers = ProcessPoolExecutor(self.jobs - 1, context, _begin, (ends_with,))
            self._feeders = ThreadPoolExecutor(self.jobs - 1)
        return self._workers, self._feeders


def cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin(ends_with: Connection) -> None:
    """Let this worker end when the process that started it ends, and not by Ctrl-C itself."""
    os.environ[_POLARS_THREADS] = "1"  # Each process has one core for itself.
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(ends_with,), daemon=True).start()


def _end_with(connection: Connection) -> None:
    connection.poll(None)  # Nothing is ever sent, so this returns when the other side is gone.
    os._exit(1)
