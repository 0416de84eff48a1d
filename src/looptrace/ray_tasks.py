"""Parts of some work as tasks of a running Ray cluster; looptrace starts none."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from typing import Any, Self, TypeVar

from looptrace import __version__
from looptrace.errors import InstallError, LooptraceError, UnavailableError

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Read when Ray is imported.

import ray
from ray.exceptions import RayError, RayTaskError

T = TypeVar("T")
R = TypeVar("R")

# A worker that ends early, for example for lack of memory, is replaced so many times.
RETRIES = 3
# Each task has one core for itself.
_ENVIRONMENT = {"env_vars": {"POLARS_MAX_THREADS": "1"}}


class RayTasks:
    """A connection to a cluster, for the tasks of one command."""

    def __init__(self, address: str | None) -> None:
        self._address = address or "auto"  # None: that of RAY_ADDRESS, or a cluster of this machine
        # Ray reports ended workers on standard output, where the report goes.
        self._told = redirect_stdout(sys.stderr)

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            UnavailableError: if no cluster answers.
        """
        try:
            ray.init(
                self._address,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                runtime_env=_ENVIRONMENT,
            )
        except (ConnectionError, RuntimeError, ValueError, RayError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise UnavailableError(
                f"no Ray cluster answers at {self._address} ({reason}); start one with `ray start "
                "--head`, or name one with --address."
            ) from error
        self._told.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the cluster; tasks that are not done are cancelled."""
        ray.shutdown()
        self._told.__exit__(None, None, None)

    def map(self, work: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        """Yield the result of `work` for each part, in the order of parts.

        Raises:
            LooptraceError: as `work` raises it on a worker.
            InstallError: if a worker has another looptrace, or none.
            UnavailableError: if a part has no result after all retries.
        """
        task: Any = ray.remote(max_retries=RETRIES, retry_exceptions=False)(_result)
        shared = ray.put(work)
        results = [task.remote(__version__, shared, part) for part in parts]
        for result in results:
            yield _awaited(result)


def _result(version: str, work: Callable[[T], R], part: T) -> R:
    """Work on one part, on a worker.

    Raises:
        InstallError: if the worker's version of looptrace is not that of the command.
    """
    if version != __version__:
        raise InstallError(
            f"a worker of Ray has looptrace {__version__}, and this is {version}; "
            "install the same on each machine."
        )
    return work(part)


def _awaited(result: ray.ObjectRef[R]) -> R:
    try:
        return ray.get(result)
    except RayTaskError as error:
        if isinstance(error.cause, LooptraceError):
            raise error.cause from None
        if isinstance(error.cause, ModuleNotFoundError):
            raise InstallError(
                f"a worker of Ray has no {error.cause.name}; "
                "install the same looptrace on each machine, with its plug-ins."
            ) from error
        raise
    except RayError as error:
        reason = str(error).strip().partition("\n")[0]
        raise UnavailableError(
            f"Ray gave up on a part after {RETRIES} retries ({reason}); "
            "look at the memory of its workers, then try again."
        ) from error
