"""Runs the blocks of a page, and writes what its commands print below them.

    python -m docs.page_runs README.md docs/gates.md

A page is run from top to bottom, in a copy of the checkout: `sh` by one bash, `python` by one
interpreter. A block of `text`, `json` or `markdown` below a block that was run has what that
printed; `…` stands for whatever differs from run to run, and for lines where it stands alone. The
other forms are parsed by what reads them. A comment before a block says more:

- `<!-- file: NAME -->`: the block is saved as that file, or added to it (`>> NAME`), and not run.
- `<!-- part of: PATH -->`: its lines are in that file of the project, in this order.
- `<!-- exits: 1 -->`: these are the exit codes of the commands that fail.
- `<!-- not run: WHY -->`: it cannot be run here. `<!-- not run below: WHY -->` holds for all
  blocks that follow. A test has their number, which may only fall.
- `<!-- sh: … -->`: commands that a reader does not see; `<!-- setup: NAME -->`: those of a file in
  docs/setups, for bash or Python.

A server is put into the background where a page starts it, and ports are replaced by free ones.
"""

import atexit
import json
import os
import re
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import tomllib
from collections.abc import Collection, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from looptrace.analyzer.settings import prices
from looptrace.analyzer.settings.sections import parsed
from tests.wheels import CHECKOUT, build_environment, building, copy_sources

