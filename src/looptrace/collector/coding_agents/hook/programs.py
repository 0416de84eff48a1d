"""The programs whose hooks looptrace can be: their files of settings, and what stands there.

Functions raise `HookError` where a file cannot be read or written.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from looptrace.collector.coding_agents.hook.asking import AFTER, BATCH, BEFORE, PROMPT, START, STOP
from looptrace.collector.coding_agents.hook.settings_text import (
    own_entries,
    with_entries,
    without_entries,
)
from looptrace.errors import InputError

HookScope = Literal["user", "project"]
Fails = Literal["open", "closed"]

HOOK_FILE = Path(__file__).with_name("__main__.py")
# The words by which an entry is known as one of looptrace, wherever it was installed.
_MARK = "coding_agents/hook"
# How long a program waits for a hook, which itself waits a second at most.
_TIMEOUT_S = 10
# The one entry of a plug-in.
_ALL = "all events"
_PLUGIN = HOOK_FILE.with_name("opencode_plugin.js")


class HookError(InputError):
    """A file of settings cannot be used; the message is one line that says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its files, and its names of the events at which a hook is called."""

    name: str
    home_variable: str  # names the folder of a user's settings
    folders: Mapping[HookScope, str]  # below the home, and below the root of a project
    files: Mapping[HookScope, str]
    events: Mapping[str, tuple[str, ...]]  # none where the file is a plug-in of looptrace
    timeout_unit: int = 1  # in a second
    advice: str = ""  # what a person has to do after an installation

    def path(self, scope: HookScope, root: Path) -> Path:
        """Return the file of a user's settings, or of a project's."""
        own = os.environ.get(self.home_variable) if scope == "user" else None
        base = Path.home() if scope == "user" else root
        return (Path(own) if own else base / self.folders[scope]) / self.files[scope]


_LIKE_CLAUDE = {
    START: ("SessionStart",),
    PROMPT: ("UserPromptSubmit",),
    BEFORE: ("PreToolUse",),
    AFTER: ("PostToolUse",),
    STOP: ("Stop",),
}
PROGRAMS: Mapping[str, Program] = {
    program.name: program
    for program in (
        Program(
            "claude-code",
            "CLAUDE_CONFIG_DIR",
            {"user": ".claude", "project": ".claude"},
            # A project's shared file is in its repository, where a path of this machine is wrong.
            {"user": "settings.json", "project": "settings.local.json"},
            _LIKE_CLAUDE
            | {AFTER: ("PostToolUse", "PostToolUseFailure"), BATCH: ("PostToolBatch",)},
        ),
        Program(
            "codex",
            "CODEX_HOME",
            {"user": ".codex", "project": ".codex"},
            {"user": "hooks.json", "project": "hooks.json"},
            _LIKE_CLAUDE,
            advice="Codex calls a new hook only after you have trusted it: type /hooks there.",
        ),
        Program(
            "gemini-cli",
            "",
            {"user": ".gemini", "project": ".gemini"},
            {"user": "settings.json", "project": "settings.json"},
            {
                START: ("SessionStart",),
                PROMPT: ("BeforeAgent",),
                BEFORE: ("BeforeTool",),
                AFTER: ("AfterTool",),
                STOP: ("AfterAgent",),
            },
            timeout_unit=1_000,
        ),
        Program(
            "opencode",
            "OPENCODE_CONFIG_DIR",
            {"user": ".config/opencode", "project": ".opencode"},
            dict.fromkeys(("user", "project"), "plugins/looptrace.js"),
            {},
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Installation:
    """A hook in a file of settings; `commands` are those that stand there, by event."""

    program: Program
    path: Path
    commands: Mapping[str, list[str]]

    @property
    def is_there(self) -> bool:
        """Whether the file has anything of looptrace."""
        return bool(self.commands)

    @property
    def is_whole(self) -> bool:
        """Whether each event has one entry, whose Python and folder are there."""
        events = [event for names in self.program.events.values() for event in names] or [_ALL]
        if sorted(self.commands) != sorted(events):
            return False
        return all(len(each) == 1 and _is_there(each[0]) for each in self.commands.values())


def install(program: Program, path: Path, server: str, fails: Fails) -> bool:
    """Write the hooks of a program; return whether the file changed."""
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise HookError(f"{server!r} is not an address such as http://localhost:4318.")
    if not program.events:
        return _install_plugin(path, server.rstrip("/"), fails)
    wanted = {
        name: _entry(program, event, server.rstrip("/"), fails)
        for event, names in program.events.items()
        for name in names
    }
    text = _read(path)
    try:
        found = own_entries(text, _is_own)
        if {name: [json.loads(each) for each in texts] for name, texts in found.items()} == {
            name: [entry] for name, entry in wanted.items()
        }:
            return False
        text = with_entries(without_entries(text, _is_own), wanted)
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, error) from error
    _write(path, text)
    return True


def remove(path: Path) -> bool:
    """Remove the hooks from a file, which goes if nothing else is in it; return if any were."""
    text = _read(path)
    if _is_plugin(text):
        path.unlink()
        return True
    try:
        left = without_entries(text, _is_own)
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, error) from error
    if left == text:
        return False
    if left.strip() == "{}":
        path.unlink()
    else:
        _write(path, left)
    return True


def installed(program: Program, path: Path) -> Installation:
    """Return what a file has of looptrace."""
    text = _read(path)
    if not program.events:
        line = text.partition("] = ")[2].partition("\n")[0]
        return Installation(program, path, {_ALL: [_line(line)]} if _is_plugin(text) else {})
    try:
        found = own_entries(text, _is_own)
        commands = {
            event: [json.loads(each)["hooks"][0]["command"] for each in texts]
            for event, texts in found.items()
        }
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _unreadable(path, error) from error
    return Installation(program, path, commands)


def command(program: str) -> list[str]:
    """Return the words that start the hook of a program; event, server and `fails` follow."""
    return [sys.executable, "-I", "-S", str(HOOK_FILE), program]


def _joined(words: list[str]) -> str:
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _line(words: str) -> str:
    try:
        return _joined([str(word) for word in json.loads(words)])
    except (ValueError, TypeError):
        return words


def _install_plugin(path: Path, server: str, fails: Fails) -> bool:
    text = _PLUGIN.read_text(encoding="utf-8")
    text = text.replace("COMMAND", json.dumps(command("opencode")), 1)
    text = text.replace("WHERE", json.dumps([server, fails]), 1)
    found = _read(path)
    if found and not _is_plugin(found):
        raise HookError(f"{path}: is unchanged, because looptrace did not write it; rename it.")
    if found != text:
        _write(path, text)
    return found != text


def _is_plugin(text: str) -> bool:
    return text.startswith("// Written by `looptrace hook install")


def _entry(program: Program, event: str, server: str, fails: Fails) -> dict[str, Any]:
    hook = {
        "type": "command",
        "command": _joined([*command(program.name), event, server, fails]),
        "timeout": _TIMEOUT_S * program.timeout_unit,
    }
    matcher = {"matcher": "*"} if event in (BEFORE, AFTER) else {}
    return {**matcher, "hooks": [hook]}


def _is_own(text: str) -> bool:
    return _MARK in text.replace("\\\\", "/")


def _is_there(line: str) -> bool:
    words = line.split('"')[1::2] if os.name == "nt" else shlex.split(line)
    return all(Path(word).exists() for word in words if Path(word).is_absolute())


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise HookError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, error) from error


def _write(path: Path, text: str) -> None:
    path = path.resolve()  # A link to a file elsewhere stays one.
    aside = path.with_name(f".{path.name}.looptrace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
        if path.exists():
            aside.chmod(path.stat().st_mode & 0o777)
        aside.replace(path)
    except OSError as error:
        raise HookError(f"{path}: cannot be written ({error.strerror}).") from error


def _unreadable(path: Path, error: Exception) -> HookError:
    why = str(error) or type(error).__name__
    return HookError(f"{path}: is unchanged, because {why}; correct it first.")
