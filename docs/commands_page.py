"""Makes docs/commands.md: every command with its arguments and options, from the command line."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Collection, Iterator

import click

from looptrace.cli.main import main

_HEAD = """# Commands

<!-- Made from the commands themselves by `make docs`; edit them in src/looptrace/cli. -->

`looptrace COMMAND --help` says all of a command; here stand the first sentences. Reports go to
standard output, errors and warnings to standard error.

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
_COMMON_MIN = 3
_LATER_SENTENCES = re.compile(r"(?<=\.) [A-Z].*?(?= \[[^]]*\]$|$)")


def page() -> str:
    """Return the page of all commands."""
    context = click.Context(main, info_name="looptrace")
    commands = [*_commands(main, context)]
    counts = Counter(record for command, below in commands for record in _options(command, below))
    common = [record for record, count in counts.items() if count >= _COMMON_MIN]
    head = ["## Options of several commands", "", *map(_option, common), ""]
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
    about = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    lines = [f"## `{context.command_path}`", "", _first_sentence(about), ""]
    if command.epilog:
        lines += [command.epilog.replace("looptrace", "`looptrace", 1) + "`", ""]
    options = _options(command, context)
    listed = [_option(each) for each in options if each not in common]
    if shared := [f"`{each[0].split(' ')[0]}`" for each in options if each in common]:
        listed.append(f"- {', '.join(shared)}")
    return "\n".join([*lines, *listed, *([""] if listed else [])])


def _option(record: tuple[str, str]) -> str:
    name, about = record
    return f"- `{name}`: {_first_sentence(about)}"


def _first_sentence(text: str) -> str:
    """Return a text in one line up to its first full stop, with the bracket at its end."""
    return _LATER_SENTENCES.sub("", " ".join(text.split()))
