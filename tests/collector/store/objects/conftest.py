from collections.abc import Iterator
from itertools import count

import pytest

from tests import azurite, s3
from tests.azurite import AzureServer, azure_server
from tests.s3 import BUCKET, S3Server, s3_server
from tests.s3_proxy import Proxy, proxy_of

_NUMBERS = count()


@pytest.fixture(scope="session", params=["s3", "az"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server | AzureServer]:
    """Run a server of each kind for all tests of this process."""
    if why_not := {"s3": s3.WHY_NOT, "az": azurite.WHY_NOT}[request.param]:
        pytest.skip(why_not)
    folder = tmp_path_factory.mktemp(request.param)
    with s3_server(folder) if request.param == "s3" else azure_server(folder) as running:
        yield running


@pytest.fixture
def s3_only(server: S3Server | AzureServer) -> S3Server:
    """Return the server of S3; skip where it is another one."""
    if not isinstance(server, S3Server):
        pytest.skip("What is tested is S3's own.")
    return server


@pytest.fixture(autouse=True)
def credentials(server: S3Server | AzureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the server and its credentials in the environment, as users do."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def proxy(server: S3Server | AzureServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Put a proxy between looptrace and the server."""
    with proxy_of(server.endpoint) as running:
        monkeypatch.setenv(server.endpoint_variable, running.endpoint)
        yield running


@pytest.fixture
def prefix() -> str:
    """Return where no other test has a store."""
    return f"store-{next(_NUMBERS)}"


@pytest.fixture
def url(server: S3Server | AzureServer, prefix: str) -> str:
    """Return the address of no store yet."""
    return f"{server.scheme}://{BUCKET}/{prefix}"
