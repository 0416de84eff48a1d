"""`looptrace analyze`, `explain` and `escalation` as a stranger would use them."""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands import json_of, printed, refused, run
from tests.otlp import Trace, tool_call
from tests.paths import HEALTHY, LOOPING, ROOT, TALK, TRACES, written
from tests.plugins import install_judges
from tests.schemas import conflicts


def calls(result: str, count: int) -> Trace:
    """Make a trace of equal calls."""
    trace = Trace("session")
    call: dict[str, Any] = tool_call("dig", '{"at": "garden"}', result=result)
    for _ in range(count):
        trace.span("execute_tool dig", None, call)
    return trace


def as_json(*arguments: str) -> Any:
    """Analyse and parse the JSON."""
    return json_of("analyze", *arguments)


def test_report_names_the_loop() -> None:
    """A person reads what repeats, where, and what it cost."""
    found = printed("analyze", LOOPING)

    assert "failed the same way 7 times, turns 6–18" in found
    assert "11,454 input + 448 output tokens" in found


@pytest.mark.parametrize(
    ("path", "fail_on", "code"),
    [(LOOPING, "never", 0), (LOOPING, "finding", 1), (LOOPING, "gate", 1), (HEALTHY, "finding", 0)],
)
def test_exit_code_is_for_pipelines(path: str, fail_on: str, code: int) -> None:
    """A pipeline fails where an agent looped, and only there."""
    assert run("analyze", path, "--fail-on", fail_on).exit_code == code


def test_gate_asks_for_more_than_a_warning(tmp_path: Path) -> None:
    """Three equal calls are a finding that warns, and no gate yet."""
    path = written(tmp_path / "three.jsonl", calls("earth", 3).lines())

    assert run("analyze", path, "--fail-on", "finding").exit_code == 1
    assert run("analyze", path, "--fail-on", "gate").exit_code == 0


def test_a_gate_that_was_resolved_was_a_gate(tmp_path: Path) -> None:
    """A pipeline asks whether an agent had to be stopped, not whether it is still stopped."""
    path = tmp_path / "resolved.jsonl"
    trace = calls("earth", 5)
    path.write_text(trace.lines())
    before = as_json(str(path))["events"]
    said = {"looptrace.decision": "continue", "looptrace.note": "Use a spade."}
    trace.span("person", None, events=[("looptrace.human_intervention", said)])
    path.write_text(trace.lines())
    after = as_json(str(path))["events"]

    assert [event["type"] for event in before] == ["loop_detected", "gate_opened"]
    assert [event["type"] for event in after][2:] == ["gate_resolved", "counter_reset"]
    assert after[:2] == before
    assert after[2]["decision"] == "continue"
    assert "spade" not in json.dumps(after)
    assert run("analyze", path, "--fail-on", "gate").exit_code == 1


def test_a_finding_whose_ladder_ends_in_a_gate_is_no_gate(tmp_path: Path) -> None:
    """`--fail-on gate` asks for what was decided: an order to move on cleared the count."""
    path = written(tmp_path / "five.jsonl", calls("earth", 5).lines())
    forced = written(
        tmp_path / "forced.toml",
        "[rules.signature_repeat]\nladder = [{ attempts = 3, action = 'force_next' }]\n",
    )
    found = run("analyze", path, "--fail-on", "gate", "--config", forced)

    assert "gate, found by repeated_call\n" in found.stdout
    assert "turn 3: force_next by signature_repeat" in found.stdout
    assert found.exit_code == 0
    assert run("analyze", path, "--fail-on", "gate").exit_code == 1


def test_unreadable_parts_win_over_findings(tmp_path: Path) -> None:
    """Code 2 says that the answer is incomplete, and the rest is analysed all the same."""
    path = written(tmp_path / "cut.jsonl", calls("earth", 5).lines() + '{"resourceSpans": [{"sc')
    found = run("analyze", path, "--fail-on", "finding")

    assert found.exit_code == 2
    assert "gave the same result 5 times" in found.stdout
    assert "cut.jsonl:6: the JSON is cut off" in found.stderr


