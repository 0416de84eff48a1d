"""`looptrace analyze` in a pipeline: the forms that its tools read, baselines, and chosen rules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from looptrace.cli.main import main
from tests.paths import ROOT

TRACES = ROOT / "examples/traces"
LOOPING = str(TRACES / "nightly_migration_loop.jsonl")
OTHER = str(TRACES / "research_two_agents_loop.json")
HEALTHY = str(TRACES / "bulk_rename_healthy.jsonl")

# What SARIF 2.1.0 asks of the parts that looptrace writes (sections 3.13 to 3.27 and 3.58).
_TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "$schema": {"type": "string"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "required": ["id"],
                                            "properties": {
                                                "shortDescription": _TEXT,
                                                "fullDescription": _TEXT,
                                                "help": _TEXT,
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "invocations": {
                        "type": "array",
                        "items": {"required": ["executionSuccessful"]},
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message", "ruleId"],
                            "properties": {
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": _TEXT,
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "baselineState": {
                                    "enum": ["new", "unchanged", "updated", "absent"]
                                },
                                "partialFingerprints": {
                                    "type": "object",
                                    "additionalProperties": {"type": "string"},
                                },
                                "locations": {"type": "array", "minItems": 1},
                            },
                        },
                    },
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}


def run(*arguments: str) -> Result:
    """Run `looptrace analyze`."""
    return CliRunner().invoke(main, ["analyze", *arguments])


def junit_of(*arguments: str) -> ET.Element:
    """Return the JUnit report that `looptrace analyze` prints."""
    text = run(*arguments, "--format", "junit").stdout
    return ET.fromstring(text.encode())  # noqa: S314 - our own report


def test_sarif() -> None:
    """Each result names a rule of the list, and the file that was analysed."""
    log = json.loads(run(LOOPING, "--format", "sarif").stdout)
    Draft202012Validator(SARIF).validate(log)
    (sarif_run,) = log["runs"]
    (result,) = sarif_run["results"]
    assert sarif_run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"].endswith("nightly_migration_loop.jsonl")
    assert location["region"] == {"startLine": 1}
    assert (result["level"], "baselineState" in result) == ("error", False)
    again = json.loads(run(LOOPING, OTHER, "--format", "sarif").stdout)["runs"][0]["results"]
    places = [each["locations"][0]["physicalLocation"]["artifactLocation"] for each in again]
    assert {place["uri"].rpartition("/examples/")[2] for place in places} == {"traces"}
    prints = [each["partialFingerprints"]["primaryLocationLineHash"] for each in again]
    assert prints.count(result["partialFingerprints"]["primaryLocationLineHash"]) == 1
    assert json.loads(run(HEALTHY, "--format", "sarif").stdout)["runs"][0]["results"] == []


_COUNT = {"type": "string", "pattern": "^[0-9]+$"}
_COUNTS = {"tests": _COUNT, "failures": _COUNT, "errors": _COUNT}
_BAD = {
    "type": "object",
    "required": ["message", "type"],
    "properties": {"message": {"type": "string"}, "type": {"type": "string"}, "#": {}},
    "additionalProperties": False,
}
_CASE = {
    "required": ["name", "classname"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "classname": {"type": "string"},
        "failure": {"type": "array", "maxItems": 1, "items": _BAD},
        "error": {"type": "array", "maxItems": 1, "items": _BAD},
    },
    "additionalProperties": False,
}
_SUITE = {
    "required": ["name", "tests", "failures", "errors"],
    "properties": {"name": {"type": "string"}, **_COUNTS, "testcase": {"items": _CASE}},
    "additionalProperties": False,
}
# What readers of JUnit share: of elements their attributes, their text (#) and, by name, children.
JUNIT = {
    "required": ["testsuite"],
    "properties": {**_COUNTS, "testsuite": {"type": "array", "items": _SUITE}},
    "additionalProperties": False,
}


def tree(element: ET.Element) -> dict[str, Any]:
    """Return an element as a value that a JSON schema can describe."""
    children: dict[str, Any] = {}
    for child in element:
        children.setdefault(child.tag, []).append(tree(child))
    text = {"#": element.text} if (element.text or "").strip() else {}
    return {**element.attrib, **children, **text}


@pytest.mark.parametrize("path", ["nightly_migration_loop.jsonl", ".", "broken"])
def test_junit_is_what_its_readers_take(path: str, tmp_path: Path) -> None:
    """Attributes and elements that one of them does not know make it refuse the file."""
    (tmp_path / "broken.jsonl").write_text('{"resourceSpans": [')
    root = junit_of(str(tmp_path if path == "broken" else TRACES / path))
    Draft202012Validator(JUNIT).validate(tree(root))
    wrong = tree(root)
    del wrong["testsuite"][0]["testcase"][0]["name"]
    assert not Draft202012Validator(JUNIT).is_valid(wrong)


@pytest.mark.parametrize("stored", [False, True])
def test_junit(tmp_path: Path, *, stored: bool) -> None:
    """The counts are those of the cases, and a task that loops is one that fails."""
    if stored:
        into = ["--store", str(tmp_path / "store")]
        assert CliRunner().invoke(main, ["ingest", str(TRACES), *into]).exit_code == 0
    suites = junit_of(str(tmp_path / "store" if stored else TRACES))
    cases = suites.findall("testsuite/testcase")
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    assert suites.tag == "testsuites"
    for element in (suites, suites[0]):
        assert element.get("tests") == str(len(cases)) == "10"
        assert element.get("failures") == str(len(failed)) == "5"
        assert element.get("errors") == "0"
    assert "migrations-2026-03-14@nightly-jobs" in failed
    assert "rename-load-basket" not in failed


def test_what_was_not_read_is_an_error(tmp_path: Path) -> None:
    """In every form, and on stderr; a pipeline must not take it for a healthy run."""
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"resourceSpans": [')
    assert junit_of(str(broken)).get("errors") == "1"
    assert run(str(broken), "--format", "junit").exit_code == 2
    log = json.loads(run(str(broken), "--format", "sarif").stdout)
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is False
    assert "::error title=looptrace::" in run(str(broken), "--format", "github").stdout
    assert "Skipped: " in run(str(broken), "--format", "markdown").stdout
    terminal = run(str(broken))
    assert "broken.jsonl" in terminal.stderr
    assert "broken.jsonl" not in terminal.stdout


def test_github_and_markdown() -> None:
    """One annotation, or one row, for each loop."""
    lines = run(LOOPING, "--format", "github").stdout.splitlines()
    assert lines[0].startswith("::error title=looptrace%3A repeated_call::task migrations")
    assert lines[-1] == "1 loop in 1 of 1 task; 1 gate open."
    rows = [
        row for row in run(LOOPING, "--format", "markdown").stdout.splitlines() if "gate |" in row
    ]
    assert len(rows) == 1
    assert "`migrations-2026-03-14@nightly-jobs`" in rows[0]


@pytest.mark.parametrize("fail_on", ["finding", "gate"])
def test_a_baseline_lets_known_loops_pass(tmp_path: Path, fail_on: str) -> None:
    """And no other: what is new fails, and its form says which it is."""
    baseline = str(tmp_path / "known.json")
    run(LOOPING, "--format", "json", "--output", baseline)

    known = run(LOOPING, "--baseline", baseline, "--fail-on", fail_on)
    assert known.exit_code == 0
    assert "1 of 1 loops are in the baseline" in known.stderr
    assert run(LOOPING, "--fail-on", fail_on).exit_code == 1

    both = run(LOOPING, OTHER, "--baseline", baseline, "--fail-on", fail_on, "--format", "sarif")
    assert both.exit_code == 1
    results = json.loads(both.stdout)["runs"][0]["results"]
    assert sorted(result["baselineState"] for result in results) == ["new", "unchanged"]
    junit = run(LOOPING, "--baseline", baseline, "--format", "junit").stdout
    assert "<failure" not in junit
    assert "::notice" in run(LOOPING, "--baseline", baseline, "--format", "github").stdout


def test_many_loops_fit_where_people_read(tmp_path: Path) -> None:
    """GitHub refuses a summary of more than a mebibyte, and nobody reads a thousand rows."""
    one = (TRACES / "release_notes_cycle_loop.jsonl").read_text("utf-8")
    for number in range(120):
        traces = re.sub(r'("traceId": ?)"....', rf'\1"{number:04x}', one)
        traces = traces.replace("release-v2.4.0", f"release-{number}")
        (tmp_path / f"{number}.jsonl").write_text(traces, "utf-8")
        (tmp_path / f"{number}.broken.jsonl").write_text('{"no": "request"}')
    markdown = run(str(tmp_path), "--format", "markdown").stdout
    assert markdown.count("repeated 4 times") == 100
    assert "and 20 more loops: all are in `--format json`" in markdown
    assert markdown.count("Skipped: ") == 20
    assert "and 100 more parts skipped" in markdown
    github = run(str(tmp_path), "--format", "github").stdout
    assert github.count("cycle::") == 10
    assert len(run(str(tmp_path), "--format", "junit").stdout.split("<failure")) == 121


def test_a_baseline_that_is_none(tmp_path: Path) -> None:
    """It is named, with the way to write one."""
    wrong = tmp_path / "known.json"
    wrong.write_text("{}")
    result = run(LOOPING, "--baseline", str(wrong))
    assert result.exit_code == 2
    assert "--format json" in str(result.stderr)
    assert run(LOOPING, "--baseline", str(tmp_path / "none")).exit_code == 2


def rules_of(*arguments: str) -> set[str]:
    """Return the rules of the findings."""
    report = json.loads(run(LOOPING, "--format", "json", *arguments).stdout)
    return {finding["rule"] for finding in report["findings"]}


def test_rules_are_selected_and_ignored(tmp_path: Path) -> None:
    """Also those that are off, and whatever an override says of the others."""
    every = rules_of()
    assert rules_of("--select", "repeated_call") == {"repeated_call"}
    assert rules_of("--ignore", "repeated_call") == every - {"repeated_call"}
    file = tmp_path / "off.toml"
    file.write_text(
        "[rules.repeated_call]\nenabled = false\n"
        '[[overrides]]\nagent = "db-keeper"\n[overrides.rules.signature_repeat]\nattempts_min = 2\n'
    )
    assert rules_of("--config", str(file), "--select", "repeated_call") == {"repeated_call"}

    wrong = run(LOOPING, "--select", "repeated_cal")
    assert wrong.exit_code == 2
    assert "Did you mean repeated_call?" in wrong.stderr
