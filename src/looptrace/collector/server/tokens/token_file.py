"""The file of tokens: one a line, with the name, the role, the end and the services before it.

A token that `looptrace tokens add` made is there as its SHA-256, so that who reads the file cannot
use it: `Ada Lovelace role=decider until=2027-01-31 service=billing sha256:...`. One that a person
wrote may be there in full. A service's name is quoted as in an address, `%20` for a blank.
"""

import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, unquote

from looptrace.collector.server.tokens.roles import ROLES, Role
from looptrace.errors import InputError

TOKENS_VARIABLE = "LOOPTRACE_TOKENS"
HASHED = "sha256:"
# How the words of a line begin that are no part of the name.
FIELDS = ("role=", "until=", "service=")
_SERVICE = FIELDS[-1]
_TOKEN_BYTES = 32
_MODE = 0o600


class AccessError(InputError):
    """The server may not start like this; the message is one line that says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose a token is, what it allows, and the last day on which it is valid (UTC).

    With `services` it is for what is of these alone.
    """

    name: str = ""
    role: Role = "admin"
    until: date | None = None
    services: tuple[str, ...] = ()

    def is_valid(self, now_s: float) -> bool:
        """Return whether the token may be used at a moment, in seconds since 1970."""
        if self.until is None:
            return True
        end = datetime.combine(self.until + timedelta(days=1), datetime.min.time(), UTC)
        return now_s < end.timestamp()

    def __str__(self) -> str:
        until = f"until={self.until}" if self.until else ""
        services = (f"{_SERVICE}{quote(each, safe='')}" for each in self.services)
        return " ".join(filter(None, (self.name, f"role={self.role}", until, *services)))


def is_same(given: str, stored: str) -> bool:
    """Return whether a token is a stored one, in a time that reveals nothing."""
    data = given.encode("utf-8", "surrogateescape")
    if stored.startswith(HASHED):
        data = _hashed(data).encode()
    return hmac.compare_digest(data, stored.encode())


def read_tokens(file: Path | None, environ: Mapping[str, str]) -> dict[str, Holder]:
    """Return the holders of the tokens of a file, or else of those of the environment.

    The environment has tokens between blanks, which allow everything.

    Raises:
        AccessError: if the file cannot be read, holds none, or a line of it is wrong.
    """
    if file is None:
        return dict.fromkeys(environ.get(TOKENS_VARIABLE, "").split(), Holder())
    tokens = _read(file)
    if not tokens:
        raise AccessError(
            f"{file}: holds no token; add one with `looptrace tokens add --token-file {file}`."
        )
    return tokens


def add_token(file: Path, holder: Holder) -> str:
    """Add a new token to a file, which is made if it is not there; return the token.

    Raises:
        AccessError: if the file cannot be read or written, or has a token of that name.
    """
    tokens = _read(file) if file.exists() else {}
    if any(each.name == holder.name for each in tokens.values()):
        raise AccessError(f"{file}: has a token of {holder.name}; revoke it, or give another name.")
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    _write(file, {**tokens, _hashed(token.encode()): holder})
    return token


def revoke_token(file: Path, name: str) -> None:
    """Take the token of this name out of a file.

    Raises:
        AccessError: if the file cannot be read or written, or has none.
    """
    tokens = _read(file)
    kept = {token: holder for token, holder in tokens.items() if holder.name != name}
    if len(kept) == len(tokens):
        names = ", ".join(sorted(filter(None, (each.name for each in tokens.values())))) or "none"
        raise AccessError(f"{file}: has no token of {name}; there are: {names}.")
    _write(file, kept)


def _read(file: Path) -> dict[str, Holder]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise AccessError(
            f"{file}: the tokens cannot be read ({error.strerror}); check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise AccessError(f"{file}: the tokens cannot be read (it is not UTF-8).") from error
    tokens = {}
    for number, line in enumerate(lines, 1):
        *said, token = line.split() or [""]
        if token:
            tokens[token] = _holder(said, f"{file}:{number}")
    return tokens


def _holder(said: list[str], where: str) -> Holder:
    fields = [each for each in said if each.startswith(FIELDS)]
    given = dict(each.split("=", 1) for each in fields)
    name = " ".join(each for each in said if not each.startswith(FIELDS))
    services = tuple(unquote(each[len(_SERVICE) :]) for each in fields if each.startswith(_SERVICE))
    if not all(services):
        raise AccessError(f"{where}: service= names none; write service=billing.")
    role = next((each for each in ROLES if each == given.get("role", "admin")), None)
    if role is None:
        raise AccessError(f"{where}: role={given['role']} is not one of {', '.join(ROLES)}.")
    try:
        until = date.fromisoformat(given["until"]) if "until" in given else None
    except ValueError:
        raise AccessError(
            f"{where}: until={given['until']} is not a date, such as until=2027-01-31."
        ) from None
    return Holder(name, role, until, services)


def _write(file: Path, tokens: Mapping[str, Holder]) -> None:
    """Replace the file whole; only its holder may read it."""
    aside = file.with_name(f"{file.name}.tmp")
    try:
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
        with os.fdopen(handle, "w", encoding="utf-8") as new:
            new.writelines(f"{holder} {token}\n" for token, holder in tokens.items())
            new.flush()
            os.fsync(new.fileno())
        aside.replace(file)
    except OSError as error:
        raise AccessError(f"{file}: cannot be written ({error.strerror}).") from error


def _hashed(token: bytes) -> str:
    return HASHED + sha256(token).hexdigest()