def test_skipped_parts_are_bounded(tmp_path: Path) -> None:
    """A broken file of many lines must not push the findings off the screen."""
    for number in range(25):
        (tmp_path / f"{number}.jsonl").write_text('{"no": "request"}')
    found = run("analyze", tmp_path)

    assert found.stderr.count("but not OTLP") == 20
    assert "and 5 more parts were skipped" in found.stderr


def test_html_is_written_to_a_file(tmp_path: Path) -> None:
    """The report is one file, and the command says where it lies."""
    path = tmp_path / "report.html"
    found = run("analyze", LOOPING, "--format", "html", "--output", path)

    assert str(path) in found.stderr
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_file_has_what_a_terminal_shows(tmp_path: Path) -> None:
    """It was empty, and the command said that the report is in it."""
    path = tmp_path / "report.txt"
    run("analyze", LOOPING, "--output", path)

    assert path.read_text(encoding="utf-8") == run("analyze", LOOPING).stdout


def test_output_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """An analysis that took minutes must not end in a traceback."""
    found = refused("analyze", LOOPING, "--output", tmp_path / "no" / "report.txt")

    assert "cannot be written (No such file or directory); name another file." in found


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
    assert run("ingest", TRACES, "--store", store).exit_code == 0

    assert as_json(store) == as_json(str(TRACES))


def test_a_store_is_read_alone(tmp_path: Path) -> None:
    """Files beside a store would be counted with other tasks than in it."""
    store = str(tmp_path / "store")
    run("ingest", LOOPING, "--store", store)
    assert "cannot be read together with other paths" in refused("analyze", store, LOOPING)


@pytest.mark.requirement("C7")
def test_explain_shows_how_far_each_rule_got() -> None:
    """The turn at which a rule fires, and the rules that stayed silent."""
    found = run("explain", LOOPING, "--task", "migrations-2026-03-14").stdout
    assert [line for line in found.splitlines() if line != line.rstrip()] == []

    assert "repeated_call 2/3" in found
    assert "repeated_call: fired, got to 7 of 3, at turn 18" in found
    assert "cycle: silent, got to 0 of 3" in found


@pytest.mark.requirement("C7")
def test_explain_says_what_was_decided_and_what_would_change_it() -> None:
    """The turns with their events, and below them the settings that would have prevented these."""
    found = run("explain", LOOPING).stdout

    assert "→ gate by" in found
    assert "would be silent with rules.repeated_call.attempts_min = 8 (now 3)" in found
    assert "turn 10: gate by repeated_failure, at the 3rd time: the rule's" in found
    assert "would have come at turn 12 with rules.repeated_failure.attempts_min = 4 (now" in found
    assert "enabled = false there is a gate by repeated_call at turn 12" in " ".join(found.split())


@pytest.mark.requirement("C7")
def test_explain_names_the_setting_of_a_silent_rule(tmp_path: Path) -> None:
    """The named value, written into a file, makes the rule fire."""
    path = written(tmp_path / "two.jsonl", calls("earth", 2).lines())
    told = run("explain", path).stdout
    assert "repeated_call: silent, got to 2 of 3\n  would fire with rules.repeated_call." in told

    (tmp_path / "soon.toml").write_text("[rules.repeated_call]\nattempts_min = 2\n")
    found = as_json(str(path), "--config", str(tmp_path / "soon.toml"))
    assert "rules.repeated_call.attempts_min = 2 (now 3)" in told
    assert {finding["rule"] for finding in found["findings"]} == {"repeated_call"}
    assert as_json(str(path))["findings"] == []


@pytest.mark.requirement("C7")
def test_explain_speaks_to_machines() -> None:
    """The same as JSON, with the events of `analyze`."""
    explained = json_of("explain", LOOPING)

    assert conflicts(explained, "explain.schema.json") == []
    assert explained["events"] == as_json(LOOPING)["events"]
    assert explained["gates"][0]["without_rule"] == {"rule": "repeated_call", "turn": 12}


def test_explain_says_what_is_unknown() -> None:
    """The explanation of an invisible loop is what the trace lacks."""
    found = run("explain", TRACES / "redacted_unknown.jsonl").stdout

    assert "unknown arguments and" in found


