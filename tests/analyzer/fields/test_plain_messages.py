"""Messages in the usual forms are read by a short way, and read the same as by the long one."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from looptrace.analyzer.fields import messages
from looptrace.analyzer.fields.flat_messages import FlatItem, built
from looptrace.analyzer.fields.plain_messages import (
    read_plain,
    read_plain_flat,
    read_plain_list,
)
from looptrace.analyzer.schema.message import Message
from tests.seeds import seeds

ROLES: tuple[Any, ...] = ("user", "user", "assistant", "tool", "AI", "human", "", None)
TEXTS: tuple[Any, ...] = (
    "deck three",
    "",
    "  ",
    "[REDACTED]",
    "redacted",
    None,
    4,
    ["a"],
    "wet",
    "dry",
)
VALUES: tuple[Any, ...] = ({"deck": 3.0}, '{"deck": 3}', "", None, 7, ["x"], {"error": "no fuse"})
IDS: tuple[Any, ...] = ("c1", "c2", "c3", "", None, 5)
NAMES: tuple[Any, ...] = ("ask_watch", "ring_bell", "look", "", None)


def random_message(drawn: random.Random) -> dict[str, Any]:
    """Return a message in one of the usual forms, or nearly so."""

    def some(**choices: tuple[Any, ...]) -> dict[str, Any]:
        return {key: drawn.choice(of) for key, of in choices.items() if drawn.random() < 0.8}

    parts = (
        {"type": "text"} | some(content=TEXTS),
        {"type": "tool_call"} | some(id=IDS, name=NAMES, arguments=VALUES),
        {"type": "tool_call_response"} | some(id=IDS, response=(*TEXTS, *VALUES)),
        {"type": "reasoning"} | some(content=TEXTS),
        some(type=("text", "tool_use"), text=TEXTS, name=NAMES, input=VALUES),
    )
    function = {"type": "function", "function": some(name=NAMES, arguments=VALUES)} | some(id=IDS)
    message = some(role=ROLES, name=NAMES, finish_reason=("stop", None))
    if drawn.random() < 0.6:
        message["parts"] = drawn.choices(parts, k=drawn.randrange(4))
    if drawn.random() < 0.4:
        message |= some(content=TEXTS, tool_call_id=IDS, refusal=(None, "no"))
    if drawn.random() < 0.3:
        message["tool_calls"] = drawn.choice((None, [function], [function, function]))
    if drawn.random() < 0.05:
        message["status"] = "error"
    return message


@pytest.mark.parametrize("seed", range(seeds(40)))
def test_json_is_read_the_same_by_both_ways(seed: int) -> None:
    """And the short way is taken by a fair share of messages, else nothing is shown."""
    drawn = random.Random(seed)
    taken = 0
    for _ in range(300):
        item = json.dumps(random_message(drawn)).encode()
        plain = read_plain(item, messages._ROLES)
        taken += plain is not None
        if plain is not None:
            assert messages._read_value(msgspec.json.decode(item), "user") == (False, (plain,))
    assert taken > 10


@pytest.mark.parametrize("seed", range(seeds(20)))
def test_short_arrays_are_read_as_long_ones(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array that is decoded at once gives the messages of its items, in each form."""
    drawn = random.Random(seed)
    taken = 0
    for _ in range(2_000):
        some = [random_message(drawn) for _ in range(drawn.randrange(4))]
        text = json.dumps(some)[: None if drawn.random() < 0.9 else -1]
        at_once = messages.messages_of(text, "user")
        with monkeypatch.context() as patched:
            patched.setattr(messages, "NEW_CHARS_MAX", 0)
            assert list(at_once) == list(messages.messages_of(text, "user"))
        taken += bool(some) and _fits(text)
    assert taken > 3


def _fits(text: str) -> bool:
    try:
        return read_plain_list(text, messages._ROLES) is not None
    except msgspec.DecodeError:
        return False


ENDS = (
    ".message.role",
    ".message.content",
    ".message.tool_call_id",
    ".message.tool_calls.0.tool_call.id",
    ".message.tool_calls.0.tool_call.function.name",
    ".message.tool_calls.0.tool_call.function.arguments",
    ".message.tool_calls.10.tool_call.function.name",
    ".message.tool_calls.2.tool_call.function.name",
    ".message.tool_calls.02.tool_call.function.name",
    ".message.tool_calls.x.tool_call.function.name",
    ".message.contents.0.message_content.text",
    ".message",
)
WEIGHTS = (30, 10, 5, 5, 6, 6, 3, 3, 1, 1, 1, 1)


@pytest.mark.parametrize("seed", range(seeds(40)))
def test_flat_keys_are_read_the_same_by_both_ways(seed: int) -> None:
    """Whatever their order, and whatever is missing of them."""
    drawn = random.Random(seed)
    taken = 0
    for _ in range(300):
        ends = list(dict.fromkeys(drawn.choices(ENDS, WEIGHTS, k=drawn.randrange(1, 7))))
        values = ("user", "tool", "assistant", "", "deck three", "[redacted]", '{"deck": 3}', 1)
        item: FlatItem = [(end, drawn.choice(values)) for end in ends]
        plain = read_plain_flat(item, messages._ROLES)
        taken += plain is not None
        if plain is not None:
            assert messages._read_value(built(item), "user") == (False, (plain,))
    assert taken > 10


def test_a_message_that_is_read_by_the_short_way_has_all_that_it_says() -> None:
    """Text, call and result, each where it belongs."""
    asked = {"type": "tool_call", "id": "c1", "name": "ask_watch", "arguments": {"deck": 3}}
    item = {"role": "assistant", "parts": [{"type": "text", "content": " on it "}, asked]}

    plain = read_plain(json.dumps(item).encode(), {})

    assert isinstance(plain, Message)
    assert (plain.role, plain.text) == ("assistant", "on it")
    assert [(c.call_id, c.name, c.arguments) for c in plain.calls] == [
        ("c1", "ask_watch", '{"deck":3}')
    ]
