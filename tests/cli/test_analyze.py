"""`looptrace analyze` and `looptrace explain` as a stranger would use them."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from looptrace.cli.main import main
from tests.otlp import Trace

TRACES = Path(__file__).parents[2] / "examples" / "traces"
LOOPING = str(TRACES / "nightly_migration_loop.jsonl")
HEALTHY = str(TRACES / "checkout_fix_healthy.jsonl")


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    """Run a command; a traceback would be an exception of its own."""
    found = CliRunner().invoke(main, arguments, input=stdin, env={"COLUMNS": "120"})
    if not isinstance(found.exception, SystemExit | None):
        raise found.exception
    return found


def calls(result: str, count: int) -> Trace:
    """Make a trace of equal calls."""
    trace = Trace("session")
    call: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "dig",
        "gen_ai.tool.call.arguments": '{"at": "garden"}',
        "gen_ai.tool.call.result": result,
    }
    for _ in range(count):
        trace.span("execute_tool dig", None, call)
    return trace


def as_json(*arguments: str) -> Any:
    """Analyse and parse the JSON."""
    return json.loads(run("analyze", "--format", "json", *arguments).stdout)


def test_report_names_the_loop() -> None:
    """A person reads what repeats, where, and what it cost."""
    found = run("analyze", LOOPING)

    assert found.exit_code == 0
    assert "failed the same way 7 times, turns 6–18" in found.stdout
    assert "11,454 input + 448 output tokens" in found.stdout


@pytest.mark.parametrize(
    ("path", "fail_on", "code"),
    [
        (LOOPING, "never", 0),
        (LOOPING, "finding", 1),
        (LOOPING, "gate", 1),
        (HEALTHY, "finding", 0),
    ],
)
def test_exit_code_is_for_pipelines(path: str, fail_on: str, code: int) -> None:
    """A pipeline fails where an agent looped, and only there."""
    assert run("analyze", path, "--fail-on", fail_on).exit_code == code


def test_gate_asks_for_more_than_a_warning(tmp_path: Path) -> None:
    """Three equal calls are a finding that warns, and no gate yet."""
    path = tmp_path / "three.jsonl"
    path.write_text(calls("earth", 3).lines())

    assert run("analyze", str(path), "--fail-on", "finding").exit_code == 1
    assert run("analyze", str(path), "--fail-on", "gate").exit_code == 0


def test_unreadable_parts_win_over_findings(tmp_path: Path) -> None:
    """Code 2 says that the answer is incomplete, and the rest is analysed all the same."""
    path = tmp_path / "cut.jsonl"
    path.write_text(calls("earth", 5).lines() + '{"resourceSpans": [{"sc')
    found = run("analyze", str(path), "--fail-on", "finding")

    assert found.exit_code == 2
    assert "gave the same result 5 times" in found.stdout
    assert "cut.jsonl:6: the JSON is cut off" in found.stdout


def test_html_is_written_to_a_file(tmp_path: Path) -> None:
    """The report is one file, and the command says where it lies."""
    path = tmp_path / "report.html"
    found = run("analyze", LOOPING, "--format", "html", "--output", str(path))

    assert str(path) in found.stderr
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_output_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """An analysis that took minutes must not end in a traceback."""
    found = run("analyze", LOOPING, "--output", str(tmp_path / "no" / "report.txt"))

    assert found.exit_code == 2
    assert "cannot be written: No such file or directory" in found.stderr


def test_files_globs_folders_and_standard_input_agree(tmp_path: Path) -> None:
    """It does not matter how the bytes come in."""
    text = Path(LOOPING).read_bytes()
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text))
    expected = as_json(LOOPING)

    assert as_json(str(tmp_path)) == expected
    assert as_json(str(tmp_path / "*.gz")) == expected
    assert json.loads(run("analyze", "-", "--format", "json", stdin=text).stdout) == expected


def test_a_store_gives_the_same_findings(tmp_path: Path) -> None:
    """Ingested traces are the same traces."""
    store = str(tmp_path / "store")
    assert run("ingest", str(TRACES), "--store", store).exit_code == 0

    assert as_json(store) == as_json(str(TRACES))


def test_a_store_is_read_alone(tmp_path: Path) -> None:
    """Files beside a store would be counted with other tasks than in it."""
    store = str(tmp_path / "store")
    run("ingest", LOOPING, "--store", store)
    found = run("analyze", store, LOOPING)

    assert found.exit_code == 2
    assert "a store is read alone" in found.stderr


@pytest.mark.requirement("C7")
def test_explain_shows_how_far_each_rule_got() -> None:
    """The turn at which a rule fires, and the rules that stayed silent."""
    found = run("explain", LOOPING, "--task", "migrations-2026-03-14").stdout

    assert "repeated_call 2/3" in found
    assert "repeated_call: fired, got to 7 of 3, at turn 18" in found
    assert "cycle: silent, got to 0 of 2" in found


def test_explain_says_what_is_unknown() -> None:
    """A loop that nobody could see is explained by what the trace lacks."""
    found = run("explain", str(TRACES / "redacted_unknown.jsonl")).stdout

    assert "unknown arguments and" in found


def test_explain_helps_to_name_the_task() -> None:
    """A mistyped task is answered with those that are near."""
    found = run("explain", str(TRACES), "--task", "migrations")

    assert found.exit_code == 2
    assert "there is no task 'migrations'" in found.stderr
    assert "migrations-2026-03-14" in found.stderr


def test_text_from_traces_is_never_markup(tmp_path: Path) -> None:
    """A result may hold what the terminal library would obey."""
    path = tmp_path / "markup.jsonl"
    path.write_text(calls("[red]x[/red] \x1b[31m", 4).lines())
    told = run("explain", str(path)).stdout

    assert "[red]x[/red]" in told
    assert "\x1b[31m" not in told


@pytest.mark.parametrize("command", ["analyze", "explain"])
def test_nothing_to_read_is_an_error(command: str, tmp_path: Path) -> None:
    """A wrong path must not look like a healthy agent."""
    found = run(command, str(tmp_path / "nowhere"))

    assert found.exit_code == 2
    assert "no such file or folder" in found.output


def test_runs_as_a_module() -> None:
    """`python -m looptrace` is there where the script is not on the path."""
    command = [sys.executable, "-m", "looptrace", "--version"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_missing_packages_are_named() -> None:
    """Who installed only what an agent needs learns how to get the command line."""
    without = "import sys; sys.modules['click'] = None; from looptrace.__main__ import main; main()"
    command = [sys.executable, "-c", without]
    found = subprocess.run(command, check=False, capture_output=True, text=True)

    assert found.returncode == 2
    assert found.stderr.startswith("looptrace: the command line needs click")
    assert "Traceback" not in found.stderr
