"""`looptrace analyze` in a pipeline: the forms that its tools read, baselines, and chosen rules."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from looptrace.rules.registry import RULES
from tests.commands import printed, refused, run
from tests.paths import LOOPING, ROOT, TRACES, written
from tests.pipeline_schemas import JENKINS_XSD, jenkins_conflicts, junit_conflicts, sarif_conflicts

OTHER = str(TRACES / "research_two_agents_loop.json")
HEALTHY = str(TRACES / "bulk_rename_healthy.jsonl")


analyze = partial(run, "analyze")


def junit_of(*arguments: str) -> ET.Element:
    """Return the JUnit report that `looptrace analyze` prints."""
    text = analyze(*arguments, "--format", "junit").stdout
    return ET.fromstring(text.encode())  # noqa: S314 - our own report


def test_sarif() -> None:
    """Each result names a rule of the list, and the file that was analysed."""
    log = json.loads(analyze(LOOPING, "--format", "sarif").stdout)
    assert sarif_conflicts(log) == []
    (sarif_run,) = log["runs"]
    (result,) = sarif_run["results"]
    assert sarif_run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"].endswith("nightly_migration_loop.jsonl")
    assert location["region"] == {"startLine": 1}
    assert (result["level"], "baselineState" in result) == ("error", False)
    again = json.loads(analyze(LOOPING, OTHER, "--format", "sarif").stdout)["runs"][0]["results"]
    places = [each["locations"][0]["physicalLocation"]["artifactLocation"] for each in again]
    assert {place["uri"].rpartition("/examples/")[2] for place in places} == {"traces"}
    prints = [each["partialFingerprints"]["primaryLocationLineHash"] for each in again]
    assert prints.count(result["partialFingerprints"]["primaryLocationLineHash"]) == 1
    assert json.loads(analyze(HEALTHY, "--format", "sarif").stdout)["runs"][0]["results"] == []


@pytest.fixture(params=["nightly_migration_loop.jsonl", ".", "a broken one"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a path whose report has one loop, all loops of the examples, or an unread file."""
    broken = written(tmp_path / "a broken one", '{"resourceSpans": [')
    return str(broken if request.param == broken.name else TRACES / request.param)


def test_sarif_fits_its_schema(path: str, tmp_path: Path) -> None:
    """With a baseline as without; the address of a file with a blank is still one."""
    baseline = written(tmp_path / "known.json", analyze(LOOPING, "--format", "json").stdout)
    plain = json.loads(analyze(path, "--format", "sarif").stdout)
    known = json.loads(analyze(path, "--format", "sarif", "--baseline", str(baseline)).stdout)
    assert (sarif_conflicts(plain), sarif_conflicts(known)) == ([], [])
    location = {"physicalLocation": {"artifactLocation": {"uri": "a broken one"}}}
    plain["runs"][0]["results"] = [{"message": {}, "level": "bad", "locations": [location]}]
    assert len(sarif_conflicts(plain)) == 3


needs_jenkins = pytest.mark.skipif(
    not JENKINS_XSD.exists(), reason="needs Jenkins' schema: make npm-exporters"
)


@pytest.mark.parametrize(
    "conflicts", [junit_conflicts, pytest.param(jenkins_conflicts, marks=needs_jenkins)]
)
def test_junit_is_what_its_readers_take(path: str, conflicts: Callable[[str], list[str]]) -> None:
    """What one of them does not know makes it refuse the file; JUnit's team has Jenkins' schema."""
    report = analyze(path, "--format", "junit").stdout
    assert conflicts(report) == []
    assert len(conflicts(report.replace(' name="looptrace"', ' called="looptrace"'))) == 2


@pytest.mark.parametrize("stored", [False, True])
def test_junit(tmp_path: Path, *, stored: bool) -> None:
    """The counts are those of the cases, and a task that loops is one that fails."""
    if stored:
        into = ["--store", str(tmp_path / "store")]
        assert run("ingest", TRACES, *into).exit_code == 0
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


FORMATS = ("terminal", "json", "html", "junit", "sarif", "github", "markdown")


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_fails_on_the_loop_and_passes_without(form: str) -> None:
    """Whatever the log looks like, the exit code is what a pipeline goes by."""
    for path, code in ((LOOPING, 1), (HEALTHY, 0)):
        ran = analyze(path, "--format", form, "--fail-on", "finding")
        assert ran.exit_code == code, ran.output
        assert ("repeated_call" in ran.stdout) == bool(code)


def test_what_was_not_read_is_an_error(tmp_path: Path) -> None:
    """In every form, and on stderr; a pipeline must not take it for a healthy run."""
    broken = written(tmp_path / "broken.jsonl", '{"resourceSpans": [')
    assert junit_of(str(broken)).get("errors") == "1"
    assert analyze(str(broken), "--format", "junit").exit_code == 2
    log = json.loads(analyze(str(broken), "--format", "sarif").stdout)
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is False
    assert "::error title=looptrace::" in analyze(str(broken), "--format", "github").stdout
    assert "Skipped: " in analyze(str(broken), "--format", "markdown").stdout
    terminal = analyze(str(broken))
    assert "broken.jsonl" in terminal.stderr
    assert "broken.jsonl" not in terminal.stdout


