"""One turn at a time: its codes and marks, as `columns` makes them for tables of turns.

One call of NumPy or Polars takes as long as all the work for one turn. Both modules derive the same
marks by the same patterns, and a test checks that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import nan
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from looptrace._core import EXTERNAL, PATTERNS, answers_no, is_unfinished, makes
from looptrace.analyzer.detect.columns import (
    CUT_TOKENS_MIN,
    NOTHING_FOUND,
    is_untested,
    tool_marks,
)
from looptrace.analyzer.fingerprint.chants import chant_of_turn
from looptrace.analyzer.fingerprint.error_kinds import MENDABLE, OWN_SERVER, RAN_OUT, UNTOLD
from looptrace.analyzer.fingerprint.rounds import BRIEF_ANSWER
from looptrace.analyzer.fingerprint.tool_kinds import (
    ACKNOWLEDGES,
    ASKS_HELP,
    CHANGES_FOUND,
    FOUND_NOTHING,
    FOUND_NOTHING_CHARS_MAX,
    QUERIES,
    SEARCHING_COMMAND,
    falls_short,
)
from looptrace.analyzer.fingerprint.waiting import LOG_FILE, OWN_NOTES, SLEEPS
from looptrace.analyzer.schema.turns import AT, SILENCE, Turn
from looptrace.rules.turns import CUTS, KINDS, STATUSES, TWINS, UNKNOWN

# Before all times: no span around the turn declares its phase.
NEVER_NS = -1

# Columns of turns that get a code, which is the hash of the column; trace and step get one, too.
CODED_TEXTS = (
    *("agent", "name", "subtask", "task_kind", "phase", "iteration", "call", "outcome"),
    *("signature", "response", "talks_on"),
)
# Codes by which a turn is compared with earlier ones, to find which rules may fire at it.
COMPARED = (
    "call",
    "outcome",
    "signature",
    "response",
    "error",
    "mendable",
    "search_result",
    "check",
)
_PLACES = {name: place for place, name in enumerate(COMPARED)}
# Other columns of a turn that an evaluation sees: its own numbers, its codes, its counts.
OWN = ("kind", "failed", "start_ns", "end_ns", "order_ns", "phase_start_ns", "markers")
FIGURES = ("tests_failed", "tests_total", "coverage")
CODED = (
    *CODED_TEXTS,
    *("error", "mendable", "search_result", "check", "look_chars", "status", "trace", "has_id"),
    "step",
    *("chant_times", "chant_chars", "external", "own", "changes", "works", "only_reads"),
    *("repeated", "brief", "unfinished", "watches", "searches", "pauses", "silent"),
    *("only_calls", "untested", "cut", "compacted"),
)
COUNTED = (
    *("turn", "epoch", "resets_seen", "speaker", "reminded", "reset", "phase_before"),
    "phase_before_text",
    *("enters", "visits", "transitions_seen", "converging", "waits_seen", "polls", "changes_seen"),
    *("relapses", "calls_seen", "works_seen", "improvements", *TWINS, "busy_ns", "steps", "errors"),
    *("errors_before", "turns_since_best", "turns_since_best_before", "tries_since_progress"),
    *("tries_since_progress_before", "measured", "figures_compared", "input_tokens_sum"),
    *("output_tokens_sum", "input_tokens_total", "output_tokens_total", "overdue_ns"),
)


class SingleTurn:
    """A turn with its codes and marks, and with its counts after `SingleCounters` counted it."""

    __slots__ = (
        "alike",
        "alike_any",
        "source",
        *OWN,
        *FIGURES,
        "input_tokens",
        "output_tokens",
        *CODED,
        *COUNTED,
    )
    source: Turn

    if TYPE_CHECKING:  # Attributes have the names of the columns, so none is written down twice.

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def again(self, *columns: str) -> bool:
        """Return whether an earlier turn is known to equal this one in all these columns."""
        for column in columns:
            if not self.alike_any[_PLACES[column]] or getattr(self, column) == UNKNOWN:
                return False
        if len(columns) == 1:
            return True
        return bool(self.alike[:, [_PLACES[column] for column in columns]].all(axis=1).any())


_KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
_CUT_CODES = {cut: code for code, cut in enumerate(CUTS, 1)}
_STATUS_CODES = {status: code for code, status in enumerate(STATUSES, 1)}
_TOOL = _KIND_CODES["tool"]
_SLEEPS, _WAITING, _FILE_LOOK, _LOG_FILE, _OWN_NOTES, _ASKS_HELP = map(
    re.compile,
    (SLEEPS, PATTERNS["waits"], PATTERNS["looks_at_file"], LOG_FILE, OWN_NOTES, ASKS_HELP),
)
_ACKNOWLEDGES, _QUERIES, _FOUND_NOTHING, _OWN_SERVER = map(
    re.compile, (ACKNOWLEDGES, QUERIES, FOUND_NOTHING, OWN_SERVER)
)
_BRIEF = re.compile(BRIEF_ANSWER)
_COMMAND, _CHANGES_FOUND = re.compile(SEARCHING_COMMAND), re.compile(CHANGES_FOUND)
_texts_of = itemgetter(*(AT[name] for name in (*CODED_TEXTS, "trace_id", "step")))
_numbers_of = itemgetter(
    *(AT[name] for name in ("start_ns", "end_ns", "phase_start_ns", "markers")),
    *(AT[name] for name in ("input_tokens", "output_tokens", *FIGURES)),
)
_says = itemgetter(
    *(AT[name] for name in ("kind", "name", "failed", "call_id", "task_kind", "response", "text")),
    *(AT[name] for name in ("arguments", "result", "error", "error_kind")),
    *(AT[name] for name in ("finish_reason", "compacted")),
)


def text_code(text: str | None) -> int:
    """Return the code of a text; it is valid in this process only and differs from `columns`."""
    return UNKNOWN if text is None else hash(text) or 1


def _code(*parts: object) -> int:
    """Return one code for several codes; equal codes give the same one."""
    return hash(parts) or 1


def encode_turn(turn: Turn, order_ns: int) -> SingleTurn:
    """Return a turn with its codes and marks, as `columns.encode_columns` does for a table."""
    one = SingleTurn()
    one.source = turn
    *codes, trace, step = map(text_code, _texts_of(turn))
    for name, code in zip(CODED_TEXTS, codes, strict=True):
        setattr(one, name, code)
    one.trace = trace
    one.step = UNKNOWN if step == UNKNOWN else _code(trace, step)
    start_ns, end_ns, phase_start_ns, markers, given, said, *figures = _numbers_of(turn)
    one.start_ns, one.end_ns, one.order_ns = start_ns, end_ns, order_ns
    one.phase_start_ns = NEVER_NS if phase_start_ns is None else phase_start_ns
    one.markers, one.input_tokens, one.output_tokens = markers or 0, given or 0, said or 0
    one.tests_failed, one.tests_total, one.coverage = (
        nan if figure is None else figure for figure in figures
    )
    _mark(one, _Said(*_says(turn)))
    return one


@dataclass(slots=True)
class _Said:
    """The fields that the marks of a turn are read from."""

    kind: str
    name: str | None
    failed: bool | None
    call_id: str | None
    task_kind: str | None
    response: str | None
    text: str | None
    arguments: str | None
    result: str | None
    error: str | None
    error_kind: str | None
    finish_reason: str | None
    compacted: bool | None


def _mark(one: SingleTurn, said: _Said) -> None:
    kind, name = said.kind, said.name
    one.kind = _KIND_CODES[kind]
    one.failed = said.failed is True
    one.has_id = said.call_id is not None
    one.untested = said.task_kind is not None and is_untested(said.task_kind)
    one.silent = said.response == SILENCE
    one.only_calls = kind == "model" and said.text == ""
    one.repeated = text_code(said.arguments) if kind == "user" else UNKNOWN
    one.brief = kind == "model" and bool(_BRIEF.search(said.text or ""))
    is_meant = 1 <= one.output_tokens < CUT_TOKENS_MIN
    one.cut = UNKNOWN if is_meant else _CUT_CODES.get(said.finish_reason or "", UNKNOWN)
    one.compacted = one.response if said.compacted else UNKNOWN
    one.chant_times, one.chant_chars = chant_of_turn(kind, said.text)
    one.status = UNKNOWN
    if kind in ("attempt", "switch") and name is not None:
        one.status = _STATUS_CODES.get(name, UNKNOWN)
    one.external = said.error_kind in EXTERNAL
    tool = tool_marks(name)
    one.searches = tool.searches
    shown = said.result if said.error is None else said.error
    looks = one.kind == _TOOL and not tool.changes and not makes(name, said.arguments)
    one.look_chars = len(shown) if looks and shown is not None else 0
    _mark_call(one, said)


def _mark_call(one: SingleTurn, said: _Said) -> None:
    """Set the marks that follow from a call and its failure, as `columns._marks` does."""
    tool, is_call, arguments = tool_marks(said.name), one.kind == _TOOL, said.arguments or ""
    one.pauses = is_call and (tool.pauses or bool(_SLEEPS.search(arguments)))
    waits = tool.watches or (not tool.changes and bool(_WAITING.search(arguments)))
    one.watches = is_call and waits and not one.pauses
    one.unfinished = False
    if is_call and (not one.failed or one.watches or one.pauses):
        shown = said.result if said.error is None else said.error
        is_file = _FILE_LOOK.search(arguments) and not _LOG_FILE.search(arguments)
        is_own = said.name is not None and _OWN_NOTES.search(said.name)
        one.unfinished = not (shown is None or is_file or is_own) and is_unfinished(shown)
        ran_out = said.error_kind == RAN_OUT and (one.watches or one.pauses)
        one.unfinished = one.unfinished or ran_out
    failed = one.failed and not one.unfinished
    helps = is_call and failed and bool(_ASKS_HELP.search(arguments))
    looks = tool.searches or tool.reads or one.watches or one.unfinished or helps
    if helps and one.call != UNKNOWN and one.signature != UNKNOWN:
        one.signature = _code(one.signature, one.call)
    one.watches = one.watches and not failed
    own, fine = failed and not one.external, is_call and not failed
    one.own = is_call and own
    one.changes = fine and tool.changes
    one.works = fine and not (looks or one.pauses)
    one.only_reads = fine and tool.reads
    one.error = UNKNOWN
    if own and said.error_kind not in (None, UNTOLD):
        one.error = one.outcome
        asks = looks or said.error_kind == RAN_OUT
        if asks and one.call != UNKNOWN and one.outcome != UNKNOWN:
            one.error = _code(one.outcome, one.call)
    one.mendable = one.outcome if is_call and _is_mendable(said) else UNKNOWN
    one.check = UNKNOWN
    still = one.pauses or one.watches or one.unfinished
    asks = fine and tool.checks and not still and UNKNOWN not in (one.call, one.outcome)
    if asks and falls_short(said.name or "", arguments, said.result or ""):
        one.check = _code(one.call, one.outcome)
    one.search_result = _search_result(one, said) if is_call and not one.failed else UNKNOWN


def _is_mendable(said: _Said) -> bool:
    if said.error_kind == "network":
        return said.error is not None and bool(_OWN_SERVER.search(said.error))
    return said.error_kind in MENDABLE


def _search_result(one: SingleTurn, said: _Said) -> int:
    """Return the code of what a search found, as `columns._search_results` does."""
    name, arguments = said.name, said.arguments or ""
    result = said.result if said.error is None else said.error
    if result is None or name is None or _ACKNOWLEDGES.search(result):
        return UNKNOWN
    by_command = _COMMAND.search(arguments) and not _CHANGES_FOUND.search(arguments)
    if not one.searches and (not by_command or tool_marks(name).changes):
        return UNKNOWN
    is_short = len(result) <= FOUND_NOTHING_CHARS_MAX
    if is_short and (_FOUND_NOTHING.search(result) or answers_no(result)):
        return NOTHING_FOUND
    return _code(name, one.outcome) if one.searches and not _QUERIES.search(name) else UNKNOWN
