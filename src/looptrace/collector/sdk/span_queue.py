"""A bounded queue of spans with one consumer thread; it never blocks and never raises."""

import logging
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import TypeAlias

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.trace import ReadableSpan

from looptrace.collector.sdk.server_watch import ServerAwayError
from looptrace.collector.worker import Worker, after_fork
from looptrace.errors import LooptraceError

_logger = logging.getLogger(__name__)

# A span that ended, or a log record of a span.
Queued: TypeAlias = ReadableSpan | ReadableLogRecord
Take = Callable[[list[Queued]], None]


def warn_of(error: BaseException | None) -> None:
    """Log the first failure of looptrace in an agent; only one that it does not know needs more."""
    is_known = isinstance(error, LooptraceError)
    _logger.warning(
        "looptrace failed%s (further failures are counted)",
        f": {error}" if is_known else "",
        exc_info=None if is_known else error,
    )


class SpanQueue:
    """Passes spans to `take` in batches, on a thread of its own.

    A span is dropped, and counted by the reason, if the queue is full or closed, or if `take`
    fails. Every `report_s` the thread adds what `report` returns. It ends when the queue is closed
    or has no owner any more. In a forked process it starts again with an empty queue.
    """

    def __init__(
        self,
        take: Take,
        *,
        spans_max: int,
        batch_max: int,
        delay_s: float,
        stuck_s: float,
        report_s: float,
        report: Callable[[], Iterable[Queued]],
    ) -> None:
        self.taken = 0  # spans that `take` processed without failing
        self._dropped: Counter[str] = Counter()
        self._take = take
        self._spans_max = spans_max
        self._batch_max = batch_max
        self._delay_s = delay_s
        self._stuck_s = stuck_s
        self._report_s, self._report = report_s, report
        self._closed = False
        self._has_warned = False
        self._begin()
        after_fork(self._begin)

    def put(self, span: Queued) -> None:
        """Add a span or a log record, or drop and count it."""
        waiting = len(self._spans)
        if self._closed:
            self._drop("closed", 1)
        elif waiting >= self._spans_max:
            self._drop("queue_full", 1)
        else:
            self._spans.append(span)
            if waiting >= self._batch_max:
                self._worker.wake()

    @property
    def waiting(self) -> int:
        """How many spans are in the queue."""
        return len(self._spans)

    @property
    def dropped(self) -> dict[str, int]:
        """How many spans were dropped, by reason."""
        with self._counting:
            return dict(self._dropped)

    @property
    def failing(self) -> bool:
        """Whether the queue does not work reliably.

        The last batch failed, the current one takes too long, the queue is full, or the thread is
        dead although the queue was not closed.
        """
        if self._failed or self._closed:
            return self._failed
        began_s = self._began_s
        stuck = began_s is not None and time.monotonic() - began_s > self._stuck_s
        return stuck or len(self._spans) >= self._spans_max or not self._worker.is_alive

    def flush(self, timeout_s: float) -> bool:
        """Wait until the spans in the queue are processed; returns whether that was in time."""
        deadline = time.monotonic() + timeout_s
        self._worker.wake()
        with self._idle:
            while self._spans or self._began_s is not None:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not self._worker.is_alive:
                    return False
                self._worker.wake()
                self._idle.wait(min(left_s, self._delay_s))
        return True

    def close(self, timeout_s: float) -> bool:
        """Process the remaining spans for at most this time; drop the rest."""
        if self._closed:
            return True
        self._closed = True
        done = self.flush(timeout_s)
        self._drop("closed", len(self._spans))
        self._spans.clear()
        self._worker.close(0)
        return done

    def _begin(self) -> None:
        """Start with an empty queue: at first, and in a forked process, without the thread."""
        self._spans: deque[Queued] = deque()
        self._idle = threading.Condition()
        self._counting = threading.Lock()
        self._began_s: float | None = None  # when the current batch was taken
        self._failed = False  # whether the last batch failed
        self._reports_s = time.monotonic() + self._report_s  # when it reports next
        self._worker = Worker("looptrace", partial(_work, weakref.ref(self), self._delay_s))
        if not self._closed:
            self._worker.start()

    def _take_some(self) -> bool:
        """Process one batch; returns whether there may be more."""
        self._began_s = time.monotonic()
        batch: list[Queued] = []
        while self._spans and len(batch) < self._batch_max:
            batch.append(self._spans.popleft())
        try:
            if batch:
                self._take(batch)
                self.taken += len(batch)
                self._failed = False
        # No error of the consumer may reach the agent or end this thread; a panic of Polars, for
        # example, is not an Exception.
        except BaseException as error:
            if not self._has_warned and not isinstance(error, ServerAwayError):
                self._has_warned = True
                warn_of(error)
            self._failed = True
            self._drop("failed", len(batch))
        finally:
            with self._idle:
                self._began_s = None
                self._idle.notify_all()
        return bool(self._spans)

    def _add_reports(self) -> None:
        """Add what there is to report, if it is time; it may not be more than the limit."""
        if time.monotonic() < self._reports_s or self._closed:
            return
        self._reports_s = time.monotonic() + self._report_s
        try:
            for span in self._report():
                self.put(span)
        except Exception as error:  # Spans that end must be processed still.
            if not self._has_warned:
                self._has_warned = True
                warn_of(error)

    def _drop(self, reason: str, spans: int) -> None:
        """Count lost spans; the agent's threads may do so at the same time."""
        if not spans:
            return
        with self._counting:
            is_first = not self._dropped[reason]
            self._dropped[reason] += spans
        if is_first and reason == "queue_full":
            _logger.warning(
                "looptrace drops spans and cannot find loops in them: %d wait already; further "
                "ones are counted; raise the limit with QueueLimits(spans_max=…)",
                self._spans_max,
            )


def _work(queue: weakref.ref[SpanQueue], delay_s: float) -> Generator[float, None, None]:
    """Process batches while the queue exists; no reference here keeps it alive while it waits."""
    yield delay_s
    while (held := queue()) is not None:
        held._add_reports()
        while held._take_some():
            pass
        if held._closed:
            return
        del held
        yield delay_s