def test_github_and_markdown() -> None:
    """One annotation, or one row, for each loop."""
    lines = analyze(LOOPING, "--format", "github").stdout.splitlines()
    assert lines[0].startswith("::error title=looptrace%3A repeated_call::task migrations")
    assert lines[-1] == "1 loop in 1 of 1 task; 1 gate open."
    rows = [
        row
        for row in analyze(LOOPING, "--format", "markdown").stdout.splitlines()
        if "gate |" in row
    ]
    assert len(rows) == 1
    assert "`migrations-2026-03-14@nightly-jobs`" in rows[0]


@pytest.mark.parametrize("fail_on", ["finding", "gate"])
def test_a_baseline_lets_known_loops_pass(tmp_path: Path, fail_on: str) -> None:
    """And no other: what is new fails, and its form says which it is."""
    baseline = str(tmp_path / "known.json")
    analyze(LOOPING, "--format", "json", "--output", baseline)

    known = analyze(LOOPING, "--baseline", baseline, "--fail-on", fail_on)
    assert known.exit_code == 0
    assert "1 of 1 loops are in the baseline" in known.stderr
    assert analyze(LOOPING, "--fail-on", fail_on).exit_code == 1

    both = analyze(
        LOOPING, OTHER, "--baseline", baseline, "--fail-on", fail_on, "--format", "sarif"
    )
    assert both.exit_code == 1
    results = json.loads(both.stdout)["runs"][0]["results"]
    assert sorted(result["baselineState"] for result in results) == ["new", "unchanged"]
    junit = analyze(LOOPING, "--baseline", baseline, "--format", "junit").stdout
    assert "<failure" not in junit
    assert "::notice" in analyze(LOOPING, "--baseline", baseline, "--format", "github").stdout


def test_many_loops_fit_where_people_read(tmp_path: Path) -> None:
    """GitHub refuses a summary of more than a mebibyte, and nobody reads a thousand rows."""
    one = (TRACES / "release_notes_cycle_loop.jsonl").read_text("utf-8")
    every = [
        re.sub(r'("traceId": ?)"....', rf'\1"{number:04x}', one).replace(
            "release-v2.4.0", f"release-{number}"
        )
        for number in range(120)
    ]
    (tmp_path / "loops.jsonl").write_text("".join(every), "utf-8")
    for number in range(30):
        (tmp_path / f"{number}.broken.jsonl").write_text('{"no": "request"}')
    markdown = analyze(str(tmp_path), "--format", "markdown").stdout
    assert markdown.count("repeated 4 times") == 100
    assert "and 20 more loops: all are in `--format json`" in markdown
    assert markdown.count("Skipped: ") == 20
    assert "and 10 more parts skipped" in markdown
    github = analyze(str(tmp_path), "--format", "github").stdout
    assert github.count("cycle::") == 10
    assert len(analyze(str(tmp_path), "--format", "junit").stdout.split("<failure")) == 121


def test_a_baseline_that_is_none(tmp_path: Path) -> None:
    """It is named, with the way to write one."""
    wrong = written(tmp_path / "known.json", "{}")
    assert "--format json" in refused("analyze", LOOPING, "--baseline", str(wrong))
    assert analyze(LOOPING, "--baseline", str(tmp_path / "none")).exit_code == 2


def rules_of(*arguments: str) -> set[str]:
    """Return the rules of the findings."""
    report = json.loads(analyze(LOOPING, "--format", "json", *arguments).stdout)
    return {finding["rule"] for finding in report["findings"]}


def test_rules_are_selected_and_ignored(tmp_path: Path) -> None:
    """Also those that are off, and whatever an override says of the others."""
    every = rules_of()
    assert rules_of("--select", "repeated_call") == {"repeated_call"}
    assert rules_of("--ignore", "repeated_call") == every - {"repeated_call"}
    file = written(
        tmp_path / "off.toml",
        "[rules.repeated_call]\nenabled = false\n[[overrides]]\nagent = 'db-keeper'\n"
        "[overrides.rules.signature_repeat]\nattempts_min = 2\n",
    )
    assert rules_of("--config", str(file), "--select", "repeated_call") == {"repeated_call"}

    assert "Did you mean repeated_call?" in refused("analyze", LOOPING, "--select", "repeated_cal")


def spans_of(name: str, scope: str) -> str:
    """Return a request with three spans of a kind, in OTLP/JSON."""
    spans = [
        {"traceId": "1" * 32, "spanId": f"{number:016x}", "name": name, "endTimeUnixNano": "9"}
        for number in range(1, 4)
    ]
    scopes = [{"scope": {"name": scope}, "spans": spans}]
    return json.dumps({"resourceSpans": [{"scopeSpans": scopes}]})


