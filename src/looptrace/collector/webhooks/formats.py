"""The bodies of events for receivers: programs, those that keep states, and chats.

Texts are cut so that every body is well below 20 kB. Messages of the trace are not sent; the reason
and the signature are in every report, the text of an error is sent only if the webhook's settings
allow it, and the note of a decision is meant for others.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from looptrace.analyzer.gates.event_names import NAMES, NAMES_BEFORE, WEBHOOK_TEXTS, WEBHOOK_VALUES
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.settings.webhook import Format
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import utc_ms
from looptrace.collector.store.gate_file.endpoint_events import PromiseEvent, ServerEvent
from looptrace.collector.store.outbox import GateBackground
from looptrace.collector.webhooks import chat_formats
from looptrace.collector.webhooks.gate_texts import (
    NAME_CHARS_MAX,
    REASON_CHARS_MAX,
    Telling,
    cut,
    error_text,
    headline,
    note_of,
)

# The limit of the Standard Webhooks specification.
BODY_BYTES_MAX = 20_000
_BLOCKERS_MAX = 8
_JSON = "application/json"
_CLOUDEVENTS = "application/cloudevents+json"
_SERVER_TYPES = {
    "endpoint_disabled": "looptrace.endpoint.disabled",
    "endpoint_enabled": "looptrace.endpoint.enabled",
    "promise_withdrawn": "looptrace.promise.withdrawn",
}


@dataclass(frozen=True, slots=True)
class _EventFacts:
    """What programs hear of an event, in any format."""

    id: str
    type: str
    time: str
    subject: str
    words: str
    data: dict[str, Any]
    about: tuple[str, str]  # what begins or ends, by a name and a value
    is_over: bool
    labels: dict[str, str]
    key: str  # of a receiver that keeps states, for what begins or ends
    rule: str = ""
    source: str = "looptrace"
    in_words: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    links: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""
    began: str = ""


def body_of(form: Format, event: GateEvent | ServerEvent, telling: Telling) -> tuple[bytes, str]:
    """Return the body of an event and its content type."""
    facts = _of_gate(event, telling) if isinstance(event, GateEvent) else _of_server(event)
    if chat := chat_formats.FORMATS.get(form):
        message = chat(event if isinstance(event, GateEvent) else facts.words, telling)
    else:
        message = _FORMATS[form](facts, telling.key)
    kind = _CLOUDEVENTS if form == "cloudevents" else _JSON
    return msgspec.json.encode(message), kind


def _of_gate(event: GateEvent, telling: Telling) -> _EventFacts:
    data, words = _data(event, telling), telling.in_words(event)
    # All events of a gate have the same labels, which identify an alert; the task may get another
    # name, and the gates of an incident may be of several rules.
    gate = telling.group.gate if telling.group else event.gate
    labels = {"alertname": "LooptraceGate", "gate": gate}
    names = ("task", "agent", "service", "reason", "signature", "error", "decision", "resolved_by")
    noted = {name: str(data[name]) for name in (*names, "note") if data[name] is not None}
    return _EventFacts(
        id=event.id,
        type=NAMES[event.type].webhook,
        time=_utc(event.at_ns),
        subject=cut(event.task),
        words=headline(event, telling),
        data=data,
        about=("gate", gate),
        is_over=event.type == "gate_resolved",
        labels=labels | ({} if telling.group else {"rule": event.rule}),
        key=gate,
        rule=event.rule,
        source=cut(event.service or event.agent or event.task) or "looptrace",
        in_words={"in_words": words},
        notes=noted | words | dict(telling.all_links(event)),
        links=telling.all_links(event),
        url=telling.links.gate(event),
        began=_utc(telling.gate.opened_ns if telling.gate else event.at_ns),
    )


def _of_server(event: ServerEvent) -> _EventFacts:
    """Return facts with words such as `Webhook pager is disabled: it answered 410 Gone.`."""
    reason, is_over = plain(event.reason, REASON_CHARS_MAX), event.type == "endpoint_enabled"
    about: dict[str, Any]
    if isinstance(event, PromiseEvent):
        kind, name = "promise", " ".join((event.rule, *event.selectors.values()))
        words = f"The promise of a learned limit is withdrawn, and it only warns. {reason}."
        about = {"rule": event.rule, "turns": event.selectors, "reason": reason}
    else:
        kind, name = "endpoint", event.endpoint
        waiting = f"disabled: {reason}. Its waiting events: {event.waiting:,}."
        words = f"Webhook {name} is {'enabled again.' if is_over else waiting}"
        about = {"endpoint": name, "reason": reason, "events_waiting": event.waiting}
    return _EventFacts(
        id=event.id,
        type=_SERVER_TYPES[event.type],
        time=_utc(event.at_ns),
        subject=name,
        words=words,
        data={"id": event.id} | about,
        about=(kind, name),
        is_over=is_over,
        labels={"alertname": f"Looptrace{kind.capitalize()}", kind: name},
        key=f"{kind} {name}",
        rule=kind,
        began=_utc(event.at_ns),
    )


def _standard(facts: _EventFacts, _key: str) -> dict[str, Any]:
    return {"type": facts.type, "timestamp": facts.time, "data": facts.data}


def _cloudevents(facts: _EventFacts, _key: str) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": facts.id,
        "source": "looptrace",
        "type": facts.type,
        "subject": facts.subject,
        "time": facts.time,
        "datacontenttype": _JSON,
        "data": facts.data,
    }


def _pagerduty(facts: _EventFacts, key: str) -> dict[str, Any]:
    """Write an Events API v2 event; the gate is the incident."""
    message: dict[str, Any] = {
        "routing_key": key,
        "event_action": "resolve" if facts.is_over else "trigger",
        "dedup_key": f"looptrace {facts.key}",
        "payload": {
            "summary": facts.words,
            "source": facts.source,
            "severity": "error",
            "timestamp": facts.time,
            "class": facts.rule,
            "custom_details": {**facts.data, **facts.in_words},
        },
    }
    links = [{"href": url, "text": title} for title, url in facts.links]
    return message | ({"links": links} if links else {})


def _alertmanager(facts: _EventFacts, _key: str) -> dict[str, Any]:
    """Write the body of Alertmanager's webhook receivers, version 4: an alert is a gate."""
    status, (name, value) = "resolved" if facts.is_over else "firing", facts.about
    alert = {
        "status": status,
        "labels": facts.labels,
        "annotations": {"summary": facts.words, **facts.notes},
        "startsAt": facts.began,
        "endsAt": facts.time if facts.is_over else "0001-01-01T00:00:00Z",
        "generatorURL": facts.url,
        "fingerprint": facts.key,
    }
    return {
        "version": "4",
        "groupKey": f'{{}}:{{{name}="{value}"}}',
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "looptrace",
        "groupLabels": {name: value},
        "commonLabels": facts.labels,
        "commonAnnotations": {},
        "externalURL": facts.url,
        "alerts": [alert],
    }


