"""The action and the sample repository: their steps run in a shell, as a runner of GitHub would."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from docs.page_runs import warm_socket
from tests.paths import ROOT
from tests.pipeline_schemas import sarif_conflicts
from tests.wheels import CHECKOUT, building

SAMPLE = ROOT / "examples/ci"
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
WORKFLOW: dict[str, Any] = yaml.safe_load(
    (SAMPLE / ".github/workflows/agent.yml").read_text("utf-8")
)
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["test"]["steps"]
PROGRAMS = Path(sys.executable).parent
FORGETS = {"FIXER_FORGETS": "1"}
# Takes the place of looptrace where the action alone is tested, in a hundredth of the time.
STAND_IN = """
printf '%s\\n' "$@" '' >> "$RUNNER_TEMP/arguments"
exit "$CODE"
"""


def filled(text: str, values: Mapping[str, str]) -> str:
    """Put values into the expressions of a step; one that has none is a KeyError."""
    return re.sub(r"\$\{\{ *(.+?) *\}\}", lambda match: values[match[1]], text)


def shell(step: Mapping[str, Any], folder: Path, **environment: str) -> Any:
    """Run the command of a step as a runner does."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    inherited = {name: value for name, value in os.environ.items() if "LOOPTRACE" not in name}
    path = os.pathsep.join([str(folder.parent / "bin"), str(PROGRAMS), os.environ["PATH"]])
    return subprocess.run(
        command,
        cwd=folder,
        env={**inherited, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def add_program(path: Path, text: str) -> None:
    """Write a program for a shell."""
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Copy the sample, as the checkout of a job; beside it is looptrace, which starts at once."""
    shutil.copytree(SAMPLE, tmp_path / "work")
    (tmp_path / "bin").mkdir()
    add_program(
        tmp_path / "bin/looptrace",
        f'exec "{sys.executable}" -SE "{ROOT}/docs/warm_commands.py" "{warm_socket()}" "$@"\n',
    )
    return tmp_path / "work"


def step_of(name: str) -> dict[str, Any]:
    """Return a step of the sample's workflow."""
    return next(step for step in STEPS if step.get("name") == name)


def act(folder: Path, paths: str, command: Path | None = None, code: int = 0, **given: str) -> Any:
    """Run the step of the action that looks for loops; return it, with its summary."""
    defaults = {name: about.get("default") for name, about in ACTION["inputs"].items()}
    inputs = {**defaults, "paths": paths, **{k.replace("_", "-"): v for k, v in given.items()}}
    assert set(inputs) == set(defaults), "an input that the action does not have"
    values = {f"inputs.{name}": value for name, value in inputs.items()}
    values["steps.install.outputs.command"] = str(command or folder.parent / "bin/looptrace")
    (step,) = (step for step in ACTION["runs"]["steps"] if step["name"] == "Look for loops")
    summary = folder.parent / "summary.md"
    summary.unlink(missing_ok=True)
    environment = {name: filled(text, values) for name, text in step["env"].items()}
    runner = {"GITHUB_STEP_SUMMARY": str(summary), "RUNNER_TEMP": str(folder.parent)}
    ran = shell(step, folder, **environment, **runner, CODE=str(code))
    ran.summary = summary.read_text("utf-8") if summary.exists() else ""
    return ran


def test_the_sample_fails_on_the_loop_and_passes_without(repository: Path) -> None:
    """Its tests by themselves, and then the traces of its agent by the action."""
    tests, agent = step_of("Test the agent"), step_of("Run the agent")
    action = next(step for step in STEPS if "looptrace@" in step.get("uses", ""))
    for environment, code in (({}, 0), (FORGETS, 1)):
        tested = shell(tests, repository, **environment)
        assert tested.returncode == code, tested.stdout
        suites = ET.parse(repository / "pytest.xml").getroot()  # noqa: S314 - our own
        assert len(suites.findall(".//failure")) == code
        assert shell(agent, repository, **environment).returncode == 0
        (repository / "known.json").write_text('{"findings": []}')
        ran = act(repository, **action["with"], baseline="known.json")
        assert ran.returncode == code, ran.stderr
        assert ("::error title=looptrace%3A cycle::" in ran.stdout) == bool(code)
        assert ("edit(shop.py" in ran.summary) == bool(code)
        uploaded = next(step for step in STEPS if "upload-sarif" in step.get("uses", ""))
        log = json.loads((repository / uploaded["with"]["sarif_file"]).read_text("utf-8"))
        assert sarif_conflicts(log) == []
        assert len(log["runs"][0]["results"]) == code


def test_inputs_of_the_action(repository: Path) -> None:
    """Paths, one with a blank, and each other input are given as they are; none is a command."""
    program, written = repository.parent / "stand-in", repository.parent / "arguments"
    add_program(program, STAND_IN)

    def arguments(paths: str, code: int, **given: str) -> list[list[str]]:
        written.unlink(missing_ok=True)
        assert act(repository, paths, program, code, **given).returncode == code
        return [call.splitlines() for call in written.read_text().split("\n\n")[:-1]]

    paths = ["traces/fixer.binpb", "more traces/"]
    inputs = {"fail_on": "never", "format": "json", "baseline": "a b.json", "sarif": "out.sarif"}
    calls = arguments("\n".join(["", *paths, ""]), 0, **inputs)
    forms = [
        ["--format", "markdown"],
        ["--format", "sarif", "--output", "out.sarif"],
        ["--format", "json", "--fail-on", "never"],
    ]
    assert calls == [["analyze", *paths, "--baseline=a b.json", *form] for form in forms]

    hostile = ["$(touch hacked)", "`touch hacked`; touch hacked"]
    # What cannot be read is in all reports.
    calls = arguments("\n".join(hostile), 2, format="github")
    assert [call[:3] for call in calls] == [["analyze", *hostile]] * 3
    assert not (repository / "hacked").exists()
    # Another fault, such as settings that are wrong, ends it at once.
    assert len(arguments("traces/", 1)) == 1


def test_what_was_not_checked_fails_the_action(repository: Path) -> None:
    """Else a job whose agent is not instrumented would be green for ever."""
    (repository / "none.json").write_text("[]")
    ran = act(repository, "none.json")
    assert ran.returncode == 2
    for words in (ran.stderr, ran.stdout, ran.summary):
        assert "Nothing was checked: no span was read; none.json: " in words


def test_the_action_installs_itself(repository: Path) -> None:
    """Into an environment of its own, from the checkout that the runner made of it."""
    (step,) = (step for step in ACTION["runs"]["steps"] if step["name"] == "Install looptrace")
    values = {"github.action_path": str(CHECKOUT)}
    output = repository.parent / "output"
    # Without a network: what the environment of the tests has stands for the registry.
    offline = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # As pip reads it: no isolation.
        "PYTHONPATH": next(path for path in sys.path if path.endswith("site-packages")),
    }
    environment = {name: filled(text, values) for name, text in step["env"].items()}
    runner = {"GITHUB_OUTPUT": str(output), "RUNNER_TEMP": str(repository.parent)}
    with building() as variables:
        installed = shell(step, repository, **{**environment, **runner, **offline, **variables})
    assert installed.returncode == 0, installed.stderr
    command = Path(output.read_text().strip().removeprefix("command="))
    assert command == repository.parent / "looptrace/bin/looptrace"
    assert command.exists()


def test_the_page_uses_the_action() -> None:
    """Its steps, and its table of inputs; tests/test_pages.py runs the rest."""
    page = (ROOT / "docs/ci.md").read_text("utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (steps,) = (yaml.safe_load(text) for kind, text in blocks if kind == "yaml" and "paths" in text)
    used = [step["uses"].partition("@")[0].partition("/")[2] for step in steps]
    assert used == ["looptrace", "codeql-action/upload-sarif"]
    cells = [[cell.strip(" `") for cell in line.split("|")] for line in page.splitlines()]
    rows = {row[1]: row[3] for row in cells if len(row) == 5}
    inputs = {name: about.get("default") for name, about in ACTION["inputs"].items()}
    words = {name: {None: "", "": "none"}.get(value, value) for name, value in inputs.items()}
    assert words.items() <= rows.items()


def test_actions_of_others_are_pinned() -> None:
    """A tag can be moved to other code, which then runs with the rights of the job."""
    others = [step["uses"] for step in STEPS if "OWNER/" not in step.get("uses", "OWNER/")]

    assert len(others) == 3
    assert [each for each in others if not re.search(r"@[0-9a-f]{40}$", each)] == []


def test_the_hook_checks_settings(repository: Path) -> None:
    """It takes every file of the name, and says in which line what is wrong."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    (used,) = yaml.safe_load((repository / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert [each["id"] for each in used["hooks"]] == [hook["id"]]
    assert re.search(hook["files"], "shop/looptrace.toml")
    assert not re.search(hook["files"], "my-looptrace.toml")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert hook["additional_dependencies"] == [".[analyzer]"]
    assert "analyzer" in extras["optional-dependencies"]

    (repository / "other").mkdir()
    other = repository / "other/looptrace.toml"
    other.write_text("[rules.cycle]\nrounds_min = 1\n")
    files = {"run": f"{hook['entry']} looptrace.toml other/looptrace.toml"}
    checked = shell(files, repository)
    assert checked.returncode == 2
    assert "looptrace.toml: ok" in checked.stdout
    assert "other/looptrace.toml:2: " in checked.stderr
    other.write_text("[rules.cycle]\nrounds_min = 4\n")
    assert shell(files, repository).returncode == 0
