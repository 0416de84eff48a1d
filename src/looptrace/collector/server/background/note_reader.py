"""A thread that reads people's notes before somebody waits for it.

Notes are compared by their words, and the words of a new one change all weights. That takes a
second or more, with the import of scikit-learn, so that no page waits for it. Detection goes first.
"""

import logging
from collections.abc import Callable, Generator
from pathlib import Path

from looptrace.collector.store import reader
from looptrace.collector.store.locks import StoreError
from looptrace.collector.worker import Worker

_logger = logging.getLogger(__name__)

# Notes that come together are read once.
_PAUSE_S = 1.0
_SOONER_OR_LATER_S = 3_600.0


class NoteReader:
    """A thread that reads the notes of a store when there are new ones."""

    def __init__(self, store_dir: Path, is_current: Callable[[], bool]) -> None:
        """Read the notes of a store once detection `is_current`, and when there are new ones."""
        self._dir = store_dir
        self._is_current = is_current
        self._worker = Worker("looptrace-notes", self._run)
        self.start, self.wake = self._worker.start, self._worker.wake
        self.close = self._worker.close

    def _run(self) -> Generator[float, None, None]:
        while not self._worker.pause(_PAUSE_S):
            if not self._is_current():
                continue
            try:
                with reader.open_gates(self._dir) as gates:
                    gates.read_notes()
            except StoreError as error:
                _logger.warning("%s", error)
            yield _SOONER_OR_LATER_S
