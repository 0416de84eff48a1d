"""The destination of received spans."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import polars as pl

from looptrace.errors import UnavailableError

# Commits spans (`SPAN_SCHEMA`); returns when they are on disk. Raises SinkFull if there is no room
# now, and StoreError if they cannot be written.
Sink: TypeAlias = Callable[[pl.DataFrame], Awaitable[None]]


class SinkFull(UnavailableError):  # noqa: N818 - it says that a sink is full
    """There is no room now; the sender should try again after `retry_after_s`."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"no room now, try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s
