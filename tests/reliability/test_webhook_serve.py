"""Webhooks of a server, from spans to a receiver."""

import json
from pathlib import Path

import pytest
from standardwebhooks import Webhook as Verifier

from tests.reliability.serving import OK, looping, served, until
from tests.reliability.test_webhook_network import hook_toml, serving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105


@pytest.mark.requirement("F3")
def test_a_gate_and_its_end_reach_a_receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P11 and P13: signed, in order of the decisions, while the server runs."""
    monkeypatch.setenv("SECRET", SECRET)
    with serving() as receiver:
        config = hook_toml(receiver.url, 'secrets = ["env:SECRET"]')
        with served(tmp_path / "store", config=config) as server:
            assert server.send(looping("s1", 3).request()) == OK
            until(lambda: len(receiver.hits) == 1)
            gate = json.loads(receiver.requests[0][0])["data"]["gate"]
            server.resolve(gate, "continue", note="hush")
            until(lambda: len(receiver.hits) == 2)
    found = [Verifier(SECRET).verify(*request) for request in receiver.requests]
    assert [each["type"] for each in found] == ["looptrace.gate.opened", "looptrace.gate.resolved"]
    assert found[1]["data"]["gate"] == gate
    assert found[1]["data"]["decision"] == "continue"
    assert found[1]["data"]["note"] == "hush"


def test_a_channel_of_teams_gets_a_card_for_each_end(tmp_path: Path) -> None:
    """A workflow of Teams takes cards over HTTP; it edits none, so that the end is a second one."""
    with serving() as receiver:
        config = hook_toml(receiver.url, '[page]\nurl = "http://p"', form="teams")
        with served(tmp_path / "store", config=config) as server:
            assert server.send(looping("s1", 3).request()) == OK
            until(lambda: len(receiver.hits) == 1)
            (gate,) = server.gates("status=open")
            said = {"note": "not [needed](http://x)", "who": "Ada"}
            server.resolve(gate["id"], "cancel", **said)
            until(lambda: len(receiver.hits) == 2)
    opened, ended = (json.loads(request[0]) for request in receiver.requests)
    titles = [each["attachments"][0]["content"]["body"][0]["text"] for each in (opened, ended)]
    assert titles == ["Gate opened", "Gate resolved"]
    assert f"http://p/gates/{gate['id']}" in json.dumps(opened)
    runs = [
        "".join(run["text"] for run in block["inlines"])
        for block in ended["attachments"][0]["content"]["body"]
        if block["type"] == "RichTextBlock"
    ]
    assert {"Cancel the task, by Ada", "not [needed](http://x)"} <= {*runs}
