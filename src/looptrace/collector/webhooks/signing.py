"""Signatures and headers of Standard Webhooks, version 1, and reading of secrets."""

import base64
import binascii
import hmac
from collections.abc import Iterable, Mapping
from pathlib import Path

from looptrace.analyzer.settings.webhook import FILE, VARIABLE
from looptrace.errors import InputError

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_PREFIX = "whsec_"
# The bounds of the specification.
KEY_BYTES_MIN = 24
KEY_BYTES_MAX = 64
_FILE_BYTES_MAX = 4_096


class SecretError(InputError):
    """A secret cannot be used; the message is one line with its place, never the secret."""


def signed(keys: Iterable[bytes], event_id: str, at_s: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message: its id, the time of the try, and a signature by each key."""
    message = b".".join((event_id.encode(), str(at_s).encode(), body))
    signatures = [base64.b64encode(hmac.digest(key, message, "sha256")).decode() for key in keys]
    headers = {ID: event_id, TIMESTAMP: str(at_s)}
    return headers | ({SIGNATURE: " ".join(f"v1,{one}" for one in signatures)} if keys else {})


def secret_text(where: str, environment: Mapping[str, str]) -> str:
    """Return the content of a variable or a file, without white space around it."""
    if where.startswith(VARIABLE):
        text = environment.get(where.removeprefix(VARIABLE), "").strip()
    else:
        path = Path(where.removeprefix(FILE))
        try:
            with path.open("rb") as file:
                text = file.read(_FILE_BYTES_MAX).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise SecretError(f"{where} cannot be read: {why}.") from error
    if not text:
        raise SecretError(f"{where} is empty or not set.")
    return text


def key_of(text: str, where: str) -> bytes:
    """Return the key of a secret `whsec_...`.

    Raises:
        SecretError: if it is not a valid secret; the message does not quote it.
    """
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        raise SecretError(f"{where} is not base64 after {_PREFIX}.") from error
    if not text.startswith(_PREFIX) or not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise SecretError(
            f"{where} must be {_PREFIX} and {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes in base64, "
            "such as the output of: openssl rand -base64 32"
        )
    return key
