"""The one thread class of the package."""

import logging
import threading
from collections.abc import Generator

import pytest

from looptrace.collector.worker import Worker

LONG_S = 30.0


def test_closing_cuts_the_wait_short_and_leaves_one_more_step() -> None:
    """What came just before the end is still done, and a stop does not wait for the next round."""
    steps: list[bool] = []

    def body() -> Generator[float, None, None]:
        while True:
            steps.append(worker.is_closing)
            yield LONG_S

    worker = Worker("looptrace-test", body)
    worker.start_ready()

    assert worker.is_alive
    assert worker.close(LONG_S)
    assert steps == [False, True]
    assert not worker.is_alive


def test_a_wake_during_a_step_is_not_lost() -> None:
    """Work added during a step does not wait for the next round."""
    second = threading.Event()

    def body() -> Generator[float, None, None]:
        worker.wake()
        yield LONG_S
        second.set()
        yield LONG_S

    worker = Worker("looptrace-test", body)
    worker.start()

    assert second.wait(LONG_S)
    assert worker.close(LONG_S)


def test_the_body_is_closed_on_its_thread() -> None:
    """A body may hold locks and connections in `with`, which belong to the thread."""
    ended_on: list[str] = []

    def body() -> Generator[float, None, None]:
        try:
            while True:
                yield LONG_S
        finally:
            ended_on.append(threading.current_thread().name)

    worker = Worker("looptrace-test", body)
    worker.start_ready()

    assert worker.close(LONG_S)
    assert ended_on == ["looptrace-test"]


def test_an_error_reaches_the_starter_that_waits() -> None:
    """A part of the server that cannot begin must keep the server from starting."""

    def body() -> None:
        raise OSError("no store")

    worker = Worker("looptrace-test", body)

    with pytest.raises(OSError, match="no store"):
        worker.start_ready()
    assert isinstance(worker.error, OSError)


def test_an_error_later_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A dead thread is visible in the logs and in the readiness check."""

    def body() -> Generator[float, None, None]:
        yield 0.0
        raise OSError("disk gone")

    worker = Worker("looptrace-test", body)
    with caplog.at_level(logging.ERROR):
        worker.start()
        worker.wake()
        while worker.is_alive:
            threading.Event().wait(0.001)

    assert isinstance(worker.error, OSError)
    assert "looptrace-test ended" in caplog.text


def test_closing_what_never_started_takes_no_time() -> None:
    """A server that could not start closes all of its parts."""
    assert Worker("looptrace-test", lambda: None).close(LONG_S)


def test_what_was_closed_does_not_start() -> None:
    """Another thread may start it a moment after the end has begun."""
    steps: list[bool] = []

    def body() -> Generator[float, None, None]:
        steps.append(True)
        yield LONG_S

    worker = Worker("looptrace-test", body)
    worker.close(LONG_S)
    worker.start()

    assert worker.close(LONG_S)
    assert steps == []


def test_closing_within_a_step_does_not_wait_for_itself() -> None:
    """A callback on the thread may close its owner."""
    closed: list[bool] = []

    def body() -> None:
        closed.append(worker.close(LONG_S))

    worker = Worker("looptrace-test", body)
    worker.start_ready()

    assert closed == [False]
    assert worker.close(LONG_S)
