"""The spans of many requests, gathered into blocks by time and bytes for the sink.

Making, reducing and committing a table costs once for a block instead of once for each request.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import polars as pl

from looptrace.analyzer.settings.server_limits import Limits
from looptrace.collector.otlp.span_table import Block, joined_table
from looptrace.collector.server.receiver.sink import Sink, SinkFull
from looptrace.collector.store.locks import StoreError

_MS_PER_S = 1_000


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The spans of a request, their bytes, and the request that waits until they are on disk."""

    spans: Block
    size: int
    done: asyncio.Future[Exception | None]  # why they are not on disk


class Gatherer:
    """Gathers spans while the block before is committed, and for as long as the limits say."""

    def __init__(
        self,
        sink: Sink,
        limits: Limits,
        reduce_content: Callable[[pl.DataFrame], pl.DataFrame],
        threads: Executor,
    ) -> None:
        """Send blocks to `sink`, which are made and reduced on `threads`."""
        self._sink = sink
        self._limits = limits
        self._reduce_content = reduce_content
        self._threads = threads
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        self._is_full = asyncio.Event()  # belongs to the event loop that gathers
        self._work: asyncio.Task[None] | None = None

    async def commit(self, spans: Block, size: int) -> Exception | None:
        """Return when these spans are on disk with those of other requests, or why they are not.

        That is SinkFull if there is no room now, and StoreError if they cannot be written. An
        exception that is raised in each request that waits would keep the spans of all.
        """
        waiting = _Waiting(spans, size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._bytes += size
        if self._work is None:
            self._is_full = asyncio.Event()
            self._work = asyncio.create_task(self._gather())
        if self._bytes >= self._limits.block_bytes_max:
            self._is_full.set()
        return await waiting.done

    async def _gather(self) -> None:
        """Commit block after block until no request waits."""
        try:
            while self._waiting:
                await self._until_full()
                block, self._waiting = self._waiting, []
                self._bytes = 0
                self._is_full.clear()
                await self._bring(block)
        finally:
            self._work = None

    async def _until_full(self) -> None:
        try:
            async with asyncio.timeout(self._limits.block_ms / _MS_PER_S):
                await self._is_full.wait()
        except TimeoutError:
            return

    async def _bring(self, block: Sequence[_Waiting]) -> None:
        """Commit a block, and notify the waiting requests."""
        error = await self._error_of(block)
        if error is None or len(block) == 1 or isinstance(error, SinkFull | StoreError):
            _settle(block, error)
            return
        for each in block:  # An unreadable one costs only itself.
            await self._bring([each])

    async def _error_of(self, block: Sequence[_Waiting]) -> Exception | None:
        """Commit a block; return why that failed, without the frames that hold the block."""
        loop = asyncio.get_running_loop()
        try:
            spans = await loop.run_in_executor(self._threads, self._table, block)
            await self._sink(spans)
        except Exception as error:
            return error.with_traceback(None)
        return None

    def _table(self, block: Sequence[_Waiting]) -> pl.DataFrame:
        return self._reduce_content(joined_table([each.spans for each in block]))


def _settle(block: Sequence[_Waiting], error: Exception | None) -> None:
    for each in block:
        if each.done.done():  # The sender has gone.
            continue
        each.done.set_result(error)