# Input without a single turn, and what is said of it.
WITHOUT_TURNS = {
    "requests": (spans_of("GET /users", "http"), "GET /users (scope http, 3 spans; no attributes)"),
    "list": ("[]", "an empty list"),
    "object": ("{}", "an empty object"),
    "resources": (json.dumps({"resourceSpans": [{"scopeSpans": []}]}), "an export without spans"),
    "metrics": (json.dumps({"resourceMetrics": [{}]}), "metrics without spans"),
    "logs": (json.dumps({"resource_logs": [{}]}), "log records without spans"),
}


@pytest.mark.parametrize(
    ("form", "name"),
    # A form knows nothing of the input but the sentence about it.
    [
        *((form, "requests") for form in FORMATS if form != "json"),
        *(("markdown", name) for name in WITHOUT_TURNS if name != "requests"),
    ],
)
def test_nothing_that_could_be_checked_is_no_success(form: str, name: str, tmp_path: Path) -> None:
    """A pipeline whose agent is not instrumented would be green for ever."""
    text, what = WITHOUT_TURNS[name]
    (tmp_path / "traces.json").write_text(text)
    command = (str(tmp_path), "--format", form)
    for fail_on in ("finding", "gate"):
        failed = refused("analyze", *command, "--fail-on", fail_on)
        assert "Error: Nothing was checked: " in failed
        assert what in failed
    shown = printed("analyze", *command)
    assert "Nothing was checked: " in shown
    assert what in " ".join(shown.split())  # A terminal has lines of some width.
    if form == "junit":
        assert ET.fromstring(shown.encode()).get("errors") == "1"  # noqa: S314 - our own
    if form == "sarif":
        (invocation,) = json.loads(shown)["runs"][0]["invocations"]
        assert not invocation["executionSuccessful"]


@pytest.mark.parametrize("name", ["requests", "list"])
def test_a_store_without_turns_is_no_success(name: str, tmp_path: Path) -> None:
    """Also where its spans came from a server."""
    (tmp_path / "traces.json").write_text(WITHOUT_TURNS[name][0])
    store = str(tmp_path / "store")
    run("ingest", tmp_path / "traces.json", "--store", store)

    failed = refused("analyze", store, "--fail-on", "finding")
    what = "GET /users (scope http, 3 spans; no attributes)"
    assert (what in failed) == (name == "requests")
    assert analyze(store).exit_code == 0


def test_standard_input_without_a_turn_is_no_success() -> None:
    """A pipe whose first program found nothing."""
    for text in ("", "[]"):
        command = ["analyze", "-", "--fail-on", "finding"]
        assert run(*command, stdin=text).exit_code == 2


def test_no_rule_is_no_success() -> None:
    """Options that leave no rule find nothing in a loop."""
    every = [word for rule in RULES for word in ("--ignore", rule.name)]
    for off in (every, ["--select", "chant", "--ignore", "chant"]):
        assert "no rule is left" in refused("analyze", LOOPING, "--fail-on", "finding", *off)


def test_some_turns_are_enough(tmp_path: Path) -> None:
    """The spans of other programs are in every export."""
    (tmp_path / "metrics.json").write_text(WITHOUT_TURNS["metrics"][0])
    (tmp_path / "requests.json").write_text(WITHOUT_TURNS["requests"][0])
    assert analyze(str(tmp_path), HEALTHY, "--fail-on", "finding").exit_code == 0


@pytest.fixture(scope="module")
def looping_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a store with a loop."""
    folder = tmp_path_factory.mktemp("ci") / "store"
    printed("ingest", LOOPING, "--store", folder)
    return str(folder)


@pytest.mark.parametrize("form", FORMATS[:-1])
@pytest.mark.parametrize("is_stored", [False, True])
def test_prices_are_in_every_form_that_shows_costs(
    form: str, is_stored: bool, looping_store: str, tmp_path: Path
) -> None:
    """Whoever gives prices reads money, whatever the form."""
    (tmp_path / "p.toml").write_text(
        'currency = "XAU"\n[models."*"]\ninput_per_million = 100000\noutput_per_million = 0\n'
    )
    path = looping_store if is_stored else LOOPING
    priced = analyze(path, "--format", form, "--prices", str(tmp_path / "p.toml")).stdout

    assert "XAU" in priced
    assert re.search(r"XAU 1,145\.40|1145\.4\b", priced)
    assert "XAU" not in analyze(path, "--format", form).stdout


def test_prices_are_refused_where_no_costs_are_shown() -> None:
    """An option that does nothing is a mistake."""
    prices = ("--prices", str(ROOT / "examples/prices.toml"))
    said = refused("analyze", LOOPING, "--format", "markdown", *prices)
    assert "--prices changes nothing: --format markdown shows no costs" in said
