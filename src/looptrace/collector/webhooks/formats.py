"""The formats of events for receivers: one function each, which returns a body and its type.

Texts are cut so that every body is well below 20 kB. Messages of the trace are not sent; the reason
and the signature are in every report, the text of an error is sent only if the webhook's settings
allow it, and the note of a decision is meant for others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from looptrace.analyzer.gates.event_names import (
    NAMES,
    NAMES_BEFORE,
    WEBHOOK_TEXTS,
    WEBHOOK_VALUES,
)
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.waiting import Waiting
from looptrace.analyzer.report.wording import counted, reset_text
from looptrace.analyzer.settings.webhook import Format
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import utc_ms
from looptrace.collector.store.gate_file.endpoint_events import ServerEvent
from looptrace.collector.store.outbox import GateBackground, PageGroup
from looptrace.collector.webhooks.endpoint_formats import endpoint_message
from looptrace.collector.webhooks.event_links import NO_LINKS, EventLinks
from looptrace.collector.webhooks.gate_texts import GateTexts, error_text, gate_texts
from looptrace.collector.webhooks.teams_card import teams_message, text_block, title_block

# The limit of the Standard Webhooks specification.
BODY_BYTES_MAX = 20_000
_REASON_CHARS_MAX = 500
_NOTE_CHARS_MAX = 1_000
_NAME_CHARS_MAX = 120
_BLOCKERS_MAX = 8
_JSON = "application/json"
_CLOUDEVENTS = "application/cloudevents+json"

# The limit of a section in Slack.
_SLACK_CHARS_MAX = 3_000
# All texts of an embed in Discord may have 6,000 characters together, and its other texts have
# less than 2,500.
_DISCORD_CHARS_MAX = 3_500
_DISCORD_MARKUP = re.compile(r"([\\*_~`|>\[\]()#:<@-])")

Body = tuple[bytes, str]


@dataclass(frozen=True, slots=True)
class Telling:
    """The other contents of a body, beside the event."""

    links: EventLinks = NO_LINKS
    key: str = ""  # PagerDuty's integration key
    has_error_text: bool = True
    now_ns: int = 0
    gate: GateBackground | None = None  # what the store knows of the event's gate
    waiting: tuple[Waiting, ...] = ()  # what happens when nobody decides
    group: PageGroup | None = None  # the incident, where gates are grouped

    def key_of(self, event: GateEvent) -> str:
        """Return what a receiver of states knows the event's gate or incident by."""
        return self.group.gate if self.group else event.gate

    def all_links(self, event: GateEvent) -> list[tuple[str, str]]:
        """Return the titles and addresses of all links of an event."""
        return self.links.of(event, self.now_ns)

    def texts(self, event: GateEvent) -> GateTexts:
        """Return the texts about the event's gate for the person who is paged."""
        return gate_texts(
            event,
            self.gate,
            has_error_text=self.has_error_text,
            where=self.links.page_url,
            waiting=self.waiting,
        )


def body_of(form: Format, event: GateEvent | ServerEvent, telling: Telling) -> Body:
    """Return the body of an event and its content type."""
    if isinstance(event, ServerEvent):
        kind = _CLOUDEVENTS if form == "cloudevents" else _JSON
        return _json(endpoint_message(form, event, telling.key)), kind
    return _FORMATS[form](event, telling)


def _standard(event: GateEvent, telling: Telling) -> Body:
    message = {
        "type": NAMES[event.type].webhook,
        "timestamp": _time(event),
        "data": _data(event, telling),
    }
    return _json(message), _JSON


def _cloudevents(event: GateEvent, telling: Telling) -> Body:
    message = {
        "specversion": "1.0",
        "id": event.id,
        "source": "looptrace",
        "type": NAMES[event.type].webhook,
        "subject": _cut(event.task),
        "time": _time(event),
        "datacontenttype": _JSON,
        "data": _data(event, telling),
    }
    return _json(message), _CLOUDEVENTS


def _slack(event: GateEvent, telling: Telling) -> Body:
    """Write a message for an incoming webhook, in Slack's markup."""
    facts = [
        f"{name} `{_escaped(_cut(value))}`"
        for name in ("task", "agent", "service", "rule", "action", "gate")
        if (value := getattr(event, name))
    ]
    words = _escaped(_reason(event))
    about = telling.texts(event)
    if event.type == "gate_renamed":
        words, about = _escaped(_names_before(event)), GateTexts()
    decided = [
        f"*{_escaped(about.decided)}*" if about.decided else "",
        _escaped(_note(event) or ""),
    ]
    blocks = [_section(f"*{NAMES[event.type].title}*", words, ", ".join(facts), *decided)]
    blocks += [_section(f"*Failed with*\n```{_escaped(about.error)}```")] if about.error else []
    if telling.group and telling.group.gates_open > 1:
        blocks.append(_section(f"*{telling.group.gates_open:,} gates* of its incident are open"))
    blocks += [_section(f"*Cost so far* {about.cost}")] if about.cost else []
    blocks += [_section(f"*Agent* {_escaped(about.agent_doing)}")] if about.agent_doing else []
    if about.unless_decided:
        blocks.append(_section(f"*Unless somebody decides* {_escaped(about.unless_decided)}"))
    blocks += [_section(f"```{_escaped(about.strip)}```")] if about.strip else []
    if about.command:
        blocks.append(_section(f"To decide in a terminal: `{_escaped(about.command)}`"))
    if links := telling.all_links(event):
        buttons = [_button(title, url, place) for place, (title, url) in enumerate(links)]
        blocks.append({"type": "actions", "elements": buttons})
    return _json({"text": _escaped(_headline(event, telling)), "blocks": blocks}), _JSON


