"""An erasure that a running server was asked for, which its next start does before all else.

A server holds what it works on in memory and in open files. So it notes the request in the store,
stops, and starts again: the new process erases while nobody else uses the store, and has never seen
what is forgotten. A kill between only postpones it to the next start.
"""

import logging
import secrets
import time
from pathlib import Path

import msgspec

from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.collector.api_bodies import Erasure
from looptrace.collector.erasure.choice import Wanted
from looptrace.collector.erasure.forgetting import forget, forget_in_copies
from looptrace.collector.store.layout import ERASURE_FILE, put_note, read_note
from looptrace.collector.store.locks import StoreError
from looptrace.errors import LooptraceError

_logger = logging.getLogger(__name__)

_ID_BYTES = 8


class _Noted(msgspec.Struct, frozen=True):
    """The note in the store.

    The name is in base64, so that the note is no place where the proof finds what it looks for, and
    goes when it is done.
    """

    erasure: Erasure
    name: bytes = b""


def ask(store_dir: Path, wanted: Wanted, who: str | None) -> Erasure:
    """Note what the next start of the server is to erase.

    Raises:
        StoreError: if another erasure waits, or the note cannot be written.
    """
    noted = _read(store_dir)
    if noted and noted.erasure.state == "asked":
        raise StoreError("another erasure waits for the server to start again; ask after it.")
    id_ = secrets.token_hex(_ID_BYTES)
    asked = Erasure(id_, "asked", wanted.kind, who, asked_ns=time.time_ns())
    put_note(store_dir / ERASURE_FILE, _Noted(asked, wanted.name.encode()))
    return asked


def asked_for(store_dir: Path, erasure_id: str) -> Erasure | None:
    """Return an erasure; None if it is not the last one."""
    noted = _read(store_dir)
    return noted.erasure if noted and noted.erasure.id == erasure_id else None


def carry_out(store_dir: Path, policy: DetectionPolicy) -> None:
    """Erase what a server was asked to, if anything; an error is noted, and ends nothing."""
    noted = _read(store_dir)
    if noted is None or noted.erasure.state != "asked":
        return
    asked, wanted = noted.erasure, Wanted(noted.erasure.kind, noted.name.decode())
    try:
        copies = forget_in_copies(store_dir, wanted, policy)
        rows = forget(store_dir, wanted, policy, asked.who).rows
    except LooptraceError as error:
        _logger.error("erasure %s failed: %s", asked.id, error)
        result = msgspec.structs.replace(asked, state="failed", error=str(error))
    else:
        _logger.warning("erasure %s is done, and nothing is left", asked.id)
        result = msgspec.structs.replace(asked, state="erased", rows=rows, copies=copies)
    put_note(store_dir / ERASURE_FILE, _Noted(result))


def _read(store_dir: Path) -> _Noted | None:
    return read_note(store_dir / ERASURE_FILE, _Noted, "delete it, and ask again")
