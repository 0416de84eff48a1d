"""The lines of a report: wrapped and styled by rich for a person, or whole, without it.

A pipeline reads most reports, and rich takes as long to import as the traces of a test to analyse.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from io import TextIOBase
from typing import TYPE_CHECKING, TextIO, TypeAlias, cast

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Text

# A line, as its parts; each has the style that it has at a terminal.
Line: TypeAlias = tuple[tuple[str, str], ...]
Output: TypeAlias = "Console | TextIO"

# For piped output: programs read whole lines, and nobody sees them wrap.
PIPED_COLUMNS = 1_000_000
_CELLS_MAX = 2  # The most columns of a terminal that a character takes.
_BREAKS = frozenset("\n\t")
# With one of these, output that is no terminal has a width or colours, too.
_STYLED_BY = ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE")


def is_styled(file: TextIO) -> bool:
    """Return whether rich writes to a file: it is a terminal, or the environment asks for it."""
    return file.isatty() or any(name in os.environ for name in _STYLED_BY)


def output_of(file: TextIO | None = None) -> Output:
    """Return what a report is printed to: standard output or a file, or a console on it."""
    file = file or sys.stdout
    return stdout_console(file) if is_styled(file) else file


def stdout_console(file: TextIO | None = None) -> Console:
    """Return a console on standard output, or a file, with the width of the terminal or of COLUMNS.

    Output to a file or another program is as wide as it needs to be, and is not cut.
    """
    from rich.console import Console  # noqa: PLC0415 - It takes long to import.

    console = Console(file=file)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED_COLUMNS
    return console


def page_of(output: Output) -> ReportPage:
    """Return an empty page for an output."""
    if isinstance(output, TextIOBase):
        return _PlainPage(cast("TextIO", output))
    return StyledPage(cast("Console", output))


def line(text: str, style: str = "") -> Line:
    """Return a line in one style."""
    return ((text, style),)


class ReportPage(ABC):
    """Lines that are printed at once."""

    width: int
    ascii_only: bool

    @abstractmethod
    def add(self, line: Line, indent_columns: int = 0) -> None:
        """Add a line."""

    @abstractmethod
    def print(self) -> None:
        """Print the lines."""

    def add_paragraph(self, lines: Iterable[Line], indent_columns: int = 0) -> None:
        """Add an empty line and these lines, or nothing if there are none."""
        for number, each in enumerate(lines):
            if not number:
                self.add(())
            self.add(each, indent_columns)


class _PlainPage(ReportPage):
    """Lines as they are."""

    def __init__(self, file: TextIO) -> None:
        self.width = PIPED_COLUMNS
        self.ascii_only = not (getattr(file, "encoding", None) or "utf-8").startswith("utf")
        self._file = file
        self._lines: list[str] = []

    def add(self, line: Line, indent_columns: int = 0) -> None:
        """Add a line, which ends with a word."""
        text = "".join(part for part, _ in line).rstrip()
        self._lines.append(f"{' ' * indent_columns}{text}\n")

    def print(self) -> None:
        self._file.write("".join(self._lines))


class StyledPage(ReportPage):
    """Lines for a console.

    Rich asks for the size of the terminal, and wraps what was wrapped, whenever something is
    printed.
    """

    def __init__(self, console: Console) -> None:
        self.width = console.width
        self.ascii_only = console.options.ascii_only
        self._console = console
        self._segments: list[Segment] = []

    def add(self, line: Line, indent_columns: int = 0) -> None:
        """Add a line, wrapped."""
        from rich.text import Text  # noqa: PLC0415 - as in `stdout_console`

        whole = Text.assemble(*line)
        for part in wrapped(whole, self._console, self.width - indent_columns):
            indented = Text(" " * indent_columns) + part
            self._segments += indented.render(self._console, end="\n")

    def print(self) -> None:
        """Print the lines."""
        from rich.segment import Segments  # noqa: PLC0415 - as in `stdout_console`

        self._console.print(Segments(self._segments), end="", crop=False)


def wrapped(line: Text, console: Console, width: int) -> list[Text]:
    """Wrap a line here, because rich would leave spaces at the ends of wrapped lines."""
    short = len(line.plain) * _CELLS_MAX <= width and _BREAKS.isdisjoint(line.plain)
    parts = [line] if short else list(line.wrap(console, width))
    for part in parts:
        part.rstrip()
    return parts
