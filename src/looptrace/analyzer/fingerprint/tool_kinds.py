"""The purpose of a tool by its name, command and result: to change, look or search."""

from __future__ import annotations

import re

from looptrace.analyzer.fingerprint.waiting import Form

# Tools are recognised by name, because C1 of the requirements asks for a form by kind of output.
CHANGES = re.compile(
    "write|edit|replace|patch|create|insert|delete|remove|rename|move", re.IGNORECASE
)
SEARCHES = re.compile(
    r"search|grep|find|query|lookup|browse|retrieve|(?:^|[_.-])glob(?:$|[_.-])", re.IGNORECASE
)
# Tools that only look at something, so a call changes nothing.
READS = re.compile(
    r"(^|[_.-])(read|list|ls|get|fetch|open|view|show|cat|status|check)($|[_.-])", re.IGNORECASE
)
# A command that shows files or a history, and runs nothing else after that.
READING_COMMAND = (
    r'(?:^|"(?:command|cmd|code|script|input)": ?(?:\["(?:[\w/]*sh","-l?c",")?|"))\W*'
    r"(?:cd [^;&|]*(?:&&|;) *)?(?:bat|cat|head|tail|less|more|[ef]?grep|rg|sed|awk|ls|nl|diff|echo"
    r"|jq|type|Get-Content|git (?:show|log|diff|blame|grep))\b[^;&]*$"
)
# A look at stored text, by a key of the arguments or by a command; its words are not about itself.
FILE_LOOK = (
    r'"(?i:(?:target_?|notebook_?)?(?:file|(?:file|notebook)_?path)|file_?(?:path|name))" ?:'
    r'|"(?i:path)" ?: ?"(?:[^"]*/)?[^"/]*\.[A-Za-z]\w{0,7}"'
    r"|(?:^\W{0,3}|\": ?\")(?:cd [^;&|]{1,200}(?:&&|;) *)?"
    r"(?:bat|cat|head|less|more|[ef]?grep|rg|sed|awk|nl|diff|git (?:show|log|diff|blame|grep))\b"
)
# Commands that answer by their exit code: 1 says that nothing matches, differs or holds.
ANSWERING_COMMAND = (
    r"(?:^\W{0,3}|\": ?\"|[|;&(!] *|\b(?:then|if|do|sudo|time|xargs) )"
    r"(?:[ef]?grep|rg|ag|ack|pgrep|pidof|which|type|test|\[{1,2}|diff|cmp|comm|jq -e|command -v"
    r"|git (?:-\S+ )*(?:grep|diff [^|;&]*(?:--exit-code|--quiet)|merge-base --is-ancestor"
    r"|show-ref|check-ignore|rev-parse --verify|config --get)"
    r"|systemctl is-[a-z]+|fuser|lsof|expr|cat [^|;&]* \| grep)(?:\s|\\?\"|$)"
)
# A query may also change things, so it is a search only if its answer is empty.
QUERIES = r"(?i)query"
# A command that only searches is one by the same rule; what it finds may be passed on or counted.
SEARCHING_COMMAND = (
    r'(?:^\W{0,3}|"(?:command|cmd|code|script|input)": ?(?:\["(?:[\w/]*sh","-l?c",")?|"))\W*'
    r"(?:cd [^;&|]*(?:&&|;) *)?(?:[efz]?grep|rg|ag|ack|find|fd|locate|findstr|Select-String"
    r"|git (?:-\S+ )*grep)\b(?:[^;&>]|2>&1|2> ?/dev/null|\|\| ?true)*$"
)
# Options by which a search changes what it finds.
CHANGES_FOUND = r" -(?:delete|exec|ok|fprint)"
_THINGS = (
    r"(?:results?|rows?|match(?:es|ing)?|records?|hits?|entries|documents?|files?|items?|output"
    r"|occurrences?|data|answers?|lines?|symbols?|references?|objects?|pages?|articles?)"
)
# Answers that say that there is nothing, and name nothing, and no number of things, before it.
NOTHING = (
    Form(
        "nothing, or a word for it",
        r"^\W*(?:none|null|nil|empty|nothing|n/a)?\W*$",
        ("", "[]", "None", '""'),
        ("0", "no"),
    ),
    Form(
        "no things, or none of them found",
        rf"^[^\n1-9]{{0,60}}\b(?:no|0|zero|any) (?:[\w-]+ ){{0,2}}{_THINGS}\b"
        r"|^\W*(?:sorry\W+)?(?:not|nothing|none|no [\w-]+) (?:was |were )?found\b"
        r"|^[^\n]{0,80}\bdid not match\b",
        (
            "No matches found",
            "Found 0 files",
            "0 rows",
            "Sorry, I cannot find any documents on it.",
        ),
        ("3 results; 0 matches in archive", "User 17 not found"),
    ),
    Form(
        "no output",
        r"^[^\n1-9]{0,60}\b(?:no|any|without) output\b",
        ("(Bash completed with no output)", "It ran and did not produce any output.", "no output"),
        ("with output: a.py",),
    ),
    Form(
        "an object whose only list is empty, or that counts nothing",
        r"^\s*\{[^\[\]]*\"(?:results?|matches|items|hits|documents|files|data|rows|records|entries"
        r"|content)\": ?\[\s*\][^\[\]]*\}\s*$"
        r"|^\s*\{[^\[\]]*\"(?:total|count|total_?count|num_?results)\": ?0\b[^\[\]]*\}\s*$",
        ('{"query":"a","results":[],"total":0}', '{"count":0}'),
        ('{"results":[{"id":1}],"total":1}', '{"answer":"42","sources":[]}', '{"files":["a"]}'),
    ),
    Form(
        "an object with an empty output",
        r"^\s*\{\s*\"(?:(?:std)?(?:out|err)(?:put)?|output|result|content|text)\": ?\"\""
        r"(?:,\s*\"[a-z_]+\": ?(?:\"\"|false|true|null|[0-9.]+))*\s*\}\s*$",
        ('{"output":"","exit_code":1}', '{"stdout":"","stderr":""}'),
        ('{"output":"a.py","exit_code":0}',),
    ),
)
FOUND_NOTHING = "(?i)" + "|".join(f"(?:{form.pattern})" for form in NOTHING)
# A longer answer shows something, whatever its first words are.
FOUND_NOTHING_CHARS_MAX = 500
# A result that says that the call was done, and nothing else.
ACKNOWLEDGES = r"(?i)^\W*(ok|okay|done|success|true)\W*$"
# Kinds of task for which tests say nothing.
UNTESTED = r"(?i)^(set-?up|doc|config|refactor)"
