"""Makes docs/commands.md: every command with its sentence, from the command line."""

import inspect
import re
from collections.abc import Iterator

import click

from looptrace.cli.main import main

_HEAD = """# Commands

<!-- Made from the commands themselves by `make docs`; edit them in src/looptrace/cli. -->

`looptrace COMMAND --help` has the options. Reports go to standard output, errors and warnings to
standard error.

| exit code | means |
| --- | --- |
| 0 | all was read, and nothing that `--fail-on` asks for was found |
| 1 | `--fail-on finding` and there is one, or `--fail-on gate` and one was opened |
| 2 | wrong usage, nothing for `--fail-on` to check, or unread parts, which are named |
| 3 | looptrace crashed; the last lines say how to report it |
| 130, 141 | Ctrl-C; the reader of the output is gone |

A shell completes commands and options after one line in its start file:

```sh
eval "$(_LOOPTRACE_COMPLETE=bash_source looptrace)"      # bash; zsh_source for zsh
_LOOPTRACE_COMPLETE=fish_source looptrace | source       # fish
```
"""


_LATER_SENTENCES = re.compile(r"(?<=\.) [A-Z].*$")


def page() -> str:
    """Return the page of all commands."""
    context = click.Context(main, info_name="looptrace")
    sections = (_section(command, below) for command, below in _commands(main, context))
    return "\n".join([_HEAD, *sections])


def _commands(
    group: click.Group, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield the commands of a group, each with its context."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            raise LookupError(f"there is no command {name}")
        yield command, click.Context(command, info_name=name, parent=context)


def _section(command: click.Command, context: click.Context) -> str:
    lines = [f"## `{context.command_path}`", "", _sentence(command), ""]
    if command.epilog:
        lines += [command.epilog.replace("looptrace", "`looptrace", 1) + "`", ""]
    if isinstance(command, click.Group):
        below = _commands(command, context)
        lines += [*(f"- `{each.info_name}`: {_sentence(inner)}" for inner, each in below), ""]
    return "\n".join(lines)


def _sentence(command: click.Command) -> str:
    """Return the first sentence of a command's help, in one line."""
    about = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    return _LATER_SENTENCES.sub("", " ".join(about.split()))