ROOT = Path(__file__).parents[1]
SETUPS = ROOT / "docs" / "setups"
LEFT_OUT = "…"
BLOCK_S = 300.0  # The installation of the tutorial takes longest.
_MARK = "--- end of the block"
_PART = re.compile(
    r"<!-- (?P<word>file|part of|exits|not run|not run below|sh|setup):\s(?P<about>.*?)\s-->|"
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<form>\w*)\n(?P<text>.*?)^(?P=indent)(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
_SHOWN = ("text", "json", "markdown")
_PORTS = re.compile(r"(?<=[: =])(?:4317|4318|442[1-3]|8000|8080)\b")
# Programs of bash for all pages. A server of the page itself goes into the background; one that
# the page puts there, in a shell below, is left alone.
_BASH = """
set -o pipefail
trap 'FAILED="$FAILED $?"' ERR
looptrace() {
    if [ "$1" != serve ]; then
        # Where a page has installed looptrace itself, that is what runs.
        if [ "$(type -P looptrace)" = "$PROGRAMS/looptrace" ]; then
            "$PROGRAMS/python" -SE "$WARM_PROGRAM" "$WARM_SOCKET" "$@"
        else
            command looptrace "$@"
        fi
        return
    fi
    shift
    set -- serve --http-port 4318 --grpc-port 4317 "$@"
    if [ "$BASHPID" != "$$" ]; then command looptrace "$@"; return; fi
    if [ -n "$SERVER" ]; then kill "$SERVER"; wait "$SERVER" || true; fi
    : > "$PAGE/.served"
    command looptrace "$@" > "$PAGE/.served" 2>&1 &
    SERVER=$!
    until grep -q listens "$PAGE/.served" || ! kill -0 "$SERVER" 2> "$PAGE/.alive"; do
        sleep 0.1
    done
    cat "$PAGE/.served"
    if ! grep -q listens "$PAGE/.served"; then wait "$SERVER"; fi
}
"""
_ORDER = f"""
FAILED=
. "$PAGE/.block.sh" < /dev/null
printf '\\n{_MARK}%s\\n' "$FAILED"
"""
_PYTHON = f"""
import os, sys, traceback
space = {{"__name__": "__main__"}}
for path in sys.stdin:
    with open(path.strip(), encoding="utf-8") as file:
        code = file.read()
    try:
        exec(compile(code, path.strip(), "exec"), space)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    print("\\n{_MARK}", flush=True)
"""


class PageError(Exception):
    """A block of a page does not do what the page says."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block with the comments above it, or a hidden one."""

    form: str
    text: str
    line: int
    start: int
    end: int
    marks: dict[str, str]
    is_hidden: bool = False


def blocks_of(page: str) -> Iterator[Block]:
    """Return the blocks of a page, hidden ones too."""
    marks: dict[str, str] = {}
    below: dict[str, str] = {}
    for part in _PART.finditer(page):
        line = page.count("\n", 0, part.start()) + 1
        if part["word"] == "sh":
            yield Block("sh", part["about"] + "\n", line, 0, 0, {}, is_hidden=True)
        elif part["word"] == "setup":
            text = (SETUPS / part["about"]).read_text(encoding="utf-8")
            form = "sh" if part["about"].endswith(".sh") else "python"
            yield Block(form, text, line, 0, 0, {}, is_hidden=True)
        elif part["word"] == "not run below":
            below = {"not run": part["about"]}
        elif part["word"]:
            marks[part["word"]] = part["about"]
        else:
            text = textwrap.dedent(part["text"]) if part["indent"] else part["text"]
            inherited = {} if "part of" in marks else below
            yield Block(part["form"], text, line, *part.span("text"), inherited | marks)
            marks = {}


@dataclass(slots=True)
class _Interpreter:
    """A bash or a Python that runs one file after another, and what it prints."""

    command: list[str]
    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    def run(self, order: str) -> str:
        """Give it a line; return what is printed up to the mark.

        Raises:
            PageError: if it ends, or is not done in time.
        """
        if self.process is None:
            self.process = subprocess.Popen(
                self.command,
                bufsize=0,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        given, output = self.process.stdin, self.process.stdout
        if given is None or output is None:
            raise PageError("it has no pipes")
        given.write(order.encode() + b"\n")
        deadline_s, printed = time.monotonic() + BLOCK_S, b""
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while _MARK.encode() not in printed or not printed.endswith(b"\n"):
                if not selector.select(deadline_s - time.monotonic()):
                    raise PageError(f"not done in {BLOCK_S} s:\n{printed.decode()}")
                piece = os.read(output.fileno(), 1 << 16)
                if not piece:
                    raise PageError(printed.decode(errors="replace"))
                printed += piece
        return printed.decode(errors="replace")

    def close(self) -> None:
        """End it, and what it left in the background."""
        if self.process is not None:
            # Its group alone; it may be gone already, after an error.
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


@cache
def warm_socket() -> str:
    """Start the process whose forks run the commands; return its address."""
    folder = tempfile.mkdtemp(prefix="pages-")
    path = f"{folder}/socket"
    # The name of a module would stand before the words of usage errors.
    serve = "import sys; from docs.warm_commands import serve; serve(sys.argv[1])"
    command = [sys.executable, "-c", serve, path]
    environment = os.environ | {"POLARS_MAX_THREADS": "1", "COLUMNS": "100"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    atexit.register(shutil.rmtree, folder)
    atexit.register(process.kill)
    while not Path(path).exists():
        if process.poll() is not None:
            raise PageError("the process that runs the commands has ended")
        time.sleep(0.05)
    return path


Ports: TypeAlias = dict[str, str]


@dataclass(slots=True)
class PageRun:
    """A page that is run in a folder."""

    folder: Path
    ports: Ports = field(default_factory=dict)
    printed: str | None = None  # by the last block, until it is shown
    _bash: _Interpreter = field(init=False)
    _python: _Interpreter = field(init=False)

    def __post_init__(self) -> None:
        """Copy what a reader has: a checkout, and an environment that is active."""
        copy_sources(self.folder)
        for name in ("examples", "deploy"):
            skipped = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(ROOT / name, self.folder / name, ignore=skipped)
        kept = {name: value for name, value in os.environ.items() if "LOOPTRACE" not in name}
        programs = str(Path(sys.executable).parent)
        build = build_environment()
        # The copy that other tests build has the same sources, compiled.
        maturin = f"{build['MATURIN_PEP517_ARGS']} --manifest-path={CHECKOUT}/Cargo.toml"
        environment = {
            **kept,
            **build,
            "COLUMNS": "100",
            "HOME": str(self.folder),
            "MATURIN_PEP517_ARGS": maturin,
            "PAGE": str(self.folder),
            "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
            "PROGRAMS": programs,
            "TZ": "UTC",
            "WARM_PROGRAM": str(ROOT / "docs" / "warm_commands.py"),
            "WARM_SOCKET": warm_socket(),
        }
        self._bash = _Interpreter(["bash"], self.folder, environment)
        self._python = _Interpreter([sys.executable, "-c", _PYTHON], self.folder, environment)
        (self.folder / ".order.sh").write_text(_ORDER, encoding="utf-8")
        prelude = self.folder / ".prelude.sh"
        prelude.write_text(self._with_ports(_BASH), encoding="utf-8")
        self._bash.run(f". ./.prelude.sh; printf '\\n{_MARK}\\n'")

    def close(self) -> None:
        """End what still runs."""
        self._bash.close()
        self._python.close()

    def take(self, block: Block) -> str | None:
        """Run a block, or check it; return its new text where it shows what was printed.

        Raises:
            PageError: if it does not do what the page says.
        """
        marks = block.marks
        if "not run" in marks:
            self.printed = None
        elif "part of" in marks:
            _check_part(block.text, (ROOT / marks["part of"]).read_text(encoding="utf-8"))
        elif block.form in _SHOWN and self.printed is not None:
            printed, self.printed = self.printed, None
            return merged(block.text, _as_json(printed) if block.form == "json" else printed)
        else:
            if block.form not in ("sh", "python") or "file" in marks:
                check_parsed(block)
            if "file" in marks:
                (self.folder / ".file").write_text(self._with_ports(block.text), encoding="utf-8")
                self._run_sh(f'cat "$PAGE/.file" > {marks["file"]}'.replace("> >>", ">>"), "")
            elif block.form == "sh":
                self.printed = self._run_sh(block.text, marks.get("exits", ""))
            elif block.form == "python":
                self.printed = self._run_python(block.text)
        return None

    def _run_sh(self, text: str, exits: str) -> str:
        path = self.folder / ".block.sh"
        path.write_text(f"{self._with_ports(text)}\n:\n", encoding="utf-8")
        order = '. "$PAGE/.order.sh"'
        # What a page installs is compiled where other tests build it, too.
        with building() if "pip install" in text else nullcontext():
            printed, _, codes = self._bash.run(order).rpartition(_MARK)
        if codes.split() != exits.split():
            raise PageError(f"exit codes{codes.rstrip() or ' 0'}, not {exits or 0}:\n{printed}")
        return self._without_ports(printed)

    def _run_python(self, text: str) -> str:
        path = self.folder / ".block.py"
        path.write_text(self._with_ports(text), encoding="utf-8")
        return self._without_ports(self._python.run(str(path)).rpartition(_MARK)[0])

    def _with_ports(self, text: str) -> str:
        for port in _PORTS.findall(text):
            if port not in self.ports:
                self.ports[port] = _free_port({*self.ports.values()})
        return _PORTS.sub(lambda match: self.ports[match[0]], text)

    def _without_ports(self, text: str) -> str:
        for port, free in self.ports.items():
            text = re.sub(rf"\b{free}\b", port, text)
        return text.replace(str(self.folder), "~")


def _free_port(taken: Collection[str]) -> str:
    """Return a free port that is not taken, below those that connections take for themselves."""
    while True:
        port = str(20_000 + secrets.randbelow(12_000))
        with socket.socket() as server, suppress(OSError):
            server.bind(("127.0.0.1", int(port)))
            if port not in taken:
                return port


def _check_part(text: str, whole: str) -> None:
    """Raise PageError if the lines of an excerpt are not in the file, in their order."""
    lines = iter(whole.split("\n"))
    for line in text.rstrip("\n").split("\n"):
        if line.strip() not in ("", LEFT_OUT) and line not in lines:
            raise PageError(f"not in the file, or in another order: {line}")


def check_parsed(block: Block) -> None:
    """Parse a block as what reads it does.

    Raises:
        PageError: if that fails, or nothing reads it.
    """
    try:
        if block.form == "toml":
            _check_toml(block.text)
        elif block.form == "json":
            _parsed_json(block.text)
        elif block.form == "yaml":
            yaml.safe_load(block.text)
        elif block.form == "python":
            compile(block.text, "page", "exec")
        else:
            raise PageError(f"nothing is run that prints or reads it: {block.form!r}")
    except (ValueError, SyntaxError, yaml.YAMLError) as error:
        raise PageError(str(error)) from error


def _check_toml(text: str) -> None:
    top = tomllib.loads(text)
    if "models" in top:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "prices.toml"
            path.write_text(text, encoding="utf-8")
            prices.load(path)
    elif "project" in top:
        groups = set(top["project"]["entry-points"])
        if not groups <= {"looptrace.rules", "looptrace.judges"}:
            raise PageError(f"no group of entry points: {groups}")
    else:
        parsed(text.encode(), "page")


def _parsed_json(text: str) -> Any:
    """Return the value, or the last of several lines."""
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines()][-1]


def _as_json(printed: str) -> str:
    """Indent what was printed, with only the first of each list, so that a page can be read."""
    return json.dumps(_first_of_lists(json.loads(printed)), ensure_ascii=False, indent=2)


def _first_of_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _first_of_lists(inner) for key, inner in value.items()}
    return [_first_of_lists(inner) for inner in value[:1]] if isinstance(value, list) else value


def merged(shown: str, printed: str) -> str:
    """Return what a page should show: what it shows where that fits, else what was printed.

    Lines with `…` stay where they fit, and so does the `…` at the end that cuts the rest off.
    """
    new = [line.rstrip() for line in printed.strip("\n").split("\n")]
    old = shown.rstrip("\n").split("\n")
    pieces = [r"(?:.*\n)*?" if line.strip() == LEFT_OUT else _pattern(line) + r"\n" for line in old]
    if re.fullmatch("".join(pieces), "\n".join([*new, ""])):
        return shown
    patterns = [line for line in old if LEFT_OUT in line and line.strip() != LEFT_OUT]
    if old[-1].strip() == LEFT_OUT:
        new = [*new[: len(old) - 1], old[-1]]
    fitting = (
        next((each for each in patterns if re.fullmatch(_pattern(each), line)), line)
        for line in new
    )
    return "\n".join([*fitting, ""])


def _pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.split(LEFT_OUT)))