def test_explain_helps_to_name_the_task() -> None:
    """A mistyped task is answered with those that are near."""
    found = refused("explain", TRACES, "--task", "migrations")

    assert "there is no task 'migrations'" in found
    assert "migrations-2026-03-14" in found


@pytest.mark.requirement("A17")
@pytest.mark.requirement("C6")
def test_escalation_hands_a_gate_on(tmp_path: Path) -> None:
    """As Markdown to read and as JSON to work with, from files and from a store."""
    store = str(tmp_path / "store")
    run("ingest", TRACES, "--store", store)
    text = run("escalation", LOOPING).stdout
    report = json_of("escalation", LOOPING)

    assert text.startswith("# Gate: a task stopped when the same happened for the 3rd time\n")
    assert "   10  repeat  db-keeper: apply_migration(billing, 0042_split" in text
    assert conflicts(report, "escalation.schema.json") == []
    gate = report["gate"]["gate"]
    assert run("escalation", store, "--gate", gate).stdout == text
    assert run("escalation", store, "--task", "migrations-2026-03-14").stdout == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([str(TRACES)], "name one by --task or --gate; there are 4: aec0b05"),
        ([str(TRACES), "--task", "nobody"], "there is no gate of task 'nobody'; there are 4: aec"),
        ([LOOPING, "--gate", "abc"], "there is no gate 'abc'; there is one: 4c7c4a5"),
        ([HEALTHY], "no gate was opened in the input"),
    ],
)
def test_escalation_names_the_gates_there_are(arguments: list[str], message: str) -> None:
    """The error for an unknown gate lists the existing ones."""
    assert message in " ".join(refused("escalation", *arguments).split())


JUDGE = """
import os
from pathlib import Path
from looptrace.analyzer.llm_judge import Opinion

class Strict:
    def opinion(self, question):
        with Path(os.environ["ASKED"]).open("a") as asked:
            asked.write(f"{question.rule} after {question.history[-1][:2]}\\n")
        return Opinion(True, True, False, "It only talks.")

def broken():
    raise RuntimeError("no model here")

class Lost:
    def opinion(self, question):
        raise TimeoutError("no answer in time")
"""
# Settings by which talk alone opens a gate, so that there is something to ask about.
ALIKE = """[rules.response_repeat]
enabled = false
[rules.monologue]
attempts_min = 4
ladder = [{ attempts = 4, action = "gate" }]
"""


