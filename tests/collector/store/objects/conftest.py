from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.s3 import BUCKET, WHY_NOT, S3Server, s3_server
from tests.s3_proxy import Proxy, proxy_of

_NUMBERS = count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Run an S3 server for all tests of this process."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(autouse=True)
def credentials(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the server and its credentials in the environment, as users do."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def proxy(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Put a proxy between looptrace and the server."""
    with proxy_of(server.endpoint) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
        yield running


@pytest.fixture
def prefix() -> str:
    """Return where no other test has a store."""
    return f"store-{next(_NUMBERS)}"


@pytest.fixture
def url(prefix: str) -> str:
    """Return the address of no store yet."""
    return f"s3://{BUCKET}/{prefix}"
