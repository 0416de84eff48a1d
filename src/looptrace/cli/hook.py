"""`looptrace hook`: stop coding agents by their own hooks."""

from pathlib import Path

import click

from looptrace.cli import EXIT_FOUND, Command
from looptrace.cli.shared.groups import CommandGroup
from looptrace.collector.coding_agents.hook import programs
from looptrace.collector.coding_agents.hook.programs import PROGRAMS, Fails, HookScope


def _about(command: Command) -> Command:
    scope = click.option(
        "--scope",
        type=click.Choice(["user", "project"]),
        default="user",
        show_default=True,
        help="All sessions of this user, or those in the project of this folder.",
    )
    return click.argument("name", metavar="PROGRAM", type=click.Choice([*PROGRAMS]))(scope(command))


@click.group(cls=CommandGroup)
def hook() -> None:
    """Stop coding agents by their own hooks, which ask a running server.

    PROGRAM is claude-code, codex, gemini-cli or opencode.
    """


@hook.command()
@_about
@click.option(
    "--server",
    default="http://127.0.0.1:4318",
    show_default=True,
    metavar="URL",
    help="Address of `looptrace serve`.",
)
@click.option(
    "--fail",
    "fails",
    type=click.Choice(["open", "closed"]),
    default="open",
    show_default=True,
    help="Whether calls are made while the server does not answer.",
)
def install(name: str, scope: HookScope, server: str, fails: Fails) -> None:
    """Write the hooks into the settings of PROGRAM, beside those that are there."""
    program = PROGRAMS[name]
    path = program.path(scope, Path.cwd())
    is_new = programs.install(program, path, server, fails)
    click.echo(f"{path}: {'the hooks are installed' if is_new else 'nothing is to be changed'}.")
    if is_new and program.advice:
        click.echo(program.advice)


@hook.command()
@_about
def remove(name: str, scope: HookScope) -> None:
    """Remove the hooks from the settings of PROGRAM; the rest stays as it is."""
    path = PROGRAMS[name].path(scope, Path.cwd())
    is_gone = programs.remove(path)
    click.echo(
        f"{path}: {'the hooks are removed' if is_gone else 'no hook of looptrace is there'}."
    )


@hook.command()
@_about
@click.pass_context
def status(context: click.Context, name: str, scope: HookScope) -> None:
    """Show the hooks of looptrace in the settings of PROGRAM.

    Exits with 1 if they are missing or incomplete.
    """
    program = PROGRAMS[name]
    found = programs.installed(program, program.path(scope, Path.cwd()))
    if not found.is_there:
        click.echo(f"{found.path}: has no hook of looptrace.")
    else:
        state = "complete" if found.is_whole else "incomplete; install them again"
        click.echo(f"{found.path}: the hooks are {state}.")
    for event, commands in found.commands.items():
        for command in commands:
            click.echo(f"{event}: {command}")
    context.exit(0 if found.is_whole else EXIT_FOUND)
