"""Where the spans of a request go before the request is answered."""

from __future__ import annotations

from typing import Protocol

import polars as pl


class SinkFull(Exception):  # noqa: N818
    """There is no room for more spans now; `retry_after_s` says when there may be."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"there is no room for more spans; try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Sink(Protocol):
    """What keeps spans."""

    async def accept(self, spans: pl.DataFrame) -> None:
        """Commit spans (SPAN_SCHEMA); returns when they are on disk.

        Raises SinkFull, and StoreError when the disk fails.
        """
