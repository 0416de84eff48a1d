"""The lines for a settings file after which a loop that is none opens no gate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tomlkit

from looptrace.analyzer.text.display import plain

_COMMENT_CHARS_MAX = 90


def exception_lines(
    rules: Collection[str], agent: str, tools: Sequence[str], signature: str
) -> str:
    """Return overrides that turn rules off for the calls of an agent; "" where none can.

    Overrides know no signature, which is a comment: other loops of these calls are excepted, too.
    """
    selectors: list[dict[str, Any]] = [{"tool": tool} for tool in tools] or [{}]
    if not (agent or tools) or not rules:
        return ""
    document = tomlkit.document()
    document.add(tomlkit.comment(f"No loop: {plain(signature, _COMMENT_CHARS_MAX)}"))
    overrides = tomlkit.aot()
    for selector in selectors:
        table = tomlkit.item(selector | ({"agent": agent} if agent else {}))
        table["rules"] = {rule: {"enabled": False} for rule in sorted(rules)}
        overrides.append(table)
    document.add("overrides", overrides)
    return tomlkit.dumps(document)
