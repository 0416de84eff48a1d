"""The judge `chat`, asked through the command line over a real connection."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.analyzer.test_llm_judge import ANSWER
from tests.cli.test_analyze import ALIKE
from tests.collector.judge.test_chat_completions import GOOD, KEY, Endpoint, Reply, said
from tests.commands import json_of, printed, run
from tests.http_threads import answering
from tests.paths import TALK
from tests.reliability.serving import OK, served, until


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """Start a chat endpoint, and name it in the environment."""
    (tmp_path / "looptrace.toml").write_text(ALIKE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPTRACE_JUDGE_MODEL", "small")
    with answering(Endpoint()) as server:
        monkeypatch.setenv("LOOPTRACE_JUDGE_URL", server.url)
        yield server
        server.stopping.set()


def gates(result: Result) -> list[dict[str, Any]]:
    """Return the gates that a report in JSON shows."""
    return [event for event in json.loads(result.stdout)["events"] if event["gate"]]


@pytest.mark.requirement("A13")
def test_a_model_behind_an_endpoint_is_asked(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command, two variables and a key: the report shows the opinion beside the gate."""
    monkeypatch.setenv("LOOPTRACE_JUDGE_KEY", KEY)
    (gate,) = gates(run("analyze", TALK, "--format", "json", "--judge", "chat"))
    (request,) = endpoint.requests

    assert gate["opinion"]["reasoning"] == "It only announces."
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["Authorization"] == f"Bearer {KEY}"
    assert request["body"]["model"] == "small"
    assert "It only announces." in run("escalation", TALK, "--judge", "chat").stdout


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
    result = run("analyze", TALK, "--judge", "chat")

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"the judge chat cannot be used: {message}" in result.stderr


def test_an_endpoint_that_is_away_is_no_error(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The analysis ends as it would without, and the report says why there is no opinion."""
    monkeypatch.setenv("LOOPTRACE_JUDGE_TRIES", "1")
    endpoint.shutdown()
    endpoint.server_close()
    result = run("analyze", TALK, "--format", "json", "--judge", "chat")

    assert result.exit_code == 0
    assert "no connection" in gates(result)[0]["opinion"]["no_opinion"]


JUDGED = """
[judge]
base_url = "{url}"
model = "other"
api_key_variable = "LOOPTRACE_TEST_JUDGE_KEY"
decides = {decides}
"""
PROGRESS = said(json.dumps(ANSWER | {"no_progress": False, "reasoning": "It gets on."}))


@pytest.fixture
def configured(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """Name the endpoint in the settings, and not in the environment."""
    Path("looptrace.toml").write_text(ALIKE + JUDGED.format(url=endpoint.url, decides="true"))
    monkeypatch.delenv("LOOPTRACE_JUDGE_URL")
    monkeypatch.delenv("LOOPTRACE_JUDGE_MODEL")
    monkeypatch.setenv("LOOPTRACE_TEST_JUDGE_KEY", KEY)
    return endpoint


@pytest.mark.requirement("A13")
def test_the_settings_name_a_judge(configured: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command asks it, unless none is wanted; the environment wins over the file."""
    (gate,) = gates(run("analyze", TALK, "--format", "json"))
    assert gate["opinion"]["reasoning"] == "It only announces."
    assert "It only announces." in printed("escalation", TALK)
    monkeypatch.setenv("LOOPTRACE_JUDGE_MODEL", "small")
    printed("analyze", TALK)
    printed("analyze", TALK, "--judge", "none")

    assert [asked["body"]["model"] for asked in configured.requests] == ["other", "other", "small"]
    assert configured.requests[0]["headers"]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.requirement("A7")
def test_a_judge_that_decides_lets_the_agent_go_on(configured: Endpoint) -> None:
    """Its verdict is recorded: batch over the same store has the same, and asks no judge again."""
    configured.script = [PROGRESS]
    assert "gates opened 1, open 0" in printed("ingest", TALK, "--store", "store")
    assert len(configured.requests) == 1
    configured.shutdown()

    (gate,) = json_of("gates", "list", "--store", "store", "--all")
    assert (gate["status"], gate["decision"]) == ("resolved", "progress")
    assert gate["note"] == "It gets on."
    for judge in ("none", "chat"):
        report = json_of("analyze", "store", "--judge", judge)
        opened, resolved = (e for e in report["events"] if e["type"].startswith("gate_"))
        assert opened["opinion"]["reasoning"] == "It gets on."
        assert (resolved["type"], resolved["decision"]) == ("gate_resolved", "progress")
        assert "The judge finds that task" in resolved["directive"]
    assert "gates opened 0, open 0" in printed("ingest", TALK, "--store", "store")


@pytest.mark.parametrize(
    ("decides", "reply"),
    [("false", PROGRESS), ("true", GOOD), ("true", said("I would rather not say."))],
)
def test_a_judge_that_sees_no_progress_or_may_not_decide_leaves_the_gate(
    configured: Endpoint, decides: str, reply: Reply
) -> None:
    """Its opinion is recorded once, and a person decides."""
    Path("looptrace.toml").write_text(ALIKE + JUDGED.format(url=configured.url, decides=decides))
    configured.script = [reply]
    for _ in range(2):
        assert ", open 1" in printed("ingest", TALK, "--store", "store")
    assert len(configured.requests) == 1
    (gate,) = gates(run("analyze", "store", "--format", "json"))
    assert gate["opinion"] is not None
    done = run("gates", "resolve", "--store", "store", gate["gate"], "--decision", "progress")
    assert done.exit_code == 2


@pytest.mark.requirement("A7")
def test_a_server_puts_gates_to_the_judge(configured: Endpoint, tmp_path: Path) -> None:
    """The waiting agent receives the decision, and the gate names the judge."""
    configured.script = [PROGRESS]
    settings = str(tmp_path / "looptrace.toml")
    requests = [json.loads(line) for line in Path(TALK).read_text().splitlines()]
    with served(tmp_path / "store", "--config", settings) as server:
        assert [server.send(request) for request in requests] == [OK] * len(requests)

        def resolved() -> Any:
            listed = server.gates("status=resolved")
            return listed and listed[0]

        gate = until(resolved)
        shown = server.ask("GET", f"/v1/gates/{gate['id']}")[1]
    assert (gate["decision"], gate["note"]) == ("progress", "It gets on.")
    assert shown["report"]["gate"]["opinion"]["reasoning"] == "It gets on."
    assert len(configured.requests) == 1
