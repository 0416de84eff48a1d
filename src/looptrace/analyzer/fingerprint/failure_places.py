"""Places in the texts of failures: they move with every edit and are not part of a failure.

An agent that edits a file and meets the same error meets it at another line. So line and column
numbers, quoted source and the marks below it are taken out of the texts before failures are
compared. The file, the type or code of the error, and its words stay. The tables have a row for
each form in which compilers, linters, test runners and runtimes write places.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

SOURCES = (
    "py|pyi|ipynb|jsx?|mjs|cjs|tsx?|mts|vue|svelte|java|kts?|scala|groovy|gradle|go|rs|c|cc|cpp|cxx"
    "|hh?|hpp|cs|fs|vb|rb|php|swift|m|sql|sh|bash|ps1|lua|pl|exs?|erl|hs|clj|dart|r|jl|html?|s?css"
    "|json|ya?ml|toml|xml|md|tf|proto|cfg|ini"
)
FILE = rf"(?:[A-Za-z]:)?[^\s\"'`()\[\]<>|:,;=*?]+\.(?:{SOURCES})"


@dataclass(frozen=True, slots=True)
class Format:
    """How tools write a place: a pattern for Rust's engine; its only group is what is kept."""

    tools: str
    pattern: str


_QUOTES = r"(?:\n {4,}[^|\s+][^\n]*)*"  # the source below a Python frame
_AT = r"(?:\n[ \t]+(?:at |\.\.\. )[^\n]+)*"  # the frames further out
_PYTHON_FRAME = rf'^[ \t|+]*File "[^"\n]+", line \d+, in [^\n]*{_QUOTES}'

# Stack traces; the file of the innermost frame is kept.
FRAMES = (
    Format(
        "python",
        rf"(?:{_PYTHON_FRAME}\n(?: *\[Previous line repeated \d+ more times\]\n)?)*"
        rf'^[ \t|+]*File "(?:[^"\n]*[/\\])?([^"/\\\n]+)", line \d+, in [^\n]*{_QUOTES}'
        r"(?:\n *\[Previous line repeated \d+ more times\])?",
    ),
    Format("dotnet", rf"^[ \t]+at [^\n]+ in (?:[^\n]*[/\\])?([^\n/\\]+):line \d+{_AT}"),
    Format("node", rf"^[ \t]+at (?:[^\n]*[(/\\ ])?([^\s()/\\:]+):\d+:\d+\)?{_AT}"),
    Format("java, kotlin", rf"^[ \t]+at [^\s()]+\(([^():\n]+)(?::\d+)?\)[^\n]*{_AT}"),
    Format("go", r"^goroutine \d+ \[[^\]\n]*\]:\n"),
    Format(
        "go",
        r"^\S[^\n]*\n\t(?:[^\n]*/)?([^\s/]+\.go):\d+(?: \+0x[0-9a-f]+)?$"
        r"(?:\n\S[^\n]*\n\t[^\n]*)*",
    ),
    Format("ruby", r"^[ \t]+(?:\d+: )?from [^\n]+:\d+(?::in [^\n]+)?$"),
    Format("php", r"^#0 [^\n]+(?:\n#\d+ [^\n]+)*"),
)
# Lines that quote the source or mark a place in it, and the steps of a build before it failed. A
# second build shows other steps than the first.
LINES = (
    # The text behind the marks is a message.
    Format("rust, gcc", r"^[ \t]+\|[-_~^ \t|]*\^[-~^]*[ \t]+([^\s|][^\n]*)$"),
    Format(
        "rust, gcc, clang, swift, ruff, jest, vitest",
        r"^(?:[ \t>]*\d+[ \t]*|[ \t>]+)[|│][^\n]*\n?",
    ),
    Format(
        "javac, clang, kotlin, swift, tsc, mypy, node, python", r"^[^\n]*\n[ \t]*[~^][-~^ \t]*$\n?"
    ),
    Format("pytest", r"(?:^(?: {4}[^\n]*)?\n)*^> {3,}[^\n]*(?:\n {4,}[^\n]*)*\n?"),
    Format(
        "cargo",
        r"^ +(?:Adding|Blocking|Building|Checking|Compiling|Downloaded|Downloading|Finished"
        r"|Fresh|Locking|Running|Updating) [^\n]*\n?",
    ),
    Format("gradle", r"^(?:> Task :|Starting a Gradle |\d+ actionable tasks?: )[^\n]*\n?"),
    Format("gradle", r"^(BUILD FAILED) in [^\n]*"),
    Format("maven", r"^\[INFO\][^\n]*\n?"),
)
PLACES = (
    Format("eslint", r"^[ \t]*\d+:\d+[ \t]+([Ee]rror|[Ww]arning)\b"),
    Format("maven", rf"({FILE}):\[\d+,\d+\]"),
    Format("tsc, csc, php", rf"({FILE})\(\d+(?:,\d+){{0,3}}\)"),
    Format(
        "most",
        rf"({FILE}|<\w+>|\b(?:Docker|Make|Gem|Rake)file):\d+(?:[:.]\d+)?(?:-\d+(?:[:.]\d+)?)?",
    ),
    Format("sh", rf"({FILE}): \d+:"),
    Format("ld", r"\((\.\w+)\+0x[0-9a-f]+\)"),
    Format("rust", r"(thread '[^'\n]*') \(\d+\)"),
    # "row 3 is wrong" and "line 3 is wrong" may be about data that is handled row by row.
    Format(
        "python, and most",
        rf"((?:{FILE}[\"']?,?|\b(?i:on|at|from|in)|[,:(]) ?(?i:lines?))[ :]+\d+(?:-\d+)?\b"
        r"(?:[,:]? ?(?:col|column|char|character)[ :]+\d+\b)?(?: \(char \d+\))?",
    ),
    Format("node", r"\b(at position) \d+"),
    Format(
        "tools that write JSON",
        r'"((?:end|start)?_?(?:[Ll]ine|[Cc]ol(?:umn)?)(?:_?(?:[Nn]umber|no))?)": ?\d+',
    ),
)
# In this order, because frames and quotes hold places too.
STEPS = (FRAMES, LINES, PLACES)

# A text in JSON, and where the lines in it begin and end.
_HOLDS_STRINGS = r'^\s*(?:\{|"|\[\s*[\[{"])'
_IN_JSON = r'(?:\\r)?\\n|": ?"|"[,}\]]'
_INNER = "\x00"  # stands for a quote within a string until the ends of strings are known
_ANSI = r"(?:\x1b|\\u001b)\[[0-9;]*[A-Za-z]"


def printed_lines(text: pl.Expr) -> pl.Expr:
    """Return the lines that a tool printed, without colours; also read from within JSON."""
    plain = text.str.replace_all(_ANSI, "").str.replace_all("\r\n?", "\n")
    lines = plain.str.replace_all(r"\"", _INNER, literal=True).str.replace_all(_IN_JSON, "\n")
    for escape, character in ((r"\t", "\t"), (_INNER, '"')):
        lines = lines.str.replace_all(escape, character, literal=True)
    return pl.when(text.str.contains(_HOLDS_STRINGS)).then(lines).otherwise(plain)


def without_places(text: pl.Expr) -> pl.Expr:
    """Return the text of a failure without the parts that an edit moves."""
    text = printed_lines(text)
    for rows in STEPS:
        groups = "".join(f"${{{group}}}" for group in range(1, len(rows) + 1))
        pattern = "|".join(row.pattern for row in rows)
        text = text.str.replace_all(f"(?m){pattern}", groups)
    return text.str.replace_all(r"\s*\n\s*", "\n")
