"""The destination of received spans."""

from typing import Protocol

import polars as pl

from looptrace.errors import UnavailableError


class SinkFull(UnavailableError):  # noqa: N818 - it says that a sink is full
    """There is no room now; the sender should try again after `retry_after_s`."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"no room now, try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Sink(Protocol):
    """Accepts spans, and keeps them."""

    async def accept(self, spans: pl.DataFrame) -> None:
        """Commit spans (`SPAN_SCHEMA`); returns when they are on disk.

        Raises:
            SinkFull: if there is no room now.
            StoreError: if they cannot be written.
        """
