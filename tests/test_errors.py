"""Every error of looptrace has one base, and the command line shows each in one line."""

import importlib
import pkgutil

import click
import pytest

import looptrace
from looptrace.cli.main import main
from looptrace.errors import InputError
from tests.commands import run


def test_every_error_has_the_base() -> None:
    """Who calls looptrace catches one class; a new error without the base would pass by."""
    names = [module.name for module in pkgutil.walk_packages(looptrace.__path__, "looptrace.")]
    # Middleware imports frameworks, which are not here.
    here = [name for name in names if not (name.endswith("__main__") or ".middleware." in name)]
    modules = [importlib.import_module(name) for name in here]
    errors = {
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, Exception)
        and each.__module__.startswith("looptrace.")
    }

    assert len(errors) > len(InputError.__subclasses__())
    assert {each for each in errors if not issubclass(each, looptrace.LooptraceError)} == set()


def test_command_line_shows_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback tells a user nothing, and an agent's text must not paint a terminal."""

    @click.command()
    def broken() -> None:
        raise InputError("the file\nis \x1b[31mred")

    monkeypatch.setitem(main.commands, "broken", broken)

    result = run("broken")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: the file")
    assert result.stderr.count("\n") == 1
    assert "\x1b" not in result.stderr
