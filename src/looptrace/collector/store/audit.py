"""The audit log of a store: who decided, silenced, erased or changed what, one JSON object a line.

It only grows. A line is written before its action, so that no action lacks one; a kill between the
two leaves a line of an action that did not happen. It names gates and settings, and no
content: a thing that was erased is named by its hash.
"""

import os
import time
from pathlib import Path

import msgspec

from looptrace.analyzer.text.times import utc_ms
from looptrace.collector.store.layout import AUDIT_FILE
from looptrace.collector.store.locks import StoreError, sync_folder

_MODE = 0o600


def note(store_dir: Path, what: str, who: str | None, **about: str | int | None) -> None:
    """Add a line: what is done now, by whom (None: nobody said), and to what.

    Raises:
        StoreError: if it cannot be written; then nothing may be done.
    """
    line = {"time": utc_ms(time.time_ns()), "what": what, "who": who, **about}
    data = msgspec.json.encode(line) + b"\n"
    path = store_dir / AUDIT_FILE
    try:
        is_new = not path.exists()
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE)
        try:
            os.write(handle, data)  # One write, which the system puts behind those of others.
            os.fsync(handle)
        finally:
            os.close(handle)
        if is_new:
            sync_folder(store_dir)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror}), and nothing is done without a line in "
            "it; check space and permissions."
        ) from error
