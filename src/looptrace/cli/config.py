"""`looptrace config`: the settings file, and the option with which other commands read it."""

import os
from pathlib import Path

import click

from looptrace.analyzer.settings.sections import (
    FILE_NAME,
    THRESHOLD_VARIABLE,
    Settings,
    in_force,
    load,
    nearest_thresholds,
)
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.text.display import plain
from looptrace.cli import EXIT_UNREADABLE
from looptrace.cli.shared.groups import CommandGroup

_ERROR_LENGTH_MAX = 500
_FILE = click.Path(dir_okay=False, path_type=Path)


# The path of the settings, or None, in the context of a command.
CONFIG_PATH = "looptrace.config"


def _read(context: click.Context, _option: click.Parameter, path: Path | None) -> Settings:
    """Read the named file, else that of the current directory, and apply the environment."""
    context.meta[CONFIG_PATH] = path
    return in_force(path, os.environ)


config_option = click.option(
    "--config",
    "settings",
    type=_FILE,
    callback=_read,
    help=f"Settings file; by default {FILE_NAME} in the current directory, if there is one.",
)


@click.group(cls=CommandGroup)
def config() -> None:
    """Show, check or write the settings file, looptrace.toml."""


@config.command()
@config_option
def show(settings: Settings) -> None:
    """Print the settings in force, as a file with every setting."""
    if nearest := nearest_thresholds(settings, os.environ):
        values = ", ".join(f"{name} {threshold}" for name, threshold in nearest.items())
        click.echo(f"# {THRESHOLD_VARIABLE}: the nearest values within bounds are {values}.")
    from looptrace.analyzer.settings.toml_writer import toml_of  # noqa: PLC0415 - Few write.

    click.echo(toml_of(settings), nl=False)


@config.command()
@click.argument("files", nargs=-1, type=_FILE)
@click.pass_context
def check(context: click.Context, files: tuple[Path, ...]) -> None:
    """Check FILES (by default looptrace.toml), and name each error with its line.

    Exits with 2 if a file cannot be used. In a file that is not TOML only the first error is named.
    """
    code = 0
    for file in files or (Path(FILE_NAME),):
        try:
            load(file)
        except SettingsError as error:
            for each in error.every:
                click.echo(f"Error: {plain(str(each), _ERROR_LENGTH_MAX)}", err=True)
            code = EXIT_UNREADABLE
        else:
            click.echo(f"{file}: ok")
    context.exit(code)


@config.command()
@click.argument("file", default=FILE_NAME, type=_FILE)
def init(file: Path) -> None:
    """Write FILE (by default looptrace.toml) with every setting, explained and commented out."""
    from looptrace.analyzer.settings.toml_writer import starter  # noqa: PLC0415 - Few write.

    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(starter())
    except FileExistsError as error:
        raise click.UsageError(
            f"{file} already exists, and was not changed; name another file."
        ) from error
    except OSError as error:
        raise click.UsageError(
            f"{file} cannot be written ({error.strerror}); name another file."
        ) from error
    click.echo(f"The settings are in {file}.")
