"""What is promised of signatures, and that the receivers of the examples hold to them."""

import asyncio
import base64
import http.client
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO, Any

import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.webhooks.client import Http
from looptrace.collector.webhooks.endpoint_worker import receiver_of
from looptrace.collector.webhooks.signing import SecretError, key_of, signed
from tests.collector.store.test_outbox import event, opened
from tests.paths import ROOT
from tests.ports import free_ports
from tests.reliability.test_webhook_network import serving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105
OTHER = "whsec_" + base64.b64encode(b"another key of at least 24 bytes").decode()
EXAMPLES = ROOT / "examples" / "webhook_receiver"
BODY = b'{"test": 2432232314}'


def headers_of(body: bytes = BODY, at_s: int | None = None, *secrets: str) -> dict[str, str]:
    """Sign a body."""
    keys = [key_of(secret, "") for secret in secrets or (SECRET,)]
    return signed(keys, "msg_1", int(time.time()) if at_s is None else at_s, body)


def holds(body: bytes, headers: dict[str, str], secret: str = SECRET) -> bool:
    """Return whether the reference implementation verifies it."""
    try:
        Verifier(secret).verify(body, headers, json_parse=False)
    except (WebhookVerificationError, ValueError):  # Malformed headers raise the latter.
        return False
    return True


def test_the_signature_is_that_of_the_specification() -> None:
    """P13: the published example of Standard Webhooks comes out the same."""
    headers = signed([key_of(SECRET, "")], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, BODY)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_the_reference_implementation_verifies_what_is_sent() -> None:
    """P13: of a whole request, as a courier makes it, with text of every kind."""
    webhook = Webhook("a", "https://hooks.example/", secrets=("env:S",))
    receiver = receiver_of(webhook, {"S": SECRET})
    request = receiver.request(event(task="Straße 🚧", reason="«x»\n\x00"), time.time_ns())
    assert holds(request.body, dict(request.headers))
    assert request.headers["webhook-id"] == event().id


def test_two_secrets_sign_while_one_replaces_the_other() -> None:
    """P13: receivers with the old and with the new secret both verify, others do not."""
    headers = headers_of(BODY, None, OTHER, SECRET)
    assert headers["webhook-signature"].count("v1,") == 2
    assert holds(BODY, headers, SECRET)
    assert holds(BODY, headers, OTHER)
    third = "whsec_" + base64.b64encode(b"a third key that nobody signed with").decode()
    assert not holds(BODY, headers, third)


def flipped(data: bytes, chance: Random) -> bytes:
    """Flip one bit."""
    place, bit = chance.randrange(len(data)), 1 << chance.randrange(8)
    return data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]


@pytest.mark.parametrize("part", ["webhook-id", "webhook-timestamp", "body"])
def test_one_flipped_bit_breaks_the_signature(part: str) -> None:
    """P13: 300 flips of each signed part all fail."""
    chance = Random(part)
    for _ in range(300):
        body, headers = BODY, headers_of()
        if part == "body":
            body = flipped(body, chance)
        else:
            headers[part] = flipped(headers[part].encode(), chance).decode("latin-1")
        with suppress(UnicodeDecodeError):  # The reference wants text.
            assert not holds(body, headers)


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        ("hunter2hunter2hunter2hunter2hunter2hu", "is not base64"),
        ("whsec_####", "is not base64 after whsec_"),
        ("whsec_c2hvcnQ=", "must be whsec_ and 24 to 64 bytes"),
        ("whsec_" + base64.b64encode(b"x" * 65).decode(), "must be whsec_ and 24 to 64"),
        ("", "is empty or not set"),
    ],
)
def test_a_secret_that_is_none_is_named_and_not_quoted(secret: str, why: str) -> None:
    """P17: an error says where the secret should be, and never quotes the text there."""
    webhook = Webhook("a", "https://hooks.example/", secrets=("env:S",))
    with pytest.raises(SecretError, match=why) as caught:
        receiver_of(webhook, {"S": secret})
    assert str(caught.value).startswith("webhook 'a': env:S ")
    assert not secret or secret not in str(caught.value)


