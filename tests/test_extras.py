"""An extra's commands need no package of another extra, so that they run where only theirs is."""

import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from looptrace.cli.main import COMMANDS
from tests.paths import ROOT

# Commands that say what to install where their extra is not there import it when they run.
EXTRA_OF = {"serve": "server", "mcp": "mcp"}
BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
from looptrace.cli.main import main
for command in {commands!r}:
    print("---", command)
    main([command, "--help"], standalone_mode=False)
"""


# It reads the files of each that is installed.
_distributions = cache(packages_distributions)


def _packages(extra: str) -> set[str]:
    """Return the modules that an extra's own distributions have."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = extras["optional-dependencies"][extra]
    names = {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in asked}
    return {
        module
        for module, distributions in _distributions().items()
        if {name.lower().replace("_", "-") for name in distributions} & (names - {"looptrace"})
    }


def _blocked(allowed: str) -> set[str]:
    """Return the modules of all extras but one, which `analyzer` has not."""
    others = {"judge", "mcp", "semantic", "server", "learn"} - {allowed}
    return set().union(*map(_packages, others)) - _packages("analyzer") - _packages(allowed)


@pytest.mark.parametrize("extra", ["analyzer", *EXTRA_OF.values()])
def test_a_command_needs_its_extra_alone(extra: str) -> None:
    """Those of an extra show their help in one process, where no other extra can be imported."""
    commands = [command for command in COMMANDS if EXTRA_OF.get(command, "analyzer") == extra]
    # `google` is a folder that several packages share.
    blocked = _blocked(extra) - {"google", "opentelemetry"}
    code = BLOCK.format(blocked=blocked, commands=commands)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert {"prometheus_client", "sklearn"} & blocked
    assert commands
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-999:]
    assert done.stdout.count("Usage: ") == len(commands)
