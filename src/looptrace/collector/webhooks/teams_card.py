"""Messages for Microsoft Teams: an Adaptive Card, as a workflow of Teams posts it.

The workflow "When a Teams webhook request is received" takes a message whose attachments are cards
(https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
has the body). It answers without an id, so that no card is edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

# Runs of text and sets of actions are known since this version.
_VERSION = "1.2"
_SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"
_CARD = "application/vnd.microsoft.card.adaptive"
# Teams shows no more actions of a set.
_ACTIONS_MAX = 6

TeamsMessage = dict[str, Any]
Link = tuple[str, str]  # a title and an address


def teams_message(
    summary: str, blocks: Iterable[TeamsMessage], links: Sequence[Link] = ()
) -> TeamsMessage:
    """Return a message with a card of these blocks and links; the summary is that of a banner."""
    sets = [links[at : at + _ACTIONS_MAX] for at in range(0, len(links), _ACTIONS_MAX)]
    card = {
        "$schema": _SCHEMA,
        "type": "AdaptiveCard",
        "version": _VERSION,
        "fallbackText": summary,
        "msteams": {"width": "Full"},
        "body": [*blocks, *map(_actions, sets)],
    }
    attachment = {"contentType": _CARD, "contentUrl": None, "content": card}
    return {"type": "message", "summary": summary, "attachments": [attachment]}


def title_block(text: str) -> TeamsMessage:
    """Return the title of a card, of looptrace's own words."""
    return {"type": "TextBlock", "text": text, "weight": "Bolder", "size": "Medium", "wrap": True}


def text_block(text: str, *, name: str = "", is_code: bool = False) -> TeamsMessage:
    """Return a paragraph, which has no markup; a name comes before it in bold letters."""
    named = [{"type": "TextRun", "text": f"{name} ", "weight": "Bolder"}] if name else []
    run: TeamsMessage = {"type": "TextRun", "text": text}
    if is_code:
        run["fontType"] = "Monospace"
    return {"type": "RichTextBlock", "inlines": [*named, run]}


def _actions(links: Sequence[Link]) -> TeamsMessage:
    actions = [{"type": "Action.OpenUrl", "title": title, "url": url} for title, url in links]
    return {"type": "ActionSet", "actions": actions}
