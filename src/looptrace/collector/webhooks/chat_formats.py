"""The messages of chats: Slack, Discord and Microsoft Teams.

An event of the server itself is a sentence. No text of a trace is markup, and nothing mentions
anybody.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from looptrace.analyzer.gates.event_names import NAMES
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.settings.webhook import Format
from looptrace.analyzer.text.times import utc_ms
from looptrace.collector.webhooks.gate_texts import (
    GateTexts,
    Telling,
    cut,
    headline,
    names_before,
    note_of,
    reason_of,
)

# The limit of a section in Slack.
_SLACK_CHARS_MAX = 3_000
# All texts of an embed in Discord may have 6,000 characters together, and its other texts have
# less than 2,500.
_DISCORD_CHARS_MAX = 3_500
_DISCORD_MARKUP = re.compile(r"([\\*_~`|>\[\]()#:<@-])")
# Runs of text and sets of actions are known since this version of Adaptive Cards.
_CARD_VERSION = "1.2"
_CARD_SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"
_CARD = "application/vnd.microsoft.card.adaptive"
# Teams shows no more actions of a set.
_ACTIONS_MAX = 6
_ChatMessage = dict[str, Any]


def _slack(event: GateEvent | str, telling: Telling) -> _ChatMessage:
    """Write a message for an incoming webhook, in Slack's markup."""
    if isinstance(event, str):
        return {"text": _escaped(event)}
    facts = [
        f"{name} `{_escaped(cut(value))}`"
        for name in ("task", "agent", "service", "rule", "action", "gate")
        if (value := getattr(event, name))
    ]
    words, about = _told(event, telling)
    title, note = f"*{NAMES[event.type].title}*", _escaped(note_of(event) or "")
    decided = f"*{_escaped(about.decided)}*" if about.decided else ""
    blocks = [_section(title, _escaped(words), ", ".join(facts), decided, note)]
    blocks += [_section(f"*Failed with*\n```{_escaped(about.error)}```")] if about.error else []
    for name, text in _more(about, telling).items():
        blocks.append(_section(f"*{name}* {_escaped(text)}"))
    blocks += [_section(f"```{_escaped(about.strip)}```")] if about.strip else []
    if about.command:
        blocks.append(_section(f"To decide in a terminal: `{_escaped(about.command)}`"))
    if links := telling.all_links(event):
        buttons = [_button(title, url, place) for place, (title, url) in enumerate(links)]
        blocks.append({"type": "actions", "elements": buttons})
    return {"text": _escaped(headline(event, telling)), "blocks": blocks}


def _section(*lines: str) -> _ChatMessage:
    text = "\n".join(line for line in lines if line)
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:_SLACK_CHARS_MAX]}}


def _button(title: str, url: str, place: int) -> _ChatMessage:
    text = {"type": "plain_text", "text": title}
    return {"type": "button", "text": text, "url": url, "action_id": f"looptrace-{place}"}


def _discord(event: GateEvent | str, telling: Telling) -> _ChatMessage:
    """Write a message for a webhook of Discord; nothing in it mentions anybody."""
    silent: _ChatMessage = {"allowed_mentions": {"parse": []}}
    if isinstance(event, str):
        return {"content": event} | silent
    about = telling.texts(event)
    names = ("task", "agent", "service", "rule", "gate")
    facts = [(name, value) for name in names if (value := getattr(event, name))]
    facts += [(name.lower(), text) for name, text in _more(about, telling).items()]
    lines = [
        _marked(reason_of(event)),
        f"**{_marked(about.decided)}**" if about.decided else "",
        _marked(note_of(event) or ""),
        *(f"```\n{_unquoted(text)}\n```" for text in (about.error, about.strip) if text),
        *(f"[{title}]({url})" for title, url in telling.all_links(event)),
    ]
    embed = {
        "title": NAMES[event.type].title,
        "description": _fitting(lines, _DISCORD_CHARS_MAX),
        "fields": [
            {"name": name, "value": _marked(cut(value)), "inline": True} for name, value in facts
        ],
        "timestamp": utc_ms(event.at_ns).replace("+00:00", "Z"),
    }
    return {"content": _marked(headline(event, telling)), "embeds": [embed]} | silent


def _teams(event: GateEvent | str, telling: Telling) -> _ChatMessage:
    """Write a message for a workflow of Microsoft Teams, as an Adaptive Card without markup.

    The workflow "When a Teams webhook request is received" takes it
    (https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
    has the body). It answers without an id, so that no card is edited.
    """
    if isinstance(event, str):
        return _card(event, [_run("", event)])
    words, about = _told(event, telling)
    names = ("task", "agent", "service", "rule", "gate")
    parts = [
        ("", words),
        *((name.capitalize(), cut(getattr(event, name))) for name in names),
        ("", about.decided),
        ("", note_of(event) or ""),
        *_more(about, telling).items(),
        ("Failed with", about.error),
        ("", about.strip),
        ("To decide in a terminal", about.command),
    ]
    code = (about.error, about.strip, about.command)
    bold = {"weight": "Bolder", "size": "Medium", "wrap": True}
    title = {"type": "TextBlock", "text": NAMES[event.type].title, **bold}
    blocks = [_run(name, text, is_code=text in code) for name, text in parts if text]
    return _card(headline(event, telling), [title, *blocks], telling.all_links(event))


def _card(
    summary: str, blocks: Iterable[_ChatMessage], links: Sequence[tuple[str, str]] = ()
) -> _ChatMessage:
    """Return a message with a card; the summary is that of a banner."""
    actions = [{"type": "Action.OpenUrl", "title": title, "url": url} for title, url in links]
    sets = [actions[at : at + _ACTIONS_MAX] for at in range(0, len(actions), _ACTIONS_MAX)]
    card = {
        "$schema": _CARD_SCHEMA,
        "type": "AdaptiveCard",
        "version": _CARD_VERSION,
        "fallbackText": summary,
        "msteams": {"width": "Full"},
        "body": [*blocks, *({"type": "ActionSet", "actions": each} for each in sets)],
    }
    attachment = {"contentType": _CARD, "contentUrl": None, "content": card}
    return {"type": "message", "summary": summary, "attachments": [attachment]}


def _run(name: str, text: str, *, is_code: bool = False) -> _ChatMessage:
    """Return a paragraph, which has no markup; a name comes before it in bold letters."""
    named = [{"type": "TextRun", "text": f"{name} ", "weight": "Bolder"}] if name else []
    run = {"type": "TextRun", "text": text} | ({"fontType": "Monospace"} if is_code else {})
    return {"type": "RichTextBlock", "inlines": [*named, run]}


# A text stands for an event of the server itself.
FORMATS: Mapping[Format, Callable[[GateEvent | str, Telling], _ChatMessage]] = {
    "slack": _slack,
    "discord": _discord,
    "teams": _teams,
}


def _told(event: GateEvent, telling: Telling) -> tuple[str, GateTexts]:
    """Return the words of an event, and the texts about its gate; a new name says nothing else."""
    if event.type == "gate_renamed":
        return names_before(event), GateTexts()
    return reason_of(event), telling.texts(event)


def _more(about: GateTexts, telling: Telling) -> dict[str, str]:
    """Return what a person asks for next, by its title."""
    count = telling.group.gates_open if telling.group else 0
    texts = {
        "Open gates of its incident": f"{count:,}" if count > 1 else "",
        "Cost so far": about.cost,
        "Its agent": about.agent_doing,
        "Unless somebody decides": about.unless_decided,
    }
    return {name: text for name, text in texts.items() if text}


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
