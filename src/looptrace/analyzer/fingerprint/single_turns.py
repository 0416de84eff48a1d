"""The fingerprint of one turn at a time, for turns that arrive live.

`signatures` reads whole columns, and each of its some hundred steps costs as much for one turn as
for a thousand. Here are the same steps, by the same patterns, for turns that did not fail and show
no test run, in texts on which Python's engine and Rust's agree; all others go the columns' way. A
test holds both ways equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import polars as pl

from looptrace.analyzer.fingerprint.equivalence import (
    _MAY_BE_LOOSE,
    _MAY_BE_VOLATILE,
    NOTHING,
    Results,
    Sameness,
    Tool,
    _reduce,
    _reduces,
)
from looptrace.analyzer.fingerprint.error_kinds import FAILURE_EXIT, FAILURE_HEAD
from looptrace.analyzer.fingerprint.masks import (
    _DIGEST,
    _FRESH,
    _KEY_AND_MASK,
    MASKS,
    PROMPT_MASKS,
    _fresh_patterns,
)
from looptrace.analyzer.fingerprint.runner_output import (
    _MARKERS,
    _TESTS_BY_COMMAND,
    TESTS,
    _count_bare,
)
from looptrace.analyzer.fingerprint.signatures import (
    _ONLY_WORDS,
    _READ_CHARS,
    _REPORTED,
    CHANGE,
    CHANGED_FILE,
    FILE_NAME,
    FORM_CHARS_MAX,
    GIST_CHARS_MAX,
    SEARCHED,
    SIGNATURE_CHARS_MAX,
    _form_of,
    _sha256,
    add_fingerprints,
)
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.text.digests import digest
from looptrace.bounded_dict import BoundedDict

# Longer texts go the columns' way, because Python's engine takes no linear time.
CHARS_MAX = 4_096

# What Rust takes for white space.
_SPACES = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_STRIPPED = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
# Signs of which both engines know alike whether they are letters, and their other case.
_PLAIN = re.compile(
    "[\x00-\x7f\x85\xa0-\xb1\xb4-\xb8\xba\xbb\xbf-\u012f\u0132-\u024f\u0391-\u03a1\u03a3-\u03c9"
    "\u0400-\u0481\u048a-\u052f\u2000-\u200a\u2010-\u203e\u2041-\u2053\u2055-\u205e\u20a0-\u20bf\u2190-\u23ff\u2500-\u26ff"
    "\u2701-\u2775\u2794-\u27bf\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3"
    "\U0001f300-\U0001f5ff\U0001f600-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001f9ff]*"
)
_COMPARED = ("tool", "handoff", "attempt", "switch")
_READ = ("name", "subtask", "arguments", "result", "error")

# Fingerprints by columns that are known by what they are made of, because failures come again.
KNOWN_MAX = 1_000
_MADE = (
    *("tests_failed", "tests_total", "coverage", "failed", "error_type", "error", "error_kind"),
    *("location", "trace_hash", "call", "outcome", "signature", "response", "talks_on"),
)
_MADE_OF = (*_MADE, "kind", "name", "subtask", "arguments", "result", "text")

Row = Mapping[str, Any]  # of `TURN_SCHEMA`; what it leaves out is null
Turn = tuple[Any, ...]  # a row of `TURN_SCHEMA`


class LiveFingerprints:
    """Fills in what turns are compared by, as few of them arrive at a time."""

    def __init__(self, sameness: Sameness = NOTHING) -> None:
        self._sameness = sameness
        self._known: BoundedDict[int, Row] = BoundedDict(KNOWN_MAX)

    def turns(self, rows: Sequence[Row]) -> list[Turn]:
        """Return the turns of rows in their order, as `signatures.add_fingerprints` does."""
        made = [single_fingerprint(row, self._sameness) for row in rows]
        left = {place: _key(rows[place]) for place, found in enumerate(made) if found is None}
        new = {key: rows[place] for place, key in left.items() if key not in self._known}
        known = {key: self._known[key] for key in left.values() if key in self._known}
        known |= zip(new, self._by_columns(list(new.values())), strict=True)
        self._known.update(known)
        whole = ({**row, **(made[n] or known[left[n]])} for n, row in enumerate(rows))
        return [tuple(map(row.get, TURN_SCHEMA)) for row in whole]

    def _by_columns(self, rows: Sequence[Row]) -> Sequence[Row]:
        if not rows:
            return []
        columns = {name: [row.get(name) for row in rows] for name in TURN_SCHEMA}
        table = add_fingerprints(pl.DataFrame(columns, TURN_SCHEMA), self._sameness)
        return table.select(_MADE).rows(named=True)


def _key(row: Row) -> int:
    return hash(tuple(row.get(name) for name in _MADE_OF))


def _python(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of Rust's engine; in its texts both engines find the same."""
    flags, in_words = "", pattern
    if head := re.match(r"\(\?([ims]*(?:-u)?)\)", pattern):
        flags, in_words = head[1], pattern[head.end() :]
    is_ascii = flags.endswith("-u")
    text, in_class, place = [], False, 0
    while place < len(in_words):
        sign = in_words[place]
        step = in_words[place : place + 2] if sign == "\\" else sign
        if step == r"\s" and not is_ascii:
            text.append(_SPACES if in_class else f"[{_SPACES}]")
        elif step == "$" and not in_class and "m" not in flags:
            text.append(r"\Z")
        else:
            text.append(step)
        in_class = (in_class or step == "[") and step != "]"
        place += len(step)
    options = re.ASCII if is_ascii else re.NOFLAG
    options |= re.IGNORECASE if "i" in flags else re.NOFLAG
    options |= re.MULTILINE if "m" in flags else re.NOFLAG
    return re.compile("".join(text).replace("(?i-u:", "(?ai:"), options)


