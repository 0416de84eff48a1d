"""Sameness, decided in one place: when two calls, outcomes, outputs or responses count as equal.

Volatile parts of results (times, ids, addresses, temporary paths) are masked before they are
compared; the arguments of a call are not, because another id is other work. Whatever the trace does
not say stays null, and null equals nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import polars as pl

from looptrace.analyzer.facts import says_nothing

# In this order; the patterns run in Rust's linear-time engine.
MASKS = (
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?", "<time>"),
    (r"\b\d\d:\d\d:\d\d([.,]\d+)?\b", "<time>"),
    (r"(?i)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>"),
    (r"\b(call|toolu|chatcmpl|msg|req|run)_[A-Za-z0-9]{8,}", "<id>"),
    (r"\b0x[0-9a-fA-F]{4,}\b", "<address>"),
    (r"(?i)\bpid[ =:]+\d+", "<pid>"),
    (r"(/private)?(/var/folders|/tmp|/var/tmp)/[^\s'\")\]:,]+", "<temporary path>"),
    (r"(?i)\b\d+([.,]\d+)?\s?(ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?)\b", "<duration>"),
)

# A result that begins so reports a failure although its span's status does not say it.
FAILURE_HEAD = (
    r"^\s*([\w.]*(Error|Exception)\s*[:(-]|ERROR\b|[Ee]rror:|fatal:|panic:"
    r"|Traceback \(most recent call last\))"
)
FAILURE_EXIT = r"(?i)\bexit(ed)?( with)?( code| status)\s*[:=]?\s*[1-9]\d{0,2}\s*\W*$"
ERROR_TYPE = r"\b([A-Z]\w*(?:Error|Exception|Failure))\b"

# What went wrong, by the first pattern that fits type or message; "untold" where a framework hides
# it, "unknown" where none fits. The external ones are not the agent's own doing.
ERROR_KINDS = (
    ("rate_limit", r"(?i)rate.?limit|too many requests|\b429\b|quota"),
    ("authentication", r"(?i)authenticat|unauthori[sz]ed|\b401\b|invalid.{0,10}(api.?key|token)"),
    ("permission", r"(?i)permission|forbidden|\b403\b|access denied|not permitted"),
    ("timeout", r"(?i)time(d)?.?out|deadline exceeded"),
    (
        "network",
        r"(?i)connection|unreachable|\bdns\b|name resolution|socket|\b50[234]\b|bad gateway"
        r"|service unavailable|\bECONN",
    ),
    (
        "dependency",
        r"(?i)modulenotfound|importerror|no module named|cannot find (module|package)|unresolved"
        r" (import|dependency)|could not resolve dependenc|no matching distribution",
    ),
    ("not_found", r"(?i)not.?found|no such file|does ?n[o']t exist|\b404\b|unknown (column|table)"),
    ("syntax", r"(?i)syntax|parse error|unexpected (token|indent|end)|unterminated"),
    ("logic", r"(?i)assert|expected\b.*\b(got|but|actual)|[1-9]\d* failed"),
    ("runtime", r"(?i)error|exception|panic|traceback"),
)
EXTERNAL = ("rate_limit", "authentication", "network", "dependency")
UNTOLD = "untold"

# Summaries of test runs, and the names of the tests that failed.
TESTS_FAILED = r"\b([1-9]\d*) (?:failed|failing)\b"
TEST_NAME = r"(?m)(?:^FAILED |^--- FAIL: |^\s*● |^\s*✗ )(\S+)"

# Tools are told by their names, as C1 of the requirements asks for a form by kind of output.
CHANGES = r"(?i)(write|edit|replace|patch|create|insert|delete|remove|rename|move)"
SEARCHES = r"(?i)(search|grep|find|query|lookup|browse|retrieve)"

SIGNATURE_CHARS_MAX = 50
DIGEST_BYTES = 8


def digest(text: str) -> str:
    """Return 16 hex digits that are the same on every machine and in every version."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def fingerprinted(turns: pl.DataFrame) -> pl.DataFrame:
    """Fill in what turns (`TURN_SCHEMA`) are compared by: call, outcome, signature, response.

    Where the span did not say whether a call failed, its result's text does.
    """
    turns = turns.with_columns(_failed()).with_columns(_error(), _error_type())
    turns = turns.with_columns(
        pl.col("response", "talks_on").str.strip_chars(), call=_call(), outcome=_outcome()
    )
    turns = turns.with_columns(error_kind=_error_kind(turns), signature=_signature(turns))
    return turns.with_columns(
        call=_mapped(turns["call"], digest),
        outcome=_mapped(turns["outcome"], digest),
        signature=_mapped(turns["signature"], _short),
        response=_mapped(turns["response"], _sha256),
        talks_on=_mapped(turns["talks_on"], _sha256),
    )


def masked(text: pl.Expr) -> pl.Expr:
    """Replace the volatile parts of a text."""
    for pattern, name in MASKS:
        text = text.str.replace_all(pattern, name)
    return text.str.strip_chars()


