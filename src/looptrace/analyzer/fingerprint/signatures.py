"""Sameness, decided in one place: when two calls, outcomes, outputs or responses count as equal.

Volatile parts of results are masked before results are compared (`masks`). The arguments of a call
are not masked, because another id is other work, but a few do not count (`equivalence`). Values
that the trace does not give stay null, and null equals nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import partial

import polars as pl

from looptrace.analyzer.fingerprint.equivalence import NOTHING, Sameness, compared_arguments
from looptrace.analyzer.fingerprint.error_kinds import (
    BARE_ANSWER,
    ERROR_TYPE,
    FAILED,
    FAILED_TEST,
    FAILURE_EXIT,
    FAILURE_HEAD,
    FIGURES,
    error_kinds_of,
    refused,
)
from looptrace.analyzer.fingerprint.masks import (
    blank,
    map_distinct,
    map_where,
    masked,
    masked_results,
    masked_texts,
    named_ids,
    prompt_texts,
)
from looptrace.analyzer.fingerprint.runner_output import TESTS, failed_tests, with_figures
from looptrace.analyzer.fingerprint.source import fingerprint_source
from looptrace.analyzer.fingerprint.stack_traces import with_places
from looptrace.analyzer.fingerprint.tool_kinds import (
    ANSWERING_COMMAND,
    CHANGES,
    READING_COMMAND,
    READS,
    SEARCHES,
)
from looptrace.analyzer.fingerprint.volatile.made_results import (
    TELLS_FIGURES,
    made_result,
    makes_something,
)
from looptrace.analyzer.fingerprint.volatile.quotes import compared_errors
from looptrace.analyzer.schema.turns import TURN_SCHEMA, numbered
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.errors import says_nothing

# The columns that signatures are written from.
_SIGNED = (
    *("kind", "name", "request", "result", "error", "message", "answer", "hidden", "error_type"),
    *("location", "failing", "call", "outcome", "subtask"),
)
# Kinds of turn other than calls that have a signature.
_REPORTED = ("handoff", "attempt", "switch")

# Arguments that say what was changed and where, and what was searched for.
_TEXT = r'"((?:[^"\\]|\\.)+)'
CHANGED_FILE = rf'"(?i-u:(?:target_?|notebook_?)?(?:file|path)|file_?(?:path|name))":{_TEXT}'
CHANGE = (
    r'"(?i-u:description|instructions?|summary|explanation|message|title|new_?(?:str|string|text)'
    rf'|replacement|contents?|text|code|patch|diff)":{_TEXT}'
)
SEARCHED = rf'"(?i-u:query|q|pattern|search|search_?term|keywords?|regex|term|question)":{_TEXT}'

# A file without its folders; also the file of a place, unless the file is temporary.
FILE_NAME = r"([^/\\]+)$"
FILE_OF_PLACE = r"([^/\\<>:\s]+\.[^/\\<>:\s]+)(?::[0-9]+)?$"

# A text that a slug holds completely.
_ONLY_WORDS = r"^[\w.]+( [\w.]+)*$"

# Signatures in the forms that C1 names may be longer; C1 ends the others after 50 characters.
SIGNATURE_CHARS_MAX = 50
FORM_CHARS_MAX = 80
GIST_CHARS_MAX = 40
# A head is written from at most this much of a text, and no type needs more.
_READ_CHARS = 200

_SHA256 = re.compile("[0-9a-f]{64}")


def add_fingerprints(turns: pl.DataFrame, sameness: Sameness = NOTHING) -> pl.DataFrame:
    """Fill in the columns that turns (`TURN_SCHEMA`) are compared by, such as call and signature.

    If the span does not say whether a call failed, the text of the result decides. The kind and
    place of failures and the figures of test runs are filled in from the texts too.
    """
    turns = with_figures(turns)
    turns = turns.with_columns(_failed(turns)).with_columns(_error(), _error_type())
    failed = pl.col("failed").fill_null(value=False)
    hidden = failed & pl.col("error").is_in(_that_say_nothing(turns.filter(failed)["error"]))
    turns = with_places(turns.with_columns(hidden=hidden), digest)
    compared = pl.col("kind").is_in(["tool", "handoff", "attempt", "switch"])
    turns = turns.with_columns(
        pl.col("response", "talks_on").str.strip_chars(),
        request=compared_arguments(turns, sameness),
        answer=_answers(turns, compared & ~failed, sameness),
        message=_messages(turns, failed, sameness),
    )
    named = named_ids(turns.select(pl.when(failed).then("error")).to_series(), turns["request"])
    turns = turns.with_columns(
        message=pl.when(pl.col("kind") == "model")
        .then(pl.col("message").str.replace_all(FIGURES, "#"))
        .otherwise(pl.concat_str("message", named.fill_null(""))),
        call=map_distinct(turns.select(_call(turns, sameness)).to_series(), digest),
    )
    turns = turns.with_columns(outcome=map_distinct(turns.select(_outcome()).to_series(), digest))
    return turns.with_columns(
        error_kind=error_kinds_of(turns),
        signature=_signature(turns, sameness),
        response=map_distinct(turns["response"], _sha256),
        talks_on=map_distinct(turns["talks_on"], _sha256),
    ).select(TURN_SCHEMA.names())


def _answers(turns: pl.DataFrame, fine: pl.Expr, sameness: Sameness) -> pl.Series:
    """Return the results of some turns without volatile parts."""

    def without_made(results: pl.Series) -> pl.Series:
        return map_distinct(results, lambda result: made_result(result, sameness.results))

    made = map_where(turns, fine & makes_something(turns), "result", without_made)
    turns = turns.with_columns(result=pl.coalesce(made, "result"))
    figures = [name for name in turns["name"].drop_nulls().unique() if TELLS_FIGURES.search(name)]
    tells = pl.col("name").is_in(figures).fill_null(value=False)
    told = map_where(
        turns, fine & tells, "result", partial(masked_results, sameness=sameness, counters=False)
    )
    others = map_where(
        turns, fine & ~tells, "result", partial(masked_results, sameness=sameness, counters=True)
    )
    return pl.select(pl.coalesce(told, others)).to_series()


def _messages(turns: pl.DataFrame, failed: pl.Expr, sameness: Sameness) -> pl.Series:
    """Return the errors of failed turns without volatile parts."""
    tool = pl.when(pl.col("kind") == "tool")
    parts = turns.select(tool.then("name"), tool.then("arguments"), pl.when(failed).then("error"))
    errors = turns.with_columns(error=compared_errors(parts, sameness.results))
    return map_where(
        errors, failed, "error", lambda texts: masked_texts(texts, sameness, error=True)
    )


def compared_by(
    turns: pl.DataFrame, sameness: Sameness, made_with: str | None = None
) -> pl.DataFrame:
    """Return turns (`TURN_SCHEMA`) with fingerprints by the current declarations, numbered again.

    `made_with` is the `fingerprint_source` of the fingerprints that the turns have; None if it is
    not known.
    """
    is_same = made_with == fingerprint_source(sameness)
    return numbered(turns if is_same else add_fingerprints(turns, sameness))


def _failed(turns: pl.DataFrame) -> pl.Expr:
    """Return the recorded failure, else what the text says; failing tests make a run fail.

    A command that answers "no" by its exit code has answered.
    """
    result, shown = pl.col("result"), pl.coalesce("error", "result")
    heads = result.str.contains(FAILURE_HEAD) | result.str.contains(FAILURE_EXIT)
    by_text = heads | pl.when(heads.is_not_null()).then(refused(turns))
    names = [name for name in turns["name"].drop_nulls().unique() if _shows_files(name)]
    tests_fail = (pl.col("failing") > 0) | result.str.contains(FAILED_TEST)
    command = pl.when(tests_fail).then("arguments")  # Most arguments are of other turns.
    shows = pl.col("name").is_in(names) | command.str.contains(READING_COMMAND)
    return (
        pl.when(pl.col("kind") != "tool")
        .then("failed")
        .when(tests_fail & ~shows.fill_null(value=False))
        .then(pl.lit(value=True))
        .when(shown.str.contains(BARE_ANSWER) & pl.col("arguments").str.contains(ANSWERING_COMMAND))
        .then(pl.lit(value=False))
        .otherwise(pl.coalesce("failed", by_text))
        .alias("failed")
    )


def _shows_files(tool: str) -> bool:
    """Return whether a tool shows stored text, which may be the output of a run long ago."""
    looks = READS.search(tool) or SEARCHES.search(tool)
    runs = TESTS.search(tool) or "check" in tool.lower()
    return bool(looks) and not CHANGES.search(tool) and not runs


def _error() -> pl.Expr:
    failed_call = (pl.col("kind") == "tool") & pl.col("failed")
    return pl.when(failed_call).then(pl.coalesce("error", "result")).otherwise("error")


def _error_type() -> pl.Expr:
    by_text = pl.coalesce("error", "result").str.extract(ERROR_TYPE)
    failed_call = (pl.col("kind") == "tool") & pl.col("failed")
    return pl.when(failed_call).then(pl.coalesce("error_type", by_text)).otherwise("error_type")


def _call(turns: pl.DataFrame, sameness: Sameness) -> pl.Expr:
    is_model, is_user = pl.col("kind") == "model", pl.col("kind") == "user"
    context = map_where(turns, is_model, "arguments", lambda texts: masked_texts(texts, sameness))
    said = map_where(turns, is_user, "text", lambda texts: prompt_texts(texts, sameness))
    named = pl.concat_str("name", "request", separator="(")
    # An attempt is compared by its blockers alone; its status is a column of its own.
    call = pl.when(pl.col("kind") == "attempt").then("request").otherwise(named)
    call = pl.when(is_model).then(context).when(is_user).then(said).otherwise(call)
    return pl.when(~_polls(sameness)).then(call)


def _polls(sameness: Sameness) -> pl.Expr:
    polling = [name for name, tool in sameness.tools.items() if tool.polling]
    return (pl.col("kind") == "tool") & pl.col("name").is_in(polling).fill_null(value=False)


def _outcome() -> pl.Expr:
    failed = pl.concat_str(pl.lit("failed "), "message")
    outcome = pl.when(pl.col("failed")).then(failed).otherwise("answer")
    ends = pl.col("kind").is_in(["tool", "handoff", "attempt", "switch"])
    return pl.when(ends | FAILED).then(outcome)


def _signature(turns: pl.DataFrame, sameness: Sameness) -> pl.Series:
    """Write the signature by form of output: a head to read, and a digest if the head omits any.

    Turns that are neither a failure nor a test run are compared in full, by call and outcome.
    Attempts are compared by status and blockers, else by the work that they report. Hand-offs are
    compared by the request.
    """
    kind = pl.col("kind").cast(pl.String)
    form = (
        pl.when(kind.is_in(_REPORTED))
        .then(kind)
        .when(pl.col("failing") > 0)
        .then(pl.lit("test-fail"))
        .when(pl.col("failed"))
        .then(pl.lit("error"))
        .otherwise(map_distinct(turns["name"], _form_of))
    )
    signed = turns.select(_SIGNED, form=form).with_row_index("row")
    is_signed = pl.col("kind").is_in(["tool", *_REPORTED]) | (pl.col("form") == "error")
    signed = signed.filter(is_signed & ~_polls(sameness))
    signatures = blank(turns.height)
    for (name,), part in signed.partition_by("form", as_dict=True).items():
        signatures = signatures.scatter(part["row"], _write_signatures(part, _FORMS[str(name)]))
    return signatures


def _form_of(tool: str) -> str:
    return "file" if CHANGES.search(tool) else "search" if SEARCHES.search(tool) else "other"


def _write_signatures(
    turns: pl.DataFrame, write: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.Series:
    """Return the signatures of turns of one form."""
    parts = write(turns)
    chars_max = (
        pl.when(turns["form"] == "other").then(SIGNATURE_CHARS_MAX).otherwise(FORM_CHARS_MAX)
    )
    cut = pl.concat_str(
        pl.col("head").str.slice(0, chars_max), map_distinct(parts["whole"], digest), separator="#"
    )
    says_all = pl.col("says_all") & (pl.col("head").str.len_chars() <= chars_max)
    return parts.select(pl.when(says_all).then("head").otherwise(cut)).to_series()


# Each form returns three columns for its turns: the `head` of the signature, the `whole` that must
# be equal (null if unknown), and whether the head `says_all` of the whole.


def _of_tests(turns: pl.DataFrame) -> pl.DataFrame:
    """Count and name the failing tests; without names the text is compared."""
    texts = pl.concat_str("result", "error", separator="\n", ignore_nulls=True)
    turns = turns.hstack(failed_tests(turns.select(text=texts).to_series()))
    text = masked(pl.coalesce("message", "answer"))
    which = pl.concat_str("file", "names", separator=":", ignore_nulls=True)
    named = pl.col("names").is_not_null()
    count = pl.concat_str(pl.lit("test-fail:"), "failing", pl.lit("-"))
    return turns.select(
        head=pl.concat_str(count, pl.when(named).then(which).otherwise(_slug(text))),
        whole=pl.concat_str(count, pl.when(named).then(which).otherwise(text)),
        says_all=named,
    )


def _of_error(turns: pl.DataFrame) -> pl.DataFrame:
    """Name type, gist and file; a text that says nothing proves sameness only for the same call."""
    type_ = pl.col("error_type").fill_null("Error")
    gist = _slug(pl.col("message")).str.slice(0, GIST_CHARS_MAX).str.strip_chars_end("-")
    # A temporary file has another name each time.
    file = masked(pl.col("location")).str.extract(FILE_OF_PLACE)
    file = pl.when(~gist.str.contains(file, literal=True).fill_null(value=False)).then(file)
    typed = pl.concat_str(type_, gist, file, separator="-", ignore_nulls=True)
    by_text = pl.concat_str(type_, "message", file.fill_null(""), separator="\n")
    by_call = pl.concat_str(type_, "name", "request", separator="\n")
    only_words = pl.col("message").str.contains(_ONLY_WORDS)
    says_all = only_words & (pl.col("message").str.len_chars() <= GIST_CHARS_MAX)
    hidden = pl.col("hidden")
    shown = pl.when(hidden).then(pl.concat_str(type_, "name", separator="-")).otherwise(typed)
    return turns.select(
        head=pl.concat_str(pl.lit("error:"), shown),
        whole=pl.when(hidden).then(by_call).otherwise(by_text),
        says_all=says_all & ~hidden,
    )


def _of_change(turns: pl.DataFrame) -> pl.DataFrame:
    request = pl.col("request")
    file = request.str.extract(CHANGED_FILE).str.extract(FILE_NAME)
    gist = _slug(request.str.extract(CHANGE)).str.slice(0, GIST_CHARS_MAX)
    change = pl.concat_str(file, gist, separator=":", ignore_nulls=True)
    head = pl.when(file.is_null()).then(_slug(request)).otherwise(change)
    return _of_call(turns, pl.concat_str(pl.lit("file:"), head))


def _of_search(turns: pl.DataFrame) -> pl.DataFrame:
    request = pl.col("request")
    return _of_call(
        turns,
        pl.concat_str(
            pl.lit("search:"), _slug(pl.coalesce(request.str.extract(SEARCHED), request))
        ),
    )


def _of_other(turns: pl.DataFrame) -> pl.DataFrame:
    request = pl.col("request").str.slice(0, _READ_CHARS).str.replace_all(r"\s+", " ")
    return _of_call(turns, pl.concat_str("name", request, separator=":"))


def _of_handoff(turns: pl.DataFrame) -> pl.DataFrame:
    """Compare the request and its receiver, whatever the answer was."""
    asked = pl.concat_str("name", _slug(pl.col("request")), separator=":", ignore_nulls=True)
    return turns.select(
        head=pl.concat_str(pl.lit("request:"), asked), whole="call", says_all=pl.lit(value=False)
    )


def _of_attempt(turns: pl.DataFrame) -> pl.DataFrame:
    """Compare the blockers of an attempt, else its work; a status alone says all that is known."""
    blocked = (pl.col("name") == "blocked") & pl.col("request").is_not_null()
    report = pl.when(blocked).then("request").otherwise("result")
    whose = pl.when(pl.col("kind") == "switch").then("subtask")
    whole = pl.when(blocked).then("call").otherwise("outcome")
    only_words = report.str.contains(_ONLY_WORDS) | report.is_null()
    return turns.select(
        head=pl.concat_str(whose, "name", _slug(report), separator=":", ignore_nulls=True),
        whole=pl.concat_str(whose, "name", whole, separator="-", ignore_nulls=True),
        says_all=only_words,
    )


_FORMS = {
    "handoff": _of_handoff,
    "attempt": _of_attempt,
    "switch": _of_attempt,
    "test-fail": _of_tests,
    "error": _of_error,
    "file": _of_change,
    "search": _of_search,
    "other": _of_other,
}


def _of_call(turns: pl.DataFrame, head: pl.Expr) -> pl.DataFrame:
    """Compare a call and its outcome in full."""
    return turns.select(
        head=head,
        whole=pl.concat_str("call", "outcome", separator="-"),
        says_all=pl.lit(value=False),
    )


def _slug(text: pl.Expr) -> pl.Expr:
    """Return the words at the head of a text, joined with hyphens."""
    head = text.str.slice(0, _READ_CHARS).str.replace_all(r"\\[nrt]", " ")
    return head.str.replace_all(r"[^\w.]+", "-").str.strip_chars("-")


def _that_say_nothing(errors: pl.Series) -> list[str]:
    return [error for error in errors.drop_nulls().unique() if says_nothing(error)]


def _sha256(response: str) -> str:
    """Hash a response; a hashed one stays as it is, so that turns can be compared again."""
    if _SHA256.fullmatch(response):
        return response
    return hashlib.sha256(response.encode("utf-8", "surrogatepass")).hexdigest()
