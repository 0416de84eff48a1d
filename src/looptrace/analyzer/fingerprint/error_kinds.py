"""The signs of a failed call, the kinds of failure, and which kinds have an external cause."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from looptrace.analyzer.fingerprint.masks import blank, map_distinct
from looptrace.analyzer.fingerprint.runner_output import TESTS
from looptrace.analyzer.fingerprint.tool_kinds import (
    ANSWERING_COMMAND,
    CHANGES,
    FILE_LOOK,
    READING_COMMAND,
    READS,
    SEARCHES,
)
from looptrace.analyzer.fingerprint.waiting import (
    PAUSES,
    WAITING_ARGUMENTS,
    WATCHES,
    Form,
    is_unfinished,
)
from looptrace.analyzer.text.errors import answers_no

# A result with this beginning reports a failure although its span's status does not.
FAILURE_HEAD = (
    r"^\s*([\w.]*(Error|Exception)\s*[:(-]|ERROR\b|[Ee]rror:|fatal:|panic:"
    r"|Traceback \(most recent call last\))"
)
# So does a result that begins or ends with an exit code, or has one under a key.
_EXIT = r"(?:exit(?:ed)?(?: with)?(?:[ _]?code| status)|return[ _]?code)"
FAILURE_EXIT = (
    rf"(?i)\b{_EXIT}\s*[:=]?\s*-?[1-9]\d{{0,9}}\W*$"
    rf"|^\W{{0,9}}(?:(?:error|process|command)\W+){{0,2}}(?:(?:failed|finished) with )?{_EXIT}"
    r"\s*[:=]?\s*-?[1-9]\d{0,9}\b"
    r"|^\s*\{[\s\S]*\"(?:exit_?code|exit_?status|return_?code)\": ?-?[1-9]"
    r"|<(?:exit_?code|exit_?status|return_?code)>\s*-?[1-9]\d{0,9}\s*</"
)
# A failed test in a run that is cut off before its summary.
FAILED_TEST = r"(?m)^--- FAIL: \S+ \(\d"
# Each text with an exit code has one of these.
EXITS = ("exit", "Exit", "EXIT", "return", "Return")
# A short result that says that its call was refused, or was not answered in time, reports a failure
# too. It speaks of the call and of its permission: a claim that is denied is an answer.
_BEGINS = (
    r"^\W*(?:\{\s*\"(?:error|message|detail|reason)\": ?\")?(?:(?:sorry|sandbox|policy|security"
    r"|error|warning|refused|mcp error -?\d+)\b\W+)?"
)
_REFUSES = (
    r"(?:denied|refused|rejected|blocked|forbidden|disallowed|declined|prohibited|disabled"
    r"|not (?:allowed|permitted|authori[sz]ed))"
)
REFUSALS = (
    Form(
        "the call, or the permission to make it, is refused",
        rf"{_BEGINS}(?:(?:the|this|that|your) )?(?:(?:tool|function|api|command|shell|file|network"
        r"|system|bash)[ -])?(?:permission|access|command|tool(?: call| use)?|function|call"
        rf"|operation|action|execution|use of \w+)\b[^\n]{{0,200}}?\b{_REFUSES}\b",
        (
            "Permission to use Bash has been denied by policy.",
            "Command blocked by policy: network access is off.",
            "The tool call was rejected by the user.",
            '{"error":"This action is not allowed for your role."}',
            "Access to this path is not permitted.",
            "Operation not permitted",
            "This tool is disabled by the administrator.",
        ),
        ("Claim denied.", "read: allowed, write: denied", "Refunds are not allowed after 30 days."),
    ),
    Form(
        "a program is refused",
        r"^[^\n]{0,250}: (?:permission denied|operation not permitted|access is denied)\W*$",
        ("rm: cannot remove 'a': Permission denied",),
        ("a.py: permission denied 3 times",),
    ),
    Form(
        "a refusal without a subject",
        rf"{_BEGINS}(?:(?:was|is|has been) )?{_REFUSES}(?: (?:by|due to|because)\b|\W*$)",
        ("Denied by policy.", "sandbox: refused", "Blocked by a hook", "Not allowed."),
        ("Declined invitations: 3",),
    ),
    Form(
        "a refusal to whoever asks",
        rf"{_BEGINS}you (?:are not|aren't|do not have|don't have|lack) (?:the )?"
        r"(?:allowed|permitted|authori[sz]ed|permissions?|rights?|access)\b",
        ("You are not allowed to perform this operation.", "Sorry, you don't have permission."),
        ("You are not alone.",),
    ),
    Form(
        "a hook, a policy or a person that refused the call",
        r"^[^\n]{0,80}\b(?:hook|policy|sandbox|guard(?:rails?)?|firewall|administrator|user) "
        r"(?:has )?(?:blocked|denied|refused|rejected|declined|disallowed)"
        r" (?:this|the|your) (?:tool|command|call|action|edit|change|operation|use)\b",
        ("PreToolUse hook blocked this tool call: edits are off.",),
        ("2 connections blocked by policy", "The user rejected the offer"),
    ),
    Form(
        "a flag that is true of a refused call",
        r"^\W*\"(?:denied|refused|blocked|rejected|forbidden|permission_denied)\": ?true\b",
        ('{"denied":true,"reason":"policy"}',),
        ('{"denied":false}',),
    ),
)
TIMEOUTS = (
    Form(
        "the call timed out",
        rf"{_BEGINS}(?:(?:the|this|your) )?(?:[\w-]+ ){{0,3}}timed[ -]?out\b",
        ("Request timed out.", "MCP error -32001: Request timed out", "Timed out after 30s"),
        ("3 of 9 requests to the host of the shop timed out",),
    ),
    Form(
        "a timeout, or a deadline, and nothing else",
        rf"{_BEGINS}(?:[\w-]+ ){{0,3}}(?:time-?out|deadline)(?: of [0-9]+ ?\w{{1,9}})?"
        r"(?: (?:was )?(?:exceeded|reached|expired|error))?\W*$",
        ("timeout", "Navigation timeout of 30000 ms exceeded", "context deadline exceeded"),
        ("request timeout: 30", "timeout: seconds until a request ends"),
    ),
    Form(
        "no answer in time",
        rf"{_BEGINS}no (?:response|answer|reply|result)\b[^\n]{{0,40}} (?:within|after|in) [0-9]",
        ("No response within 60 seconds.",),
        ("No results after page 3",),
    ),
)
# A longer result shows something, whatever its first words are.
_REFUSAL_CHARS_MAX = 300
REFUSED = "(?i)" + "|".join(f"(?:{form.pattern})" for form in (*REFUSALS, *TIMEOUTS))
_REFUSAL = re.compile("(?i)" + "|".join(f"(?:{form.pattern})" for form in REFUSALS))
_REFUSED = re.compile(REFUSED)
_WAITS = re.compile(f"{PAUSES}|{WATCHES}")
_WAITING_ARGUMENTS = re.compile(WAITING_ARGUMENTS)
ERROR_TYPE = r"\b([A-Z]\w*(?:Error|Exception|Failure))\b"

# A wait that fails by it has only not ended yet.
RAN_OUT = "timeout"
# What went wrong, by the first pattern that fits the type, else the type or the message. "untold"
# means that a framework hides it, "unknown" that no pattern fits. The agent does not cause the
# external kinds.
ERROR_KINDS = (
    (
        "rate_limit",
        r"(?i)rate.?limit|too many requests|\b429\b|quota|\b(?:usage|spend(?:ing)?|plan|daily"
        r"|weekly|monthly|hour(?:ly)?|session|account|api)[ -]limit"
        r"|\b(?:hit|reached|exceeded) your [^\n]{0,30}limit|credit balance|out of credits"
        r"|insufficient[ _](?:credits?|funds|balance)",
    ),
    ("authentication", r"(?i)authenticat|unauthori[sz]ed|\b401\b|invalid.{0,10}(api.?key|token)"),
    ("permission", r"(?i)permission|forbidden|\b403\b|access denied|not permitted"),
    # Before timeouts: a server that cannot be reached in time is an external cause.
    (
        "network",
        r"(?i)connection|unreachable|\bdns\b|name resolution|socket|\b50[234]\b|bad gateway"
        r"|(service|server|host) (is )?(temporarily )?(unavailable|down)|overloaded|\bECONN"
        r"|getaddrinfo|\bE(NOTFOUND|AI_AGAIN)\b|\bapi time(d)? ?out",
    ),
    (
        RAN_OUT,
        r"(?i)time(d)?.?out|deadline exceeded|no (?:response|answer|reply)\b[^\n]{0,40} (?:within"
        r"|after|in) [0-9]",
    ),
    (
        "dependency",
        r"(?i)modulenotfound|importerror|no module named|cannot find (module|package)|unresolved"
        r" (import|dependency)|could not resolve dependenc|no matching distribution",
    ),
    ("not_found", r"(?i)not.?found|no such file|does ?n[o']t exist|\b404\b|unknown (column|table)"),
    (
        "syntax",
        r"(?i)syntax|parse error|unexpected (token|indent|end)|unterminated|\berror ?(TS|\[E)\d"
        r"|compil(er|ation) (error|failed)",
    ),
    ("logic", r"(?i)assert|expected\b.*\b(got|but|actual)|[1-9]\d* failed"),
    ("runtime", r"(?i)error|exception|panic|traceback"),
)
# What an external cause is read from: the first and the last line. Between them is what a tool
# quotes, such as the code of an edit that it refuses.
FIRST_LINE, LAST_LINE = r"^\s*([^\n]{0,300})", r"([^\n]{0,300})\s*$"
EXTERNAL = ("rate_limit", "authentication", "network", "dependency")
# The agent may mend these by its own edits: a login, a missing module, a server on its own machine.
MENDABLE = ("authentication", "dependency")
OWN_SERVER = r"(?i)\blocalhost\b|\b127\.0\.0\.1\b|\b0\.0\.0\.0\b|\[?::1\b"
# A model's server that fails or is slow is external; a tool's server may be the agent's own.
MODEL_SERVER = (
    r"(?i)\b5[0-9]{2} (internal|bad|service|gateway)|internal ?server ?error|server_error"
    r"|server had an error|overloaded|time(d)? ?out"
)
# Figures in the text of a model's failure, such as how many tokens were too many.
FIGURES = r"[0-9][0-9,.]*"
UNTOLD = "untold"

_WORDS: Any = {"separator": ": ", "ignore_nulls": True}
# A call that failed, and a response that did not come.
FAILED = pl.col("kind").is_in(["tool", "model"]) & pl.col("failed")
# No type needs more.
_TYPE_CHARS_MAX = 200


def with_failures(turns: pl.DataFrame) -> pl.DataFrame:
    """Return turns with what is known of their failures: `failed`, `error` and `error_type`."""
    return turns.with_columns(_failed(turns)).with_columns(_error(), _error_type())


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
    asked = pl.when(shown.is_in(that_answer_no(turns))).then("arguments")
    shows = pl.col("name").is_in(names) | command.str.contains(READING_COMMAND)
    return (
        pl.when(pl.col("kind") != "tool")
        .then("failed")
        .when(tests_fail & ~shows.fill_null(value=False))
        .then(pl.lit(value=True))
        .when(asked.str.contains(ANSWERING_COMMAND))
        .then(pl.lit(value=False))
        .otherwise(pl.coalesce("failed", by_text))
        .alias("failed")
    )


def that_answer_no(turns: pl.DataFrame) -> list[str]:
    """Return the texts of calls that are an exit code of 1 and nothing else."""
    shown = pl.coalesce("error", "result")
    texts = turns.select(shown.filter(shown.str.contains_any(list(EXITS)))).to_series()
    return [text for text in texts.unique() if answers_no(text)]


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


def is_refused(result: str, tool: str | None, arguments: str | None) -> bool:
    """Return whether a result says that its call was refused, or was not answered in time.

    A wait that ends, and work that goes on, are no failures.
    """
    if len(result) > _REFUSAL_CHARS_MAX or not _REFUSED.search(result) or is_unfinished(result):
        return False
    waits = _WAITS.search(tool or "") or _WAITING_ARGUMENTS.search(arguments or "")
    return not waits or _REFUSAL.search(result) is not None


def refused(turns: pl.DataFrame) -> pl.Series:
    """Return which results of calls say so, as `is_refused` does for one."""
    result = pl.col("result")
    may = (pl.col("kind") == "tool") & (result.str.len_chars() <= _REFUSAL_CHARS_MAX)
    rows = turns.select((may & result.str.contains(REFUSED)).fill_null(value=False))
    places = rows.to_series().arg_true()
    asked = turns[places].select("result", "name", "arguments").iter_rows()
    holds = pl.Series([is_refused(*parts) for parts in asked], dtype=pl.Boolean)
    return (
        pl.Series([False], dtype=pl.Boolean).new_from_index(0, turns.height).scatter(places, holds)
    )


def kind_of_type(error_type: str) -> str | None:
    """Return the kind of a type of error by its name; the word "error" in it says nothing."""
    *kinds, _ = ERROR_KINDS
    if any(name == error_type for name, _ in kinds):
        return error_type
    head = error_type[:_TYPE_CHARS_MAX]
    return next((name for name, pattern in kinds if re.search(pattern, head)), None)


def error_kinds_of(turns: pl.DataFrame) -> pl.Series:
    """Return the kind of each failed call and response; a failing test is one of logic."""
    rows = turns.select(FAILED).to_series().arg_true()
    columns = pl.col("kind", "name", "arguments", "failing", "hidden", "error", "error_type")
    failures = turns.select(columns.gather(rows))
    error, text = pl.col("error"), pl.concat_str("error_type", "error", **_WORDS)
    lines = (error.str.extract(FIRST_LINE), error.str.extract(LAST_LINE))
    head = pl.when(~_is_local(failures)).then(pl.concat_str("error_type", *lines, **_WORDS))
    fits = [
        pl.when((head if name in EXTERNAL else text).str.contains(pattern)).then(pl.lit(name))
        for name, pattern in ERROR_KINDS
    ]
    by_type = map_distinct(failures["error_type"], kind_of_type)
    kind = (
        pl.when(pl.col("failing") > 0)
        .then(pl.lit("logic"))
        .when((pl.col("kind") == "model") & text.str.contains(MODEL_SERVER))
        .then(pl.lit("network"))
        .when(pl.col("error").is_null() | pl.col("hidden"))
        .then(pl.lit(UNTOLD))
        .otherwise(pl.coalesce(by_type, *fits, pl.lit("unknown")))
    )
    return blank(turns.height).scatter(rows, failures.select(kind.alias("kind")).to_series())


def _is_local(failures: pl.DataFrame) -> pl.Expr:
    """Mark calls that edit, or look at stored text: their failures quote it, and are their own."""
    edits = [name for name in failures["name"].drop_nulls().unique() if CHANGES.search(name)]
    local = pl.col("name").is_in(edits) | pl.col("arguments").str.contains(FILE_LOOK)
    return ((pl.col("kind") == "tool") & local).fill_null(value=False)
