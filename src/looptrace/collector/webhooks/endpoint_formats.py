"""The bodies of events of the server itself: about an endpoint, or the promise of a limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from looptrace.analyzer.settings.webhook import Format
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import utc_ms
from looptrace.collector.store.gate_file.endpoint_events import (
    EndpointEvent,
    PromiseEvent,
    ServerEvent,
)
from looptrace.collector.webhooks.teams_card import teams_message, text_block

_TYPES = {
    "endpoint_disabled": "looptrace.endpoint.disabled",
    "endpoint_enabled": "looptrace.endpoint.enabled",
    "promise_withdrawn": "looptrace.promise.withdrawn",
}
_REASON_CHARS_MAX = 500
EndpointMessage = dict[str, Any]


class _EventFacts(NamedTuple):
    """What a message says of an event: its subject, its words, and its data."""

    subject: str  # "endpoint" or "promise"
    name: str
    words: str
    data: EndpointMessage
    is_over: bool = False


def endpoint_message(form: Format, event: ServerEvent, key: str) -> EndpointMessage:
    """Return the body of an event in a format; `key` is PagerDuty's."""
    facts = _of_promise(event) if isinstance(event, PromiseEvent) else _of_endpoint(event)
    return _FORMATS[form](event, facts, key)


def _of_endpoint(event: EndpointEvent) -> _EventFacts:
    """Return facts with words such as `Webhook pager is disabled: it answered 410 Gone.`."""
    is_over, reason = event.type == "endpoint_enabled", plain(event.reason, _REASON_CHARS_MAX)
    words = (
        f"Webhook {event.endpoint} is enabled again."
        if is_over
        else f"Webhook {event.endpoint} is disabled: {reason}. "
        f"Its waiting events: {event.waiting:,}."
    )
    about = {"endpoint": event.endpoint, "reason": reason, "events_waiting": event.waiting}
    return _EventFacts("endpoint", event.endpoint, words, {"id": event.id, **about}, is_over)


def _of_promise(event: PromiseEvent) -> _EventFacts:
    reason = plain(event.reason, _REASON_CHARS_MAX)
    words = f"The promise of a learned limit is withdrawn, and it only warns. {reason}."
    name = " ".join((event.rule, *event.selectors.values()))
    about = {"rule": event.rule, "turns": event.selectors, "reason": reason}
    return _EventFacts("promise", name, words, {"id": event.id, **about})


def _standard(event: ServerEvent, facts: _EventFacts, _key: str) -> EndpointMessage:
    return {"type": _TYPES[event.type], "timestamp": _time(event), "data": facts.data}


def _cloudevents(event: ServerEvent, facts: _EventFacts, _key: str) -> EndpointMessage:
    return {
        "specversion": "1.0",
        "id": event.id,
        "source": "looptrace",
        "type": _TYPES[event.type],
        "subject": facts.name,
        "time": _time(event),
        "datacontenttype": "application/json",
        "data": facts.data,
    }


def _slack(_event: ServerEvent, facts: _EventFacts, _key: str) -> EndpointMessage:
    words = facts.words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": words}


def _discord(_event: ServerEvent, facts: _EventFacts, _key: str) -> EndpointMessage:
    return {"content": facts.words, "allowed_mentions": {"parse": []}}


def _teams(_event: ServerEvent, facts: _EventFacts, _key: str) -> EndpointMessage:
    return teams_message(facts.words, [text_block(facts.words)])


def _pagerduty(event: ServerEvent, facts: _EventFacts, key: str) -> EndpointMessage:
    return {
        "routing_key": key,
        "event_action": "resolve" if facts.is_over else "trigger",
        "dedup_key": f"looptrace {facts.subject} {facts.name}",
        "payload": {
            "summary": facts.words,
            "source": "looptrace",
            "severity": "error",
            "timestamp": _time(event),
            "class": facts.subject,
            "custom_details": facts.data,
        },
    }


def _alertmanager(event: ServerEvent, facts: _EventFacts, _key: str) -> EndpointMessage:
    about = {facts.subject: facts.name}
    labels = {"alertname": f"Looptrace{facts.subject.capitalize()}", **about}
    status = "resolved" if facts.is_over else "firing"
    alert = {
        "status": status,
        "labels": labels,
        "annotations": {"summary": facts.words},
        "startsAt": _time(event),
        "endsAt": _time(event) if facts.is_over else "0001-01-01T00:00:00Z",
        "generatorURL": "",
        "fingerprint": f"{facts.subject} {facts.name}",
    }
    return {
        "version": "4",
        "groupKey": f'{{}}:{{{facts.subject}="{facts.name}"}}',
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "looptrace",
        "groupLabels": about,
        "commonLabels": labels,
        "commonAnnotations": {},
        "externalURL": "",
        "alerts": [alert],
    }


_FORMATS: dict[Format, Callable[[ServerEvent, _EventFacts, str], EndpointMessage]] = {
    "standard": _standard,
    "cloudevents": _cloudevents,
    "slack": _slack,
    "discord": _discord,
    "teams": _teams,
    "pagerduty": _pagerduty,
    "alertmanager": _alertmanager,
}


def _time(event: ServerEvent) -> str:
    return utc_ms(event.at_ns).replace("+00:00", "Z")
