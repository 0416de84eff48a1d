"""Makes docs/commands.md: every command with its arguments and options, from the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from looptrace.cli.main import main

_HEAD = """# Commands

<!-- Made from the commands themselves by `make docs`; edit them in src/looptrace/cli. -->

`looptrace COMMAND --help` says the same in a terminal. `looptrace rule NAME` explains a rule.
Reports go to standard output, errors and warnings to standard error.

| exit code | means |
| --- | --- |
| 0 | all was read, and nothing that `--fail-on` asks for was found |
| 1 | `--fail-on finding` and there is one, or `--fail-on gate` and one was opened |
| 2 | wrong usage, nothing to check, or a part could not be read: each is named, the rest was read |
| 3 | looptrace crashed; the last lines say how to report it |
| 130, 141 | Ctrl-C; the reader of the output is gone |

A shell completes commands and options after one line in its start file:

```sh
eval "$(_LOOPTRACE_COMPLETE=bash_source looptrace)"      # bash; zsh_source for zsh
_LOOPTRACE_COMPLETE=fish_source looptrace | source       # fish
```
"""


def page() -> str:
    """Return the page of all commands."""
    context = click.Context(main, info_name="looptrace")
    return "\n".join([_HEAD, *_sections(main, context)])


def _sections(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            raise LookupError(f"there is no command {name}")
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _sections(command, below)
        else:
            yield _section(command, below)


def _section(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    about = inspect.cleandoc(command.help or "").replace("\b\n", "")
    lines = [f"## `{context.command_path}`", "", "```text", usage, "```", "", about, ""]
    options = [each for each in command.params if isinstance(each, click.Option)]
    if records := [record for each in options if (record := each.get_help_record(context))]:
        lines += ["| option | meaning |", "| --- | --- |"]
        lines += [f"| `{_cell(option)}` | {_cell(about)} |" for option, about in records]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|").strip()
