"""Settings on the command line: `looptrace config`, `--config`, the file here, the environment."""

import json
import re
from pathlib import Path

import pytest

from looptrace.analyzer.settings.sections import default, load
from tests.commands import json_of, refused, run
from tests.paths import LOOPING, ROOT

TOOL = "apply_migration"
QUIET = "[rules.repeated_call]\nattempts_min = 8\n[rules.signature_repeat]\nenabled = false\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a separate folder, without the settings of the user who runs the tests."""
    monkeypatch.chdir(tmp_path)
    for variable in ("LOOPTRACE_LOOP_THRESHOLD", "LOOPTRACE_MAX_PIVOTS"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def rules_that_find(*options: str) -> set[str]:
    """Analyse the looping example."""
    report = json_of("analyze", LOOPING, *options)
    return {finding["rule"] for finding in report["findings"]}


def test_analyze_judges_by_the_named_file(elsewhere: Path) -> None:
    """Seven calls are not a loop under settings that allow seven."""
    (elsewhere / "mine.toml").write_text(QUIET)

    assert {"repeated_call", "signature_repeat"} <= rules_that_find()
    assert not {"repeated_call", "signature_repeat"} & rules_that_find("--config", "mine.toml")


def test_file_in_the_current_directory_holds(elsewhere: Path) -> None:
    """A project keeps its settings beside its traces, and need not name them."""
    (elsewhere / "looptrace.toml").write_text(QUIET)

    assert not {"repeated_call", "signature_repeat"} & rules_that_find()


def test_explain_shows_the_thresholds_in_force(elsewhere: Path) -> None:
    """An explanation with other thresholds than the analysis would be wrong."""
    (elsewhere / "looptrace.toml").write_text(QUIET)
    told = run("explain", LOOPING).stdout

    assert "repeated_call: silent, got to 7 of 8" in told
    assert "signature_repeat" not in told


def test_store_is_judged_anew_with_other_settings(elsewhere: Path) -> None:
    """Findings of two settings side by side in one store would be comparable with nothing."""
    (elsewhere / "mine.toml").write_text(QUIET)
    findings = []
    for options in ([], ["--config", "mine.toml"], []):
        done = run("ingest", LOOPING, "--store", "store", *options).stdout
        findings.append(int(re.search(r"findings (\d+)", done)[1]))  # type: ignore[index]

    assert findings[0] == findings[2] > findings[1]


def test_stored_turns_are_analysed_with_the_given_settings(elsewhere: Path) -> None:
    """Trying thresholds takes no new ingest."""
    (elsewhere / "mine.toml").write_text(QUIET)
    run("ingest", LOOPING, "--store", "store", "--config", "mine.toml")
    strict = run("analyze", "store", "--format", "json").stdout
    quiet = run("analyze", "store", "--format", "json", "--config", "mine.toml").stdout

    assert "repeated_call" in {f["rule"] for f in json.loads(strict)["findings"]}
    assert "repeated_call" not in {f["rule"] for f in json.loads(quiet)["findings"]}


@pytest.mark.requirement("E6")
def test_environment_is_read_by_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable reaches the rules, and an error in it ends the command."""
    monkeypatch.setenv("LOOPTRACE_LOOP_THRESHOLD", "8")
    assert "repeated_call" not in rules_that_find()
    monkeypatch.setenv("LOOPTRACE_LOOP_THRESHOLD", "0")
    assert refused("analyze", LOOPING).startswith("Error: LOOPTRACE_LOOP_THRESHOLD: ")


@pytest.mark.requirement("E6")
def test_pivots_of_the_environment_are_shown(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shown settings are those in force, from any source."""
    (elsewhere / "looptrace.toml").write_text("[recovery]\nmax_pivots = 5\n")
    assert "max_pivots = 5\n" in run("config", "show").stdout
    monkeypatch.setenv("LOOPTRACE_MAX_PIVOTS", "7")
    assert "max_pivots = 7\n" in run("config", "show").stdout
    monkeypatch.setenv("LOOPTRACE_MAX_PIVOTS", "many")
    found = refused("config", "show")

    assert found == "Error: LOOPTRACE_MAX_PIVOTS is 'many'; it must be a whole number.\n"


@pytest.mark.requirement("D5")
def test_overrides_hold_in_every_command(elsewhere: Path) -> None:
    """Analysis, explanation and store judge by the same thresholds, and say which."""
    override = f"[[overrides]]\ntool = '{TOOL}'\n[overrides.rules"
    (elsewhere / "mine.toml").write_text(f"{override}.repeated_call]\nattempts_min = 8\n")
    (elsewhere / "off.toml").write_text("enabled = false\n")
    told = run("explain", LOOPING, "--config", "mine.toml").stdout
    stored = []
    for name in ("off.toml", "mine.toml"):
        done = run("ingest", LOOPING, "--store", "store", "--config", name).stdout
        stored.append(int(re.search(r"findings (\d+)", done)[1]))  # type: ignore[index]

    assert "repeated_call" not in rules_that_find("--config", "mine.toml")
    assert "repeated_call: silent, got to 7 of 8" in told
    assert rules_that_find("--config", "off.toml") == set()
    assert stored[0] == 0 < stored[1]


@pytest.mark.parametrize(
    "command",
    [["analyze", LOOPING], ["explain", LOOPING], ["ingest", LOOPING, "--store", "s"]],
    ids=lambda command: command[0],
)
def test_wrong_settings_stop_a_command(elsewhere: Path, command: list[str]) -> None:
    """Analysing by other settings than were meant is worse than not analysing."""
    (elsewhere / "looptrace.toml").write_text("[rules.repeated_call]\nattempt_min = 3\n")
    found = run(*command)

    assert found.exit_code == 2
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1
    assert "looptrace.toml:2: there is no 'attempt_min'" in found.stderr
    assert not (elsewhere / "s").exists()
    assert run(command[0], "--help").exit_code == 0


def test_named_file_must_exist() -> None:
    """A typing error in a path must not mean the default settings."""
    found = refused("analyze", LOOPING, "--config", "nowhere.toml")

    assert (
        found == "Error: nowhere.toml: cannot be read: No such file or directory; check the path.\n"
    )


def test_show_prints_a_file_that_says_the_same(elsewhere: Path) -> None:
    """The settings in force can be read, compared, and kept."""
    (elsewhere / "mine.toml").write_text(f'profile = "aggressive"\n{QUIET}')
    shown = run("config", "show", "--config", "mine.toml").stdout
    (elsewhere / "shown.toml").write_text(shown)

    assert load(elsewhere / "shown.toml") == load(elsewhere / "mine.toml")
    assert 'profile = "aggressive"' in shown
    assert "[rules.signature_repeat]\nenabled = false" in shown


def test_check_says_what_is_wrong(elsewhere: Path) -> None:
    """A pipeline checks the file before it is used."""
    assert run("config", "check").exit_code == 2
    (elsewhere / "looptrace.toml").write_text(QUIET)
    assert run("config", "check").stdout == "looptrace.toml: ok\n"
    (elsewhere / "other.toml").write_text("profile = 3\n")
    assert refused("config", "check", "other.toml").startswith("Error: other.toml:1: profile is 3.")


def test_check_names_every_error_of_every_file(elsewhere: Path) -> None:
    """A person mends them all at once; whoever uses the file gets one line."""
    (elsewhere / "one.toml").write_text('profile = 3\n[page]\nurl = "x"\n[rules.cycl]\n')
    (elsewhere / "two.toml").write_text("[recovery]\nmax_pivots = -1\nidle_s = -1\n")
    (elsewhere / "syntax.toml").write_text("profile = \nx = \n")
    found = refused("config", "check", "one.toml", "two.toml", "syntax.toml", "none.toml")

    places = [line.split(": ")[1] for line in found.splitlines()]
    assert places == [
        *("one.toml:1", "one.toml:3", "one.toml:4", "two.toml:2", "two.toml:3"),
        *("syntax.toml:1", "none.toml"),
    ]
    used = refused("config", "show", "--config", "one.toml")
    (line,) = used.splitlines()
    assert line.endswith("The file has 2 more.")


def test_init_writes_a_file_once(elsewhere: Path) -> None:
    """A tuned file is never overwritten."""
    assert run("config", "init").exit_code == 0
    assert load(elsewhere / "looptrace.toml") == default()
    (elsewhere / "looptrace.toml").write_text(QUIET)
    assert "looptrace.toml already exists" in refused("config", "init")
    assert (elsewhere / "looptrace.toml").read_text() == QUIET
    assert "cannot be written" in run("config", "init", "no/folder.toml").stderr


def test_example_of_the_readme_can_be_used(elsewhere: Path) -> None:
    """The first settings file of a newcomer is copied from there."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```toml\n(.*?)```", readme, re.DOTALL)
    assert example is not None
    (elsewhere / "looptrace.toml").write_text(example[1])

    assert run("config", "check").exit_code == 0


@pytest.mark.requirement("E6")
def test_show_says_which_rules_take_another_threshold(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output shows where another number applies than the common one, as a readable file."""
    monkeypatch.setenv("LOOPTRACE_LOOP_THRESHOLD", "60")
    shown = run("config", "show").stdout

    assert shown.startswith("# LOOPTRACE_LOOP_THRESHOLD: the nearest values within bounds are ")
    assert "repeated_failure 10" in shown.splitlines()[0]
    (elsewhere / "looptrace.toml").write_text(shown)
    assert run("config", "check").exit_code == 0