def _failed() -> pl.Expr:
    result = pl.col("result")
    by_text = result.str.contains(FAILURE_HEAD) | result.str.contains(FAILURE_EXIT)
    return (
        pl.when(pl.col("kind") == "tool").then(pl.coalesce("failed", by_text)).otherwise("failed")
    )


def _error() -> pl.Expr:
    failed_call = (pl.col("kind") == "tool") & pl.col("failed")
    return pl.when(failed_call).then(pl.coalesce("error", "result")).otherwise("error")


def _error_type() -> pl.Expr:
    by_text = pl.coalesce("error", "result").str.extract(ERROR_TYPE)
    failed_call = (pl.col("kind") == "tool") & pl.col("failed")
    return pl.when(failed_call).then(pl.coalesce("error_type", by_text)).otherwise("error_type")


def _call() -> pl.Expr:
    given = masked(pl.col("arguments"))
    named = pl.concat_str("name", "arguments", separator="(")
    # An attempt is compared by its blockers alone; its status is a column of its own.
    asked = pl.when(pl.col("kind") == "attempt").then("arguments").otherwise(named)
    return pl.when(pl.col("kind") == "model").then(given).otherwise(asked)


def _outcome() -> pl.Expr:
    failed = pl.concat_str(pl.lit("failed "), masked(pl.col("error")))
    outcome = pl.when(pl.col("failed")).then(failed).otherwise(masked(pl.col("result")))
    return pl.when(pl.col("kind").is_in(["tool", "attempt"])).then(outcome)


def _error_kind(turns: pl.DataFrame) -> pl.Expr:
    """Classify the failures of calls."""
    told = pl.concat_str("error_type", "error", separator=": ", ignore_nulls=True)
    hidden = pl.col("error").is_null() | pl.col("error").is_in(_that_say_nothing(turns["error"]))
    fits = [pl.when(told.str.contains(pattern)).then(pl.lit(name)) for name, pattern in ERROR_KINDS]
    kind = pl.when(hidden).then(pl.lit(UNTOLD)).otherwise(pl.coalesce(*fits, pl.lit("unknown")))
    return pl.when((pl.col("kind") == "tool") & pl.col("failed")).then(kind)


def _signature(turns: pl.DataFrame) -> pl.Expr:
    """Write the signature by kind of output; what is not a failure is compared in full."""
    error, arguments = masked(pl.col("error")), pl.col("arguments")
    empty = pl.col("error").is_in(_that_say_nothing(turns["error"]))
    typed = pl.concat_str(pl.col("error_type").fill_null("Error"), error, separator="-")
    # A text that says nothing of the failure only proves sameness for the same call.
    untold = pl.concat_str(
        pl.col("error_type").fill_null("Error"), "name", arguments, separator="-"
    )
    tests = pl.coalesce("error", "result")
    names = tests.str.extract_all(TEST_NAME).list.eval(pl.element().str.extract(TEST_NAME))
    which = (
        pl.when(names.list.len() > 0)
        .then(names.list.sort().list.join(","))
        .otherwise(masked(tests))
    )
    did = pl.concat_str(pl.coalesce("arguments", "name"), "call", "outcome", separator="\n")
    signature = (
        pl.when(tests.str.contains(TESTS_FAILED))
        .then(
            pl.concat_str(pl.lit("test-fail:"), tests.str.extract(TESTS_FAILED), pl.lit("-"), which)
        )
        .when(pl.col("failed"))
        .then(pl.concat_str(pl.lit("error:"), pl.when(empty).then(untold).otherwise(typed)))
        .when(pl.col("name").str.contains(CHANGES))
        .then(pl.concat_str(pl.lit("file:"), did))
        .when(pl.col("name").str.contains(SEARCHES))
        .then(pl.concat_str(pl.lit("search:"), did))
        .otherwise(pl.concat_str("name", did, separator=":"))
    )
    return pl.when(pl.col("kind") == "tool").then(signature)


def _that_say_nothing(errors: pl.Series) -> list[str]:
    return [error for error in errors.drop_nulls().unique() if says_nothing(error)]


def _mapped(texts: pl.Series, function: Callable[[str], str]) -> pl.Series:
    """Apply a function to each distinct text; null stays null."""
    distinct = texts.drop_nulls().unique()
    values = pl.Series([function(text) for text in distinct], dtype=pl.String)
    return texts.replace_strict(distinct, values, default=None, return_dtype=pl.String)


def _short(signature: str) -> str:
    """Cut a signature to its readable head; the digest keeps apart what differs beyond it."""
    head = " ".join(signature.splitlines()[0].split()) if signature else ""
    if head == signature and len(head) <= SIGNATURE_CHARS_MAX:
        return head
    return f"{head[:SIGNATURE_CHARS_MAX]}#{digest(signature)}"


def _sha256(response: str) -> str:
    return hashlib.sha256(response.encode("utf-8", "surrogatepass")).hexdigest()
