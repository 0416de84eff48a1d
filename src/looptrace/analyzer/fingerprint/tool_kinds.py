"""The purpose of a tool by its name, command and result: to change, look, search or wait."""

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
# Tools that do nothing but wait.
PAUSES = re.compile(r"(^|[_.-])(wait|sleep|delay|pause)($|[_.-])", re.IGNORECASE)
# A command that only waits.
SLEEPS = r"^[^a-z0-9]{0,10}(?:[a-z_]{1,40}[^a-z0-9]{1,10})?sleep [0-9]{1,6}[smh]?[^a-z0-9]{0,10}$"
# A result with a status that says that something has not ended yet.
_GOES_ON = (
    r"(?:running|pending|queued|waiting|starting|started|processing|scheduled|building|deploying"
    r"|in[_ -]?progress|not[_ -](?:ready|finished|done)(?:[_ -]yet)?)"
)
# Every such result has one of these words.
GOES_ON_WORDS = (
    *("running", "pending", "queued", "waiting", "start", "processing", "scheduled", "building"),
    *("deploying", "progress", "ready", "finished", "done"),
)
_AROUND = "[^a-zA-Z0-9]{0,10}"
UNFINISHED = (
    rf"(?i)^{_AROUND}(?:(?:it|is|still) ){{0,3}}{_GOES_ON}{_AROUND}$"
    rf"|(?:status|\b(?:state|phase|health))[\"\']{{0,2}} ?[:=] ?[\"\']?{_GOES_ON}\b"
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
