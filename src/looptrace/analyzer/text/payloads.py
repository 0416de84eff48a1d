"""Values in spans: JSON in strings, wrappers around arguments and results."""

from __future__ import annotations

import ast
import json  # canonical text: keys sorted, numbers as written, half surrogate pairs kept
from functools import lru_cache
from typing import Any

import msgspec

from looptrace import _core

# A longer Python literal stays text, because parsing it costs more than it gains.
LITERAL_CHARS_MAX = 20_000

# The tags of the Vercel AI SDK on results of tools.
_VERCEL_OUTPUTS = {"text", "json", "content", "error-text", "error-json"}

# How an object begins that Python or JSON wrote as a text.
_DICT_BEGINS = ("{'", '{"')
# OpenLLMetry's keys around the query of a LangChain retriever.
_RETRIEVER_KEYS = frozenset({"query", "tags", "metadata", "kwargs"})
# The keys under which shell tools return the exit code of a command.
_EXIT_CODES = ("exit_code", "exitCode", "exit_status", "returncode", "return_code")

# The first characters of JSON: of values that may have white space inside, and of those without.
_JSON_BRACKETS = frozenset('{["')
_JSON_WORDS = frozenset("-0123456789tfn")
_decode = msgspec.json.Decoder().decode
_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
).encode
_encode_flat = msgspec.json.Encoder(order="sorted").encode
_FLAT_KEYS = frozenset({str})
_FLAT_VALUES = frozenset({str, int, bool, type(None)})
# The most arguments and results kept as read: they are in a call's span and in each later history.
PAYLOADS_KEPT = 1024
PAYLOAD_CHARS_KEPT = 4096


def parsed(value: object) -> Any:
    """Return the value of a string that is JSON, and any other value as it is."""
    if not isinstance(value, str) or not (text := value.lstrip()):
        return value
    try:
        # Prose that begins with a number is told apart faster than by an error of the decoder.
        if text[0] in _JSON_BRACKETS or (text[0] in _JSON_WORDS and len(text.split(None, 1)) == 1):
            return _decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        pass  # It is text, or has escapes that no reader accepts.
    if "\\u" in value:
        data = value.encode("utf-8", "surrogatepass")
        whole = _core.with_whole_escapes(data).decode("utf-8", "surrogatepass")
        return value if whole == value else parsed(whole)
    return value


