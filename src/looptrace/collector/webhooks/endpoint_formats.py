"""The bodies of events about endpoints: one is disabled, or enabled again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from looptrace.analyzer.settings.webhook import Format
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import utc_ms
from looptrace.collector.store.gate_file.endpoint_events import EndpointEvent

_TYPES = {
    "endpoint_disabled": "looptrace.endpoint.disabled",
    "endpoint_enabled": "looptrace.endpoint.enabled",
}
_REASON_CHARS_MAX = 500
Message = dict[str, Any]


def endpoint_message(form: Format, event: EndpointEvent, key: str) -> Message:
    """Return the body of an event in a format; `key` is PagerDuty's."""
    return _FORMATS[form](event, key)


def _standard(event: EndpointEvent, _key: str) -> Message:
    return {"type": _TYPES[event.type], "timestamp": _time(event), "data": _data(event)}


def _cloudevents(event: EndpointEvent, _key: str) -> Message:
    return {
        "specversion": "1.0",
        "id": event.id,
        "source": "looptrace",
        "type": _TYPES[event.type],
        "subject": event.endpoint,
        "time": _time(event),
        "datacontenttype": "application/json",
        "data": _data(event),
    }


def _slack(event: EndpointEvent, _key: str) -> Message:
    words = _words(event).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": words}


def _discord(event: EndpointEvent, _key: str) -> Message:
    return {"content": _words(event), "allowed_mentions": {"parse": []}}


def _pagerduty(event: EndpointEvent, key: str) -> Message:
    return {
        "routing_key": key,
        "event_action": "resolve" if _is_over(event) else "trigger",
        "dedup_key": f"looptrace endpoint {event.endpoint}",
        "payload": {
            "summary": _words(event),
            "source": "looptrace",
            "severity": "error",
            "timestamp": _time(event),
            "class": "endpoint",
            "custom_details": _data(event),
        },
    }


def _alertmanager(event: EndpointEvent, _key: str) -> Message:
    labels = {"alertname": "LooptraceEndpoint", "endpoint": event.endpoint}
    status = "resolved" if _is_over(event) else "firing"
    alert = {
        "status": status,
        "labels": labels,
        "annotations": {"summary": _words(event)},
        "startsAt": _time(event),
        "endsAt": _time(event) if _is_over(event) else "0001-01-01T00:00:00Z",
        "generatorURL": "",
        "fingerprint": f"endpoint {event.endpoint}",
    }
    return {
        "version": "4",
        "groupKey": f'{{}}:{{endpoint="{event.endpoint}"}}',
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "looptrace",
        "groupLabels": {"endpoint": event.endpoint},
        "commonLabels": labels,
        "commonAnnotations": {},
        "externalURL": "",
        "alerts": [alert],
    }


_FORMATS: dict[Format, Callable[[EndpointEvent, str], Message]] = {
    "standard": _standard,
    "cloudevents": _cloudevents,
    "slack": _slack,
    "discord": _discord,
    "pagerduty": _pagerduty,
    "alertmanager": _alertmanager,
}


def _data(event: EndpointEvent) -> Message:
    reason = plain(event.reason, _REASON_CHARS_MAX)
    return {
        "id": event.id,
        "endpoint": event.endpoint,
        "reason": reason,
        "events_waiting": event.waiting,
    }


def _words(event: EndpointEvent) -> str:
    """Write `Webhook pager is disabled: it answered 410 Gone. Its waiting events: 3.`."""
    if _is_over(event):
        return f"Webhook {event.endpoint} is enabled again."
    reason = plain(event.reason, _REASON_CHARS_MAX)
    return f"Webhook {event.endpoint} is disabled: {reason}. Its waiting events: {event.waiting:,}."


def _is_over(event: EndpointEvent) -> bool:
    return event.type == "endpoint_enabled"


def _time(event: EndpointEvent) -> str:
    return utc_ms(event.at_ns).replace("+00:00", "Z")
