"""How a command starts and ends, as a shell and a script see it."""

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import click
import duckdb
import pytest
from click.testing import CliRunner

from looptrace.cli.main import _GROUPS, COMMANDS, EXAMPLES, main, run
from looptrace.cli.shared.stores import StorePath
from tests.commands import ended, refused
from tests.paths import ROOT

COMMAND = [sys.executable, "-m", "looptrace"]
TRACES = str(ROOT / "examples/traces")
HEAVY = "polars", "duckdb", "numpy", "msgspec"


def printed_beside(names: Sequence[str], call: str, **environment: str) -> list[str]:
    """Return the lines that a call of the command line prints, and which modules it imported."""
    code = (
        "import sys; from looptrace.cli.main import main\n"
        f"try: main({call})\n"
        f"finally: print([name for name in {names} if name in sys.modules])"
    )
    # The library readline gives children the width of a terminal, for which rich would wrap.
    kept = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = ended(sys.executable, "-c", code, env={**kept, **environment})
    return done.stdout.splitlines()


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_nothing_heavy_is_imported_before_a_command(arguments: list[str]) -> None:
    """Help and completion come at once."""
    assert printed_beside(HEAVY, f"{arguments}, standalone_mode=False")[-1] == "[]"


# What the report of files at a terminal does not need.
NEEDLESS = (
    *("duckdb", "jinja2", "tomlkit", "rapidfuzz", "asyncio", "opentelemetry", "sklearn"),
    *("http.client", "urllib.request", "xml", "sqlite3", "rich"),
    *("looptrace.collector.importers.forms", "looptrace.collector.coding_agents"),
    *("looptrace.collector.store.reader", "looptrace.collector.store.tables.parquet"),
    *("looptrace.collector.store_analysis", "looptrace.collector.server"),
    *("looptrace.analyzer.report.html", "looptrace.analyzer.report.json"),
    "looptrace.analyzer.tuning",
)


def test_files_are_analysed_without_what_they_do_not_need(tmp_path: Path) -> None:
    """Most of the time for a small file is that of imports."""
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "chat", "startTimeUnixNano": "1"}
    file = tmp_path / "one.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    analysing = f"['analyze', {str(file)!r}], standalone_mode=False"
    assert printed_beside(NEEDLESS, analysing)[-1] == "[]"


def test_completion_imports_no_command_either() -> None:
    """A name is completed with its sentence."""
    variables = {"COMP_WORDS": "looptrace ex", "COMP_CWORD": "1"}
    variables["_LOOPTRACE_COMPLETE"] = "zsh_complete"
    *completed, heavy = printed_beside(HEAVY, "prog_name='looptrace'", **variables)
    names = completed[1::3]
    assert names == ["explain", "export"]
    assert completed[2] == COMMANDS["explain"]
    assert heavy == "[]"


def test_a_store_is_named_in_one_way() -> None:
    """Whoever knows one command knows the others; an argument is a path, a name or a URL."""
    context = click.Context(main)
    commands = [main.get_command(context, name) for name in COMMANDS]
    groups = [each for each in commands if isinstance(each, click.Group)]
    every = [*commands, *(one for group in groups for one in group.commands.values())]
    params = [param for each in every if each for param in each.params]

    stores = [param for param in params if isinstance(param.type, StorePath)]
    assert len(stores) > 15
    assert {tuple(param.opts) for param in stores} == {("--store",)}
    arguments = {
        param.make_metavar(context) for param in params if param.param_type_name == "argument"
    }
    assert [name for name in arguments if "STORE" in name] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_listed_and_found(name: str) -> None:
    """The list says of each command what it is for, in a sentence that fits a line."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert f"{name} " in CliRunner().invoke(main, ["--help"]).stdout
    assert COMMANDS[name].endswith(".")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example(name: str) -> None:
    """Its options exist, and the command's help and its page show it."""
    shown = CliRunner().invoke(main, [name, "--help"]).stdout
    program, *words = shlex.split(EXAMPLES[name])
    command = main.get_command(click.Context(main), words[0])
    if isinstance(command, click.Group):
        command = command.commands[words[1]]
    assert command is not None
    options = {option for param in command.params for option in param.opts}

    assert program == "looptrace"
    assert words[0] == name
    assert {word for word in words if word.startswith("-")} <= options
    assert EXAMPLES[name] in " ".join(shown.split())


def test_the_help_has_each_command_once_and_names_completion() -> None:
    """A command without a group would be found by nobody."""
    grouped = [name for names in _GROUPS.values() for name in names]
    shown = CliRunner().invoke(main, ["--help"]).stdout

    assert sorted(grouped) == sorted(COMMANDS)
    assert "_LOOPTRACE_COMPLETE=bash_source" in shown


