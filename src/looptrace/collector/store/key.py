"""The key of a store's content hashes."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from looptrace.collector.content.redaction import KEY_BYTES
from looptrace.collector.store.locks import NAME, StoreError

_KEY_FILE = f"{NAME}.key"


def content_key(store_dir: Path) -> bytes:
    """Return the key of a store's hashes; the first call draws it.

    Raises:
        StoreError: if it cannot be read or written.
    """
    path = store_dir / _KEY_FILE
    try:
        if not path.exists():
            _draw_key(path)
        key = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be used ({error.strerror}); check permissions."
        ) from error
    if len(key) != KEY_BYTES:
        raise StoreError(f"{path}: is not a key of looptrace; put the right one back.")
    return key


def _draw_key(path: Path) -> None:
    """Write a new key whole or not at all, and never over an existing one."""
    aside = path.with_name(f"{path.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(aside, path)
    except FileExistsError:
        pass  # Another process was first, and its key is as good.
    finally:
        aside.unlink()
