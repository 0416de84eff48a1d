"""Engines, which do the parts of some work, and what they have of the machine."""

import gc
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """An engine that does the parts of some work, like `map`, with results in their order."""

    def __call__(self, work: Callable[[T], R], parts: Iterable[T], /) -> Iterator[R]:
        """Yield the result of `work` for each part."""


def in_threads(work: Callable[[T], R], parts: Iterable[T], threads: int) -> Iterator[R]:
    """Yield the result of `work` for each part, in their order, of so many parts at a time.

    It is worth it where the work mostly is without the interpreter's lock. The next part is asked
    for when an earlier one is done, so that few are in memory.
    """
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[R]] = deque()
        for part in parts:
            waiting.append(pool.submit(work, part))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def uncollected() -> Iterator[None]:
    """Let no garbage be collected: long work makes objects without cycles of references."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
