"""What the tests of servers share."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.reliability.watching import Watch, Watched, watched


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Return a function that serves with webhooks of these formats, until the test ends."""
    with ExitStack() as ends:

        def start(*forms: str, more: str = "") -> Watched:
            return ends.enter_context(watched(tmp_path, monkeypatch, *forms, more=more))

        yield start


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with an authority, and a server's and a client's certificate of it."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(*new, "-x509", "-subj", "/CN=test", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for name in ("server", "client"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        authority = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", *authority, "-out", f"{name}.pem")
    return folder
