"""Makes docs/commands.md: every command with its arguments and options, from the command line."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import click

from looptrace.cli.main import main

_HEAD = """# Commands

<!-- Made from the commands themselves by `make docs`; edit them in src/looptrace/cli. -->

`looptrace COMMAND --help` says the same. Reports go to standard output, errors and warnings to
standard error.

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


# Options that so many commands have in the same words stand once, at the head.
_COMMON_MIN = 4


def page() -> str:
    """Return the page of all commands."""
    context = click.Context(main, info_name="looptrace")
    commands = [*_commands(main, context)]
    counts = Counter(record for command, below in commands for record in _options(command, below))
    common = [record for record, count in counts.items() if count >= _COMMON_MIN]
    head = ["## Options of several commands", "", *_table(common), ""]
    sections = [_section(command, below, common) for command, below in commands]
    return "\n".join([_HEAD, *head, *sections])


def _commands(
    group: click.Group, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            raise LookupError(f"there is no command {name}")
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, below)
        else:
            yield command, below


def _options(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    options = (each for each in command.params if isinstance(each, click.Option))
    return [record for each in options if (record := each.get_help_record(context))]


def _section(
    command: click.Command, context: click.Context, common: Collection[tuple[str, str]]
) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    about = inspect.cleandoc(command.help or "").replace("\b\n", "")
    lines = [f"## `{context.command_path}`", "", "```text", usage, "```", "", about, ""]
    if command.epilog:
        lines += [command.epilog.replace("looptrace", "`looptrace", 1) + "`", ""]
    options = _options(command, context)
    if own := [each for each in options if each not in common]:
        lines += [*_table(own), ""]
    if shared := [f"`{each[0].split(' ')[0]}`" for each in options if each in common]:
        lines += [f"{'Also ' if own else 'It takes '}{', '.join(shared)}.", ""]
    return "\n".join(lines)


def _table(records: Iterable[tuple[str, str]]) -> list[str]:
    rows = [f"| `{_cell(option)}` | {_cell(about)} |" for option, about in records]
    return ["| option | meaning |", "| --- | --- |", *rows]


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|").strip()
