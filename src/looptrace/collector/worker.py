"""One thread with a lifetime: it is started, woken and closed, and says why it ended.

The standard library alone is imported here: the SDK runs its threads by this class, too.
"""

import logging
import os
import threading
import weakref
from collections.abc import Callable, Generator

_logger = logging.getLogger(__name__)

# A body yields after each step: the seconds until the next one, which a wake cuts short. One that
# returns None has done all of its work in one step.
WorkerBody = Callable[[], Generator[float, None, None] | None]


class Worker:
    """A daemon thread that takes step after step of a body, until it is closed.

    After `close` the body takes one more step, in which it may finish what is left. A body that
    holds its owner only weakly ends with it; a forked process needs a new worker (`after_fork`).
    """

    def __init__(self, name: str, body: WorkerBody, wake: threading.Event | None = None) -> None:
        """Prepare a thread of this name; who sets the event `wake` wakes it, too."""
        self.error: BaseException | None = None  # that ended the body
        self._body = body
        self._wake = wake or threading.Event()
        self._closing = threading.Event()
        self._ready = threading.Event()
        self._starter_waits = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> bool:
        """Start the thread, unless it was closed before; return whether it started."""
        if not self.is_closing:
            self._thread.start()
        return self._thread.ident is not None

    def start_ready(self) -> None:
        """Start the thread, and return after its first step; raises the error that ended it."""
        self._starter_waits = True
        self._thread.start()
        self._ready.wait()
        self._starter_waits = False
        if self.error is not None:
            raise self.error

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def is_closing(self) -> bool:
        """Whether it was closed; steps that take long should end then."""
        return self._closing.is_set()

    def wake(self) -> None:
        """Take the next step now; from any thread."""
        if not self._wake.is_set():
            self._wake.set()

    def pause(self, seconds: float) -> bool:
        """Wait within a step, however often it is woken; return whether it is closed."""
        return self._closing.wait(seconds)

    def close(self, timeout_s: float | None) -> bool:
        """Close, and wait for the end; return whether it came in time."""
        self._closing.set()
        self._wake.set()
        if self._thread.ident == threading.get_ident():
            return False  # It ends after this step.
        if self._thread.ident is not None:  # It was started.
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            steps = self._body()
            if steps is not None:
                self._take(steps)
        # The error ends the thread; its owner may ask for it, and the log names it.
        except BaseException as error:
            self.error = error
            if not self._starter_waits:
                _logger.exception("the thread %s ended", self._thread.name)
        finally:
            self._ready.set()

    def _take(self, steps: Generator[float, None, None]) -> None:
        is_last = False
        for wait_s in steps:
            self._ready.set()
            if is_last:
                break
            self._wake.wait(wait_s)
            # The order matters: `close` sets them the other way round.
            self._wake.clear()
            is_last = self._closing.is_set()
        steps.close()


def after_fork(method: Callable[[], None]) -> None:
    """Call a method in every process that is forked, as long as its owner is there."""
    held = weakref.WeakMethod(method)

    def begin() -> None:
        if bound := held():
            bound()

    os.register_at_fork(after_in_child=begin)
