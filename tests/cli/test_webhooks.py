import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks import Webhook as Verifier

from looptrace.collector.store import layout, reader
from looptrace.collector.store.outbox import Outbox
from looptrace.installation import how_to_install
from tests.commands import run
from tests.paths import ROOT
from tests.reliability.test_webhook_network import Server, answering, serving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105
TRACE = ROOT / "examples/traces/nightly_migration_loop.jsonl"
PRIVATE = ("--allow-private", "127.0.0.1")


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set the secret, and stand in a folder with a trace."""
    monkeypatch.setenv("LOOPTRACE_WEBHOOK_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(TRACE, "trace.jsonl")


@pytest.fixture
def server() -> Iterator[Server]:
    """Run a receiver."""
    with serving() as found:
        yield found


def configured(url: str, more: str = "") -> None:
    """Write settings with one webhook."""
    Path("looptrace.toml").write_text(
        f'[[webhooks]]\nname = "ops"\nurl = "{url}"\nallow_private = ["127.0.0.1"]\n'
        f'secrets = ["env:LOOPTRACE_WEBHOOK_SECRET"]\n{more}',
        encoding="utf-8",
    )


def test_a_sample_is_signed_and_accepted(server: Server) -> None:
    """A new receiver is tried before the first loop."""
    result = run("webhooks", "test", server.url, *PRIVATE)
    assert (result.exit_code, result.stdout) == (0, "test: accepted (204)\n")
    assert len(server.hits) == 1
    assert server.hits[0][1].startswith("sample")
    body, headers = server.requests[0]
    Verifier(SECRET).verify(body, headers)
    assert "nothing loops" in json.loads(body)["data"]["reason"]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (("https://127.0.0.1/",), 1, "127.0.0.1 is not public; allow_private can name it"),
        (("http://hooks.example/",), 2, "http:// is only for networks that allow_private names"),
        (("https://hooks.example/", "--secret", "hush"), 2, "must name the place of each secret"),
        (("https://hooks.example/", "--secret", "env:NONE"), 2, "env:NONE is empty or not set."),
        (("opps",), 2, "there is no webhook 'opps'. Did you mean ops?"),
    ],
)
def test_what_cannot_be_sent_is_said_in_one_line(
    arguments: tuple[str, ...], exit_code: int, said: str
) -> None:
    """The line names what is wrong, and no secret."""
    configured("https://hooks.example/")
    result = run("webhooks", "test", *arguments)
    assert result.exit_code == exit_code
    assert said in result.output
    assert "hush" not in result.output.replace("--secret hush", "")


def test_a_receiver_that_refuses_is_shown_with_its_words() -> None:
    """Its answer to a sample helps to set it up."""
    with serving(answering(400)) as server:
        configured(server.url)
        result = run("webhooks", "test", "ops")
    assert (result.exit_code, result.stdout) == (1, "ops: it answered 400: said\n")


@pytest.mark.requirement("F3")
def test_what_an_ingest_tells_is_sent(server: Server) -> None:
    """From traces to a receiver, without a server of our own; a second send has nothing to do."""
    configured(server.url)
    assert run("ingest", "trace.jsonl", "--store", "s").exit_code == 0
    listed = run("webhooks", "list", "--store", "s").stdout
    assert listed.startswith("ops: pending ")
    first = run("webhooks", "send", "--store", "s")
    with reader.open_gates(Path("s")) as gates:
        told = [event.id for _, event in gates.events()]
    assert told
    assert (first.exit_code, first.stdout) == (0, f"ops: delivered {len(told)}\n")
    assert [name for _, name in server.hits] == told
    again = run("webhooks", "send", "--store", "s")
    assert (again.exit_code, again.stdout) == (0, "")
    assert (
        f"pending 0, dead 0, delivered {len(told)}"
        in run("webhooks", "list", "--store", "s").stdout
    )


def test_dead_letters_are_listed_and_replayed(server: Server) -> None:
    """A receiver that was gone for good is enabled by a person, and gets what it missed."""
    with serving(answering(410)) as gone:
        configured(gone.url)
        run("ingest", "trace.jsonl", "--store", "s")
        failed = run("webhooks", "send", "--store", "s")
    assert failed.exit_code == 1
    assert "ops: disabled 1" in failed.stdout
    assert "it answered 410 Gone" in run("webhooks", "list", "--store", "s").stdout
    configured(server.url)
    nothing = run("webhooks", "send", "--store", "s")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "it answered 410 Gone" in nothing.stderr
    with Outbox.open(layout.gates_path(Path("s"))) as outbox:
        outbox.sweep(2**62)
        dead = outbox.endpoint("ops").dead
    assert dead > 0
    assert "Did you mean ops?" in run("webhooks", "enable", "--store", "s", "opps").output
    assert run("webhooks", "enable", "--store", "s", "ops").exit_code == 0
    assert (
        run("webhooks", "replay", "--store", "s", "--since", "2300-01-01").stdout
        == "0 to be sent again\n"
    )
    replayed = run("webhooks", "replay", "--store", "s", "--endpoint", "ops")
    assert replayed.stdout == f"{dead} to be sent again\n"
    assert run("webhooks", "send", "--store", "s").stdout == f"ops: delivered {dead}\n"


def test_the_log_has_each_attempt_and_sends_again(server: Server) -> None:
    """From the log a person takes the id of an event that somebody deleted."""
    with serving(answering(503)) as busy:
        configured(busy.url)
        run("ingest", "trace.jsonl", "--store", "s")
        run("webhooks", "send", "--store", "s")
    line = run("webhooks", "log", "--store", "s", "--limit", "1").stdout
    assert re.fullmatch(r"\S+ \S+ ops: \w[\w ]+ [0-9a-f]{16}.*: it answered 503, \d+ ms\n", line)
    assert run("webhooks", "log", "ops", "--failed", "--store", "s").stdout.count("\n") > 0
    assert "Did you mean ops?" in run("webhooks", "log", "opps", "--store", "s").output
    empty = run("webhooks", "log", "--event", "none", "--store", "s").stdout
    assert empty == "The log has no such attempt.\n"
    configured(server.url)
    attempt = json.loads(run("webhooks", "log", "--json", "--store", "s").stdout.splitlines()[0])
    again = ("webhooks", "replay", attempt["event"], "--store", "s")
    assert run(*again).stdout == "1 to be sent again\n"
    run("webhooks", "send", "--store", "s")
    assert attempt["event"] in {each[1] for each in server.hits}
    wrong = run("webhooks", "replay", "none", "--store", "s")
    assert (wrong.exit_code, "no attempt to send none" in wrong.output) == (2, True)
    assert "leave the other options out" in run(*again, "--all").output
    sent = {each[1] for each in server.hits}
    assert run("webhooks", "replay", "--all", "--store", "s").stdout == (
        f"{len(sent)} to be sent again\n"
    )


def test_a_store_without_webhooks_says_so() -> None:
    """Nothing configured is no error of the store."""
    run("ingest", "trace.jsonl", "--store", "s")
    assert (
        run("webhooks", "list", "--store", "s").stdout
        == "The settings have no webhooks, and no event was queued for one.\n"
    )
    assert "the settings have no webhooks" in run("webhooks", "send", "--store", "s").output
    assert "is not a store" in run("webhooks", "list", "--store", "none").output
    # One whose filters no event passed looks like none otherwise, and nobody would find out why.
    configured("https://hooks.example/")
    listed = run("webhooks", "list", "--store", "s").stdout
    assert listed == "ops: pending 0, dead 0, delivered 0, dropped 0\n"


WITHOUT = """
import sys
sys.modules["httpcore"] = None  # As if it were not installed.
from looptrace.cli.main import main
main(["webhooks", "test", "http://127.0.0.1:9/", "--allow-private", "127.0.0.1"])
"""


def test_what_is_not_installed_is_named() -> None:
    """The command line works without what sends, and says what sending needs."""
    command = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "sending needs httpcore" in done.stderr
    assert how_to_install("server") in done.stderr