@pytest.fixture
def judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install judges, and settings by which talk alone opens a gate; returns what was asked."""
    named = {"strict": "Strict", "lost": "Lost", "broken": "broken"}
    install_judges(tmp_path / "strict_judges", monkeypatch, JUDGE, **named)
    asked = tmp_path / "asked"
    asked.touch()
    monkeypatch.setenv("ASKED", str(asked))
    (tmp_path / "looptrace.toml").write_text(ALIKE)
    monkeypatch.chdir(tmp_path)
    return asked


@pytest.mark.requirement("A13")
def test_judge_is_asked_once_about_a_gate_that_is_no_exact_match(judges: Path) -> None:
    """Its opinion is shown in every report, and changes nothing that was decided."""
    without = as_json(TALK)
    found = as_json(TALK, "--judge", "strict")

    assert judges.read_text() == "monologue after 4.\n"
    (gate,) = found["events"]
    assert (gate["type"], gate["rule"], gate["turn"]) == ("gate_opened", "monologue", 4)
    assert gate["opinion"]["reasoning"] == "It only talks."
    assert without["events"] == [gate | {"opinion": None}]
    assert without["findings"] == found["findings"]
    assert "external: no. It only talks." in run("analyze", TALK, "--judge", "strict").stdout
    assert "It only talks." in run("escalation", TALK, "--judge", "strict").stdout
    assert judges.read_text().count("\n") == 3


@pytest.mark.requirement("A13")
def test_judge_is_never_asked_about_exact_matches(judges: Path) -> None:
    """A call that failed the same way speaks for itself."""
    found = as_json(LOOPING, "--judge", "strict")

    assert judges.read_text() == ""
    assert [event["opinion"] for event in found["events"]] == [None]


@pytest.mark.requirement("A13")
@pytest.mark.usefixtures("judges")
def test_judge_that_fails_is_no_opinion_and_no_error() -> None:
    """The analysis has the same result as without, and the report says why there is no opinion."""
    found = run("analyze", TALK, "--judge", "lost", "--format", "json")
    (gate,) = json.loads(found.stdout)["events"]

    assert found.exit_code == 0
    assert gate["opinion"]["no_opinion"] == "the judge failed: TimeoutError: no answer in time"
    assert gate["opinion"]["no_progress"] is None


@pytest.mark.parametrize("command", ["analyze", "escalation"])
@pytest.mark.usefixtures("judges")
def test_judge_that_cannot_be_had_stops_the_command(command: str) -> None:
    """A report without the opinion that was asked for would be taken for one with it."""
    for name, why in (("strcit", "Did you mean strict?"), ("broken", "no model here")):
        found = run(command, TALK, "--judge", name)
        assert (found.exit_code, found.stdout) == (2, "")
        assert found.stderr.startswith("Error: ")
        assert why in found.stderr


def test_text_from_traces_is_never_markup(tmp_path: Path) -> None:
    """A result may hold what the terminal library would obey."""
    path = written(tmp_path / "markup.jsonl", calls("[red]x[/red] \x1b[31m", 4).lines())
    told = run("explain", path).stdout

    assert "[red]x[/red]" in told
    assert "\x1b[31m" not in told


@pytest.mark.parametrize(
    "command",
    [
        ("analyze",),
        ("analyze", "--format", "json"),
        ("analyze", "--format", "html"),
        ("explain",),
        ("escalation",),
        ("backtest", "--b", "balanced"),
        ("calibrate",),
        ("ingest", "--store", "store"),
    ],
)
@pytest.mark.parametrize("paths", [["nowhere"], ["nowhere", "n*.json"], ["folder"]])
def test_a_wrong_path_is_one_error_and_nothing_else(
    command: tuple[str, ...], paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not look like a healthy agent, and zeros would hide the line that says why."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    found = run(*command, *paths)

    assert (found.exit_code, found.stdout) == (2, "")
    (line,) = found.stderr.splitlines()
    assert line.startswith(f"Error: {paths[0]}: no ")
    assert all(path in line for path in paths)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_runs_as_a_module() -> None:
    """`python -m looptrace` is there where the script is not on the path."""
    command = [sys.executable, "-m", "looptrace", "--version"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_missing_packages_are_named() -> None:
    """After an installation for agents alone the command says how to install the rest."""
    without = "import sys; sys.modules['click'] = None; from looptrace.__main__ import main; main()"
    command = [sys.executable, "-c", without]
    found = subprocess.run(command, check=False, capture_output=True, text=True)

    assert found.returncode == 2
    assert found.stderr.startswith("looptrace: the command line needs click")
    assert "Traceback" not in found.stderr


def test_a_file_among_the_rules_that_is_none_is_named(tmp_path: Path) -> None:
    """The error names the wrong file, in one line."""
    package = Path(shutil.copytree(ROOT / "src/looptrace", tmp_path / "looptrace"))
    (package / "rules/calls/half_written.py").write_text("")
    command = [sys.executable, "-m", "looptrace", "analyze", str(TRACES)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)

    assert result.returncode == 2
    assert result.stderr == (
        "Error: looptrace.rules.calls.half_written: it has no rule; a module of a family has one.\n"
    )


def test_spans_that_lost_attributes_are_named(tmp_path: Path) -> None:
    """The session may be among them; the report is written, and the exit code is that of it."""
    path = tmp_path / "cut.json"
    request = calls("x", 3).request()
    spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    for lost, span in enumerate(spans):
        span["droppedAttributesCount"] = lost
    path.write_text(json.dumps(request))
    said = "warning: attributes lost to a limit of the SDK: 3, of 2 of the spans, perhaps their"

    for found in (run("analyze", path), run("ingest", path, "--store", tmp_path / "store")):
        assert found.stderr.startswith(said)
        assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=4096" in found.stderr
        assert found.exit_code == 0
    assert "warning" not in run("analyze", HEALTHY).stderr
