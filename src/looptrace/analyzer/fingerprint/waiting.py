"""Waiting, in one place: calls that wait, and results that say that something has not ended.

Each form is a row with a sentence and examples, which tests run. A form says what a text looks like
and never which tool wrote it. `analyzer/detect/counters.py` decides by these marks and by time
which calls are polls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a text: its pattern, texts that have it, and others."""

    about: str
    pattern: str
    examples: tuple[str, ...]
    others: tuple[str, ...] = ()


SEPARATOR = r"[_.:/ -]"

# Names of tools that do nothing but wait.
PAUSE_NAMES = (
    Form(
        "a word for waiting, alone or before what is waited for",
        rf"(?:^|{SEPARATOR})(?i:wait|sleep|await)(?:$|{SEPARATOR})"
        r"|(?:^|[a-z0-9_.])(?:Wait|Sleep)(?:$|[A-Z_.])|^(?:wait|sleep)[A-Z]",
        ("wait", "wait_for_job", "browser_wait_for", "waitForSelector", "WaitForBuild", "sleep"),
        ("waiter_book", "add_to_waitlist", "get_sleepers"),
    ),
    Form(
        "a word for a delay, alone or at the end",
        rf"(?:^|{SEPARATOR})(?i:delay|pause)$",
        ("pause", "browser.pause", "delay"),
        ("pause_campaign", "delay_shipment"),
    ),
)
# Names of tools that wait for something that runs, and show how far it is.
WATCH_NAMES = (
    Form(
        "the output of something that runs in the background",
        r"(?i:(?:bash|task|job|command|process|shell|terminal|agent|background|run)[_.:/ -]?"
        r"(?:output|logs?)(?:$|tool\b|[_.:/ -]))",
        (
            "BashOutput",
            "TaskOutput",
            "AgentOutputTool",
            "get_terminal_output",
            "read_process_output",
        ),
        ("taskbar", "render_output"),
    ),
    Form(
        "a word for looking again",
        rf"(?:^|{SEPARATOR})(?i:poll|watch|monitor)(?:$|{SEPARATOR})",
        ("poll", "poll_job", "process.poll", "watch_run"),
        ("pollen_count", "create_watchlist"),
    ),
)
# Tools that show what an agent itself wrote down: it waits for none of that.
NOTE_NAMES = Form(
    "a plan, a list of things to do, notes",
    r"(?:^|[^a-zA-Z])(?i:todos?|plans?|notes?|memor(?:y|ies)|scratch(?:pad)?)(?:$|[^a-z])"
    r"|(?:Todo|Plan|Note|Memory)s?(?:$|[A-Z_])",
    ("todo", "TodoRead", "read_todos", "update_plan", "memory.search"),
    ("explain", "run_notebook", "planet_info"),
)
OWN_NOTES = NOTE_NAMES.pattern
_COMMAND = r"(?:^|[\s\"'`;&|(])"
# Arguments of a call that waits by itself, whatever else its command does.
WATCH_ARGUMENTS = (
    Form(
        "a shell that sleeps",
        rf"{_COMMAND}(?:sleep [0-9.]{{1,8}}[smhd]?|Start-Sleep\b|timeout /t [0-9]{{1,6}})\b",
        ('{"command":"sleep 60 && gh pr checks 12"}', '{"cmd":"Start-Sleep -Seconds 30"}'),
        ('{"query":"how to sleep well"}',),
    ),
    Form(
        "code that sleeps",
        r"(?:\btime|\basyncio|\banyio|\bThread|\btimers?)\.sleep\(|\bsetTimeout\(",
        ('{"code":"time.sleep(30); print(job.state)"}', '{"code":"await asyncio.sleep(5)"}'),
    ),
    Form(
        "a command that waits for something",
        rf"{_COMMAND}(?:kubectl|oc|aws|az|gcloud|gh|docker|podman|nomad|openstack|systemd-run)"
        r" (?:[^;&|\n\"]{0,200} )?--?(?:wait|watch)\b"
        rf"|{_COMMAND}(?:kubectl|oc|aws|az|gcloud|docker|podman|openstack)"
        r" (?:[^;&|\n\"]{0,200} )?wait\b"
        rf"|{_COMMAND}kubectl (?:[^;&|\n\"]{{0,200}} )?rollout status\b|{_COMMAND}gh run watch\b",
        (
            '{"command":"kubectl wait --for=condition=ready pod/web --timeout=60s"}',
            '{"command":"kubectl -n prod rollout status deploy/web"}',
            '{"command":"gh pr checks 12 --watch"}',
            '{"command":"aws cloudformation wait stack-create-complete --stack-name a"}',
        ),
        ('{"command":"kubectl get pods"}', '{"command":"gh pr view 12"}'),
    ),
    Form(
        "a command that watches or follows",
        rf"{_COMMAND}watch (?:-|[a-z])|\s--(?:watch|follow)\b"
        rf"|{_COMMAND}tail -[a-zA-Z0-9]{{0,4}}[fF]\b"
        rf"|{_COMMAND}(?:(?:docker|podman|kubectl|oc|compose)[^;&|\n]{{0,80}} logs|journalctl)"
        r"(?: [^;&|\n\"]{0,80})? -[a-zA-Z]{0,3}f\b"
        rf"|{_COMMAND}(?:inotifywait|wait-on|wait-for-it(?:\.sh)?|wait)"
        r"(?:$|[\s\"';&|)])",
        (
            '{"command":"npm test -- --watch"}',
            '{"command":"timeout 30 tail -f build.log"}',
            '{"command":"timeout 9 docker logs -f web"}',
            '{"command":"wait 4711"}',
            '{"command":"npx wait-on http://localhost:3000"}',
        ),
        ('{"command":"tail -n 20 a.md"}', '{"command":"grep wait_for src/*.py"}'),
    ),
    Form(
        "a look at the end of what a program writes",
        rf"{_COMMAND}tail (?:[^;&|\n\"]{{0,80}} )?[^;&|\n\" ]{{0,200}}"
        r"(?:\.(?:log|out|err)|/nohup\.out|/tasks/[^ \"]{1,80})(?:$|[\s\"';&|)])",
        ('{"command":"tail -5 build.log"}', '{"command":"cd a && tail -n 3 /tmp/train.out"}'),
        ('{"command":"tail -5 a.py"}', '{"command":"cat build.log"}'),
    ),
    Form(
        "a loop of the shell until something holds",
        rf"{_COMMAND}(?:until|while) [^\n]{{1,400}}; ?do\b[^\n]{{0,200}}\bsleep\b",
        ('{"command":"until curl -s localhost:80; do sleep 1; done"}',),
    ),
    Form(
        "an empty input to something that runs",
        r"[\"'](?:command|cmd|chars|input|stdin|keys|text)[\"'] ?: ?[\"'][\"']"
        r"|\b(?:chars|input|stdin|keys) ?[:=] ?(?:''|``|\\\"\\\")",
        (
            '{"command":""}',
            '{"session_id":4711,"chars":""}',
            '{"code":"tools.write_stdin({session_id:4711, chars:\'\', yield_time_ms:30000})"}',
        ),
        ('{"command":"make"}', '{"session_id":4711,"chars":"y"}'),
    ),
    Form(
        "an action or a switch of the call that waits",
        r"\"action\" ?: ?\"(?:wait|poll|sleep|watch)\""
        r"|\"(?:wait|block|blocking|wait_for_completion)\" ?: ?true\b",
        ('{"action":"poll","sessionId":"a1"}', '{"task_id":"b2","block":true}'),
        ('{"action":"write"}', '{"wait":false}'),
    ),
)
# A command of one call that does nothing but sleep.
SLEEPS = (
    r"^[^a-zA-Z0-9]{0,10}(?:[a-z_]{1,40}[^a-zA-Z0-9]{1,10})?"
    r"sleep [0-9.]{1,8}[smhd]?[^a-zA-Z0-9]{0,10}$"
)

