"""Azure's Blob Storage on loopback: Azurite, which Microsoft makes and npm installs.

It checks signatures and the conditions of puts, and keeps blobs on disk. Its telemetry is off.
"""

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path

from obstore.store import AzureStore

from tests.paths import ROOT
from tests.ports import HOST, free_ports
from tests.s3 import BUCKET

ACCOUNT = "looptrace"
KEY = base64.b64encode(b"not-a-secret-of-anyone").decode()
PROGRAM = ROOT / "build/azurite/node_modules/azurite/dist/src/blob/main.js"
_NODE = shutil.which("node")
WHY_NOT = None if _NODE and PROGRAM.is_file() else "Azurite is not installed: make azurite"
_VERSION = "2021-12-02"  # of the requests; any that Azurite knows
_STARTS_S = 60


@dataclass(frozen=True, slots=True)
class AzureServer:
    """A server that runs, and what a program needs to use it."""

    port: int
    scheme = "az"
    endpoint_variable = "AZURE_STORAGE_ENDPOINT"
    secret_variable = "AZURE_STORAGE_ACCOUNT_KEY"  # noqa: S105 - It is a name.

    @property
    def endpoint(self) -> str:
        """The address, which names the account, as that of Azure does in its host."""
        return f"http://{HOST}:{self.port}/{ACCOUNT}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that name the server and its credentials."""
        return {
            self.endpoint_variable: self.endpoint,
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            self.secret_variable: KEY,
        }

    def bucket(self, prefix: str | None = None) -> AzureStore:
        """Return the objects of the container, as another program sees them."""
        return AzureStore(
            BUCKET,
            prefix=prefix,
            endpoint=self.endpoint,
            account_name=ACCOUNT,
            account_key=KEY,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )


@contextmanager
def azure_server(folder: Path) -> Iterator[AzureServer]:
    """Run a server with one container, whose blobs are in a folder, until the context ends."""
    assert _NODE, WHY_NOT
    (port,) = free_ports(1)
    at = [f"--blobHost={HOST}", f"--blobPort={port}", f"--location={folder}"]
    command = [_NODE, str(PROGRAM), *at, "--silent", "--disableTelemetry"]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
        )
    server = AzureServer(port)
    try:
        _await(server, process, folder / "server.log")
        yield server
    finally:
        process.kill()
        process.wait()


def _await(server: AzureServer, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server has made the container."""
    ends_s = time.monotonic() + _STARTS_S
    while time.monotonic() < ends_s and process.poll() is None:
        try:
            status = _make_container(server)
        except OSError:
            time.sleep(0.05)
        else:
            assert status == HTTPStatus.CREATED, status
            return
    raise AssertionError(log.read_text(encoding="utf-8", errors="replace"))


def _make_container(server: AzureServer) -> int:
    """Ask for the container, which obstore cannot, signed with the key of the account."""
    date = formatdate(usegmt=True)
    headers = {"x-ms-date": date, "x-ms-version": _VERSION}
    signed = "\n".join(f"{name}:{value}" for name, value in headers.items())
    # Of the method, eleven headers that are empty, those of Azure, and what is asked for.
    blank = "\n" * 12
    text = f"PUT{blank}{signed}\n/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    signature = hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"
    connection = HTTPConnection(HOST, server.port)
    connection.request("PUT", f"/{ACCOUNT}/{BUCKET}?restype=container", headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status
