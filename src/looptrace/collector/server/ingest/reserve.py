"""A reserve of space on the store's disk, so that a server starts and decides while it is full.

SQLite cannot even read a file without some space for its index beside it. So a file of zeros is
kept while there is room, and given up when the disk is full: gates can be read and resolved then,
and no span is accepted until the reserve is there again.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage

from looptrace.collector.store.locks import NAME

FILE_NAME = f"{NAME}.reserve"
# Enough for the indices of both SQLite files, and for some hundred decisions.
BYTES = 1 << 20


class Reserve:
    """The reserve of one store."""

    def __init__(self, store_dir: Path) -> None:
        """Keep the reserve, or give it up, so that there is room to open files."""
        self._path = store_dir / FILE_NAME
        with suppress(OSError):
            self.hold()

    def hold(self) -> None:
        """Keep the reserve if there is room for as much again.

        Raises:
            OSError: if there is none; then the reserve is given up.
        """
        bytes_more = BYTES if self._path.exists() else 2 * BYTES
        aside = self._path.with_name(f"{FILE_NAME}.tmp")
        try:
            # A look for room must not take, even for a moment, what is left for a decision.
            if disk_usage(self._path.parent).free < bytes_more:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with aside.open("wb") as file:
                file.write(bytes(bytes_more))
                file.flush()
                os.fsync(file.fileno())
                file.truncate(BYTES)
            aside.replace(self._path)
        except OSError:
            aside.unlink(missing_ok=True)
            self.give_up()
            raise

    def give_up(self) -> None:
        """Make its space free for what must be written now."""
        self._path.unlink(missing_ok=True)


def make_room(store_dir: Path) -> None:
    """Give up the reserve of a store on a full disk, so that there is room to open its files."""
    if (store_dir / FILE_NAME).exists():
        Reserve(store_dir)
