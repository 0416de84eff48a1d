"""Objects below an address on S3, Google Cloud Storage or Azure, with errors in one line.

obstore takes credentials and the address of a server from the environment, as other tools do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urlsplit

from looptrace.collector.store.locks import StoreError
from looptrace.errors import InstallError, UnavailableError
from looptrace.installation import how_to_install

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode, UpdateVersion
    from obstore.store import ClientConfig, RetryConfig


@dataclass(frozen=True, slots=True)
class _Cloud:
    """The variables of the environment by which obstore uses a kind of object storage."""

    credentials: str
    endpoints: Sequence[str]


_CLOUDS = {
    "s3": _Cloud(
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"),
    ),
    "gs": _Cloud("GOOGLE_APPLICATION_CREDENTIALS", ("GOOGLE_BASE_URL",)),
    "az": _Cloud(
        "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    ),
}

# A server that is away is reported within a minute, whether it refuses, hangs or ends midway.
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30
RETRIES = 4
RETRY_TIMEOUT_S = 30
# For a whole object: longer than the largest takes over a slow line.
_TIMEOUT_S = 3_600

_NAMES_A_LIST = 1_000
# The address of credentials on a machine in a cloud, used if the environment has none.
_MACHINE_CREDENTIALS = ("169.254.169.254", "/latest/api/token", "/computeMetadata/")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_MARKUP = re.compile(r"<[^>]*>")
_REASON_CHARS_MAX = 300


class Version(TypedDict):
    """The version of an object's content, in the terms of both kinds of servers."""

    e_tag: str | None
    version: str | None


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of an object, and the version on which its replacement is conditional."""

    content: bytes
    version: Version


@dataclass(frozen=True, slots=True)
class Listed:
    """An object in a list, with the time of its writing by the clock of the server."""

    name: str
    bytes: int
    written: datetime


def is_object_url(name: str | os.PathLike[str]) -> bool:
    """Return whether a name is the address of a store on object storage."""
    return isinstance(name, str) and "://" in name and urlsplit(name).scheme in _CLOUDS


class Objects:
    """The objects below an address such as `s3://bucket/prefix`."""

    def __init__(self, url: str) -> None:
        """Prepare to ask; nothing is sent yet.

        Raises:
            StoreError: if it is not the address of a bucket, or the environment cannot be right.
            InstallError: if the extra is not installed.
        """
        try:
            import obstore  # noqa: PLC0415 - Few have the extra.
            from obstore.store import from_url  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise InstallError(
                f"a store at {url} needs {error.name}, which is not installed; "
                f"install all it needs with: {how_to_install('objects')}"
            ) from error
        parts = urlsplit(url)
        if not parts.netloc or set("?#@") & set(url):
            raise StoreError(f"{url}: is not the address of a bucket, such as s3://bucket/prefix.")
        self.url = url.rstrip("/")
        self._obstore = obstore
        self._cloud = _CLOUDS[parts.scheme]
        try:
            self._store = from_url(
                self.url, client_options=_client_options(self._cloud), retry_config=_retry_config()
            )
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise StoreError(
                f"{self.url}: cannot be used as the environment is ({_reason(error)}); set "
                f"{self._cloud.credentials}, and check {self._cloud.endpoints[0]}."
            ) from error

    def get(self, name: str) -> Stored | None:
        """Return an object, or None."""
        with self._explained():
            try:
                result = self._obstore.get(self._store, name)
                return Stored(bytes(result.bytes()), _version(result.meta))
            except FileNotFoundError as error:
                if any(word in str(error) for word in _NO_BUCKET):
                    raise
                return None

    def parts(self, name: str) -> Iterator[bytes]:
        """Yield the content of an object, part by part."""
        with self._explained():
            for part in self._obstore.get(self._store, name).stream():
                yield bytes(part)

    def put(self, name: str, content: Path) -> None:
        """Write an object under a new name."""
        with self._explained():
            self._obstore.put(self._store, name, content)

    def put_if(self, name: str, content: bytes, version: Version | None) -> bool:
        """Write an object if it still has this version; None means that it does not exist.

        Returns whether it was written.
        """
        from obstore.exceptions import AlreadyExistsError, PreconditionError  # noqa: PLC0415

        with self._explained():
            try:
                mode = _mode(version)
                self._obstore.put(self._store, name, content, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                return False
            return True

    def list(self) -> Iterator[Listed]:
        """Yield all objects, while others may be written."""
        with self._explained():
            batches = self._obstore.list(self._store, chunk_size=_NAMES_A_LIST)
            for meta in (each for batch in batches for each in batch):
                yield Listed(meta["path"], meta["size"], meta["last_modified"])

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects, some of which may not exist."""
        if names:
            with self._explained():
                self._obstore.delete(self._store, names)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of objects into one line."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError  # noqa: PLC0415

        try:
            yield
        except FileNotFoundError as error:
            if any(word in str(error) for word in _NO_BUCKET):
                bucket = "/".join(self.url.split("/")[:3])
                raise StoreError(
                    f"{bucket}: there is no such bucket; make it, or mend its name, or the address "
                    f"of the server in the environment, such as {self._cloud.endpoints[0]}."
                ) from error
            raise StoreError(
                f"{self.url}: an object is gone ({_reason(error)}), as those are that were "
                "replaced a day ago; run the command again."
            ) from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise StoreError(
                f"{self.url}: access is refused ({_reason(error)}); check the credentials in the "
                f"environment, {self._cloud.credentials}, and that they may list, read and write."
            ) from error
        except (BaseError, ValueError) as error:
            if any(word in str(error) for word in _MACHINE_CREDENTIALS):
                raise StoreError(
                    f"{self.url}: there are no credentials; set {self._cloud.credentials}, or what "
                    "your cloud takes instead."
                ) from error
            raise UnavailableError(
                f"{self.url}: cannot be reached ({_reason(error)}); check the network, and the "
                f"address in the environment, such as {self._cloud.endpoints[0]}, then try again."
            ) from error


def _client_options(cloud: _Cloud) -> ClientConfig:
    addresses = {name: os.environ[name] for name in cloud.endpoints if os.environ.get(name)}
    for name, address in addresses.items():
        parts = urlsplit(address)
        is_web = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if not is_web or address.split() != [address]:  # The library would panic.
            raise ValueError(f"{name} is {address}, not an address such as http://127.0.0.1:9000")
    return {
        # The address asks for plain HTTP, for example of a server within one's own network.
        "allow_http": any(each.startswith("http://") for each in addresses.values()),
        "connect_timeout": timedelta(seconds=CONNECT_TIMEOUT_S),
        "read_timeout": timedelta(seconds=READ_TIMEOUT_S),
        "timeout": timedelta(seconds=_TIMEOUT_S),
    }


def _retry_config() -> RetryConfig:
    return {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_TIMEOUT_S)}


def _version(meta: ObjectMeta) -> Version:
    return {"e_tag": meta["e_tag"], "version": meta["version"]}


def _mode(version: Version | None) -> PutMode:
    if version is None:
        return "create"
    known: UpdateVersion = {}
    if version["e_tag"] is not None:
        known["e_tag"] = version["e_tag"]
    if version["version"] is not None:
        known["version"] = version["version"]
    return known


def _reason(error: BaseException) -> str:
    """Return the server's error code, else the words of the error without debugging details."""
    text = str(error).partition("\n\nDebug source")[0]
    if code := _CODE.search(text):
        return code[1]
    return " ".join(_MARKUP.sub(" ", text).split())[:_REASON_CHARS_MAX]
