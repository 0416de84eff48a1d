"""What a disk holds after a loss of power, out of the system calls that a program made.

What was not synced may be there or not: of a file any of its writes, of a folder its changes up to
some moment. The calls come from `strace`.
"""

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

ACKNOWLEDGED = "acknowledged"  # the file that the program writes to when it has acknowledged
_TRACED = (
    *("openat", "write", "pwrite64", "writev", "ftruncate", "fsync", "fdatasync", "rename"),
    *("renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"),
)
_LINE = re.compile(
    r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<said>.*)\) += (?P<result>-?\d+)(?P<rest>.*)$"
)
_UNFINISHED = re.compile(r"^(?P<pid>\d+) +(?P<said>\w+\(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. \w+ resumed>(?P<said>.*)$")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_HANDLE = re.compile(r"^\d+<((?:\\x[0-9a-f]{2})*)>")
_NUMBERS = re.compile(r", (\d+)(?:, (\d+))?$")


@dataclass(frozen=True, slots=True)
class Call:
    """One system call that changed the disk, or asked for it to be synced."""

    name: str
    path: str
    data: bytes = b""
    offset: int | None = None  # None appends
    other: str = ""  # the new name of what is renamed


def calls_of(command: Sequence[str], folder: Path, log: Path) -> list[Call]:
    """Run a program, and return what it did below a folder; paths are relative to it."""
    done = ["strace", "-f", "-y", "-xx", "-s", "10000000", "-e", f"trace={','.join(_TRACED)}"]
    subprocess.run([*done, "-o", str(log), sys.executable, *command], check=True)
    calls = map(_parsed, _whole_lines(log))
    return [each for call in calls if call and (each := _below(call, f"{folder}/"))]


def _whole_lines(log: Path) -> Iterator[str]:
    """Yield each call as one line, at the place where it ended."""
    begun: dict[str, str] = {}
    for line in log.read_text("ascii").splitlines():
        if match := _UNFINISHED.match(line):
            begun[match["pid"]] = match["said"]
        elif match := _RESUMED.match(line):
            yield f"{match['pid']} {begun.pop(match['pid'])}{match['said']}"
        else:
            yield line


def _parsed(line: str) -> Call | None:
    match = _LINE.match(line)
    if match is None or match["name"] not in _TRACED or int(match["result"]) < 0:
        return None
    name, said = match["name"], match["said"]
    texts = [_bytes(text) for text in _TEXT.findall(said)]
    handle = _HANDLE.match(said)
    held = os.fsdecode(_bytes(handle[1])) if handle else ""
    if name == "openat":
        return Call("create", os.fsdecode(texts[0])) if "O_CREAT" in said else None
    if name in ("rename", "renameat2"):
        return Call("rename", os.fsdecode(texts[0]), other=os.fsdecode(texts[1]))
    if name in ("unlink", "unlinkat", "rmdir"):
        return Call("delete", os.fsdecode(texts[0]))
    if name in ("mkdir", "mkdirat"):
        return Call("mkdir", os.fsdecode(texts[0]))
    if name in ("fsync", "fdatasync"):
        return Call("sync", held)
    numbers = _NUMBERS.search(said)
    assert numbers is not None, line
    if name == "ftruncate":
        return Call("truncate", held, offset=int(numbers[1]))
    if name == "writev":
        return Call("write", held, b"".join(texts))
    return Call("write", held, texts[0], int(numbers[2]) if numbers[2] else None)


def _bytes(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def _below(call: Call, folder: str) -> Call | None:
    path = f"{call.path}/" if call.path == folder[:-1] else call.path
    if not path.startswith(folder):
        return None
    return replace(call, path=path.removeprefix(folder), other=call.other.removeprefix(folder))


@dataclass(slots=True)
class _File:
    """What a file holds for certain, and what was done to it since it was synced."""

    content: bytearray = field(default_factory=bytearray)
    later: list[Call] = field(default_factory=list)

    def synced(self) -> None:
        for call in self.later:
            _apply(self.content, call)
        self.later.clear()

    def after(self, keeps: Callable[[], bool]) -> bytes:
        content = bytearray(self.content)
        for call in self.later:
            if keeps():
                _apply(content, call)
        return bytes(content)


def _apply(content: bytearray, call: Call) -> None:
    if call.name == "truncate":
        size = call.offset or 0
        content[:] = content[:size].ljust(size, b"\0")
        return
    at = len(content) if call.offset is None else call.offset
    content.extend(bytes(max(0, at - len(content))))
    content[at : at + len(call.data)] = call.data


class Disk:
    """The files below a folder while calls are made, one after the other."""

    def __init__(self) -> None:
        self.acknowledged = b""
        self._now: dict[str, _File | None] = {}  # by path, None is a folder
        self._certain: dict[str, _File | None] = {}
        self._later: dict[str, list[Call]] = defaultdict(list)  # changes of each folder
        self._made: dict[int, _File] = {}  # by the call, whatever a file is called since

    def make(self, call: Call) -> None:
        """Make a call."""
        if call.path == ACKNOWLEDGED:
            self.acknowledged += call.data
        elif call.name == "sync":
            self._sync(call.path)
        elif call.name in ("write", "truncate"):
            file = self._now[call.path]
            assert file is not None
            file.later.append(call)
        elif call.name != "create" or call.path not in self._now:
            self._later[_folder(call.path)].append(call)
            self._change(self._now, call)

    def _sync(self, path: str) -> None:
        if path == "" or path.endswith("/") or self._now.get(path, 0) is None:
            folder = path.rstrip("/")
            for call in self._later.pop(folder, []):
                self._change(self._certain, call)
        elif file := self._now.get(path):
            file.synced()

    def _change(self, names: dict[str, _File | None], call: Call) -> None:
        if call.name == "rename" and call.path in names:
            names[call.other] = names.pop(call.path)
        elif call.name == "delete":
            names.pop(call.path, None)
        elif call.name == "mkdir":
            names.setdefault(call.path, None)
        elif call.name == "create":
            names.setdefault(call.path, self._made.setdefault(id(call), _File()))

    def after(self, chance: Random, keeps: float) -> dict[str, bytes]:
        """Return the files after a loss of power; `keeps` is the share of what is not synced."""
        names = dict(self._certain)
        for calls in self._later.values():
            kept = chance.randint(0, len(calls)) if 0 < keeps < 1 else round(keeps * len(calls))
            for call in calls[:kept]:
                self._change(names, call)
        files = {path: file for path, file in names.items() if file is not None}
        there = {path for path in files if _is_there(path, names)}
        return {path: files[path].after(lambda: chance.random() < keeps) for path in sorted(there)}


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _is_there(path: str, names: dict[str, _File | None]) -> bool:
    """Return whether each folder above a path is there."""
    while path := _folder(path):
        if path not in names:
            return False
    return True