def _section(*lines: str) -> dict[str, Any]:
    text = "\n".join(line for line in lines if line)
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:_SLACK_CHARS_MAX]}}


def _button(title: str, url: str, place: int) -> dict[str, Any]:
    text = {"type": "plain_text", "text": title}
    return {"type": "button", "text": text, "url": url, "action_id": f"looptrace-{place}"}


def _discord(event: GateEvent, telling: Telling) -> Body:
    """Write a message for a webhook of Discord; nothing in it mentions anybody."""
    about = telling.texts(event)
    names = ("task", "agent", "service", "rule", "gate")
    facts = [(name, value) for name in names if (value := getattr(event, name))]
    facts += [("cost so far", about.cost)] if about.cost else []
    facts += [("its agent", about.agent_doing)] if about.agent_doing else []
    if telling.group and telling.group.gates_open > 1:
        facts.append(("open gates of its incident", f"{telling.group.gates_open:,}"))
    facts += [("unless somebody decides", about.unless_decided)] if about.unless_decided else []
    lines = [
        _marked(_reason(event)),
        f"**{_marked(about.decided)}**" if about.decided else "",
        _marked(_note(event) or ""),
        f"```\n{_unquoted(about.error)}\n```" if about.error else "",
        f"```\n{_unquoted(about.strip)}\n```" if about.strip else "",
        *(f"[{title}]({url})" for title, url in telling.all_links(event)),
    ]
    embed = {
        "title": NAMES[event.type].title,
        "description": _fitting(lines, _DISCORD_CHARS_MAX),
        "fields": [
            {"name": name, "value": _marked(_cut(value)), "inline": True} for name, value in facts
        ],
        "timestamp": _time(event),
    }
    message = {
        "content": _marked(_headline(event, telling)),
        "embeds": [embed],
        "allowed_mentions": {"parse": []},
    }
    return _json(message), _JSON


def _teams(event: GateEvent, telling: Telling) -> Body:
    """Write a message for a workflow of Microsoft Teams; its texts have no markup."""
    is_name = event.type == "gate_renamed"
    about = GateTexts() if is_name else telling.texts(event)
    more = telling.group.gates_open if telling.group and telling.group.gates_open > 1 else 0
    names = ("task", "agent", "service", "rule", "gate")
    parts = [
        ("", _names_before(event) if is_name else _reason(event)),
        *((name.capitalize(), _cut(getattr(event, name))) for name in names),
        ("", about.decided),
        ("", _note(event) or ""),
        ("Open gates of its incident", f"{more:,}" if more else ""),
        ("Cost so far", about.cost),
        ("Its agent", about.agent_doing),
        ("Unless somebody decides", about.unless_decided),
        ("Failed with", about.error),
        ("", about.strip),
        ("To decide in a terminal", about.command),
    ]
    code = (about.error, about.strip, about.command)
    blocks = [text_block(text, name=name, is_code=text in code) for name, text in parts if text]
    title = title_block(NAMES[event.type].title)
    links = telling.all_links(event)
    return _json(teams_message(_headline(event, telling), [title, *blocks], links)), _JSON


def _pagerduty(event: GateEvent, telling: Telling) -> Body:
    """Write an Events API v2 event; the gate is the incident."""
    message: dict[str, Any] = {
        "routing_key": telling.key,
        "event_action": "resolve" if event.type == "gate_resolved" else "trigger",
        "dedup_key": f"looptrace {telling.key_of(event)}",
        "payload": {
            "summary": _headline(event, telling),
            "source": _cut(event.service or event.agent or event.task) or "looptrace",
            "severity": "error",
            "timestamp": _time(event),
            "class": event.rule,
            "custom_details": _data(event, telling) | {"in_words": _in_words(event, telling)},
        },
    }
    if links := telling.all_links(event):
        message["links"] = [{"href": url, "text": title} for title, url in links]
    return _json(message), _JSON


