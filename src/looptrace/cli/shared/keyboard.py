"""Reader of single keys, without waiting for a line."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from looptrace.cli.shared.watch_screen import BACKSPACE, DOWN, ENTER, ESCAPE, UP

_BYTES_MAX = 1024
_POLL_S = 0.05
_NAMES = {"\r": ENTER, "\n": ENTER, "\x7f": BACKSPACE, "\b": BACKSPACE, "\x1b": ESCAPE}
_ARROWS = {"\x1b[A": UP, "\x1b[B": DOWN, "\x1bOA": UP, "\x1bOB": DOWN, "\xe0H": UP, "\xe0P": DOWN}
# The code of a key: a sequence of a terminal, a letter with Alt, an arrow of Windows, a character.
_CODE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b[^\x1b\r\n]|\xe0[HP]|.", re.DOTALL)

# Returns the keys that were pressed, after at most so many seconds.
KeyReader = Callable[[float], list[str]]


@contextmanager
def keyboard() -> Iterator[KeyReader]:
    """Read keys from standard input; restore the terminal at the end."""
    if sys.platform == "win32":
        yield _windows_keys
        return
    import select  # noqa: PLC0415 - terminals other than Windows' alone
    import termios  # noqa: PLC0415
    import tty  # noqa: PLC0415

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)

    def keys(timeout_s: float) -> list[str]:
        if not select.select([file], [], [], timeout_s)[0]:
            return []
        return keys_in(os.read(file, _BYTES_MAX).decode(errors="replace"))

    try:
        tty.setcbreak(file)
        yield keys
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def _windows_keys(timeout_s: float) -> list[str]:
    import msvcrt  # noqa: PLC0415 - Windows alone has it

    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if msvcrt.kbhit():  # type: ignore[attr-defined]
            key = msvcrt.getwch()  # type: ignore[attr-defined]
            return keys_in(key + msvcrt.getwch() if key == "\xe0" else key)  # type: ignore[attr-defined]
        time.sleep(_POLL_S)
    return []


def keys_in(text: str) -> list[str]:
    """Return the keys in a terminal's input, without those that have no name here.

    The rest of their codes must not be taken for letters, which would decide on a gate.
    """
    codes = _CODE.findall(text)
    named = {**_ARROWS, **_NAMES}
    return [named.get(code, code) for code in codes if code in named or len(code) == 1]