_GOES_ON = (
    r"(?:running|pending|queued|waiting|starting|started|processing|scheduled|building|deploying"
    r"|provisioning|creating|containercreating|initiali[sz]ing|activating|updating|pulling|working"
    r"|submitted|incomplete|in[_ -]?progress"
    r"|not[_ -]?(?:ready|finished|done|complete)(?:[_ -]yet)?)"
)
_AROUND = "[^a-zA-Z0-9\n]{0,10}"
_KEY = r"(?:status|state|phase|health|stage|conclusion|progress)"
# What results say of something that has not ended. Rows after the first need a word around them,
# because "pending" and "running" are words of many texts.
UNFINISHED = (
    Form(
        "nothing but such a word",
        rf"^{_AROUND}(?:(?:it|is|still|job|task|build) ){{0,3}}{_GOES_ON}{_AROUND}$",
        ("pending", "Still running.", "In progress...", '"queued"', "not ready yet"),
        ("running costs", "done"),
    ),
    Form(
        "the value of a status, in JSON, XML, YAML or a line",
        rf"\b\w{{0,20}}{_KEY}[\"']{{0,2}} ?[:=>|] ?[\"']?{_GOES_ON}\b",
        (
            '{"id":7,"status":"running"}',
            "<status>running</status>",
            "status: Pending",
            "job_state=RUNNING",
            "| state | queued |",
        ),
        ('{"status":"failed"}', "state: done"),
    ),
    Form(
        "such a value under any key, where it means nothing else",
        r"[:=] ?[\"'](?:pending|queued|in[_ -]?progress|processing|not[_ -]?(?:started|ready))[\"']"
        r"|\b\w{2,30}_IN_PROGRESS\b|\b202 Accepted\b",
        (
            '{"decision":"pending"}',
            '{"StackStatus": "CREATE_IN_PROGRESS"}',
            "HTTP/1.1 202 Accepted",
        ),
        ('{"filter":"open"}', "202 lines accepted"),
    ),
    Form(
        "an end that is not known yet",
        r"\"(?:exit_?(?:code|status)|return_?code|conclusion|(?:finished|ended|stopped|finish|end)"
        r"_?(?:at|time))\" ?: ?null\b",
        ('{"pid":7,"exit_code":null}', '{"endTime": null}', '{"conclusion":null}'),
        ('{"exit_code":0,"signal":null}', '{"closed_at":null}'),
    ),
    Form(
        "a figure of progress that is below its end",
        r"\b(?:progress|percent(?:age)?)(?:_?complete[d]?)?[\"']? ?[:=] ?[\"']?"
        r"(?:0(?:\.\d{1,9})?|[2-9](?:\.\d{1,9})?|[1-9]\d(?:\.\d{1,9})?)(?![\d.])",
        ('{"progress":0.4}', '{"percent": 40}', "progress: 12%", '{"percentComplete":7}'),
        ('{"progress":1.0}', '{"percent":100}', '{"progress":1}'),
    ),
    Form(
        "a cell of a table",
        rf"(?:^|\t|\| ?|[^\S\n]{{2,}}){_GOES_ON}(?:$|\t|[^\S\n]?\||[^\S\n]{{2,}})",
        (
            "build\tpending\t0\thttps://ci.example/1",
            "| build | in progress | 3m |",
            "web-1   0/1   ContainerCreating   0   10s",
        ),
        ("| build | passed | 3m |", "the running costs are pending approval"),
    ),
    Form(
        "a flag that is true while something goes on",
        r"\b(?:is_?)?(?:running|pending|queued|in_?progress|processing|incomplete)[\"']? ?[:=>] ?"
        r"[\"']?(?:true|yes|1)\b",
        (
            '{"session_id":4711,"output":"","running":true}',
            "isRunning=True",
            "<pending>true</pending>",
        ),
        ('{"running":false}',),
    ),
    Form(
        "a flag that is false until something has ended",
        r"\b(?:is_?|has_?)?(?:done|finished|completed?|ready|ended|exited|terminated"
        r"|available)[\"']? ?[:=>] ?[\"']?(?:false|no|0)\b",
        ('{"done":false}', "finished: no", "<ready>false</ready>", '{"isComplete": false}'),
        ('{"done":true}',),
    ),
    Form(
        "a sentence that says that it goes on",
        r"\bstill (?!fail|miss|hav|gett|see|us|be|throw|break|loop|show|return|giv|say)"
        r"\w{3,20}ing\b"
        r"|\b(?:currently|is|are|remains?|keeps) (?:now )?(?:running|pending|queued|waiting"
        r"|in progress|processing|building|deploying|starting|executing|compiling|loading)\b"
        r"(?! (?:on|at|with) (?:the )?(?:port|address|host|localhost|https?|pid|[0-9:]))"
        r"|\bbeing (?:processed|built|deployed|prepared|created|installed|indexed|reviewed)\b"
        r"|\bin progress\b|\bcontinues? (?:to run|running)\b|\bprocess running\b"
        r"|\brunning in (?:the )?background\b",
        (
            "[Command is still running after 10 seconds.]",
            "The deployment is being built.",
            "Process running with session ID 4711",
            "Timed out waiting, still in progress.",
            "aws_instance.web: Still creating... [10s elapsed]",
        ),
        (
            "The build is green.",
            "It is still failing.",
            "Still missing a key",
            "Server is running on port 3000",
            "The image is built.",
        ),
    ),
    Form(
        "a sentence that says that it has not ended",
        r"\b(?:is|has|have|are)(?: not|n't)(?: yet)? (?:ready|finished|done|completed?|ended"
        r"|started|available|exited|responded|replied|approved|merged)\b"
        r"|\bnot (?:yet )?(?:ready|finished|completed?)(?: yet)?\b|\bnot yet\b"
        r"|\bno (?:new |more )?output\b"
        r"|\b(?:nothing|no (?:reply|response|answer|approval|result)s?) (?:new )?(?:so far|yet)\b"
        r"|\bno new (?:\w{1,20} )?(?:messages?|e?mails?|events?|notifications?|updates?|data|items?"
        r"|tasks?|jobs?|requests?|comments?|replies|changes)\b"
        r"|\b(?:awaiting|waiting (?:for|on))\b|\btimed out waiting\b"
        r"|\bcheck (?:back|again) (?:later|in)\b",
        (
            "The command has no new output after 10 seconds.",
            "The job has not finished.",
            "error: timed out waiting for the condition on pods/web",
            "Awaiting approval by a person",
            "No reply yet.",
            "You have no new messages.",
        ),
        ("All done.", "No matches found."),
    ),
    Form(
        "a last line that goes on",
        r"\b\w{2,20}ing(?: [^\n]{0,60})?(?:\.{3}|…)\s*\Z|\bplease wait\b",
        ("Loading...", "Installing 12 packages…", "Please wait."),
        ("Running tests...\n3 passed", "warning: a, b, ..."),
    ),
)
# As many of as many, and percents: figures that are below their end.
_OF = re.compile(
    r"(?<![\d./-])(\d{1,6}) ?(?:/|of|out of) ?(\d{1,6})(?![\d./-])"
    r"(?=[^\n]{0,40}\b(?:done|complete|finish|ready|processed|downloaded|uploaded|available))",
    re.IGNORECASE,
)
OF_EXAMPLES = ("3 of 10 checks done", "0/1 ready", "12/40 tasks complete")
OF_OTHERS = ("10 of 10 checks done", "2026/11/26", "page 3 of 10")

