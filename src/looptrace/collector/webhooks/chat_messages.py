"""Messages in chats that are edited when their gate ends.

A webhook of Discord returns the message when it is asked to wait, and edits it by its id. In Slack
only an app with a bot token can: its incoming webhooks answer `ok` without an id.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import msgspec

from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.analyzer.text.display import plain
from looptrace.collector.store.gate_file.endpoint_events import ServerEvent
from looptrace.collector.webhooks.client import WebhookRequest
from looptrace.collector.webhooks.retry_policy import EndpointResponse
from looptrace.typed_json import decoded

_ERROR_CHARS_MAX = 100
_SLACK_GONE = "message_not_found"
# The last part of the path of Slack's methods.
_POST, _UPDATE = "chat.postMessage", "chat.update"


class Answered(NamedTuple):
    """The answer of a chat: the id of its message, and whether the one to edit is gone."""

    answer: EndpointResponse
    message: str | None = None
    is_gone: bool = False


class _DiscordMessage(msgspec.Struct):
    id: str = ""


class _SlackAnswer(msgspec.Struct):
    ok: bool = False
    error: str = ""
    channel: str = ""
    ts: str = ""


def keeps_messages(webhook: Webhook) -> bool:
    """Return whether messages of a webhook have ids."""
    return webhook.format == "discord" or bool(webhook.channel)


def as_edited(event: GateEvent | ServerEvent) -> GateEvent | ServerEvent | None:
    """Return the event as which a message is edited; None where a new one is sent.

    An edit pages nobody, so that a reminder is a new message.
    """
    if event.type == "gate_resolved":
        return event
    if event.type == "gate_renamed" and event.status != "active":
        return replace(event, type="gate_opened")
    return None


def addressed(
    request: WebhookRequest, webhook: Webhook, token: str, message: str | None
) -> WebhookRequest:
    """Return the request that sends a new message, or edits one."""
    if webhook.format == "discord":
        return _to_discord(request, message)
    return _to_slack(request, webhook.channel, token, message)


def answered(webhook: Webhook, answer: EndpointResponse) -> Answered:
    """Read the answer of a receiver; where it is no chat, it stays."""
    if not keeps_messages(webhook):
        return Answered(answer)
    if webhook.format == "discord":
        message = _read(answer.body, _DiscordMessage).id if not answer.error else ""
        return Answered(answer, message or None, answer.status == HTTPStatus.NOT_FOUND)
    if answer.error:
        return Answered(answer)
    said = _read(answer.body, _SlackAnswer)
    if said.ok:
        return Answered(answer, f"{said.channel} {said.ts}")
    error = f"Slack refused it: {plain(said.error, _ERROR_CHARS_MAX) or 'it gave no reason'}"
    return Answered(replace(answer, error=error), is_gone=said.error == _SLACK_GONE)


def _to_discord(request: WebhookRequest, message: str | None) -> WebhookRequest:
    parts = urlsplit(request.url)
    if message:
        path = f"{parts.path.rstrip('/')}/messages/{message}"
        return replace(request, method="PATCH", url=urlunsplit(parts._replace(path=path)))
    query = "&".join(filter(None, (parts.query, "wait=true")))
    return replace(request, url=urlunsplit(parts._replace(query=query)))


def _to_slack(
    request: WebhookRequest, channel: str, token: str, message: str | None
) -> WebhookRequest:
    body: dict[str, Any] = msgspec.json.decode(request.body)
    url, at = request.url, {"channel": channel}
    if message:
        channel, _, ts = message.partition(" ")
        url, at = url.removesuffix(_POST) + _UPDATE, {"channel": channel, "ts": ts}
    headers = {**request.headers, "authorization": f"Bearer {token}"}
    return replace(request, url=url, headers=headers, body=msgspec.json.encode({**body, **at}))


def _read(body: bytes, kind: Any) -> Any:
    """Decode a body; one that is something else has no value."""
    try:
        return decoded(body, kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return kind()
