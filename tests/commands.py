"""The command line, as somebody who pipes its output runs it."""

import json
import subprocess
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from looptrace.cli.main import main


def run(*arguments: object, stdin: str | bytes | None = None, **environment: str | None) -> Result:
    """Run looptrace, which may never end with a traceback, with further variables."""
    words = [str(argument) for argument in arguments]
    found = CliRunner().invoke(main, words, input=stdin, env={"COLUMNS": None, **environment})
    if not isinstance(found.exception, SystemExit | None):
        raise found.exception
    return found


def ended(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, within a minute unless said otherwise; what it wrote is text."""
    how = {"timeout": 60, **options}
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


def printed(*arguments: object) -> str:
    """Return what a command prints that does what it should."""
    found = run(*arguments)
    assert found.exit_code == 0, found.output
    return found.stdout


def refused(*arguments: object, **environment: str | None) -> str:
    """Return what a command says that cannot do what it should."""
    found = run(*arguments, **environment)
    assert found.exit_code == 2, found.output
    return found.stderr


def json_of(*arguments: object, **environment: str | None) -> Any:
    """Return what a command prints as JSON."""
    return json.loads(run(*arguments, "--format", "json", **environment).stdout)
