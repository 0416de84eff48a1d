"""The names of attributes whose dots a system has replaced by underscores."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from looptrace.analyzer.fields.dialect_table import DialectTable, split

# Names of coding agents' events, which no span has.
_OF_EVENTS = {
    *("event.name", "event.timestamp", "event.sequence", "prompt.id", "conversation.id"),
    *("agent.name", "error.message", "http.response.status_code"),
}
_NUMBER = re.compile(r"_(\d+)(?=_|$)_?")


def with_dots(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes under the names that dialects know, and others as they are.

    A name that dialects know with underscores and with dots, in several places, stands for all.
    """
    plain, dotted, prefixes = _names()
    made: dict[str, Any] = {}
    for name, value in attributes.items():
        made |= dict.fromkeys(dotted.get(name, ()), value)
        if name in plain or name not in dotted:
            made[name if name in plain else _numbered(name, prefixes)] = value
    return made


def _numbered(name: str, prefixes: Mapping[str, str]) -> str:
    for short, prefix in prefixes.items():
        if name.startswith(short):
            # Messages are numbered: `0_tool_calls_1_name` is `0.tool_calls.1.name`.
            return prefix + _NUMBER.sub(r".\1.", f"_{name[len(short) :]}").strip(".")
    return name


@cache
def _names() -> tuple[frozenset[str], dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the names of attributes, and those with dots and before numbers by short forms."""
    table = DialectTable()
    keys = [split(key) for d in table.dialects for keys in d.fields.values() for key in keys]
    plain = {key for key, part in keys if part != "*" and not key.startswith("@")}
    plain |= table.markers | _OF_EVENTS
    flat = {key for key, part in keys if part == "*" and not key.startswith("@")}
    short: dict[str, tuple[str, ...]] = {}
    for name in sorted(each for each in plain if "." in each):
        short[name.replace(".", "_")] = (*short.get(name.replace(".", "_"), ()), name)
    return frozenset(plain), short, {name.replace(".", "_"): name for name in flat}
