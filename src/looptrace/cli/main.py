"""The command line: one file for each command, which is imported when it is used."""

import errno
import gc
import os
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from looptrace.cli import EXIT_CRASHED, EXIT_INTERRUPTED, EXIT_PIPE_CLOSED, EXIT_UNREADABLE
from looptrace.errors import LooptraceError

# Each is a command; the module has the same name.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "demo": "Find the loops in the example traces of looptrace.",
        "analyze": "Find the loops in traces.",
        "explain": "Show the turns of a task, and how far each rule got.",
        "escalation": "Report on one gate, for a person or a debugging agent.",
        "backtest": "Compare two settings over the same traces.",
        "calibrate": "Propose thresholds from tasks that went well.",
        "ingest": "Add traces to a store, with turns, findings and gates.",
        "copy": "Copy a store to object storage or a folder, and keep the copy up to date.",
        "restore": "Make a store of its copy.",
        "forget": "Erase what a store has of a session, a task, a user or a service.",
        "serve": "Receive traces, find loops as they happen, and stop them.",
        "tokens": "Make, list and revoke the tokens of a server.",
        "gates": "Show gates, and record people's decisions.",
        "incidents": "Show the same loop in many sessions as one, and decide on it.",
        "silences": "Hold gates back from webhooks for a while.",
        "watch": "Show gates as they open, full screen, and resolve them by keys.",
        "hook": "Stop coding agents by their own hooks.",
        "mcp": "Let coding agents ask a store whether they loop.",
        "webhooks": "Test receivers of webhooks; list, send and replay their events; show the log.",
        "export": "Send the gates of a store as spans into the agents' traces.",
        "query": "Query a store with SQL.",
        "rule": "Show what a rule finds, and its settings.",
        "config": "Show, check or write the settings.",
        "doctor": "Check the installation, ports, store, endpoints and clock.",
    }
)

# In the order of the help: what commands are for, and their names. The first has the example.
_GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Find loops in traces": ("analyze", "demo", "explain", "escalation"),
        "Keep a store": ("ingest", "query", "export", "copy", "restore", "forget"),
        "Stop agents, and decide": (
            *("serve", "watch", "gates", "incidents", "silences", "webhooks", "hook", "mcp"),
            "tokens",
        ),
        "Choose settings": ("config", "rule", "backtest", "calibrate"),
        "Check the installation": ("doctor",),
    }
)
EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "demo": "looptrace demo --into traces/",
        "analyze": "looptrace analyze traces/ --format html -o loops.html",
        "explain": "looptrace explain traces/ --task ticket-42",
        "escalation": "looptrace escalation traces/ --task ticket-42",
        "backtest": "looptrace backtest store/ --a balanced --b looptrace.toml",
        "calibrate": "looptrace calibrate store/ --alarms-per-day 1 --write",
        "ingest": "looptrace ingest traces/ --store store/",
        "copy": "looptrace copy s3://bucket/agents --store store/",
        "restore": "looptrace restore s3://bucket/agents --store again/",
        "forget": "looptrace forget --session 4f1c --store store/",
        "tokens": "looptrace tokens add Ada --role decider --token-file tokens",
        "incidents": "looptrace incidents list --store store/",
        "silences": "looptrace silences list --store store/",
        "hook": "looptrace hook install claude-code",
        "serve": "looptrace serve --store store/",
        "gates": "looptrace gates list --store store/",
        "watch": "looptrace watch --server http://localhost:4318",
        "mcp": "looptrace mcp --store store/",
        "webhooks": "looptrace webhooks test on-call",
        "export": "looptrace export --store store/ --to http://localhost:4318",
        "query": "looptrace query agents_that_loop --store store/",
        "rule": "looptrace rule repeated_call",
        "config": "looptrace config check",
        "doctor": "looptrace doctor --store store/",
    }
)

