"""A thread that asks a store what loops cost and what helped, so that no reader of metrics waits.

The answers need all findings and turns, in DuckDB. They are asked for again after somebody has read
them and the store has changed.
"""

import logging
import threading
import time
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from looptrace import queries
from looptrace.analyzer.detect.prices import Prices
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.sql.connection import QueryError, ask_each
from looptrace.collector.worker import Worker

_logger = logging.getLogger(__name__)

COSTS, HELP = "loop_cost_by_day", "interventions"
# Asking may take this share of the time, and comes after the first answer at most once a second.
_SHARE_MAX, _LOOK_EVERY_S = 0.05, 1.0
_SOONER_OR_LATER_S = 3_600.0

Rows = Sequence[Mapping[str, Any]]


class LoopAnswers:
    """The rows of the queries COSTS and HELP.

    Where the store cannot be read, they are those of the last time.
    """

    def __init__(
        self, store_dir: Path, version: Callable[[], Hashable], prices: Prices | None
    ) -> None:
        """Ask a store, of whose findings there is a `version`."""
        self._dir, self._version, self._prices = store_dir, version, prices
        self._rows: Mapping[str, Rows] = {}
        self._rows_of: Hashable = None
        self._is_read = False
        self._lock = threading.Lock()
        self._worker = Worker("looptrace-costs", self._run)
        self.start, self.close = self._worker.start, self._worker.close

    def rows(self, query: str) -> Rows | None:
        """Return the last answer, None before the first, and have it asked for again."""
        if not self._is_read:
            self._is_read = True
            self._worker.wake()
        return self._rows.get(query)

    def look(self) -> None:
        """Ask, if the store has changed since the last answer."""
        with self._lock:
            self._is_read = False
            version = self._version()
            if version == self._rows_of:
                return
            self._rows_of = version
            every = {name: queries.load(name).sql for name in (COSTS, HELP)}
            try:
                self._rows = ask_each(self._dir, every, self._prices)
            except (StoreError, QueryError) as error:
                _logger.warning("%s", error)

    def _run(self) -> Generator[float, None, None]:
        while not self._worker.is_closing:
            began_s = time.monotonic()
            if self._is_read:
                self.look()
            took_s = time.monotonic() - began_s
            self._worker.pause(max(_LOOK_EVERY_S, took_s * (1 / _SHARE_MAX - 1)))
            yield 0.0 if self._is_read else _SOONER_OR_LATER_S
