"""The judge `chat`, asked through the command line over a real connection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result

from looptrace.cli.main import main
from tests.collector.judge.test_chat_completions import KEY, Endpoint
from tests.paths import ROOT

TALK = str(ROOT / "examples/traces/support_bot_same_answer_loop.jsonl")
# Settings by which talk alone opens a gate, so that there is something to ask about.
ALIKE = """[rules.response_repeat]
enabled = false
[rules.monologue]
attempts_min = 4
ladder = [{ attempts = 4, action = "gate" }]
"""


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """Start a chat endpoint, and name it in the environment."""
    server = Endpoint()
    Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "looptrace.toml").write_text(ALIKE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPTRACE_JUDGE_URL", server.url)
    monkeypatch.setenv("LOOPTRACE_JUDGE_MODEL", "small")
    yield server
    server.stopping.set()
    server.shutdown()
    server.server_close()


def run(*arguments: str) -> Result:
    """Run a command that asks the judge `chat`."""
    return CliRunner().invoke(main, [*arguments, "--judge", "chat"])


def gates(result: Result) -> list[dict[str, Any]]:
    """Return the gates that a report in JSON shows."""
    return [event for event in json.loads(result.stdout)["events"] if event["gate"]]


@pytest.mark.requirement("A13")
def test_a_model_behind_an_endpoint_is_asked(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command, two variables and a key: the opinion stands beside the gate."""
    monkeypatch.setenv("LOOPTRACE_JUDGE_KEY", KEY)
    (gate,) = gates(run("analyze", TALK, "--format", "json"))
    (request,) = endpoint.requests

    assert gate["opinion"]["reasoning"] == "It only announces."
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["Authorization"] == f"Bearer {KEY}"
    assert request["body"]["model"] == "small"
    assert "It only announces." in run("escalation", TALK).stdout


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LOOPTRACE_JUDGE_URL", "", "LOOPTRACE_JUDGE_URL is not set; set it, as in "),
        ("LOOPTRACE_JUDGE_MODEL", "", "LOOPTRACE_JUDGE_MODEL is not set; set it, as in "),
        ("LOOPTRACE_JUDGE_URL", "http://example.com/v1", "LOOPTRACE_JUDGE_URL must be https://"),
        ("LOOPTRACE_JUDGE_TRIES", "many", "LOOPTRACE_JUDGE_TRIES is 'many'; it must be a number."),
        ("LOOPTRACE_JUDGE_TRIES", "11", "LOOPTRACE_JUDGE_TRIES is 11; it must be between 1 and 10"),
    ],
)
def test_a_variable_that_cannot_be_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    """The command stops before it reads anything, and says which variable to set."""
    monkeypatch.setenv(variable, value)
    result = run("analyze", TALK)

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"the judge chat cannot be had: {message}" in result.stderr


def test_an_endpoint_that_is_away_is_no_error(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The analysis ends as it would without, and the report says why there is no opinion."""
    monkeypatch.setenv("LOOPTRACE_JUDGE_TRIES", "1")
    endpoint.shutdown()
    endpoint.server_close()
    result = run("analyze", TALK, "--format", "json")

    assert result.exit_code == 0
    assert "no connection" in gates(result)[0]["opinion"]["no_opinion"]
