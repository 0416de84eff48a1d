"""What each request repeats of a conversation is read once, and read the same."""

import json
import random
from itertools import count, pairwise

import pytest

from looptrace.analyzer.schema.message import Message
from tests.fields import fields_of, messages_of

USER = {"role": "user", "content": "lights are out on deck three"}
CALL = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "c1", "name": "ask_watch", "arguments": {"deck": 3.0}}],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "fuse is wet"}
PART = {"text": "only a part of a message"}
ITEMS: tuple[object, ...] = (
    USER,
    CALL,
    RESULT,
    PART,
    {},
    None,
    "no message",
    [USER],
    {"messages": []},
)
ENDINGS = ("]", ",]", "", "] ", ',"', ",1]")


# A conversation of which nothing is kept.
NEW = map("new-{}".format, count())


def given(attributes: dict[str, object], conversation: str) -> tuple[Message, ...]:
    """Return the messages that flat keys tell."""
    kind = {"openinference.span.kind": "LLM"}
    return fields_of(kind | attributes, trace=conversation).given or ()


@pytest.mark.parametrize("seed", range(20))
def test_history_in_json_reads_as_without_what_is_kept(seed: int) -> None:
    """A history that grows, shrinks, changes or breaks off is read as if it were the first."""
    drawn = random.Random(seed)
    items: list[object] = []
    for _ in range(30):
        if drawn.random() < 0.2:
            items = items[: drawn.randrange(len(items) + 1)]
        items = [*items, *drawn.choices(ITEMS, k=drawn.randrange(3))]
        text = json.dumps(items)[:-1] + drawn.choice(ENDINGS)
        kept = messages_of(text, "user", f"talk-{seed}")
        assert kept == messages_of(text, "user", next(NEW))


@pytest.mark.parametrize("seed", range(20))
def test_history_in_flat_keys_reads_as_without_what_is_kept(seed: int) -> None:
    """Flat keys too, with numbers that have gaps, come twice or are none, and keys below values."""
    drawn = random.Random(seed)
    attributes: dict[str, object] = {}
    for place in range(30):
        key = f"llm.input_messages.{drawn.choice((place, place + 1, f'0{place}', 'x'))}"
        for end in drawn.sample((".message.role", ".message.content", ".message", "", "."), 2):
            attributes[key + end] = drawn.choice(("user", "wet", "1", 1, True, 1.0))
        if drawn.random() < 0.2:
            attributes.pop(drawn.choice(list(attributes)))
        assert given(attributes, f"flat-{seed}") == given(attributes, next(NEW))


def test_values_that_python_holds_equal_are_read_each_for_itself() -> None:
    """The argument 1 of one request is not the argument true of the next."""
    key = "llm.input_messages.0.message.tool_calls.0.tool_call.function."
    arguments = [
        given({f"{key}name": "ring_bell", f"{key}arguments": value}, "equal")[0].calls[0].arguments
        for value in (1, True, 1.0)
    ]
    assert arguments == ["1", "true", "1"]


def test_what_is_repeated_is_read_once() -> None:
    """The messages of the request before are the very same objects in the next."""
    talk = [USER, CALL, RESULT, USER, RESULT]
    texts = [json.dumps(talk[:length]) for length in range(1, len(talk) + 1)]
    for before, after in pairwise(messages_of(text, "user", "once") for text in texts):
        assert all(old is new for old, new in zip(before, after, strict=False))


def test_flat_messages_that_are_repeated_are_read_once() -> None:
    """The same for flat keys."""
    attributes: dict[str, object] = {}
    before: tuple[Message, ...] = ()
    for place in range(5):
        attributes |= {
            f"llm.input_messages.{place}.message.role": "user",
            f"llm.input_messages.{place}.message.content": f"deck {place} is dark",
        }
        after = given(attributes, "flat once")
        assert len(after) == place + 1
        assert all(old is new for old, new in zip(before, after, strict=False))
        before = after
