"""Where a failure happened and how it got there, read from its stack trace or text.

Traces of Python, Node, the languages of the JVM, .NET, Go and Rust are read. The innermost frame in
the project's own code counts. Without frames, the place is a source file that the text names, else
a function.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from looptrace.analyzer.fingerprint.failure_places import FILE
from looptrace.analyzer.fingerprint.masks import blank, masked

_FRAMES = (
    r'^[ \t|+]*File "[^"\n]+", line \d+(?:, in [^\n]+)?',  # Python
    r"^[ \t]*at (?:[^\n]*\()?[^\s()]+:\d+:\d+\)?$",  # Node
    r"^[ \t]*at [^\s()]+\([^()\n]+\)$",  # Java
    r"^[ \t]*at [^\n]+ in [^\n]+:line \d+$",  # .NET
    r"^[ \t]+\S+\.go:\d+(?: \+0x[0-9a-f]+)?$",  # Go
    r"^[ \t]+at [^\s:]+\.rs:\d+(?::\d+)?$",  # Rust
    r"panicked at (?:'[^\n]*', )?[^\s:]+\.rs:\d+(?::\d+)?",
)
_PYTHON = r'File "([^"\n]+)", line (\d+)'
_OTHERS = r"([^\s()]+?):(?:line )?(\d+)(?::\d+)?\)?(?: \+0x[0-9a-f]+)?$"
_FUNCTION = r", in (.+)$|at (?:async )?([^\s()]+)"
# Frames of runtimes, of libraries, and of code without a file.
_FOREIGN = (
    r'site-packages|dist-packages|node_modules|\(?node:|/lib/python\d|File "<|<anonymous>|/rustc/'
    r"|/\.cargo/registry|/go/src/|/go/pkg/mod/|at (?:java|javax|jdk|sun|kotlin|System|Microsoft)\."
    r"|at org\.(?:junit|apache|springframework)\."
)

_HASH = r"^[0-9a-f]{16}$"  # stands for a trace that was read before

# A place in a text without frames; the most precise pattern comes first.
_LINE_IN_TEXT = rf"({FILE})(?::|\(|[\"']?,? (?:on |at )?line )([0-9]+)"
_FILE_IN_TEXT = rf"(?:^|[\s\"'(`])({FILE})(?:$|[\s\"'),;:`]|\.(?:\s|$))"
_NAME = r"([A-Za-z_][A-Za-z0-9_.]*)"
_FUNCTION_IN_TEXT = (
    rf"\b(?:in|at|from) (?:function |method |component )?[`'\"]?<?{_NAME}(?:\(\)|/>)"
    rf"|\b(?:function|method|component) [`'\"<]+{_NAME}"
)

# Parts of a trace that are not compared: folders, line numbers, addresses.
_FOLDERS = r"[^\s\"'`(),;=]*[/\\]([^\s\"'`(),;=/\\]+)"
_LINES = r"(?-u):\d+(?::\d+)?\b|\bline \d+|\b0x[0-9a-f]+"


def with_places(turns: pl.DataFrame, digest: Callable[[str], str]) -> pl.DataFrame:
    """Fill in `location` and `trace_hash` of failed turns, null where the trace does not say.

    Before this step `trace_hash` holds the stack trace itself, if there is one. A `hidden` failure
    has a text that says nothing.
    """
    hashed = turns["trace_hash"].str.contains(_HASH).fill_null(value=False)
    rows = (turns["failed"].fill_null(value=False) & ~hashed).arg_true()
    if rows.is_empty():
        return turns
    text = pl.when(~pl.col("hidden")).then(pl.coalesce("result", "error"))
    failed = turns.select("error_type", text=pl.coalesce("trace_hash", text))
    failed = failed.select(pl.all().gather(rows)).with_row_index("row")
    frames = _frames(failed)
    failed = failed.join(frames, on="row", how="left", maintain_order="left")
    context = masked(pl.coalesce("frames", "text"))
    context = context.str.replace_all(_FOLDERS, "$1").str.replace_all(_LINES, "<line>")
    places = failed.select(
        location=pl.coalesce("location", _place_in_text()),
        trace=pl.concat_str(pl.col("error_type").fill_null(""), context, separator="\n"),
    )
    hashes = [None if trace is None else digest(trace) for trace in places["trace"]]
    location = blank(turns.height).scatter(rows, places["location"])
    own_hashes = blank(turns.height).scatter(rows, pl.Series(hashes, dtype=pl.String))
    return turns.with_columns(
        location=pl.coalesce("location", location),
        trace_hash=pl.when(hashed).then("trace_hash").otherwise(own_hashes),
    )


def _frames(failed: pl.DataFrame) -> pl.DataFrame:
    """Return `location` and `frames` (joined) of texts with a stack trace, by `row`."""
    frame = pl.col("frame")
    frames = (
        failed.select("row", frame=pl.col("text").str.extract_all("(?m)" + "|".join(_FRAMES)))
        .explode("frame")
        .drop_nulls()
        .with_columns(frame.str.strip_chars())
    )
    last_is_innermost = frame.str.contains(_PYTHON)
    place = pl.int_range(pl.len()).over("row")
    file = [frame.str.extract(p, 1).str.strip_prefix("file://") for p in (_PYTHON, _OTHERS)]
    line = [frame.str.extract(p, 2) for p in (_PYTHON, _OTHERS)]
    function = pl.coalesce(frame.str.extract(_FUNCTION, 1), frame.str.extract(_FUNCTION, 2))
    frames = frames.with_columns(
        place=pl.when(last_is_innermost).then(-place).otherwise(place),
        foreign=frame.str.contains(_FOREIGN),
        location=pl.coalesce(
            pl.concat_str(pl.coalesce(file), pl.coalesce(line), separator=":"), function
        ),
    )
    return frames.group_by("row").agg(
        location=pl.col("location").sort_by("foreign", "place").first(),
        frames=frame.str.join("\n"),
    )


def _place_in_text() -> pl.Expr:
    text = pl.col("text")
    line = [text.str.extract(_LINE_IN_TEXT, i) for i in (1, 2)]
    functions = [text.str.extract(_FUNCTION_IN_TEXT, i) for i in (1, 2)]
    file = text.str.extract(_FILE_IN_TEXT)
    return pl.coalesce(pl.concat_str(line, separator=":"), file, *functions)
