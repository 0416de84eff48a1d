"""OTLP/JSON, which the core decodes, and the words for what is wrong with JSON of other forms."""

import re

import msgspec

from looptrace import _core
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json_documents import DEPTH_MAX
from looptrace.collector.otlp.span_rows import BadSpanError, DecodedSpans, DecodingBounds

MEND = "correct it or export it again"
DATA_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadSpanError)

# msgspec's messages, and its names of types.
_WRONG_TYPE = re.compile(
    r"Expected `(?P<expected>[^`]*)`, got `(?P<found>[^`]*)`(?: - at `\$\.?(?P<at>[^`]*)`)?"
)
_MALFORMED = re.compile(r"JSON is malformed: (?P<why>.*) \(byte (?P<byte>\d+)\)")
_TRUNCATED = "Input data was truncated"
_TYPE_WORDS = {
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
}
_DUE_WORDS = _TYPE_WORDS | {"int": "a whole number"}


def decode_request(data: bytes, bounds: DecodingBounds) -> DecodedSpans:
    """Return the spans of a complete request, and its problems.

    Raises UndecodableError and OverBoundsError.
    """
    return DecodedSpans.of_core(_core.decode_json(data, "the request", limits=bounds.limits))


def decode_document(name: str, document: Frame) -> DecodedSpans:
    """Return the spans of a document, one request or an array of requests, and its problems.

    `name` is the source's. Raises nothing for bad data, of which it reads the readable parts.
    """
    read = _core.decode_json_document(
        document.data, name, document.number, problem=document.problem
    )
    return DecodedSpans.of_core(read)


def words(error: Exception) -> str:
    """Return in plain words what msgspec, or `span_row`, refused."""
    if isinstance(error, RecursionError):
        return f"nested too deep, nothing below level {DEPTH_MAX} is read"
    if isinstance(error, UnicodeDecodeError):
        return "its text is not valid UTF-8"
    text = str(error)
    if wrong := _WRONG_TYPE.fullmatch(text):
        at = f" at {wrong['at']}" if wrong["at"] else ""
        expected = [kind for kind in wrong["expected"].split(" | ") if kind != "null"]
        due = " or ".join(_DUE_WORDS.get(kind, kind) for kind in expected)
        return f"expected {due}, found {_TYPE_WORDS.get(wrong['found'], wrong['found'])}{at}"
    if malformed := _MALFORMED.fullmatch(text):
        return f"not valid JSON at byte {malformed['byte']}: {malformed['why']}"
    return "the JSON is cut off" if text == _TRUNCATED else text