def _template(name: str) -> str:
    return re.sub(r"\$\{(\d+)\}", r"\\g<\1>", name)


_MASKS = [(_python(pattern), _template(name)) for pattern, name in MASKS]
_PROMPT_MASKS = [(_python(pattern), name) for pattern, name in PROMPT_MASKS]
_HEAD, _EXIT = _python(FAILURE_HEAD), _python(FAILURE_EXIT)
_BY_COMMAND = _python(_TESTS_BY_COMMAND)
_VOLATILE, _LOOSE = _python(_MAY_BE_VOLATILE), _python(_MAY_BE_LOOSE)
_DIGESTS, _KEYS_AND_MASKS = _python(_DIGEST), _python(_KEY_AND_MASK)
_CHANGED_FILE, _FILE_NAME, _CHANGE, _SEARCHED = map(
    _python, (CHANGED_FILE, FILE_NAME, CHANGE, SEARCHED)
)
_WORDS_ONLY = _python(_ONLY_WORDS)
_MARKED = re.compile("|".join(map(re.escape, _MARKERS)))
_ESCAPES, _NO_WORDS, _WORD = re.compile(r"\\[nrt]"), re.compile(r"[^\w.]+"), re.compile(r"\w")
_GAPS = _python(r"\s+")


def single_fingerprint(row: Row, sameness: Sameness) -> dict[str, Any] | None:
    """Return the columns that a turn is compared by; None if it must go the columns' way."""
    kind, result, failed = row["kind"], row.get("result"), row.get("failed")
    if failed or sameness.masks or not _is_plain(row):
        return None
    if kind == "tool":
        if _shows_tests(row):
            return None
        if failed is None and result is not None:
            failed = bool(_HEAD.search(result) or _EXIT.search(result))
            if failed:
                return None
    polls = kind == "tool" and (tool := sameness.tools.get(row["name"])) and tool.polling
    request = _request(row, sameness)
    call = None if polls else _call(row, request)
    answer = _answer(result, sameness.results) if kind in _COMPARED and result is not None else None
    made = {
        "failed": failed,
        "call": None if call is None else digest(call),
        "outcome": None if answer is None else digest(answer),
        "response": _hashed(row.get("response")),
        "talks_on": _hashed(row.get("talks_on")),
    }
    made["signature"] = None if polls else _signature(row, request, made)
    return made


def _is_plain(row: Row) -> bool:
    """Return whether both engines read the texts of a turn alike."""
    texts = [row.get(name) for name in _READ]
    texts += [row.get("text")] if row["kind"] == "user" else []
    return all(
        text is None or (len(text) <= CHARS_MAX and bool(_PLAIN.fullmatch(text))) for text in texts
    )


def _shows_tests(row: Row) -> bool:
    result, error = row.get("result"), row.get("error")
    if any(text is not None and _MARKED.search(text) for text in (result, error)):
        return True
    by_name = row["name"] is not None and TESTS.search(row["name"])
    if not by_name and not _BY_COMMAND.search(row.get("arguments") or ""):
        return False
    return _count_bare(error if result is None else result) != (None, None)


