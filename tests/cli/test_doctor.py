"""`looptrace doctor`, `demo` and `rule`: what a newcomer tries first."""

import socket
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from looptrace.collector.store import writer
from looptrace.rules.registry import RULES
from tests.collector.store.stored import looping, spans_of
from tests.commands import printed, refused, run
from tests.http_threads import QuietHandler, answering
from tests.ports import closed_port


class _Clock(QuietHandler):
    date = ""

    def do_GET(self) -> None:
        self.send_response_only(200)
        self.send_header("Date", self.date or self.date_time_string())
        self.send_header("content-length", "0")
        self.end_headers()


@pytest.fixture
def address() -> Iterator[str]:
    """Return the address of a server with a clock."""
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), _Clock)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(autouse=True)
def _no_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOPTRACE_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


def test_an_endpoint_that_answers_and_its_clock(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that is off makes loops of other lengths; it fails."""
    monkeypatch.setenv("LOOPTRACE_ENDPOINT", address)
    good = printed("doctor")
    assert "ok    LOOPTRACE_ENDPOINT" in good
    assert "ok    clock" in good

    monkeypatch.setattr(_Clock, "date", "Sat, 01 Jan 2000 00:00:00 GMT")
    off = run("doctor")
    assert off.exit_code == 2
    assert "FAIL  clock" in off.stdout

    monkeypatch.setattr(_Clock, "date", "soon")
    assert "note  clock" in run("doctor").stdout


def test_an_endpoint_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is shown without what a user put in front of it."""
    with closed_port() as port:
        monkeypatch.setenv("LOOPTRACE_ENDPOINT", f"http://me:hidden@127.0.0.1:{port}")
        result = run("doctor")
    assert result.exit_code == 2
    assert "FAIL  LOOPTRACE_ENDPOINT: http://127.0.0.1 does not answer" in result.stdout
    assert "hidden" not in result.output


def test_the_provider_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the SDK is off, nothing is watched and nothing would say so."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    result = run("doctor")
    assert result.exit_code == 2
    assert "FAIL  provider: OTEL_SDK_DISABLED" in result.stdout


def test_a_port_that_is_taken() -> None:
    """`serve` would end with an error there."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 4318))
            taken.listen()
        except OSError:
            pass  # Another program has it, which is as good.
        assert "note  port 4318: taken" in run("doctor").stdout


def test_a_store_that_is_none_fails(tmp_path: Path) -> None:
    """And a store says what it holds."""
    assert "FAIL  store" in run("doctor", "--store", tmp_path).stdout
    writer.ingest(spans_of(looping("s1")), tmp_path / "s")
    assert "1 session," in printed("doctor", "--store", tmp_path / "s")


def test_demo_needs_no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traces come with the package; settings that lie about change nothing."""
    monkeypatch.chdir(tmp_path)
    Path("looptrace.toml").write_text("enabled = false\n")
    assert "5 loops in 5 of 10 tasks" in printed("demo")


def test_rule_shows_the_settings_in_force(tmp_path: Path) -> None:
    """As the file changes them, not as the rule ships."""
    file = tmp_path / "mine.toml"
    file.write_text("[rules.repeated_call]\nattempts_min = 4\n[rules.stutter]\nenabled = false\n")
    result = run("rule", "repeated_call", "--config", file)
    assert "The same call gets the same result" in result.stdout
    assert "attempts_min = 4 (2 to 100)" in result.stdout
    assert "The rule is off" in run("rule", "stutter", "--config", file).stdout


def test_rule_lists_all_and_knows_near_names() -> None:
    """A name that was mistyped is asked back."""
    listed = run("rule").stdout
    assert all(f"{rule.name}" in listed for rule in RULES)
    assert "Did you mean repeated_call?" in refused("rule", "repeted_call")
