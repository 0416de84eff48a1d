"""Rules of one's own, in real distributions on the path of another process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.otlp import Trace, tool_call
from tests.reliability.serving import OK, SERVE, Served, looping, until

RULE = '''
from dataclasses import dataclass

from looptrace.rules.contract import Rung, ladder_setting, repeats, setting
from looptrace.rules.calls.repeated_call import RepeatedCall


@dataclass(frozen=True, slots=True)
class Twice(RepeatedCall):
    """A call comes twice with one result."""

    name = "twice"

    ladder: tuple[Rung, ...] = ladder_setting((Rung(2, "warn"),))
    attempts_min: int = setting(2, ge=2, le=9, doc="Calls in a row that make a loop.")


class NoLane(RepeatedCall):
    lane = None


class Broken(RepeatedCall):
    name = "broken"

    def evaluate(self, lane):
        return lane.no_such_column


Clash = RepeatedCall
NoRule = dict
'''
CALL = tool_call("read", '{"path": "a"}', result="text")


def distribution(folder: Path, target: str) -> None:
    """Install a distribution in a folder, which offers a rule."""
    about = folder / "own_rules-1.2.dist-info"
    about.mkdir(exist_ok=True)
    (folder / "own_rules.py").write_text(RULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-rules\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(f"[looptrace.rules]\none = {target}\n")


def paths_with(folder: Path) -> str:
    """Return the variable by which another process sees a distribution, and these sources."""
    paths = [str(Path("src").resolve()), str(folder), os.environ.get("PYTHONPATH", "")]
    return "PYTHONPATH=" + os.pathsep.join(filter(None, paths))


def looptrace(folder: Path, target: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Install a distribution in a folder, and run a command that sees it."""
    distribution(folder, target)
    return subprocess.run(
        ["env", paths_with(folder), sys.executable, "-m", "looptrace", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.requirement("D7")
def test_a_rule_of_another_distribution_judges_and_is_set(tmp_path: Path) -> None:
    """It is one more rule: in the settings in force, in findings, and in the settings file."""
    trace = Trace("session-1")
    for _ in range(2):
        trace.span("execute_tool read", attributes=CALL)
    (tmp_path / "trace.jsonl").write_text(trace.lines())
    shown = looptrace(tmp_path, "own_rules:Twice", "config", "show").stdout
    found = looptrace(tmp_path, "own_rules:Twice", "analyze", "trace.jsonl").stdout
    (tmp_path / "looptrace.toml").write_text("[rules.twice]\nenabled = false\n")
    silent = looptrace(tmp_path, "own_rules:Twice", "analyze", "trace.jsonl").stdout

    assert "[rules.twice]\nenabled = true\nattempts_min = 2\n" in shown
    assert "warn by twice" in found
    assert "twice" not in silent


def test_a_rule_that_fails_is_named_and_can_be_left_out(tmp_path: Path) -> None:
    """It is no crash of looptrace, and the author learns what is wrong."""
    trace = Trace("session-1")
    for _ in range(4):
        trace.span("execute_tool read", attributes=CALL)
    (tmp_path / "trace.jsonl").write_text(trace.lines())
    failed = looptrace(tmp_path, "own_rules:Broken", "analyze", "trace.jsonl")
    (tmp_path / "looptrace.toml").write_text("[rules.broken]\nenabled = false\n")
    rest = looptrace(tmp_path, "own_rules:Broken", "analyze", "trace.jsonl")

    assert failed.returncode == 2
    assert "the rule 'broken' of own_rules failed (AttributeError: " in failed.stderr
    assert "set enabled = false in [rules.broken]." in failed.stderr
    assert "gate, found by repeated_call" in rest.stdout


def test_a_server_goes_on_without_a_rule_that_fails(tmp_path: Path) -> None:
    """Gates of other rules open, spans are stored, and the page of health and a metric say so."""
    distribution(tmp_path, "own_rules:Broken")
    server = Served(tmp_path / "store", "--no-grpc", command=["env", paths_with(tmp_path), *SERVE])
    try:
        assert server.send(looping("s1", 6).request()) == OK
        until(server.gates)
        until(server.has_stored)
        assert server.is_ready()
        assert server.number("looptrace_detection_rules_left_out") == 1
        assert "1 failing rule of plug-ins left out" in server.page("/health")
    finally:
        server.stop()


@pytest.mark.requirement("D7")
@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("own_rules:Clash", "there is a rule 'repeated_call' already"),
        ("own_rules:NoLane", "its 'lane' must be a LaneSpec"),
        ("own_rules:NoRule", "it must be a class that keeps the contract of a rule"),
        ("own_rules:Absent", "it cannot be made: AttributeError"),
        ("no_such_module:Rule", "it cannot be made: ModuleNotFoundError"),
    ],
)
def test_a_rule_that_cannot_be_used_names_its_distribution(
    tmp_path: Path, target: str, why: str
) -> None:
    """One line says which distribution, what is wrong, and what to do."""
    done = looptrace(tmp_path, target, "config", "show")

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"the plug-in '{target}' of own-rules 1.2 cannot be used: {why}" in done.stderr
