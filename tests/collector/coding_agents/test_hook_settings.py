"""The settings that call hooks: what a person has there stays as it is."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looptrace.collector.coding_agents.hook.programs import PROGRAMS, HookError, install, remove
from looptrace.collector.coding_agents.hook.settings_text import (
    own_entries,
    with_entries,
    without_entries,
)
from tests.commands import printed, run
from tests.paths import written
from tests.seeds import seed_count

OWN = '"echo own"'
HOOK = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo own"}]}
WRITTEN = {
    "plain": json.dumps({"hooks": {"PreToolUse": [HOOK]}, "model": "x"}, indent=2) + "\n",
    "one line": json.dumps({"hooks": {"PreToolUse": [HOOK], "Stop": [HOOK]}}),
    "no hooks": '{\n    "model": "ü",\n    "permissions": {"allow": []}\n}\n',
    "other order": '{\n\t"hooks": {\n\t\t"Notification": []\n\t},\n\t"z": 1.50e3}',
    "windows": '{\r\n  "hooks": {\r\n    "Stop": [' + json.dumps(HOOK) + "]\r\n  }\r\n}\r\n",
    "comments": '// mine\n{\n  "hooks": { // these\n    "Stop": ['
    + json.dumps(HOOK)
    + ", ], /* x */\n"
    "  },\n}\n",
    "braces in texts": '{"a": "}]{[,\\"//", "hooks": {"PreToolUse": [' + json.dumps(HOOK) + "]}}",
    "byte order mark": '\ufeff{"model": "x"}',
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home of one's own, which is the project, too."""
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_CONFIG_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("program", ["claude-code", "codex", "gemini-cli"])
def test_what_was_there_is_there_byte_for_byte_after_a_removal(
    program: str, text: str, home: Path
) -> None:
    """And between, beside the hooks of looptrace; a second installation changes nothing."""
    path = home / "settings.json"
    path.write_bytes(text.encode())
    assert install(PROGRAMS[program], path, "http://127.0.0.1:4318", "open")
    between = path.read_bytes()
    assert between.count(OWN.encode()) == text.count(OWN)
    if "\r\n" in text:
        assert b"\n" not in between.replace(b"\r\n", b"")
    assert not install(PROGRAMS[program], path, "http://127.0.0.1:4318/", "open")
    assert path.read_bytes() == between

    assert install(PROGRAMS[program], path, "http://127.0.0.1:4318", "closed")
    assert path.read_bytes() != between
    assert remove(path)
    assert path.read_bytes() == text.encode()
    assert not remove(path)


def test_entries_come_last_in_the_lists_that_programs_read(home: Path) -> None:
    """Each event has one, in the program's form."""
    path = written(home / "settings.json", WRITTEN["plain"])
    install(PROGRAMS["claude-code"], path, "http://127.0.0.1:4318", "closed")
    hooks = json.loads(path.read_text(encoding="utf-8"))["hooks"]
    assert hooks["PreToolUse"][0] == HOOK
    entry = hooks["PreToolUse"][1]
    assert entry["matcher"] == "*"
    command = entry["hooks"][0]["command"]
    assert command.endswith(" claude-code before http://127.0.0.1:4318 closed")
    assert {"SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure"} <= hooks.keys()
    assert {"PostToolBatch", "Stop"} <= hooks.keys()
    assert "matcher" not in hooks["Stop"][0]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_a_file_is_made_and_goes_again(program: str, scope: str, home: Path) -> None:
    """The commands say what they did, and `status` what is there."""
    about = [program, "--scope", scope]
    assert run("hook", "status", *about).exit_code == 1
    assert "are installed" in run("hook", "install", *about).stdout
    assert "nothing is to be changed" in run("hook", "install", *about).stdout
    assert f"{program}" in printed("hook", "status", *about)
    (path,) = (each for each in home.rglob("*") if each.is_file())
    text = path.read_text(encoding="utf-8")
    assert "http://127.0.0.1:4318" in text

    path.write_text(text.replace("/coding_agents/hook", "/gone/coding_agents/hook"), "utf-8")
    shown = run("hook", "status", *about)
    assert (shown.exit_code, "incomplete" in shown.stdout) == (1, True)
    assert "are installed" in run("hook", "install", *about).stdout
    assert "are removed" in run("hook", "remove", *about).stdout
    assert not path.exists()
    assert "no hook" in run("hook", "remove", *about).stdout


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"hooks": []}',
        '{"hooks": {"PreToolUse": "x"}}',
        '{"a" 1}',
        '{"a": 1 "b": 2}',
        "{} {}",
        '{"a": ' + "[" * 50_000,
    ],
    ids=range(8),
)
def test_a_file_that_is_not_understood_is_left(text: str, home: Path) -> None:
    """A person corrects it first."""
    path = written(home / "settings.json", text)
    with pytest.raises(HookError, match="is unchanged"):
        install(PROGRAMS["claude-code"], path, "http://127.0.0.1:4318", "open")
    assert path.read_text(encoding="utf-8") == text
    path.write_bytes(b"\xff{}")
    with pytest.raises(HookError, match="is unchanged"):
        remove(path)


def test_a_plugin_of_somebody_else_is_left(home: Path) -> None:
    """Only a file that looptrace wrote is written over or deleted."""
    path = home / ".config" / "opencode" / "plugins" / "looptrace.js"
    path.parent.mkdir(parents=True)
    path.write_text("export const Mine = 1\n", encoding="utf-8")
    assert run("hook", "install", "opencode").exit_code == 2
    assert run("hook", "status", "opencode").exit_code == 1
    assert path.read_text(encoding="utf-8") == "export const Mine = 1\n"


def test_a_link_stays_one_and_the_mode_is_kept(home: Path) -> None:
    """Settings often are links into a repository."""
    real, path = home / "real.json", home / ".claude" / "settings.json"
    path.parent.mkdir()
    real.write_text("{}\n", encoding="utf-8")
    real.chmod(0o600)
    path.symlink_to(real)
    assert run("hook", "install", "claude-code").exit_code == 0
    assert path.is_symlink()
    assert "PreToolUse" in real.read_text(encoding="utf-8")
    assert real.stat().st_mode & 0o777 == 0o600


def test_an_address_that_is_none_is_refused() -> None:
    """Before anything is written."""
    result = run("hook", "install", "claude-code", "--server", "localhost:4318")
    assert (result.exit_code, "is not an address" in result.stderr) == (2, True)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=9,
)


@settings(max_examples=seed_count(300), deadline=None)
@given(
    st.dictionaries(st.text(max_size=5), _JSON, max_size=3),
    st.dictionaries(
        st.sampled_from(["Stop", "PreToolUse", "X"]), st.lists(_JSON, min_size=1), min_size=1
    ),
    st.sampled_from([None, 2, 4, "\t"]),
)
def test_any_settings_come_back(
    more: dict[str, object], hooks: dict[str, list[object]], indent: int | str | None
) -> None:
    """Whatever else is in a file."""
    text = json.dumps({**more, "hooks": hooks}, indent=indent)
    added = with_entries(text, {"Stop": {"mark": "own!"}, "Start": {"mark": "own!"}})
    assert json.loads(added)["hooks"]["Stop"] == [*hooks.get("Stop", []), {"mark": "own!"}]
    assert sorted(own_entries(added, lambda each: "own!" in each)) == ["Start", "Stop"]
    assert without_entries(added, lambda each: "own!" in each) == text
