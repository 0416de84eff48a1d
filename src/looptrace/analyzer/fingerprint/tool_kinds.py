"""The purpose of a call by its tool, command and result: to change, look, search or check."""

from __future__ import annotations

import re
from functools import lru_cache

from looptrace._core import PATTERNS
from looptrace.analyzer.fingerprint.waiting import SEPARATOR, Form, ends_of

# A command that asks how a program is used, or whether it is there. Whoever explores one tries
# several forms of it.
_ENDS = r"\s*(?:$|[\"'\\|;&>]|2>)"
ASKS_HELP = (
    rf"(?:^|[\s\"'])(?:--help|--usage|--version|/\?|-\?)(?:\s|{_ENDS})"
    rf"|(?:^|[\s\"'])-[hvV]{_ENDS}"
    rf"|(?:^\W{{0,3}}|\": ?\"|[;&|] *)(?:[\w./-]+ ){{0,2}}help(?: [\w-]+){{0,3}}{_ENDS}"
    rf"|(?:^\W{{0,3}}|\": ?\"|[;&|] *)(?:man|which|whereis|type|info|command -v) [\w./-]+{_ENDS}"
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


# Checks: calls whose answer says how something is. What one got may be wrong although it did not
# fail, because many programs exit with 0 whatever they print.
_SEPARATED = rf"(?:^|{SEPARATOR})(?i:{{0}})(?:$|{SEPARATOR})|(?:^|[a-z0-9])(?:{{1}})(?=$|[A-Z_.])"


def _named(*words: str) -> re.Pattern[str]:
    """Return the pattern of a name with one of these words, in any way to join words."""
    capitals = "|".join(word.capitalize() for word in words)
    every = "|".join(words)
    return re.compile(_SEPARATED.format(every, capitals) + rf"|^(?:{every})[A-Z]")


CHECK_NAME = _named(
    *("check", "verify", "validate", "assert", "judge", "grade", "score", "evaluate", "eval"),
    *("compare", "measure", "submit", "run", "execute", "exec", "simulate", "solve", "python"),
    *("ipython", "interpreter", "repl", "jupyter", "diagnostics", "diagnose"),
    *("test", "tests", "lint", "build", "compile", "typecheck"),
)
# Tools that fail where something is wrong, and looks at a page: any other answer is a good one.
TELLING_NAME = _named(
    *("test", "tests", "spec", "lint", "build", "compile", "typecheck", "types", "format"),
    *("install", "deploy", "migrate", "migration", "migrations", "setup", "server", "submit"),
    *("diagnostics", "diagnose", "linter", "compiler", "formatter", "browser", "page", "dom"),
)
SHELL_NAME = _named("bash", "shell", "terminal", "command", "cmd", "powershell", "console")
# Names of tools whose kinds are kept, and what is read of a command.
NAMES_KEPT_MAX = 1_000
_COMMAND_CHARS = 2_000
_COMMAND_KEY = re.compile(r'"(?:command|cmd|script)" ?:')
_LOOKS = re.compile(
    PATTERNS["reads_by_command"]
    + r"|(?:^\W{0,3}|\": ?\")(?:cd [^;&|]{1,200}(?:&&|;) *)?(?:git (?:status|branch"
    r"|remote|rev-parse|ls-files|stash list)|pwd|whoami|id|env|printenv|which|ps|df|du|find|tree"
    r"|wc|stat|file|date|uname|hostname|docker (?:ps|images|logs)|kubectl (?:get|describe|logs)"
    r"|pip (?:list|show|freeze)|npm (?:ls|list|view))\b[^;&]*$"
)
# A command that runs a program for its output. Of what builds, installs or starts something no
# output is expected, and runners of tests exit with another code where one fails.
_MODULES = (
    r"(?:pytest|unittest|tox|nox|coverage|mypy|pyright|ruff|black|isort|flake8|pylint|pip|venv"
    r"|build|twine|compileall|py_compile|http)\b"
)
PROGRAM_COMMAND = re.compile(
    r"(?:^\W{0,3}|\": ?(?:\[\"(?:[\w/]*sh\",\"-l?c\",\")?|\")|[;&|(] *)"
    r"(?![^;&|\n]{0,400} --?(?:help|version)\b)(?:(?:[A-Z_]+=\S*|sudo|time|env|timeout \S+"
    r"|(?:uv|poetry|pipenv|conda) run|npx|bunx|pnpm exec|(?:docker|kubectl)(?: compose)? exec"
    r"(?: -\S+)* \S+(?: --)?) +)*"
    r"(?:(?:python|pypy|node|bun|deno run|ruby|perl|php|lua|Rscript|julia|java|scala|ts-node|tsx"
    rf"|bash|sh)[0-9.]* +(?!-m {_MODULES}|run |test|-V|--version|-l?c )"
    r"(?!\S*(?:build|setup|install|format|lint|migrat|manage\.|generat|deploy|start|server|test))"
    r"|(?:python|node|ruby|perl|php)[0-9.]* +-[ce] "
    r"|(?:cargo|go|dotnet|swift|stack|cabal|zig|dart) run\b"
    r"|\./(?!\S*(?:gradlew|mvnw|configure|build|setup|install|format|lint|deploy|start|test))[\w./-]"
    r"|(?:curl|wget|psql|mysql|sqlite3|duckdb|mongosh|redis-cli|diff|cmp)\b)"
)
# What a wrapper says about the run, and the echo of the command, are not its answer.
_WRAPPED = re.compile(
    r"[\"'](?:exit_?code|exit_?status|return_?code|duration\w*|\w+_ms|interrupted|is_?image"
    r"|is_?error|truncated|no_?output_?expected|success|ok)[\"'] ?: ?(?:-?[0-9.]+|true|false|null)"
    r"|[\"']status[\"'] ?: ?[\"'](?:ok|success|completed|done|finished)[\"']|^[$>+] .*$"
    r"|\b(?:process )?exit(?:ed)?(?: with)?(?: code| status)?[ :=]*0\b",
    re.IGNORECASE | re.MULTILINE,
)
_KEY = re.compile(r"[\"']\w+[\"'] ?:")
_FAULTS = (
    r"errors?|fail(?:ed|s|ure|ures|ing|ings)?|issues?|problems?|mismatch(?:es)?|differences?"
    r"|violations?|exceptions?|missing|wrong|incorrect|invalid|findings|conflicts?|changes"
)
NO_FAULT = Form(
    "a fault that is not there, or a word of a name",
    rf"\b(?:no|0|zero|without(?: any)?)(?: [\w()]+){{0,2}} (?:{_FAULTS})\b"
    rf"|\b(?:{_FAULTS})[\"']? ?[:=] ?(?:0|none|null|false|\[\]|\"\"|'')(?![\w.])"
    r"|[\w-]*[_/\\][\w./\\-]*|[\w-]+\.[\w./\\-]*\w",
    ("no errors", "0 type errors", "errors: 0", '"error": null', "test_error_page", "errors.py"),
    ("1 error", "errors: 3", "error"),
)
FAULT = (
    Form(
        "a word for what is wrong",
        r"\b(?:errors?|fail(?:s|ed|ure|ures|ing)?|wrong(?:ly)?|incorrect|invalid|mismatch(?:ed|es)?"
        r"|unexpected|exception|traceback|fault|killed|undefined|nan|missing|denied|refused|rejected|broken"
        r"|crash(?:ed|es)?|abort(?:ed)?|panic|fatal|differs?|different|unresolved|unsatisfied"
        r"|violat\w{2,4}|unable|inconsistent|corrupt(?:ed)?)\b|[✗✘❌]",
        ("Wrong answer on test 3", "total: NaN", "heading missing", "✗ totals", "rows differ"),
        ("total: 41", "All checks passed!"),
    ),
    Form(
        "what was wanted beside what came",
        r"\bexpected\b|\bwant(?:ed)?[ :=]|\b(?:should|must) (?:be|have|not|contain|equal)\b"
        r"|(?m:^[<>] .*$|^[+-][^+\s-].*$)",
        ("total is 41, expected 42", "it should be 42", "3c3\n< 41\n---\n> 42"),
        ("the total is 41",),
    ),
    Form(
        "a sentence that denies",
        r"\b(?:(?:does|do|did|is|are|was|were|has|have|can|could|will)(?: not|n't)|cannot"
        r"|no longer) \w|\bnot (?:ok|equal|found|match\w{0,4}|correct|valid|accepted|solved"
        r"|defined|allowed)\b"
        r"|\bno (?:match|output|result|such)\b",
        ("rows do not match", "not ok", "the page is not valid"),
        ("it is valid",),
    ),
    Form(
        "a verdict that is false",
        r"^\W*false\W*$|\b(?:ok|success(?:ful)?|valid|passed|passes|correct|equal"
        r"|match(?:es|ed)?|accepted|solved|result|output|answer)[\"']? ?[:=>] ?[\"']?"
        r"false\b",
        ("False", '{"valid": false}', "matches: false"),
        ('{"isImage": false}', "True"),
    ),
)
_PARTS = re.compile(
    r"(?<![\d./-])(\d{1,6}) ?(?:/|of|out of) ?(\d{1,6})(?![\d./-])(?=[^\n]{0,40}\b(?:rows?|cases?"
    r"|tests?|match\w*|pass\w*|correct|accepted|solved|points?|checks?|examples?|fields?|files?))",
    re.IGNORECASE,
)
FINE = Form(
    "a word for what is right",
    r"\b(?:ok|okay|pass(?:es|ed|ing)?|success(?:ful(?:ly)?)?|succeeded|done|valid|correct"
    r"|clean|green|healthy|identical|equal|true|yes|ready|good|fine|match(?:es|ed)?|accepted"
    r"|solved|up|unchanged|usage|nothing to (?:do|be done|commit|format|fix))\b"
    rf"|\b(?:no|0|zero|without(?: any)?)(?: [\w()]+){{0,2}} (?:{_FAULTS})\b"
    r"|[✓✔✅√]|^\W*20[0-6]\W*$",
    ("OK", "All checks passed!", "no issues found", "✓ 3 pages", "Everything up-to-date"),
    ("total: 41", "incorrect"),
)
# In the last line alone, because a program says before its output what it read.
DONE = Form(
    "a word for what was done",
    r"[a-z]{2}[b-df-hj-np-tv-z]ed\b|\b(?:built|sent|written|listening)\b",
    ("server restarted on port 80", "1 file reformatted", "report written"),
    ("high speed", "total: 41"),
)
_NO_FAULT, _FAULT, _FINE, _DONE = (
    re.compile("|".join(f"(?:{form.pattern})" for form in forms), re.IGNORECASE)
    for forms in ((NO_FAULT,), FAULT, (FINE,), (DONE,))
)
_WORD = re.compile(r"\w")
# Each text with a fault has one of these, and most texts have none; the patterns take far longer.
_FAULT_SIGNS = (
    *("err", "fail", "wrong", "correct", "valid", "match", "expect", "except", "traceback"),
    *("fault", "killed", "undefined", "nan", "missing", "denied", "refused", "reject", "broken"),
    *("crash", "abort", "panic", "fatal", "differ", "unresolved", "satisf", "violat", "unable"),
    *("consist", "corrupt", "want", "should", "must", " not", "not ", "n't", "cannot", "no longer"),
    *("no match", "no output", "no result", "no such", "false", "✗", "✘", "❌"),
    *("\n<", "\n>", "\n+", "\n-"),
)


@lru_cache(NAMES_KEPT_MAX)
def _of_name(name: str) -> tuple[bool, bool, bool]:
    """Return whether a tool checks, is a shell, and fails where something is wrong."""
    names = CHECK_NAME, SHELL_NAME, TELLING_NAME
    checks, shell, tells = (bool(pattern.search(name)) for pattern in names)
    return checks or shell, shell, tells


def may_check(name: str | None) -> bool:
    """Return whether a tool may check something, as far as its name says."""
    return name is not None and _of_name(name)[0]


def falls_short(name: str, arguments: str, result: str) -> bool:
    """Return whether a call checks something, and its answer is not that all is well.

    An answer is wrong where it says so. Where it says neither, it is the output of a program, which
    was run to see another one, or the good news of a tool that fails where something is wrong.
    """
    if not result:
        return False
    _, is_shell, tells = _of_name(name)
    command = arguments[:_COMMAND_CHARS]
    is_shell = is_shell or bool(_COMMAND_KEY.search(command))
    runs = bool(PROGRAM_COMMAND.search(command)) if is_shell else not tells
    text = ends_of(result)
    folded = f"\n{text.lower()}"
    parts = _PARTS.finditer(text) if "/" in text or "of" in folded else ()
    is_part = any(int(one[1]) < int(one[2]) for one in parts)
    may_fail = is_part or any(sign in folded for sign in _FAULT_SIGNS)
    if not (runs or may_fail) or (is_shell and not runs and _LOOKS.search(command)):
        return False
    text = _WRAPPED.sub("", text).strip()
    if not _WORD.search(_KEY.sub("", text)):
        return False
    if is_part or (may_fail and _FAULT.search(_NO_FAULT.sub("", text))):
        return True
    return runs and not (_FINE.search(text) or _DONE.search(text.rsplit("\n", 1)[-1]))