@pytest.mark.parametrize("name", ["config", "gates", "hook", "incidents", "tokens", "webhooks"])
def test_the_help_of_a_group_cuts_no_sentence(name: str) -> None:
    """The end of a sentence may be what tells two commands apart."""
    assert not re.search(r"\w\.\.\.", CliRunner().invoke(main, [name, "--help"]).stdout)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["analyse", "x"], "Did you mean 'analyze'?"),
        (["gate"], "Did you mean 'gates'?"),
        (["analyze", "--formt", "json", "x"], "Did you mean '--format'?"),
    ],
)
def test_a_mistyped_word_gets_the_right_one(arguments: list[str], hint: str) -> None:
    """The list of nineteen commands is not read for a typing error."""
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 2
    assert hint in result.stderr


def test_every_module_with_a_command_is_listed() -> None:
    """A new file with a command that is not listed would never be found."""
    folder = ROOT / "src/looptrace/cli"
    modules = {
        path.stem
        for pattern in ("*.py", "tuning/*.py", "services/*.py", "stores/*.py", "incidents/*.py")
        for path in folder.glob(pattern)
    }
    assert modules - {"__init__", "main"} == set(COMMANDS)


def test_a_crash_says_how_to_report_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 says that a loop was found, and must not say anything else."""

    @click.command()
    def broken() -> None:
        raise AssertionError("a fault of ours")

    monkeypatch.setitem(main.commands, "broken", broken)
    monkeypatch.setattr(sys, "argv", ["looptrace", "broken"])
    with pytest.raises(SystemExit) as ended:
        run()

    assert ended.value.code == 3
    written = capsys.readouterr()
    assert written.out == ""
    assert "a fault of ours" in written.err
    assert "Please report it" in written.err


@pytest.mark.parametrize("reason", [errno.EACCES, errno.ENOSPC])
def test_a_folder_of_another_user_is_no_crash(monkeypatch: pytest.MonkeyPatch, reason: int) -> None:
    """A folder that may not be looked into, or a disk that is full, is no bug to be reported."""

    def refuse(_: Path) -> bool:
        raise OSError(reason, os.strerror(reason), "theirs/looptrace-store.json")

    monkeypatch.setattr(Path, "is_file", refuse)
    told = refused("analyze", "theirs")

    why = os.strerror(reason)
    assert told == f"Error: theirs/looptrace-store.json: {why}; check permissions and space.\n"


def test_ctrl_c_is_130(tmp_path: Path) -> None:
    """A shell that runs a script stops it then, also while it waits for a pipe."""
    fifo = tmp_path / "never.jsonl"
    os.mkfifo(fifo)
    # A shell that has started the tests in the background lets their processes ignore Ctrl-C.
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{hearing}; from looptrace.__main__ import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "analyze", str(fifo)], stderr=subprocess.PIPE, text=True
    ) as process:
        with fifo.open("wb"):  # It is open when the command begins to read.
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        assert process.stderr is not None
        assert process.stderr.read().strip() == "Interrupted."


def test_ctrl_c_in_a_query_is_no_crash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DuckDB has an error of its own for Ctrl-C, in which Python's is lost."""

    @click.command()
    def counting() -> None:
        # With other threads, this one may wait for them and hear nothing.
        with duckdb.connect(config={"threads": 1}) as database:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            database.execute("SELECT count(*) FROM range(1_000_000_000_000) WHERE range % 7 = 3")

    monkeypatch.setitem(main.commands, "counting", counting)
    monkeypatch.setattr(sys, "argv", ["looptrace", "counting"])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as ended:
            run()
    finally:
        signal.signal(signal.SIGINT, before)

    assert ended.value.code == 130
    assert capsys.readouterr().err == "Interrupted.\n"


@pytest.mark.parametrize("arguments", [["analyze", TRACES], ["analyze", TRACES, "--format=json"]])
def test_a_closed_pipe_is_silent(arguments: list[str]) -> None:
    """As `looptrace analyze ... | head -1` is."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *arguments], text=True, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert (process.wait(30), said) == (141, "")


@pytest.mark.parametrize(
    ("arguments", "encoding"),
    [
        (["explain", "--help"], "ascii"),
        (["analyze", TRACES], "ascii"),
        (["analyze", TRACES], "latin-1"),
    ],
)
def test_no_encoding_ends_a_command(arguments: list[str], encoding: str) -> None:
    """What a terminal cannot show is replaced."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) > len(arguments)


@pytest.mark.parametrize(
    "command",
    [
        ("analyze",),
        ("explain", "--task", "migrations-2026-03-14"),
        ("backtest", "--a", "conservative", "--b", "aggressive"),
    ],
)
def test_what_is_piped_is_as_wide_as_its_words(command: tuple[str, ...]) -> None:
    """A layout that fills the width would fill a file with blanks."""
    name, *options = command
    arguments = [name, TRACES, *options]
    shown = CliRunner().invoke(main, arguments, env={"COLUMNS": None})
    assert shown.exit_code == 0
    assert 40 < max(map(len, shown.stdout.splitlines())) < 1_000