def current(path: Path) -> str:
    """Run a page; return its text with what its commands print now.

    Raises:
        PageError: if a block does not do what the page says; it names the line.
    """
    page = path.read_text(encoding="utf-8")
    pieces, end = [], 0
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        run = PageRun(Path(folder))
        try:
            for block in blocks_of(page):
                try:
                    new = run.take(block)
                except PageError as error:
                    raise PageError(f"{path.name}:{block.line}: {error}") from error
                if new is not None:
                    pieces += [page[end : block.start], new]
                    end = block.end
        finally:
            run.close()
    return "".join([*pieces, page[end:]])


# Their blocks are written from the code, and held by the tests of what they show.
MADE_FROM_CODE = ("docs/api.md", "docs/commands.md", "docs/examples.md")


def pages() -> list[Path]:
    """Return the pages that have blocks to run, by name."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    made = {ROOT / name for name in MADE_FROM_CODE}
    return sorted(
        path
        for path in {*found} - made
        if "node_modules" not in path.parts and any(blocks_of(path.read_text(encoding="utf-8")))
    )


def main() -> None:
    """Run the pages that are named, or all, and write what is stale."""
    named = [ROOT / name for name in sys.argv[1:]] or pages()
    failed = []
    for path in named:
        started_s = time.monotonic()
        try:
            text = current(path)
        except PageError as error:
            failed.append(str(error))
            print(error, file=sys.stderr)
            continue
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {time.monotonic() - started_s:.0f} s", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