# The commands that fit settings to traces, those of services, of whole stores
# and of many gates have folders.
_FOLDERS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("backtest", "calibrate"), "looptrace.cli.tuning"),
        **dict.fromkeys(("incidents", "silences"), "looptrace.cli.incidents"),
        **dict.fromkeys(("mcp", "serve", "tokens", "watch"), "looptrace.cli.services"),
        **dict.fromkeys(("copy", "forget", "restore"), "looptrace.cli.stores"),
    }
)

_ERROR_CHARS_MAX = 500
# DuckDB's error where Ctrl-C ends a query of the main thread (Python's own is lost in it).
_QUERY_INTERRUPTED = "Query interrupted"
# Errors that whoever runs the command can mend: looptrace has no part in them.
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
_REPORT = (
    "looptrace crashed; this is a bug in looptrace. Please report it with the lines above, "
    "the command, and the output of `looptrace --version`. Nothing was sent anywhere."
)


class _Commands(click.Group):
    """The commands; an error of looptrace ends a command with a line on stderr and exit code 2."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return [*COMMANDS, *self.commands]

    def get_command(self, context: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(context, cmd_name)
        folder = _FOLDERS.get(cmd_name, "looptrace.cli")
        command: click.Command = getattr(import_module(f"{folder}.{cmd_name}"), cmd_name)
        if not gc.isenabled():  # The process is this command's alone (`looptrace.__main__`).
            gc.freeze()
            gc.enable()
        command.epilog = f"Example: {EXAMPLES[cmd_name]}"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # click knows no name whose module is not imported.
            names = self.list_commands(ctx)
            raise click.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from error

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, names in _GROUPS.items():
            with formatter.section(f"{title} ({EXAMPLES[names[0]]})"):
                formatter.write_dl([(name.ljust(width), COMMANDS[name]) for name in names])

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        named = [(name, doc) for name, doc in COMMANDS.items() if name.startswith(incomplete)]
        own = super(click.Group, self).shell_complete(context, incomplete)
        return [*(CompletionItem(name, help=doc) for name, doc in named), *own]

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except LooptraceError as error:
            _refuse(context, str(error))
        except OSError as error:
            if error.errno == errno.EPIPE:  # click would exit with 1, which has another meaning.
                _end_without_reader()
            if error.errno not in _NOT_OURS:
                raise
            where = f"{error.filename}: " if error.filename else ""
            _refuse(context, f"{where}{error.strerror}; check permissions and space.")


def _refuse(context: click.Context, text: str) -> NoReturn:
    """Show an error that is not one of looptrace, and exit."""
    # Only here, so that `--help` is fast.
    from looptrace.analyzer.text.display import plain  # noqa: PLC0415

    click.echo(f"Error: {plain(text, _ERROR_CHARS_MAX)}", err=True)
    context.exit(EXIT_UNREADABLE)


def _end_interrupted() -> NoReturn:
    """End as after Ctrl-C, with a line instead of a traceback."""
    click.echo("Interrupted.", err=True)
    sys.exit(EXIT_INTERRUPTED)


def _end_without_reader() -> NoReturn:
    """End silently, like other programs whose reader is gone."""
    # The buffered output has no reader, and would cause an error at the end of the process.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(EXIT_PIPE_CLOSED)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=(
        "\b\nlooptrace COMMAND --help has the options and an example of a command. Completion:\n"
        '  eval "$(_LOOPTRACE_COMPLETE=bash_source looptrace)"   (or zsh_source, fish_source)'
    ),
)
@click.version_option(package_name="looptrace", prog_name="looptrace")
def main() -> None:
    """Find AI agents that are stuck in loops, in their OpenTelemetry traces."""


def run() -> NoReturn:
    """Run the command of this process, and exit with its exit code."""
    try:
        code = main.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        _end_interrupted()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # Rich ends with 1 then.
            _end_without_reader()
        raise
    except BrokenPipeError:
        _end_without_reader()
    except Exception as error:
        if isinstance(error, RuntimeError) and str(error) == _QUERY_INTERRUPTED:
            _end_interrupted()
        click.echo(f"{traceback.format_exc()}{_REPORT}", err=True)
        sys.exit(EXIT_CRASHED)
    sys.exit(code if isinstance(code, int) else 0)
