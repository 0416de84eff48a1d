"""Parts of a work as tasks of a Ray cluster, instead of processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Self, TypeVar

from looptrace.errors import InstallError, UnavailableError

T = TypeVar("T")
R = TypeVar("R")

# A task whose worker was killed is run again so often; it only reads.
RETRIES_MAX = 5


class RayCluster:
    """A cluster at an address, or one that is started here and ends with the context."""

    are_local = False  # What they take is worth their start, for it was asked for.

    def __init__(self, address: str | None = None) -> None:
        self.jobs = 0
        self._address = address
        self._ray: Any = None

    def __enter__(self) -> Self:
        """Join the cluster.

        Raises:
            InstallError: if Ray is not installed.
            UnavailableError: if there is no cluster at the address.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray: Any = import_module("ray")
        except ImportError as error:
            raise InstallError("--engine ray needs looptrace[ray]; install it first.") from error
        here = {} if self._address else {"include_dashboard": False}
        try:
            ray.init(self._address, log_to_driver=False, configure_logging=False, **here)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UnavailableError(
                f"there is no Ray cluster at {self._address or 'this machine'}: {error}"
            ) from error
        self._ray = ray
        self.jobs = max(1, int(ray.cluster_resources().get("CPU", 1)))
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._ray is not None:
            self._ray.shutdown()

    def map(self, work: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        """Yield what `work`, a function of a module, makes of each part, in the order of parts.

        Raises:
            UnavailableError: if a worker was killed again and again.
        """
        ray = self._ray
        task = ray.remote(work).options(max_retries=RETRIES_MAX)
        results = [task.remote(part) for part in parts]
        try:
            for result in results:
                yield ray.get(result)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise UnavailableError(
                f"a task of the Ray cluster was ended {RETRIES_MAX + 1} times: {error}"
            ) from error