def _alertmanager(event: GateEvent, telling: Telling) -> Body:
    """Write the body of Alertmanager's webhook receivers, version 4: an alert is a gate.

    All events of a gate have the same labels, which identify an alert; the task may get another
    name.
    """
    resolved = event.type == "gate_resolved"
    gate = telling.key_of(event)
    # The gates of an incident may be of several rules.
    labels = {"alertname": "LooptraceGate", "gate": gate}
    labels |= {} if telling.group else {"rule": event.rule}
    data = _data(event, telling)
    names = (
        *("task", "agent", "service", "reason", "signature", "error", "decision", "resolved_by"),
        "note",
    )
    notes = {name: str(data[name]) for name in names if data[name] is not None}
    notes |= _in_words(event, telling) | dict(telling.all_links(event))
    began_ns = telling.gate.opened_ns if telling.gate else event.at_ns
    status = "resolved" if resolved else "firing"
    alert = {
        "status": status,
        "labels": labels,
        "annotations": {"summary": _headline(event, telling), **notes},
        "startsAt": _utc(began_ns),
        "endsAt": _time(event) if resolved else "0001-01-01T00:00:00Z",
        "generatorURL": telling.links.gate(event),
        "fingerprint": gate,
    }
    message = {
        "version": "4",
        "groupKey": f'{{}}:{{gate="{gate}"}}',
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "looptrace",
        "groupLabels": {"gate": gate},
        "commonLabels": labels,
        "commonAnnotations": {},
        "externalURL": telling.links.gate(event),
        "alerts": [alert],
    }
    return _json(message), _JSON


_FORMATS: dict[Format, Callable[[GateEvent, Telling], Body]] = {
    "standard": _standard,
    "cloudevents": _cloudevents,
    "slack": _slack,
    "discord": _discord,
    "teams": _teams,
    "pagerduty": _pagerduty,
    "alertmanager": _alertmanager,
}


def _data(event: GateEvent, telling: Telling) -> dict[str, Any]:
    longest = {"reason": _REASON_CHARS_MAX}
    gate = telling.gate or GateBackground(event.at_ns)
    before = NAMES_BEFORE if event.type == "gate_renamed" else ()
    return {
        **{name: getattr(event, name) for name in WEBHOOK_VALUES},
        **{
            name: text and _cut(text, longest.get(name, _NAME_CHARS_MAX))
            for name in (*WEBHOOK_TEXTS, *before)
            for text in (getattr(event, name),)
        },
        **({"service_version": _cut(version)} if (version := event.service_version) else {}),
        "note": _note(event),
        "resolved_by": gate.resolved_by and _cut(gate.resolved_by),
        "blockers": [_cut(blocker) for blocker in event.blockers[:_BLOCKERS_MAX]],
        "error": error_text(event) if telling.has_error_text else None,
        "cost": asdict(gate.finding.cost) if gate.finding else None,
        **({"incident": asdict(telling.group)} if telling.group else {}),
        **({"agent_state": asdict(gate.agent)} if gate.agent else {}),
        **({"unless_decided": unless} if (unless := telling.texts(event).unless_decided) else {}),
        "url": telling.links.gate(event),
        "trace_url": telling.links.trace(event),
    }


def _in_words(event: GateEvent, telling: Telling) -> dict[str, str]:
    about = telling.texts(event)
    names = ("cost", "agent_doing", "strip", "command", "decided", "unless_decided")
    words = {name: getattr(about, name) for name in names}
    return {name: text for name, text in words.items() if text}


def _note(event: GateEvent) -> str | None:
    """Return the note of a decision; without a decision it is a message of the trace."""
    return _cut(event.note, _NOTE_CHARS_MAX) if event.note and event.decision else None


def _names_before(event: GateEvent) -> str:
    """Write `The last message named task 4bf92f35 and no agent.`."""
    agent = f"agent {_cut(event.agent_before)}" if event.agent_before else "no agent"
    return f"The last message named task {_cut(event.task_before)} and {agent}."


def _headline(event: GateEvent, telling: Telling) -> str:
    words = f": {_reason(event)}" if event.reason else ""
    count = telling.group.gates_open if telling.group else 0
    more = f" and {counted(count - 1, 'more task')}" if count > 1 else ""
    return f"{NAMES[event.type].title} for task {_cut(event.task)}{more}{words}"


def _reason(event: GateEvent) -> str:
    """Return the reason of an event in words; that of a reset is a name."""
    is_reset = event.type in ("gate_resolved", "counter_reset")
    return reset_text(event.reason) if is_reset else plain(event.reason, _REASON_CHARS_MAX)


def _cut(text: str, length_max: int = _NAME_CHARS_MAX) -> str:
    return plain(text, length_max)


def _escaped(text: str) -> str:
    """Escape Slack's markup in a text: links, mentions and code."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _unquoted(text)


def _fitting(lines: Iterable[str], length_max: int) -> str:
    """Join the lines that have room; a part of a link would lead nowhere."""
    text = ""
    for line in filter(None, lines):
        longer = f"{text}\n{line}" if text else line
        text = longer if len(longer) <= length_max else text
    return text


def _marked(text: str) -> str:
    """Escape Discord's markup in a text."""
    return _DISCORD_MARKUP.sub(r"\\\1", text)


def _unquoted(text: str) -> str:
    """Return a text that ends no block of code."""
    return text.replace("`", "'")


def _time(event: GateEvent) -> str:
    return _utc(event.at_ns)


def _utc(at_ns: int) -> str:
    return utc_ms(at_ns).replace("+00:00", "Z")


def _json(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(message)
