"""The purpose of a tool by its name, command and result: to change, look or search."""

from __future__ import annotations

import re

# Tools are recognised by name, because C1 of the requirements asks for a form by kind of output.
CHANGES = re.compile(
    "write|edit|replace|patch|create|insert|delete|remove|rename|move", re.IGNORECASE
)
SEARCHES = re.compile("search|grep|find|query|lookup|browse|retrieve", re.IGNORECASE)
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
# A command that asks how a program is used, or whether it is there. Whoever explores one tries
# several forms of it.
_ENDS = r"\s*(?:$|[\"'\\|;&>]|2>)"
ASKS_HELP = (
    rf"(?:^|[\s\"'])(?:--help|--usage|--version|/\?|-\?)(?:\s|{_ENDS})"
    rf"|(?:^|[\s\"'])-[hvV]{_ENDS}"
    rf"|(?:^\W{{0,3}}|\": ?\"|[;&|] *)(?:[\w./-]+ ){{0,2}}help(?: [\w-]+){{0,3}}{_ENDS}"
    rf"|(?:^\W{{0,3}}|\": ?\"|[;&|] *)(?:man|which|whereis|type|info|command -v) [\w./-]+{_ENDS}"
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
FOUND_NOTHING = (
    r"(?i)^\W*(none|null|nil|empty|nothing|n/a)?\W*$"
    r"|\b(no|0|zero|any) (\w+ )?(results?|rows?|match(es)?|records?|hits?|entries|documents?)\b"
    r"|\b(not|nothing|none) found\b|\bdid not match\b"
)
# A result that says that the call was done, and nothing else.
ACKNOWLEDGES = r"(?i)^\W*(ok|okay|done|success|true)\W*$"
# Kinds of task for which tests say nothing.
UNTESTED = r"(?i)^(set-?up|doc|config|refactor)"
