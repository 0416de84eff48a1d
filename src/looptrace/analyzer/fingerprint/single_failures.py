"""The fingerprint of one failure at a time; `single_turns` is for turns that did not fail.

Each function names a function or an expression for columns. It does the same for one text, by the
same patterns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from looptrace.analyzer.fingerprint import failure_places, stack_traces
from looptrace.analyzer.fingerprint.equivalence import Results
from looptrace.analyzer.fingerprint.error_kinds import (
    ERROR_KINDS,
    ERROR_TYPE,
    EXTERNAL,
    FIGURES,
    FIRST_LINE,
    LAST_LINE,
    MODEL_SERVER,
    UNTOLD,
    kind_of_type,
)
from looptrace.analyzer.fingerprint.masks import _ID
from looptrace.analyzer.fingerprint.signatures import (
    _ONLY_WORDS,
    FILE_OF_PLACE,
    FORM_CHARS_MAX,
    GIST_CHARS_MAX,
)
from looptrace.analyzer.fingerprint.single_texts import (
    found,
    joined_all,
    joined_known,
    masked_text,
    python_pattern,
    slug,
    stripped,
)
from looptrace.analyzer.fingerprint.tool_kinds import CHANGES, FILE_LOOK
from looptrace.analyzer.fingerprint.volatile.quotes import compared_error
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.errors import says_nothing

_TYPE, _SERVER, _FIGURES = map(python_pattern, (ERROR_TYPE, MODEL_SERVER, FIGURES))
_FIRST, _LAST, _FILE_LOOK = map(python_pattern, (FIRST_LINE, LAST_LINE, FILE_LOOK))
_KINDS = [(name, python_pattern(pattern)) for name, pattern in ERROR_KINDS]
_IDS = python_pattern(_ID)
_FILE, _WORDS_ONLY = python_pattern(FILE_OF_PLACE), python_pattern(_ONLY_WORDS)

_COLOURS = python_pattern(failure_places._ANSI)
_STRINGS = python_pattern(failure_places._HOLDS_STRINGS)
_IN_JSON = python_pattern(failure_places._IN_JSON)
_STEPS = [
    python_pattern("(?m)" + "|".join(row.pattern for row in rows)) for rows in failure_places.STEPS
]
_LINE_ENDS, _BLANK_LINES = python_pattern("\r\n?"), python_pattern(r"\s*\n\s*")

_FRAMES = python_pattern("(?m)" + "|".join(stack_traces._FRAMES))
_PYTHON, _OTHERS, _FUNCTION, _FOREIGN, _HASH, _FOLDERS, _LINES = map(
    python_pattern,
    (
        stack_traces._PYTHON,
        stack_traces._OTHERS,
        stack_traces._FUNCTION,
        stack_traces._FOREIGN,
        stack_traces._HASH,
        stack_traces._FOLDERS,
        stack_traces._LINES,
    ),
)
_LINE_IN_TEXT, _FILE_IN_TEXT, _FUNCTION_IN_TEXT = map(
    python_pattern,
    (stack_traces._LINE_IN_TEXT, stack_traces._FILE_IN_TEXT, stack_traces._FUNCTION_IN_TEXT),
)


class Failure(NamedTuple):
    """The fields that are read from a failed call or response."""

    kind: str  # of the turn
    name: str | None
    arguments: str | None
    request: str | None
    error: str | None
    error_type: str | None
    result: str | None
    trace: str | None

    @property
    def hidden(self) -> bool:
        """Whether the text of the failure says nothing."""
        return self.error is not None and says_nothing(self.error)


def single_failure(
    row: Mapping[str, Any], request: str | None, results: Results
) -> dict[str, Any] | None:
    """Return the compared columns of a failure except its call; None if `signatures` must do it."""
    kind, result, error = row["kind"], row.get("result"), row.get("error")
    trace, error_type = row.get("trace_hash"), row.get("error_type")
    if trace is not None and _HASH.search(trace):
        return None
    if kind == "tool":
        error = result if error is None else error
        if error_type is None and error is not None:
            error_type = found(_TYPE, error)
    failure = Failure(
        kind, row.get("name"), row.get("arguments"), request, error, error_type, result, trace
    )
    message = _message(failure, results)
    location, trace_hash = _place(failure)
    return {
        "failed": True,
        "error": error,
        "error_type": error_type,
        "error_kind": _error_kind(failure),
        "location": location,
        "trace_hash": trace_hash,
        "outcome": None if message is None else digest(f"failed {message}"),
        "signature": _signature(failure, message, location),
    }


def _message(failure: Failure, results: Results) -> str | None:
    """Return the message as `add_fingerprints` makes it."""
    if failure.error is None:
        return None
    asked = (failure.name, failure.arguments) if failure.kind == "tool" else (None, None)
    error = compared_error(failure.error, *asked, results)
    message = masked_text(_without_places(error), error=True)
    if failure.kind == "model":
        return _FIGURES.sub("#", message)
    return message + _named_ids(failure.error, failure.request)


def _named_ids(text: str, request: str | None) -> str:
    """Do what `masks.named_ids` does."""
    if request is None:
        return ""
    ids = (match[0] for match in _IDS.finditer(text))
    return ",".join(each for each in ids if each.strip("_") in request)


def _printed_lines(text: str) -> str:
    """Do what `failure_places.printed_lines` does."""
    plain = _LINE_ENDS.sub("\n", _COLOURS.sub("", text))
    if not _STRINGS.search(text):
        return plain
    lines = _IN_JSON.sub("\n", plain.replace(r"\"", failure_places._INNER))
    return lines.replace(r"\t", "\t").replace(failure_places._INNER, '"')


def _without_places(text: str) -> str:
    """Do what `failure_places.without_places` does."""
    text = _printed_lines(text)
    for pattern in _STEPS:
        text = pattern.sub(lambda match: "".join(filter(None, match.groups())), text)
    return _BLANK_LINES.sub("\n", text)


def _place(failure: Failure) -> tuple[str | None, str | None]:
    """Return the location and the hash of the trace, as `stack_traces.with_places` does."""
    text = failure.trace
    if text is None and failure.error is not None and not failure.hidden:
        text = failure.error if failure.result is None else failure.result
    if text is None:
        return None, None
    frames = [stripped(match[0]) for match in _FRAMES.finditer(text)]
    context = masked_text("\n".join(frames) if frames else text)
    context = _LINES.sub("<line>", _FOLDERS.sub(r"\g<1>", context))
    location = _innermost(frames) if frames else None
    whole = f"{failure.error_type or ''}\n{context}"
    return _place_in_text(text) if location is None else location, digest(whole)


def _innermost(frames: list[str]) -> str | None:
    """Return the place of the frame that counts, as `stack_traces._frames` does."""
    places = [
        (bool(_FOREIGN.search(frame)), -place if _PYTHON.search(frame) else place, place)
        for place, frame in enumerate(frames)
    ]
    return _frame_place(frames[min(places)[2]])


def _frame_place(frame: str) -> str | None:
    matches = [match for p in (_PYTHON, _OTHERS) if (match := p.search(frame))]
    if matches:
        return f"{matches[0][1].removeprefix('file://')}:{matches[0][2]}"
    function = _FUNCTION.search(frame)
    return (function[1] or function[2]) if function else None


def _place_in_text(text: str) -> str | None:
    """Do what the function of the same name does for columns."""
    if line := _LINE_IN_TEXT.search(text):
        return f"{line[1]}:{line[2]}"
    if file := _FILE_IN_TEXT.search(text):
        return file[1]
    function = _FUNCTION_IN_TEXT.search(text)
    return (function[1] or function[2]) if function else None


def _error_kind(failure: Failure) -> str:
    """Do what the function of the same name in `signatures` does."""
    text = joined_known(": ", failure.error_type, failure.error)
    if failure.kind == "model" and _SERVER.search(text):
        return "network"
    if failure.error is None or failure.hidden:
        return UNTOLD
    by_type = None if failure.error_type is None else kind_of_type(failure.error_type)
    if by_type:
        return by_type
    lines = (found(_FIRST, failure.error), found(_LAST, failure.error))
    head = "" if _is_local(failure) else joined_known(": ", failure.error_type, *lines)
    texts = ((name, pattern, head if name in EXTERNAL else text) for name, pattern in _KINDS)
    return next((name for name, pattern, where in texts if pattern.search(where)), "unknown")


def _is_local(failure: Failure) -> bool:
    """Do what the function of the same name in `signatures` does."""
    edits = failure.name is not None and CHANGES.search(failure.name)
    return failure.kind == "tool" and bool(edits or _FILE_LOOK.search(failure.arguments or ""))


def _signature(failure: Failure, message: str | None, location: str | None) -> str | None:
    """Do what `signatures` does for errors."""
    type_ = "Error" if failure.error_type is None else failure.error_type
    if failure.hidden:
        head = joined_all("-", type_, failure.name)
        whole = joined_all("\n", type_, failure.name, failure.request)
    else:
        words = slug(message)
        gist = None if words is None else words[:GIST_CHARS_MAX].rstrip("-")
        file = None if location is None else found(_FILE, masked_text(location))
        file = None if file is not None and gist is not None and file in gist else file
        head = joined_known("-", type_, gist, file)
        whole = joined_all("\n", type_, message, file or "")
        only_words = message is not None and bool(_WORDS_ONLY.search(message))
        if only_words and len(str(message)) <= GIST_CHARS_MAX:
            said = f"error:{head}"
            if len(said) <= FORM_CHARS_MAX:
                return said
    if head is None or whole is None:
        return None
    return f"{f'error:{head}'[:FORM_CHARS_MAX]}#{digest(whole)}"
