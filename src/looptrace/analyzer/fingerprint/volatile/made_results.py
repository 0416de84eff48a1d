"""What is new in the result of a call because it sends or makes something, and counters of calls.

A message that is sent twenty times has twenty ids, and is one message. The ids that a list shows
are news, and so are the figures that a tool is asked for. A call without arguments names nothing
to send or to make: what it returns is what it is for.
"""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl

from looptrace.analyzer.fingerprint.equivalence import Results
from looptrace.analyzer.fingerprint.masks import FRESH
from looptrace.analyzer.fingerprint.tool_kinds import READING_COMMAND

# Tools that are asked for figures, which count there.
TELLS_FIGURES = re.compile(
    "status|stats|statistic|metric|count|usage|quota|limit|progress|health|monitor|watch|poll",
    re.IGNORECASE,
)
_MAKING = (
    "send|post|publish|submit|create|add|make|upload|reply|forward|notify|tweet|invite|book|reserve"
    "|place|pay|charge|transfer|refund|buy|purchase|schedule|register|enroll|subscribe|spawn|launch"
    "|start|trigger|dispatch|raise|share|deliver|broadcast|announce|insert|save|store|draft|deploy"
    "|enqueue|push|append|assign"
)
_MAKING_WORDS = frozenset(_MAKING.split("|"))
# A whole name is a verb; in longer names these are what is sent or looked up.
_SENT = frozenset({"message", "email", "mail", "sms", "order", "comment", "report", "record"})
# A tool whose first verb is one of these looks at what there is, or takes it.
_TAKING = (
    "read|list|ls|get|fetch|open|view|show|cat|status|check|search|grep|find|query|lookup|browse"
    "|retrieve|next|claim|pop|take|receive|wait|watch|count|delete|remove|cancel"
)
_TAKING_WORDS = frozenset(_TAKING.split("|"))
_WORDS = re.compile("[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# An argument that says what a tool of several uses is to do.
_ACTS = re.compile(r'"(?:action|operation|op|subcommand)": ?"')
# Arguments of a call that sends or makes something: its action, its method, its command.
_MAKING_ARGUMENTS = re.compile(
    rf'{_ACTS.pattern}(?i:(?:[a-z]+[_.-])?(?:{_MAKING})[a-z_.-]*)"'
    r'|"(?:http_)?method": ?"POST"'
    r'|"(?:command|cmd|script)": ?"(?:cd [^;&|"]{1,200}(?:&&|;) *)?(?:'
    r"curl [^;|]{0,400}(?:-X ?POST|--request[ =]POST|-d |--data[a-z-]*[ =]|-F |--form |--json )"
    rf'|[a-z]+ (?:[a-z][a-z-]* ){{0,2}}(?:{_MAKING})(?:-[a-z-]+)?[ \\"])'
)
_READS = re.compile(READING_COMMAND)
_NOTHING_GIVEN = re.compile(r"^\s*(?:\{\s*\}|\[\s*\]|null)?\s*$")
# Names that are kept, with what they say.
_NAMES_MAX = 1_000


@lru_cache(_NAMES_MAX)
def _makes_by_name(tool: str) -> bool:
    """Return whether a tool sends or makes something, by its name."""
    words = [word.lower() for word in _WORDS.findall(tool)]
    if len(words) == 1 and words[0] in _SENT:
        return True
    verbs = (word for word in words if word in _MAKING_WORDS or word in _TAKING_WORDS)
    return next(verbs, "") in _MAKING_WORDS


def makes(tool: str | None, arguments: str | None) -> bool:
    """Return whether a call sends or makes something that its arguments name."""
    if tool is None or arguments is None or _NOTHING_GIVEN.search(arguments):
        return False
    asked = _MAKING_ARGUMENTS.search(arguments) and not _READS.search(arguments)
    return bool(asked) or (_makes_by_name(tool) and not _ACTS.search(arguments))


def makes_something(turns: pl.DataFrame) -> pl.Expr:
    """Mark the calls of turns that send or make something, as `makes` does for one."""
    names = [name for name in turns["name"].drop_nulls().unique() if _makes_by_name(name)]

    def given(pattern: re.Pattern[str]) -> pl.Expr:
        return pl.col("arguments").str.contains(pattern.pattern)

    asked = given(_MAKING_ARGUMENTS) & ~given(_READS)
    makes_it = (asked | (pl.col("name").is_in(names) & ~given(_ACTS))) & ~given(_NOTHING_GIVEN)
    return ((pl.col("kind") == "tool") & makes_it).fill_null(value=False)


_NOUNS = (
    "message|comment|issue|ticket|order|booking|reservation|confirmation|reference|tracking|invoice"
    "|case|request|transaction|payment|thread|post|draft|event|task|job|session|submission|upload"
)
# Keys of what a call made or sent: ids, times, links and numbers of it.
_MADE_KEY = re.compile(
    r"(?:\w*[_-])?(?i:ids?|uuid|guid|gid)|\w*(?:Ids?|IDs?|Uuid|UUID|Guid|GUID)"
    r"|\w*[_-](?:at|time|date|on)|(?i:date|time|timestamp|ts)|\w*[a-z](?:At|Time|Date|Timestamp)"
    r"|(?:\w*[_-])?(?i:receipt|ref|reference|confirmation|permalink|ur[li]|href|link|token|cursor"
    r"|etag|nonce|handle|key)|\w*[a-z](?:Receipt|Ref|Reference|Ur[li]|UR[LI]|Link|Token|Key)"
    rf"|number|(?i:{_NOUNS})[_-]?(?i:number|no|nr|code)"
)
_MADE_VALUE = re.compile(
    r"(?<![\w-])([A-Za-z][\w-]{0,60})(\\?[\"']?\s{0,2}[:=]\s{0,2}|>)"
    r"(\\?\"(?:[^\"\\]|\\[^\"]){0,400}\\?\"|\[[^\[\]{}]{0,400}\]|'[^'\n]{0,400}'"
    r"|[^\s\"'\\,;&)\]}<>\[{(]{1,200})"
)
# The same in sentences; how many of how many is no number of something.
_MADE_WORDS = re.compile(
    r"https?://[^\s\"'<>)]{0,300}\d[^\s\"'<>)]{0,300}|#\d+\b|\b[A-Z][A-Z0-9]{1,9}-\d+\b|\b\d{5,}\b"
    r"|\b(?i:id|ref|reference|receipt|confirmation)\b[ :=#(]{1,3}(?i:(?:is|code|number|no\.?) )?"
    r"[\w.-]{0,60}\d[\w.-]*"
    rf"|\b(?i:{_NOUNS})(?i: (?:id|no\.?|number|nr\.?))?[ :#]{{1,3}}\d+\b(?! ?(?:of|/) ?\d)"
)


def made_result(result: str, results: Results) -> str:
    """Return the result of a call that sends or makes something, without what is new in it."""
    telling = {key.lower() for key in results.telling_keys}

    def fresh(match: re.Match[str]) -> str:
        key, sign, value = match.groups()
        is_made = _MADE_KEY.fullmatch(key) and key.lower() not in telling
        return f"{key}{sign}{FRESH if is_made else value}"

    return _MADE_WORDS.sub(FRESH, _MADE_VALUE.sub(fresh, result))
