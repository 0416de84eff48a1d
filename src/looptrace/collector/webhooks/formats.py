"""An event as its receivers want it: one function a format, each giving a body and its type.

Texts are cut so that no body comes near 20 kB. Messages of the trace and of errors are not sent;
the reason and the signature are what every report shows, and the note of a decision is meant for
others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from looptrace.analyzer.gates.event_names import NAMES, WEBHOOK_TEXTS, WEBHOOK_VALUES
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.settings.webhook import GATE, TASK, Format
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import utc_ms

# What the Standard Webhooks specification allows.
BODY_BYTES_MAX = 20_000
_REASON_CHARS_MAX = 500
_NOTE_CHARS_MAX = 1_000
_NAME_CHARS_MAX = 120
_BLOCKERS_MAX = 8
_JSON = "application/json"

# A section of Slack's holds no more.
_SLACK_CHARS_MAX = 3_000

Body = tuple[bytes, str]


class _Context(NamedTuple):
    """What a body says beside the event."""

    url: str  # of the gate, for people
    key: str
    opened_ns: int


def body_of(
    form: Format, event: GateEvent, gate_url: str, key: str, opened_ns: int | None = None
) -> Body:
    """Return the body of an event and its content type.

    `key` is PagerDuty's integration key, and `opened_ns` when the event's gate opened, which is by
    default the time of the event.
    """
    began_ns = event.at_ns if opened_ns is None else opened_ns
    return _FORMATS[form](event, _Context(link(event, gate_url), key, began_ns))


def link(event: GateEvent, gate_url: str) -> str:
    """Return the address of the event's gate for people, empty where there is none."""
    if not event.gate:
        return ""
    return gate_url.replace(GATE, _quoted(event.gate)).replace(TASK, _quoted(event.task))


def _standard(event: GateEvent, context: _Context) -> Body:
    message = {
        "type": NAMES[event.type].webhook,
        "timestamp": _time(event),
        "data": _data(event, context.url),
    }
    return _json(message), _JSON


def _cloudevents(event: GateEvent, context: _Context) -> Body:
    message = {
        "specversion": "1.0",
        "id": event.id,
        "source": "looptrace",
        "type": NAMES[event.type].webhook,
        "subject": _cut(event.task),
        "time": _time(event),
        "datacontenttype": _JSON,
        "data": _data(event, context.url),
    }
    return _json(message), "application/cloudevents+json"


def _slack(event: GateEvent, context: _Context) -> Body:
    """Write a message for an incoming webhook, in Slack's markup."""
    title = f"*{NAMES[event.type].title}*" + (f" (<{context.url}|open>)" if context.url else "")
    facts = [
        f"{name} `{_escaped(_cut(value))}`"
        for name in ("task", "agent", "service", "rule", "action", "gate", "decision")
        if (value := getattr(event, name))
    ]
    words = _escaped(plain(event.reason, _REASON_CHARS_MAX))
    parts = (title, words, ", ".join(facts), _escaped(_note(event) or ""))
    text = "\n".join(part for part in parts if part)
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text[:_SLACK_CHARS_MAX]}}
    return _json({"text": _escaped(_headline(event)), "blocks": [section]}), _JSON


def _pagerduty(event: GateEvent, context: _Context) -> Body:
    """Write an Events API v2 event; the gate is the incident."""
    message: dict[str, Any] = {
        "routing_key": context.key,
        "event_action": "resolve" if event.type == "gate_resolved" else "trigger",
        "dedup_key": f"looptrace {event.gate}",
        "payload": {
            "summary": _headline(event),
            "source": _cut(event.service or event.agent or event.task) or "looptrace",
            "severity": "error",
            "timestamp": _time(event),
            "class": event.rule,
            "custom_details": _data(event, context.url),
        },
    }
    if context.url:
        message["links"] = [{"href": context.url, "text": "Gate"}]
    return _json(message), _JSON


def _alertmanager(event: GateEvent, context: _Context) -> Body:
    """Write what Alertmanager sends to its webhook receivers, version 4: an alert is a gate.

    The labels of both ends of a gate are the same, because they say which alert it is.
    """
    resolved = event.type == "gate_resolved"
    labels = {
        "alertname": "LooptraceGate",
        "gate": event.gate,
        "rule": event.rule,
        "task": _cut(event.task),
    }
    data = _data(event, context.url)
    names = ("agent", "service", "reason", "signature", "decision", "note")
    notes = {name: str(data[name]) for name in names if data[name] is not None}
    status = "resolved" if resolved else "firing"
    alert = {
        "status": status,
        "labels": labels,
        "annotations": {"summary": _headline(event), **notes},
        "startsAt": _utc(context.opened_ns),
        "endsAt": _time(event) if resolved else "0001-01-01T00:00:00Z",
        "generatorURL": context.url,
        "fingerprint": event.gate,
    }
    message = {
        "version": "4",
        "groupKey": f'{{}}:{{gate="{event.gate}"}}',
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "looptrace",
        "groupLabels": {"gate": event.gate},
        "commonLabels": labels,
        "commonAnnotations": {},
        "externalURL": context.url,
        "alerts": [alert],
    }
    return _json(message), _JSON


_FORMATS: dict[Format, Callable[[GateEvent, _Context], Body]] = {
    "standard": _standard,
    "cloudevents": _cloudevents,
    "slack": _slack,
    "pagerduty": _pagerduty,
    "alertmanager": _alertmanager,
}


def _data(event: GateEvent, url: str) -> dict[str, Any]:
    longest = {"reason": _REASON_CHARS_MAX}
    return {
        **{name: getattr(event, name) for name in WEBHOOK_VALUES},
        **{
            name: text and _cut(text, longest.get(name, _NAME_CHARS_MAX))
            for name in WEBHOOK_TEXTS
            for text in (getattr(event, name),)
        },
        "note": _note(event),
        "blockers": [_cut(blocker) for blocker in event.blockers[:_BLOCKERS_MAX]],
        "url": url,
    }


def _note(event: GateEvent) -> str | None:
    """Return the note of a decision; without a decision it is a message of the trace."""
    return _cut(event.note, _NOTE_CHARS_MAX) if event.note and event.decision else None


def _headline(event: GateEvent) -> str:
    words = f": {plain(event.reason, _REASON_CHARS_MAX)}" if event.reason else ""
    return f"{NAMES[event.type].title} for task {_cut(event.task)}{words}"


def _cut(text: str, length_max: int = _NAME_CHARS_MAX) -> str:
    return plain(text, length_max)


def _escaped(text: str) -> str:
    """Keep a text from being markup of Slack: neither links, mentions nor code."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("`", "'")


def _quoted(text: str) -> str:
    return quote(plain(text, _NAME_CHARS_MAX), safe="")


def _time(event: GateEvent) -> str:
    return _utc(event.at_ns)


def _utc(at_ns: int) -> str:
    return utc_ms(at_ns).replace("+00:00", "Z")


def _json(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(message)
