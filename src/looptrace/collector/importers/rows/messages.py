"""The messages of a request to a model, and of its response, in the bodies of their APIs.

Known are OpenAI's chat completions and responses, Anthropic's messages, Bedrock's Converse and
Google's `generateContent`; the core reads their messages as they are.
"""

from collections.abc import Iterable
from typing import Any

from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.payloads import canonical, parsed
from looptrace.collector.importers.spans import mapping, objects

# Where a body of a request has its messages.
_LISTS = ("messages", "contents", "input", "chat_history", "content", "prompt")
# A mark of a client that moves to the last messages of each request.
_CACHE_MARKS = frozenset({"cache_control", "cachePoint"})
_ASSISTANT = "assistant"
# A response that was streamed; the next request has what it says.
_STREAMS = ("data:", "event:")

ApiMessage = dict[str, Any]


def messages_of(body: Any) -> list[ApiMessage]:
    """Return the messages of a request's body; none where it has no such list."""
    body = parsed(body)
    if isinstance(body, dict):
        held = (parsed(body.get(name)) for name in _LISTS)
        body = next((each for each in held if isinstance(each, list | str) and each), None)
    if isinstance(body, str) and body:
        return [{"role": "user", "content": body}]
    return objects(body)


def answer_of(body: Any) -> list[ApiMessage]:
    """Return the messages of a response's body."""
    body = parsed(body)
    if isinstance(body, str):
        is_said = body and not body.startswith(_STREAMS)
        return [{"role": _ASSISTANT, "content": body}] if is_said else []
    if isinstance(body, list):
        return objects(body)
    held = mapping(body)
    if choices := objects(held.get("choices")):
        return [choice["message"] for choice in choices if mapping(choice.get("message"))]
    if candidates := objects(held.get("candidates")):
        return [each["content"] for each in candidates if mapping(each.get("content"))]
    output = held.get("output")
    if isinstance(output, list):  # OpenAI's responses
        return objects(output)
    if message := mapping(mapping(output).get("message")) or mapping(held.get("message")):
        return [message]
    if "content" in held or "tool_calls" in held:
        return [{"role": _ASSISTANT, **held}]
    text = next((held[name] for name in ("completion", "text") if held.get(name)), None)
    return [{"role": _ASSISTANT, "content": text}] if isinstance(text, str) else []


def whole_input_tokens(usage: dict[str, Any]) -> int:
    """Return the tokens of the input with those that were cached, by a usage of Anthropic."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(int(usage.get(name) or 0) for name in names)


def prefix_digests(messages: Iterable[ApiMessage]) -> list[str]:
    """Return the digest of the first message, of the first two, and so on."""
    made: list[str] = []
    for message in messages:
        before = made[-1] if made else ""
        made.append(digest(before + canonical(_unmarked(message)), size_bytes=16))
    return made


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        plain = (_unmarked(each) for each in value)
        return [each for each in plain if each != {}]
    if isinstance(value, dict):
        return {name: _unmarked(v) for name, v in value.items() if name not in _CACHE_MARKS}
    return value