def is_redacted(value: object) -> bool:
    """Return whether a value is the placeholder of a removed one."""
    return isinstance(value, str) and _core.is_redacted(value)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a text, which is a JSON list or one name."""
    names = parsed(text)
    return tuple(str(parsed(name)) for name in (names if isinstance(names, list) else [names]))


def canonical(value: object) -> str:
    """Return the same text for equal values: sorted keys, no spacing, 1.0 written as 1.

    A string only loses its outer white space.
    """
    if isinstance(value, str):
        return value.strip()
    if type(value) is dict and _is_flat(value):
        try:
            return _encode_flat(value).decode()
        except UnicodeEncodeError:
            pass  # Half surrogate pairs are kept below.
    return _encode(_plain_numbers(value))


def _is_flat(value: dict[Any, Any]) -> bool:
    """Return whether a value is an object that any encoder writes alike, as most arguments are."""
    return _FLAT_KEYS.issuperset(map(type, value)) and _FLAT_VALUES.issuperset(
        map(type, value.values())
    )


def arguments_of(value: object) -> str | None:
    """Return a call's arguments in canonical form, without the wrappers of frameworks.

    None where the span has none. Known wrappers are `{"args": [], "kwargs": {}}` of decorators, and
    LangChain's `{"input_str": "{'a': 1}", "tags": ..., "metadata": ...}`, with `query` for
    retrievers, `{"input": "{'a': 1}"}`, and the bare text `{'a': 1}` of Python.
    """
    if isinstance(value, str) and len(value) <= PAYLOAD_CHARS_KEPT:
        return _arguments_kept(value)
    return _arguments(value)


def _arguments(value: object) -> str | None:
    value = parsed(parsed(value))
    if value is None or is_redacted(value):
        return None
    only = value.get("input") if isinstance(value, dict) and len(value) == 1 else value
    if isinstance(only, str) and only.startswith(_DICT_BEGINS):
        named = parsed(only)
        named = named if isinstance(named, dict) else _literal(only)
        value = named if isinstance(named, dict) else value
    if isinstance(value, dict):
        if value.keys() & {"tags", "metadata"}:
            if "input_str" in value:
                return canonical(value.get("inputs") or parsed(_literal(value["input_str"])))
            if "query" in value and value.keys() <= _RETRIEVER_KEYS:
                return canonical(value["query"])
        if "kwargs" in value and value.keys() <= {"args", "kwargs", "sanitize_inputs_outputs"}:
            positional, named = value.get("args") or [], value["kwargs"] or {}
            return canonical(named if not positional else positional if not named else value)
    return canonical(value)


_arguments_kept = lru_cache(maxsize=PAYLOADS_KEPT)(_arguments)


def result_of(value: object) -> tuple[str | None, bool | None]:
    """Return the result of a call, unwrapped, and whether the result says that the call failed.

    (None, None) where the span has none. Known wrappers are LangChain's tool message, the content
    parts of MCP, Bedrock and the GenAI conventions, and Google's function response.
    """
    if isinstance(value, str) and len(value) <= PAYLOAD_CHARS_KEPT:
        return _result_kept(value)
    return _result(value)


def _result(value: object) -> tuple[str | None, bool | None]:
    value = parsed(value)
    if value is None or is_redacted(value):
        return None, None
    if isinstance(value, list) and value and all(_is_text_part(part) for part in value):
        texts = [_text_of(part) for part in value]
        return None if any(map(is_redacted, texts)) else "\n".join(texts), None
    if isinstance(value, list) and len(value) == 1 and _is_response(value[0]):
        value = value[0]
    if not isinstance(value, dict):
        return canonical(value), None
    inner, failed = _unwrapped(value)
    if inner is not value:
        text, failed_within = result_of(inner)
        return text, failed if failed is not None else failed_within
    error = value.get("error")
    if error and value.keys() <= {"error", "success", "status", "ok"}:
        return canonical(error), True
    return canonical(value), True if error else _says_failed(value)


_result_kept = lru_cache(maxsize=PAYLOADS_KEPT)(_result)


def _unwrapped(value: dict[str, Any]) -> tuple[object, bool | None]:
    if value.get("lc") and isinstance(value.get("kwargs"), dict):
        value = value["kwargs"]
    if isinstance(value.get("data"), dict) and value.get("type") == "tool":
        value = value["data"]
    if value.keys() == {"type", "value"} and str(value["type"]) in _VERCEL_OUTPUTS:
        return value["value"], str(value["type"]).startswith("error") or None
    if "content" in value and (value.get("type") == "tool" or "isError" in value):
        return value["content"], _says_failed(value)
    if "tool_output" in value and isinstance(value["tool_output"], dict):
        return value["tool_output"].get("raw_output"), _says_failed(value["tool_output"])
    if "raw_output" in value and "raw_input" in value:  # LlamaIndex
        return value["raw_output"], _says_failed(value)
    if _is_response(value):
        return next(iter(value.values())), None
    if "response" in value and value.keys() <= {"id", "name", "response"}:
        return value["response"], None
    if value.keys() == {"result"} or ("output" in value and value.keys() <= {"output", "kwargs"}):
        return value.get("output", value.get("result")), None
    return value, None


def _says_failed(value: dict[str, Any]) -> bool | None:
    """Return whether a result says that its call failed; an exit code counts more than a flag."""
    codes = [value[key] for key in _EXIT_CODES if isinstance(value.get(key), int)]
    if any(codes):
        return True
    for key in ("is_error", "isError"):
        if isinstance(value.get(key), bool):
            return bool(value[key])
    if value.get("status") in ("error", "failed"):
        return True
    if value.get("success") is False or value.get("ok") is False:
        return True
    return False if codes or value.get("status") == "success" else None


def _is_response(value: object) -> bool:
    """Return whether a value is a part with Google's function response, and nothing else."""
    return isinstance(value, dict) and value.keys() in (
        {"functionResponse"},
        {"function_response"},
    )


def _is_text_part(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _text_of(part: Any) -> str:
    return str(part["text"])


def _literal(text: object) -> object:
    if not isinstance(text, str) or len(text) > LITERAL_CHARS_MAX:
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return text


def _plain_numbers(value: object) -> object:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {str(key): _plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_numbers(item) for item in value]
    if isinstance(value, set):  # A set in a Python literal has no order.
        return sorted(canonical(item) for item in value)
    return value