# What something that runs writes: a look at it is a look at what runs.
LOG_FILE = r"(?i)\.(?:log|out|err)\b|/tmp/|\bnohup\b|\b(?:log|output)s?\b"
# Only the beginning and the end of a result speak of the call itself.
_READ_CHARS = 400


def _any_of(forms: tuple[Form, ...], flags: str = "") -> str:
    return flags + "|".join(f"(?:{form.pattern})" for form in forms)


PAUSES = _any_of(PAUSE_NAMES)
WATCHES = _any_of(WATCH_NAMES)
WAITING_ARGUMENTS = _any_of(WATCH_ARGUMENTS)
_UNFINISHED = re.compile(_any_of(UNFINISHED, "(?im)"))
# Each result that goes on has one of these, so that most results are read no further.
_WORDS = (
    *("running", "run", "pending", "queued", "waiting", "start", "process", "scheduled", "build"),
    *("deploy", "provision", "creating", "initiali", "activating", "updating", "pulling", "work"),
    *("submitted", "complete", "progress", "not", "n't", "done", "finish", "ready", "ended"),
    *(
        "exited",
        "terminated",
        "available",
        "still",
        "remain",
        "keeps",
        "executing",
        "compiling",
        "loading",
    ),
    *("being", "background", "yet", "no ", "awaiting", "check", " of ", "/"),
    *("null", "accepted", "percent", "...", "…", "wait"),
)


def ends_of(result: str) -> str:
    """Return the beginning and the end of a result, which speak of the call itself."""
    if len(result) <= 2 * _READ_CHARS:
        return result
    return f"{result[:_READ_CHARS]}\n{result[-_READ_CHARS:]}"


def is_unfinished(result: str) -> bool:
    """Return whether a result says that what was looked at has not ended."""
    text = ends_of(result)
    folded = text.lower()  # Words are found many times faster than a pattern without a start.
    if not any(word in folded for word in _WORDS):
        return False
    return bool(_UNFINISHED.search(text)) or any(
        int(one[1]) < int(one[2]) for one in _OF.finditer(text)
    )