def _request(row: Row, sameness: Sameness) -> str | None:
    """Do what `equivalence.compared_arguments` does."""
    arguments: str | None = row.get("arguments")
    if row["kind"] != "tool" or arguments is None or not arguments.startswith("{"):
        return arguments
    tool = sameness.tools.get(row["name"], Tool())
    if _reduces(tool) or _VOLATILE.search(arguments) or _LOOSE.search(arguments):
        return _reduce(arguments, tool)
    return arguments


def _call(row: Row, request: str | None) -> str | None:
    """Do what `signatures` does of the same name."""
    kind = row["kind"]
    if kind == "attempt":
        return request
    if kind == "model":
        return None if row.get("arguments") is None else _masked(row["arguments"])
    if kind == "user":
        return _prompt_words(row.get("text"))
    return _joined("(", row.get("name"), request)


def _masked(text: str) -> str:
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    return text.strip(_STRIPPED)


def _prompt_words(text: str | None) -> str | None:
    if text is None:
        return None
    words = _masked(text).lower()
    for pattern, name in _PROMPT_MASKS:
        words = pattern.sub(name, words)
    return words.strip(_STRIPPED) or None


@cache
def _fresh(results: Results) -> tuple[re.Pattern[str], ...]:
    return tuple(map(_python, _fresh_patterns(results)))


def _answer(result: str, results: Results) -> str:
    """Do what `masks.masked_results` does."""
    text = fresh = result.strip(_STRIPPED)
    for pattern in _fresh(results):
        fresh = pattern.sub(rf"\g<1>{_FRESH}\g<2>", fresh)
    masked = _masked(fresh)
    if not _WORD.search(_KEYS_AND_MASKS.sub("", masked)):
        return text
    digests = " ".join(match[0] for match in _DIGESTS.finditer(fresh))
    return f"{masked} {digests}" if digests else masked


def _hashed(response: str | None) -> str | None:
    return None if response is None else _sha256(response.strip(_STRIPPED))


def _signature(row: Row, request: str | None, made: Row) -> str | None:
    """Do what `signatures` does of the same name, for the forms without a failure."""
    kind, name = row["kind"], row.get("name")
    if kind not in ("tool", *_REPORTED) or name is None:
        return None
    call, outcome = made["call"], made["outcome"]
    if kind == "handoff":
        head = f"request:{_known(':', name, _slug(request))}"
        return _cut(head, call, FORM_CHARS_MAX)
    if kind != "tool":
        blocked = name == "blocked" and request is not None
        report = request if blocked else row.get("result")
        whose = row.get("subtask") if kind == "switch" else None
        head = _known(":", whose, name, _slug(report))
        only_words = report is None or _WORDS_ONLY.search(report)
        if only_words and len(head) <= FORM_CHARS_MAX:
            return head
        return _cut(head, _known("-", whose, name, call if blocked else outcome), FORM_CHARS_MAX)
    return _of_call(name, request, _joined("-", call, outcome))


def _of_call(name: str, request: str | None, whole: str | None) -> str | None:
    form = _form_of(name)
    if request is None or whole is None:
        return None
    if form == "other":
        head = f"{name}:{_GAPS.sub(' ', request[:_READ_CHARS])}"
        return _cut(head, whole, SIGNATURE_CHARS_MAX)
    if form == "search":
        searched = _found(_SEARCHED, request)
        words = _slug(request if searched is None else searched)
        return _cut(f"search:{words}", whole, FORM_CHARS_MAX)
    path = _found(_CHANGED_FILE, request)
    file = None if path is None else _found(_FILE_NAME, path)
    gist = _slug(_found(_CHANGE, request))
    change = _slug(request)
    if file is not None:
        change = _known(":", file, None if gist is None else gist[:GIST_CHARS_MAX])
    return _cut(f"file:{change}", whole, FORM_CHARS_MAX)


def _cut(head: str, whole: str | None, chars_max: int) -> str | None:
    return None if whole is None else f"{head[:chars_max]}#{digest(whole)}"


def _slug(text: str | None) -> str | None:
    if text is None:
        return None
    head = _ESCAPES.sub(" ", text[:_READ_CHARS])
    return _NO_WORDS.sub("-", head).strip("-")


def _found(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


def _joined(separator: str, *parts: str | None) -> str | None:
    """Join parts, of which none may be unknown."""
    return None if None in parts else separator.join(map(str, parts))


def _known(separator: str, *parts: str | None) -> str:
    """Join the parts that are known."""
    return separator.join(part for part in parts if part is not None)
