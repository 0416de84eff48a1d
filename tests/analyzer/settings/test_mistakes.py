"""Mistakes in a settings file: each is named with its line, and nothing hostile gets through."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looptrace.analyzer.settings.sections import Settings, load
from looptrace.analyzer.settings.toml_reader import FILE_BYTES_MAX, LINE_DOTS_MAX, SettingsError
from looptrace.analyzer.settings.toml_writer import toml_of
from tests.analyzer.settings.files import (
    any_settings,
    as_toml,
    outcome,
    read,
    refused,
    tables,
    tuned,
    values,
)
from tests.seeds import seed_count

# Files and, after each, how its error begins: the line and what is wrong there.
ERRORS = (Path(__file__).parent / "data/errors.txt").read_text(encoding="utf-8")


MISTAKES = [
    (text, said) for text, said in re.findall(r"(.*?)\n#> (.*?)\n\n?", ERRORS, flags=re.DOTALL)
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_errors_say_where_and_what_is_allowed(text: str, said: str) -> None:
    """The error names the line; what can have no effect is as wrong as what cannot be read."""
    with pytest.raises(SettingsError) as caught:
        read(text)
    (message,) = (str(each) for each in caught.value.every if f"looptrace.toml:{said}" in str(each))

    assert message.startswith(f"looptrace.toml:{said}")
    assert message.endswith((".", "?"))
    assert message.isprintable()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rules.cycle.rounds_min = 99", 1),
        ("# rounds_min = 99\n[rules]\ncycle.rounds_min = 99", 3),
        ("[rules]\n\ncycle = { rounds_min = 99 }", 3),
        ("[rules.cycle]\nperiod_max = 3\nrounds_min = 99", 3),
        ("[rules.repeated_call]\nattempts_min = 3\n[ rules . 'cycle' ]\n\"rounds_min\" = 99", 4),
        ("[rules.cycle]\nladder = [\n{ attempts = 3,action = 'warn' },\n]\nrounds_min = 99", 5),
        ("[rules.cycle]\r\n\r\nrounds_min = 99\r\n", 3),
        ('[rules.cycle]\n"rounds\\u005fmin" = 99', 1),
    ],
)
def test_line_is_found_however_a_key_is_written(text: str, line: int) -> None:
    """TOML has many ways to write one key; the line is that of the key, or of its table."""
    assert refused(text).startswith(f"looptrace.toml:{line}: rules.cycle.rounds_min is 99")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b" " * FILE_BYTES_MAX, None),
        (b" " * (FILE_BYTES_MAX + 1), "1: the file has more than 262144 bytes."),
        (b"\n#" + b"." * LINE_DOTS_MAX, None),
        (b"\n" + b".".join([b"a"] * 100_000) + b" = 1", "2: the line has more than 50 dots."),
        (b"x = " + b"[" * 100_000, "1: the values are nested too deeply."),
        (b"x = " + b"{a=" * 50_000, "1: the values are nested too deeply."),
        (b"x = " + b"9" * 100_000, "1: is not TOML: "),
        (
            b"profile = 0x" + b"f" * 100_000,
            "1: profile is a number of more than 64 bits. Known: conservative,",
        ),
        (b"rules.cycle.rounds_min = 0x" + b"f" * 100_000, "1: rules.cycle.rounds_min is a number"),
        (b"\n\xff = 1", "2: the text is not UTF-8."),
        (b"\xef\xbb\xbfprofile = 'balanced'", None),
        (b'"a\\nb\\u202e' + b"c" * 100_000 + b'" = 1', "1: there is no 'a b\ufffdc"),
    ],
)
def test_hostile_files_are_refused(data: bytes, said: str | None) -> None:
    """A settings file may come with an unreviewed repository."""
    found = outcome(data)

    assert isinstance(found, Settings) if said is None else f"looptrace.toml:{said}" in str(found)
    assert len(str(found)) < 1_000 or said is None


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """A wrong path must not look like the default settings."""
    missing = tmp_path / "none.toml"
    with pytest.raises(SettingsError, match=r"none\.toml: cannot be read: No such file"):
        load(missing)
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load(tmp_path)


@settings(max_examples=seed_count(80))
@given(tables(values) | tuned)
def test_any_tables_are_read_or_refused(table: dict[str, Any]) -> None:
    """Whatever a file says, the answer is settings that read back, or an error in one line."""
    text = "\n".join(f"{json.dumps(key)} = {as_toml(value)}" for key, value in table.items())
    found = outcome(text.encode())

    if isinstance(found, Settings):
        assert read(toml_of(found)) == found
    else:
        assert re.fullmatch(r"looptrace\.toml:\d+: .+[.?]", found)
        assert "is not TOML" not in found


@given(st.binary() | st.text(alphabet="[]{}=.\"'\n #arules", max_size=80).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """No file ends in a traceback."""
    found = outcome(data)

    assert isinstance(found, Settings) or re.fullmatch(r"looptrace\.toml:\d+: .+[.?]", found)


@settings(max_examples=seed_count(80))
@given(any_settings(), st.data())
def test_damaged_files_are_read_or_refused(wanted: Settings, data: st.DataObject) -> None:
    """A slip anywhere in a good file ends in other settings or in one line, not in a traceback."""
    text = toml_of(wanted)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 20, len(text))))
    slip = data.draw(st.sampled_from(["", "=", "[", "]", '"', "\n", ".", "0", "true", "x = 1\n"]))
    found = outcome(f"{text[:start]}{slip}{text[end:]}".encode())

    if isinstance(found, Settings):
        assert read(toml_of(found)) == found
    else:
        assert re.fullmatch(r"looptrace\.toml:\d+: .+[.?]", found)


HOOK = "[[webhooks]]\nname = 'a'\n"


MANY = (Path(__file__).parent / "data/many_errors.toml").read_text(encoding="utf-8")


def test_every_error_of_a_file_is_named() -> None:
    """Whoever mends one at a time, and runs again, gives up; the file says where each stands."""
    with pytest.raises(SettingsError) as caught:
        read(MANY)
    every = caught.value.every
    lines = [int(str(each).split(":")[1]) for each in every]
    marked = [
        n for n, line in enumerate(MANY.splitlines(), 1) for _ in range(line.count("# wrong"))
    ]

    assert lines == marked
    assert str(caught.value) == f"{every[0]} The file has {len(marked) - 1} more."
    assert all(str(each).isprintable() for each in every)


@pytest.mark.parametrize(
    "text",
    [
        "[[webhooks]]\nname = 'a'\nurl = 'https://a/'\nformat = 'salck'",
        "[page]\nurl = 3\n[[webhooks]]\nname = 'a'\nurl = 'https://a/'\nsecrets = ['env:A']\n"
        "decision_hours = 3",
        "[[overrides]]\ntool = 'a'\n[overrides.rules.cycle]\nrounds_min = 'x'",
        "[[webhooks]]\nname = 3\nurl = 'https://a/'",
        "[rules.cycle]\nladder = [{ attempts = 'x', action = 'gate' }]",
    ],
)
def test_what_follows_from_an_error_is_no_other(text: str) -> None:
    """A value that is left out would make others look wrong."""
    with pytest.raises(SettingsError) as caught:
        read(text)
    assert len(caught.value.every) == 1


def test_a_secret_in_the_wrong_place_is_not_quoted() -> None:
    """An error ends up in logs, where no secret belongs."""
    for line in ("url = 'https://a/'\nsecrets = ['whsec_hush']", "url = 'https://u:hush@a/'"):
        assert "hush" not in refused(f"{HOOK}{line}")


SHARDS = '[shards]\nurls = ["http://a:4318", "https://b:4318/looptrace"]\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SHARDS.replace("http://a", "ftp://a"), "looptrace.toml:2: shards.urls has 'ftp://a:4318'"),
        (f'{SHARDS}names = ["a:4317"]\n', "shards.names must have one name for each"),
        (f'{SHARDS}names = ["a:4317", "a:4317"]\n', "names a server twice"),
        (SHARDS.replace("https://b:4318/looptrace", "http://a:4318/other"), "a server twice"),
    ],
)
def test_servers_that_cannot_be_are_errors(text: str, words: str) -> None:
    """Two servers of one name would have the same sessions."""
    assert words in str(outcome(text.encode()))
