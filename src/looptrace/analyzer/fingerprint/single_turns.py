"""The fingerprint of one turn at a time, for turns that arrive live.

`signatures` reads whole columns. Each of its about one hundred steps costs as much for one turn as
for a thousand. This module has the same steps, by the same patterns, for single turns. It takes
turns that show no test run, with texts on which Python's engine and Rust's agree. All other turns
go through `signatures`. A test checks that both ways give the same.
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
from looptrace.analyzer.fingerprint.error_kinds import FAILURE_EXIT, FAILURE_HEAD, is_refused
from looptrace.analyzer.fingerprint.masks import (
    _DIGEST,
    _KEY_AND_MASK,
    FRESH,
    PROMPT_MASKS,
    fresh_patterns,
    may_be_fresh,
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
from looptrace.analyzer.fingerprint.single_failures import single_failure
from looptrace.analyzer.fingerprint.single_texts import (
    CHARS_MAX,
    FAILURE_CHARS_MAX,
    found,
    is_plain,
    joined_all,
    joined_known,
    masked_text,
    one_spaced,
    python_pattern,
    slug,
    stripped,
    uncounted,
)
from looptrace.analyzer.fingerprint.tool_kinds import ANSWERING_COMMAND
from looptrace.analyzer.fingerprint.volatile.made_results import TELLS_FIGURES, made_result, makes
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.text.cut_texts import compared_text
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.errors import answers_no
from looptrace.bounded_dict import BoundedDict

_COMPARED = ("tool", "handoff", "attempt", "switch")
_READ = ("name", "subtask", "arguments", "result", "error", "error_type", "trace_hash")

# Cached fingerprints, by the fields that they are made of. Failures come again, and so do all turns
# of a trace if its last span names the agent.
KNOWN_MAX = 4_000
_MADE = (
    *("tests_failed", "tests_total", "coverage", "failed", "error_type", "error", "error_kind"),
    *("location", "trace_hash", "call", "outcome", "signature", "response", "talks_on"),
)
_MADE_OF = (*_MADE, "kind", "name", "subtask", "arguments", "result", "text")

Row = Mapping[str, Any]  # of `TURN_SCHEMA`; fields that it leaves out are null
Turn = tuple[Any, ...]  # a row of `TURN_SCHEMA`


class LiveFingerprints:
    """Fills in the columns that turns are compared by, for few turns at a time."""

    def __init__(self, sameness: Sameness = NOTHING) -> None:
        self._sameness = sameness
        self._known: BoundedDict[int, Row] = BoundedDict(KNOWN_MAX)

    def turns(self, rows: Sequence[Row]) -> list[Turn]:
        """Return the turns of rows in order, as `signatures.add_fingerprints` does."""
        keys = list(map(_key, rows))
        new = {key: row for key, row in zip(keys, rows, strict=True) if key not in self._known}
        made: dict[int, Row] = {}
        left: dict[int, Row] = {}
        for key, row in new.items():
            alone = single_fingerprint(row, self._sameness)
            (left if alone is None else made)[key] = row if alone is None else alone
        made |= zip(left, self._by_columns(list(left.values())), strict=True)
        known = {key: self._known[key] for key in keys if key not in made} | made
        self._known.update(made)
        whole = ({**row, **known[key]} for key, row in zip(keys, rows, strict=True))
        return [tuple(map(row.get, TURN_SCHEMA)) for row in whole]

    def _by_columns(self, rows: Sequence[Row]) -> Sequence[Row]:
        if not rows:
            return []
        columns = {name: [row.get(name) for row in rows] for name in TURN_SCHEMA}
        table = add_fingerprints(pl.DataFrame(columns, TURN_SCHEMA), self._sameness)
        return table.select(_MADE).rows(named=True)


def _key(row: Row) -> int:
    return hash(tuple(row.get(name) for name in _MADE_OF))


_PROMPT_MASKS = [(python_pattern(pattern), name) for pattern, name in PROMPT_MASKS]
_HEAD, _EXIT = python_pattern(FAILURE_HEAD), python_pattern(FAILURE_EXIT)
_ANSWERING = python_pattern(ANSWERING_COMMAND)
_BY_COMMAND = python_pattern(_TESTS_BY_COMMAND)
_VOLATILE, _LOOSE = python_pattern(_MAY_BE_VOLATILE), python_pattern(_MAY_BE_LOOSE)
# A key is tried only from its beginning, else a long word would take quadratic time.
_DIGESTS, _KEYS_AND_MASKS = map(python_pattern, (_DIGEST, rf"(?<![\w.-]){_KEY_AND_MASK}"))
_CHANGED_FILE, _FILE_NAME, _CHANGE, _SEARCHED = map(
    python_pattern, (CHANGED_FILE, FILE_NAME, CHANGE, SEARCHED)
)
_WORDS_ONLY = python_pattern(_ONLY_WORDS)
_WORD = re.compile(r"\w")
# Each digest has at least this many. This check is faster than the search for digests.
_HEX_DIGITS = re.compile("[0-9A-Fa-f]{12}")
# An exit code comes after one word of each pair.
_EXIT_WORDS = (("exit", "return"), ("code", "status"))
_GAPS = python_pattern(r"\s+")


def single_fingerprint(row: Row, sameness: Sameness) -> dict[str, Any] | None:
    """Return the columns that a turn is compared by; None if `signatures` must make them."""
    kind, result, failed = row["kind"], row.get("result"), row.get("failed")
    if sameness.masks or not _is_plain(row, CHARS_MAX):
        return None
    if kind == "tool":
        if _shows_tests(row):
            return None
        if _has_answered(row):
            failed = False
        elif failed is None and result is not None:
            failed = bool(_HEAD.search(result)) or _tells_exit(result)
            failed = failed or is_refused(result, row["name"], row.get("arguments"))
        if result is None and not failed:  # A command may answer by what its span calls an error.
            row = {**row, "result": row.get("error")}
    if failed and (kind not in ("tool", "model") or not _is_plain(row, FAILURE_CHARS_MAX)):
        return None
    polls = kind == "tool" and (tool := sameness.tools.get(row["name"])) and tool.polling
    request = _request(row, sameness)
    call = None if polls else _call(row, request)
    made = {
        "failed": failed,
        "call": None if call is None else digest(call),
        "response": _hashed(row.get("response")),
        "talks_on": _hashed(row.get("talks_on")),
    }
    if failed:
        found_failure = single_failure(row, request, sameness.results)
        if found_failure is None:
            return None
        made |= found_failure
    else:
        answer = _answer(row, sameness.results) if kind in _COMPARED else None
        made["outcome"] = None if answer is None else digest(answer)
        made["signature"] = _signature(row, request, made)
    return made | ({"signature": None} if polls else {})


def _has_answered(row: Row) -> bool:
    """Return whether a command answers "no" by its exit code, as `signatures._failed` does."""
    shown = row.get("result") if row.get("error") is None else row["error"]
    if shown is None or not answers_no(shown):
        return False
    return bool(_ANSWERING.search(row.get("arguments") or ""))


def _tells_exit(result: str) -> bool:
    """Return whether a result gives an exit code other than that of success."""
    lower = result.lower()
    may = all(any(word in lower for word in words) for words in _EXIT_WORDS)
    return may and bool(_EXIT.search(result))


def _is_plain(row: Row, chars_max: int) -> bool:
    """Return whether both engines read the texts of a turn alike."""
    texts = [row.get(name) for name in _READ]
    texts += [row.get("text")] if row["kind"] == "user" else []
    return all(is_plain(text, chars_max) for text in texts)


def _shows_tests(row: Row) -> bool:
    result, error = row.get("result"), row.get("error")
    for text in (result, error):
        if text is not None and any(map(text.__contains__, _MARKERS)):
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
    """Do what the function of the same name in `signatures` does."""
    kind = row["kind"]
    if kind == "attempt":
        return request
    if kind == "model":
        return None if row.get("arguments") is None else masked_text(row["arguments"])
    if kind == "user":
        return _prompt_words(row.get("text"))
    return joined_all("(", row.get("name"), request)


def _prompt_words(text: str | None) -> str | None:
    if text is None:
        return None
    words = masked_text(compared_text(text, "prompt")).lower()
    for pattern, name in _PROMPT_MASKS:
        words = pattern.sub(name, words)
    return stripped(words) or None


@cache
def _fresh(results: Results, *, counters: bool) -> tuple[re.Pattern[str], ...]:
    return tuple(map(python_pattern, fresh_patterns(results, counters=counters)))


def _answer(row: Row, results: Results) -> str | None:
    """Do what `masks.masked_results` does for the result of a call."""
    result, name, is_call = row.get("result"), row.get("name"), row["kind"] == "tool"
    if result is None:
        return None
    if is_call and makes(name, row.get("arguments")):
        result = made_result(result, results)
    counters = name is None or not TELLS_FIGURES.search(name)
    text = fresh = stripped(result)
    if may_be_fresh(text, results):
        for pattern in _fresh(results, counters=counters):
            fresh = pattern.sub(rf"\g<1>{FRESH}\g<2>", fresh)
    masked = masked_text(fresh)
    masked = one_spaced(uncounted(masked) if counters else masked)
    says = _KEYS_AND_MASKS.sub("", masked) if "<" in masked else masked
    if not _WORD.search(says):
        return text
    digests = ""
    if _HEX_DIGITS.search(fresh):
        digests = " ".join(match[0] for match in _DIGESTS.finditer(fresh))
    return f"{masked} {digests}" if digests else masked


def _hashed(response: str | None) -> str | None:
    return None if response is None else _sha256(stripped(response))


def _signature(row: Row, request: str | None, made: Row) -> str | None:
    """Do what the function of the same name in `signatures` does, for turns without a failure."""
    kind, name = row["kind"], row.get("name")
    if kind not in ("tool", *_REPORTED) or name is None:
        return None
    call, outcome = made["call"], made["outcome"]
    if kind == "handoff":
        head = f"request:{joined_known(':', name, slug(request))}"
        return _cut(head, call, FORM_CHARS_MAX)
    if kind != "tool":
        blocked = name == "blocked" and request is not None
        report = request if blocked else row.get("result")
        whose = row.get("subtask") if kind == "switch" else None
        head = joined_known(":", whose, name, slug(report))
        only_words = report is None or _WORDS_ONLY.search(report)
        if only_words and len(head) <= FORM_CHARS_MAX:
            return head
        return _cut(
            head, joined_known("-", whose, name, call if blocked else outcome), FORM_CHARS_MAX
        )
    return _of_call(name, request, joined_all("-", call, outcome))


def _of_call(name: str, request: str | None, whole: str | None) -> str | None:
    form = _form_of(name)
    if request is None or whole is None:
        return None
    if form == "other":
        head = f"{name}:{_GAPS.sub(' ', request[:_READ_CHARS])}"
        return _cut(head, whole, SIGNATURE_CHARS_MAX)
    if form == "search":
        searched = found(_SEARCHED, request)
        words = slug(request if searched is None else searched)
        return _cut(f"search:{words}", whole, FORM_CHARS_MAX)
    path = found(_CHANGED_FILE, request)
    file = None if path is None else found(_FILE_NAME, path)
    gist = slug(found(_CHANGE, request))
    change = slug(request)
    if file is not None:
        change = joined_known(":", file, None if gist is None else gist[:GIST_CHARS_MAX])
    return _cut(f"file:{change}", whole, FORM_CHARS_MAX)


def _cut(head: str, whole: str | None, chars_max: int) -> str | None:
    return None if whole is None else f"{head[:chars_max]}#{digest(whole)}"
