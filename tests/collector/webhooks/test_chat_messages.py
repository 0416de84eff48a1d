"""A message in a chat is edited when its gate ends, as far as the chat allows it."""

import json
from pathlib import Path
from typing import Any

from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.webhooks.retry_policy import EndpointResponse
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.test_outbox import opened, recorded, resolved
from tests.collector.webhooks.test_attempts import Endpoint

DISCORD = Webhook("all", "https://discord.com/api/webhooks/1/secret?thread_id=5", "discord")
SLACK = Webhook(
    "all", "https://slack.com/api/chat.postMessage", "slack", ("env:BOT",), channel="C1"
)


def answer(status: int, said: dict[str, Any]) -> EndpointResponse:
    """Return what a chat answers."""
    error = "" if status < 300 else f"it answered {status}"
    return EndpointResponse(status, error, body=json.dumps(said).encode())


def paged(path: Path, chat: Webhook, answered: EndpointResponse) -> Endpoint:
    """Send the opening of a gate to a chat that answers so; its end waits to be sent."""
    recorded(path, opened(1), hooks=(chat,))
    endpoint = Endpoint(path, chat)
    endpoint.answer = answered
    endpoint.sends()
    recorded(path, resolved(2), hooks=(chat,))
    return endpoint


def test_discord_edits_the_message_of_a_gate(path: Path) -> None:
    """Who reads the channel later sees that somebody has decided, and nobody is paged twice."""
    endpoint = paged(path, DISCORD, answer(200, {"id": "777", "content": "x"}))
    endpoint.sends()
    first, second = endpoint.sent
    base = "https://discord.com/api/webhooks/1/secret"
    assert (first.method, first.url) == ("POST", f"{base}?thread_id=5&wait=true")
    assert (second.method, second.url) == ("PATCH", f"{base}/messages/777?thread_id=5")
    assert json.loads(first.body)["content"].startswith("Gate opened for task t")
    assert json.loads(second.body)["content"].startswith("Gate resolved for task t")
    assert json.loads(first.body)["allowed_mentions"] == {"parse": []}
    assert endpoint.outbox.message("all", "g") is None  # Another opening is a new message.


def test_a_deleted_message_is_written_anew(path: Path) -> None:
    """A person may tidy up the channel before the gate ends."""
    endpoint = paged(path, DISCORD, answer(200, {"id": "777"}))
    endpoint.answer = answer(404, {"message": "Unknown Message"})
    endpoint.sends()
    endpoint.answer = answer(200, {"id": "778"})
    endpoint.now_ns += 10 * NS_PER_S
    endpoint.sends()
    assert [each.method for each in endpoint.sent] == ["POST", "PATCH", "POST"]
    assert endpoint.outbox.endpoint("all").pending == 0


def test_an_answer_without_an_id_leads_to_a_new_message(path: Path) -> None:
    """A proxy between may cut the body; the end is told all the same."""
    endpoint = paged(path, DISCORD, EndpointResponse(200, body=b'{"id": "7'))
    endpoint.sends()
    assert [each.method for each in endpoint.sent] == ["POST", "POST"]


def test_a_bot_of_slack_edits_its_message(path: Path) -> None:
    """A bot gets the time of its message, which names it; the token is in no body."""
    said = {"ok": True, "channel": "C9", "ts": "1503435956.000247"}
    endpoint = paged(path, SLACK, answer(200, said))
    endpoint.sends()
    first, second = endpoint.sent
    assert (first.url, second.url) == (SLACK.url, "https://slack.com/api/chat.update")
    assert first.headers["authorization"] == "Bearer xoxb-1"
    assert json.loads(first.body)["channel"] == "C1"
    body = json.loads(second.body)
    assert (body["channel"], body["ts"]) == ("C9", "1503435956.000247")
    assert body["text"].startswith("Gate resolved")
    assert b"xoxb" not in first.body + second.body


def test_what_slack_refuses_is_a_failure(path: Path) -> None:
    """Slack answers 200 to a bot that is not in the channel, and nobody would be paged."""
    recorded(path, opened(1), hooks=(SLACK,))
    endpoint = Endpoint(path, SLACK)
    endpoint.answer = answer(200, {"ok": False, "error": "not_in_channel"})
    endpoint.sends()
    assert endpoint.outbox.endpoint("all").pending == 1
    (attempt,) = endpoint.outbox.attempts()
    assert attempt.error == "Slack refused it: not_in_channel"
