"""The key of a store's content hashes."""

import logging
import os
import secrets
from pathlib import Path

from looptrace.analyzer.text.digests import digest
from looptrace.collector.content.redaction import KEY_BYTES
from looptrace.collector.store.layout import read_evaluated, write_evaluated
from looptrace.collector.store.locks import NAME, StoreError
from looptrace.collector.store.sqlite_file import is_read_only

_KEY_FILE = f"{NAME}.key"
_logger = logging.getLogger(__name__)


_LOST = (
    "texts that were stored as hashes are no longer the same as new ones, so that a loop with "
    "turns of both is not found, and links in earlier messages and sign-ins to the page end"
)


def content_key(store_dir: Path) -> bytes:
    """Return the key of a store's hashes; the first call draws it, and also where it was lost.

    Where nothing can be written, each call draws another one.
    """
    path, noted = store_dir / _KEY_FILE, read_evaluated(store_dir)
    is_fixed = is_read_only(store_dir)
    try:
        if not path.exists():
            if is_fixed:
                return secrets.token_bytes(KEY_BYTES)
            _draw_key(path)
            if noted.key:
                _logger.warning("%s: was lost, and a new one is drawn; %s.", path, _LOST)
            noted = noted._replace(key="")
        key = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be used ({error.strerror}); check permissions."
        ) from error
    if len(key) != KEY_BYTES or noted.key not in ("", digest(key)):
        raise StoreError(
            f"{path}: is not the key of this store; put the right one back, or move it away: "
            f"then a new one is drawn, and {_LOST}."
        )
    if not noted.key and not is_fixed:
        write_evaluated(store_dir, noted._replace(key=digest(key)))
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
