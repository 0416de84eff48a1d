"""A command on a Ray cluster, some of whose workers fail."""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from typing import Any

from looptrace.__main__ import main
from looptrace.collector.store.reader import Bucket
from looptrace.ray_tasks import RayTasks

_MAP = RayTasks.map


@dataclass(frozen=True, slots=True)
class Failing:
    """Work that ends its worker before or after it does its part, as files in the folder say."""

    work: Callable[[Bucket], Any]
    folder: Path

    def __call__(self, bucket: Bucket) -> Any:
        """Note the process that begins a part, and do the part."""
        with (self.folder / f"begun-{bucket.number}").open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        self._end_if(f"before-{bucket.number}")
        result = self.work(bucket)
        self._end_if(f"after-{bucket.number}")
        return result

    def _end_if(self, name: str) -> None:
        once, always = self.folder / f"once-{name}", self.folder / f"always-{name}"
        if once.exists() or always.exists():
            once.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.SIGKILL)


def _map(
    tasks: RayTasks, work: Callable[[Any], Any], parts: Iterable[Any], folder: Path
) -> Iterator[Any]:
    return _MAP(tasks, Failing(work, folder), parts)


def run() -> None:
    """Run the command line of this process; its first argument is the folder."""
    RayTasks.map = partialmethod(_map, folder=Path(sys.argv.pop(1)))  # type: ignore[assignment]
    main()