_FORMATS: dict[Format, Callable[[_EventFacts, str], dict[str, Any]]] = {
    "standard": _standard,
    "cloudevents": _cloudevents,
    "pagerduty": _pagerduty,
    "alertmanager": _alertmanager,
}


def _data(event: GateEvent, telling: Telling) -> dict[str, Any]:
    gate = telling.gate or GateBackground(event.at_ns)
    before = NAMES_BEFORE if event.type == "gate_renamed" else ()
    return {
        **{name: getattr(event, name) for name in WEBHOOK_VALUES},
        **{
            name: text and cut(text, REASON_CHARS_MAX if name == "reason" else NAME_CHARS_MAX)
            for name in (*WEBHOOK_TEXTS, *before)
            for text in (getattr(event, name),)
        },
        **({"service_version": cut(version)} if (version := event.service_version) else {}),
        "note": note_of(event),
        "resolved_by": gate.resolved_by and cut(gate.resolved_by),
        "blockers": [cut(blocker) for blocker in event.blockers[:_BLOCKERS_MAX]],
        "error": error_text(event) if telling.has_error_text else None,
        "cost": asdict(gate.finding.cost) if gate.finding else None,
        **({"incident": asdict(telling.group)} if telling.group else {}),
        **({"agent_state": asdict(gate.agent)} if gate.agent else {}),
        **({"unless_decided": unless} if (unless := telling.texts(event).unless_decided) else {}),
        "url": telling.links.gate(event),
        "trace_url": telling.links.trace(event),
    }


def _utc(at_ns: int) -> str:
    return utc_ms(at_ns).replace("+00:00", "Z")
