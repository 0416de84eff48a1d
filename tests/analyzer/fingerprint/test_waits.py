"""What waits is no loop of any rule, and what only looks like it is one: each case is of our own.

A case is a tool, its arguments, its answer and the seconds between two calls. Each is tried in
batch and live, with and without responses of a model between the calls.
"""

import json
from typing import NamedTuple

import polars as pl
import pytest

from looptrace.analyzer.detect.ruleset import DEFAULT
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.testing.notation import turns_in
from tests.drivers import batch, live

CALLS = 6


class Look(NamedTuple):
    """A call that comes again and again."""

    about: str
    gap_s: int
    tool: str
    arguments: str
    answer: str
    fails: bool = False


def shell(command: str) -> str:
    """Return the arguments of a shell."""
    return json.dumps({"command": command})


WAITS = (
    Look("a pod that starts", 5, "bash", shell("kubectl get pods"), "web-1  0/1  Pending  0  10s"),
    Look("a check of a pull request", 10, "bash", shell("gh pr checks 12"), "build\tpending\t0"),
    Look("an approval", 5, "get_approval", '{"id":7}', '{"id":7,"decision":"pending"}'),
    Look("a task in the background", 4, "TaskOutput", '{"id":"b"}', "<status>running</status>"),
    Look("the end of a log", 10, "bash", shell("tail -5 build.log"), "[ 12%] Building CXX foo.o"),
    Look("a queue, each minute", 60, "bash", shell("squeue -u me"), "JOBID ST\n12 PD"),
    Look("a mailbox", 5, "check_mail", "{}", "No new messages."),
    Look("a figure of progress", 4, "get_job", '{"id":1}', '{"id":1,"progress":0.4}'),
    Look(
        "a resource that is made", 10, "read_output", '{"id":1}', "Still creating... [10s elapsed]"
    ),
    Look(
        "a stack that is made", 15, "bash", shell("aws a"), '{"StackStatus":"CREATE_IN_PROGRESS"}'
    ),
    Look("a process without an end", 4, "process_info", '{"pid":3}', '{"pid":3,"exit_code":null}'),
    Look("a shell that sleeps", 31, "bash", shell("sleep 30; cat out.txt"), ""),
    Look("a wait that ran out", 10, "browser_wait_for", '{"text":"Ready"}', "Timeout 5000ms", True),
    Look("a page that loads", 4, "browser_snapshot", "{}", "Loading..."),
    Look("a job that was accepted", 5, "http_get", '{"url":"/jobs/1"}', "HTTP/1.1 202 Accepted"),
    Look("some of many", 5, "ci_status", "{}", "3 of 10 checks done"),
    Look("an empty command", 5, "bash", '{"command":"","session":1}', ""),
    Look("an empty input", 5, "write_stdin", '{"session_id":1,"chars":""}', ""),
    Look("a log that is followed", 10, "bash", shell("timeout 9 docker logs -f web"), "starting"),
    Look("a server that starts", 6, "bash", shell("sleep 5; curl localhost:3000"), "000"),
    Look("a person who answers", 20, "get_reply", '{"thread":1}', "No reply yet"),
    Look("anything, after half a minute", 40, "get_run", '{"id":1}', '{"id":1,"result":""}'),
    Look("another agent", 5, "wait_agent", '{"ids":["a"]}', '{"status":{},"timed_out":true}'),
)
LOOPS = (
    Look("a file", 4, "read_file", '{"path":"a.py"}', "def f(): pass"),
    Look("a file about something that runs", 5, "read_file", '{"path":"a.md"}', "status: running"),
    Look("its own plan", 5, "TodoRead", "{}", '[{"content":"mend","status":"in_progress"}]'),
    Look("a test that fails", 20, "run_tests", "{}", "1 failed", True),
    Look(
        "a failure with such a word", 5, "bash", shell("python a.py"), "Error: still running", True
    ),
    Look("a search", 3, "search", '{"query":"x"}', "No matches found"),
    Look("an answer", 6, "get_weather", '{"city":"Rome"}', "Sunny, 20 degrees"),
    Look("what cannot come", 5, "bash", shell("kubectl wait pod/web"), '"web" not found', True),
    Look("an edit", 4, "edit", '{"file_path":"a.py","new_string":"x"}', "a.py is up to date"),
    Look("what is up", 4, "list_services", "{}", "web: up\ndb: up"),
    Look("a line of code", 4, "bash", shell("grep -n running a.py"), "12: if state == running:"),
    Look("a query", 5, "sql", '{"query":"select count(*) from t"}', "[(5,)]"),
    Look(
        "a program after a pause", 5, "bash", shell("sleep 2; python a.py"), "KeyError: 'x'", True
    ),
)


def turns_of(look: Look, said: str) -> pl.DataFrame:
    """Return the turns of a case, each call after what the agent said."""
    turns = turns_in(" ".join(f"~{look.gap_s} {said}look(a{n})->ok" for n in range(CALLS)))
    is_call = pl.col("kind") == "tool"
    written = {
        "name": look.tool,
        "arguments": look.arguments,
        "result": None if look.fails else look.answer,
        "error": look.answer if look.fails else None,
        "failed": look.fails,
    }
    return add_fingerprints(
        turns.with_columns(
            pl.when(is_call).then(pl.lit(value, turns.schema[name])).otherwise(name).alias(name)
            for name, value in written.items()
        )
    )


@pytest.mark.parametrize("said", ["", 'say("I look again.") '], ids=["calls", "responses"])
@pytest.mark.parametrize(
    ("look", "loops"),
    [*((look, False) for look in WAITS), *((look, True) for look in LOOPS)],
    ids=lambda value: value.about if isinstance(value, Look) else "",
)
def test_what_waits_is_no_loop(look: Look, loops: bool, said: str) -> None:
    """Published looks are 3 to 30 s apart; the same call without a wait is a loop as before."""
    turns = turns_of(look, said)
    found = batch(turns, DEFAULT.rules)

    assert live(turns, DEFAULT.rules) == found
    assert bool(found) == loops
