"""A command on a Ray cluster, some of whose workers fail: `python -m tests.cli.ray_faults`.

The first argument is a folder; `kill-N` or `late-N` in it says what happens to bucket N, once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looptrace.__main__ import main
from looptrace.collector.store.reader import Bucket
from looptrace.ray_tasks import RayTasks


@dataclass(frozen=True, slots=True)
class Failing:
    """Work that ends its worker once, before it does its part (`kill`) or after it (`late`)."""

    work: Callable[[Bucket], Any]
    folder: Path

    def __call__(self, bucket: Bucket) -> Any:
        """Note in `done` that the part was begun, and by which process."""
        with (self.folder / f"done-{bucket.number}").open("a") as file:
            file.write(f"{os.getpid()}\n")
        self._end_if(f"kill-{bucket.number}")
        result = self.work(bucket)
        self._end_if(f"late-{bucket.number}")
        return result

    def _end_if(self, name: str) -> None:
        if (self.folder / f"always-{name}").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            (self.folder / name).unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


class FailingTasks(RayTasks):
    """Tasks whose workers fail as the folder says."""

    def map(self, work: Callable[..., Any], parts: Iterable[Any]) -> Iterator[Any]:
        """Give out the work that fails."""
        return super().map(Failing(work, FOLDER), parts)


if __name__ == "__main__":
    FOLDER = Path(sys.argv.pop(1))
    # The class of this module's own name, which workers can import, unlike that of `__main__`.
    from tests.cli import ray_faults

    ray_faults.FOLDER = FOLDER  # type: ignore[attr-defined]
    import looptrace.ray_tasks

    looptrace.ray_tasks.RayTasks = ray_faults.FailingTasks  # type: ignore[misc]
    main()