def test_what_is_ready_to_send_shows_no_secret(tmp_path: Path) -> None:
    """P17: neither in what is printed of it nor in an error about its address."""
    (tmp_path / "url").write_text("https://hooks.example/T0/hush\n")
    where = (f"file:{tmp_path / 'url'}", ("env:S",))
    receiver = receiver_of(Webhook("a", where[0], "slack", where[1]), {"S": SECRET})
    assert receiver.url == "https://hooks.example/T0/hush"
    assert repr(receiver) == str(receiver) == "Receiver('a')"
    (tmp_path / "url").write_text("http://hooks.example/T0/hush")
    with pytest.raises(SecretError, match="must begin with https") as caught:
        receiver_of(Webhook("a", where[0], "slack", where[1]), {"S": SECRET})
    assert "hush" not in str(caught.value)
    with pytest.raises(SecretError, match="cannot be read: No such file"):
        receiver_of(Webhook("a", f"file:{tmp_path / 'none'}", "slack"), {})


def test_no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """P17: not even where everything is logged, what is sent and what fails."""
    caplog.set_level(logging.DEBUG)
    with serving() as server:
        for url in (f"{server.url}hush-path", "http://127.0.0.1:9/hush-path"):
            webhook = Webhook("a", url, "pagerduty", ("env:K",), allow_private=("127.0.0.1",))
            receiver = receiver_of(webhook, {"K": "hush-key"})
            answer = asyncio.run(Http().send(receiver.request(opened(1), time.time_ns())))
            assert "hush" not in answer.error
        assert b"hush-key" in server.requests[0][0]
    assert caplog.text
    assert "hush" not in caplog.text


# --- The receivers of the examples ---------------------------------------------------------------


@dataclass
class Running:
    """A receiver in a process of its own."""

    port: int
    said: IO[bytes]

    def post(self, body: bytes, headers: dict[str, Any]) -> int:
        """Send a request; returns the status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", "/hook", body, headers)
            return connection.getresponse().status
        finally:
            connection.close()


COMMANDS = {"python": [sys.executable, "receiver.py"], "node": ["node", "receiver.mjs"]}


@pytest.fixture(params=sorted(COMMANDS))
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    """Start a receiver."""
    command = COMMANDS[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    (port,) = free_ports(1)
    with subprocess.Popen(
        [*command, str(port)],
        cwd=EXAMPLES,
        env=os.environ | {"LOOPTRACE_WEBHOOK_SECRET": SECRET},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        while True:
            with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), 30):
                break
            assert process.poll() is None
        yield Running(port, process.stdout)
        process.terminate()


MALFORMED = (
    *({"webhook-timestamp": at} for at in ("", "x", "1e9", "-1", "9" * 2_000, "²", "NaN", " ")),
    *({"webhook-signature": s} for s in ("", "v1", "v1,", "v1,%%%", ",", "v1,é", "v2,x v1a,y")),
    {"webhook-signature": "v1," * 2_000},
    {"webhook-signature": "v1," + "A" * 44},
    {"webhook-id": "é"},
    {"webhook-id": ""},
    {"webhook-id": "x" * 2_000},
)


def test_the_sample_receivers_verify(running: Running) -> None:
    """P13: what is signed is taken, also with a second signature; what is malformed is not.

    They go on after all of it.
    """
    assert running.post(BODY, headers_of(BODY, None, OTHER, SECRET)) == 204
    for number, wrong in enumerate(MALFORMED):
        headers: dict[str, Any] = {
            name: value.encode("utf-8") for name, value in (headers_of() | wrong).items()
        }
        assert running.post(BODY, headers) == 401, number
    for name in headers_of():
        assert running.post(BODY, {k: v for k, v in headers_of().items() if k != name}) == 401
    now = int(time.time())
    assert running.post(BODY, headers_of(BODY, now - 301)) == 401
    assert running.post(BODY, headers_of(BODY, now + 310)) == 401
    assert running.post(BODY, headers_of(BODY, now - 290)) == 204
    assert running.post(BODY + b" ", headers_of()) == 401
    assert running.post(BODY, headers_of(BODY, None, OTHER)) == 401
    assert running.post(BODY, headers_of()) == 204
    for _ in range(3):
        assert running.said.readline() == b"msg_1 " + BODY + b"\n"


def test_a_whole_request_reaches_the_sample_receivers(running: Running) -> None:
    """P13: end to end, with the request that a courier makes."""
    webhook = Webhook("a", "https://hooks.example/", secrets=("env:S",))
    request = receiver_of(webhook, {"S": SECRET}).request(event(task="Straße"), time.time_ns())
    assert running.post(request.body, dict(request.headers)) == 204
    assert running.said.readline() == event().id.encode() + b" " + request.body + b"\n"
