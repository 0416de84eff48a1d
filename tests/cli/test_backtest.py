"""`looptrace backtest` as a stranger would use it."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from looptrace.analyzer.text.session_names import bounded_name
from looptrace.rules.contract import ACTIONS
from tests.analyzer.report.contents import HOSTILE
from tests.commands import json_of, run
from tests.otlp import Trace, tool_call
from tests.paths import HEALTHY, LOOPING, ROOT, TRACES, written

PRICES = str(ROOT / "examples" / "prices.toml")


backtest = partial(run, "backtest", COLUMNS="80")
as_json = partial(json_of, "backtest")


def turns_of_gates(report: Any) -> list[tuple[int | None, ...]]:
    """Name the turns of the gates of each row."""
    return [tuple(row[side] and row[side]["turn"] for side in "ab") for row in report["gates"]]


def looping(task: str, error: str = "no file") -> Trace:
    """Make a trace of six calls that fail alike."""
    trace = Trace("session")
    call: dict[str, Any] = tool_call("read", "{}") | {"looptrace.task.id": task}
    for _ in range(6):
        trace.span("execute_tool read", None, call, status="error", message=error)
    return trace


def test_two_profiles_stand_side_by_side() -> None:
    """One line has the turn of either gate, A at the left and B at the right."""
    found = backtest(LOOPING, "--a", "conservative", "--b", "balanced", "--prices", PRICES)

    assert found.exit_code == 0
    assert re.search(r"A: conservative {2,}B: balanced\n", found.stdout)
    assert re.search(r"gate at turn 14 {2,}gate at turn 10\n", found.stdout)
    assert re.search(r"after it: 5 turns, 15 s {2,}after it: 9 turns, 27 s\n", found.stdout)
    assert "EUR 0." in found.stdout
    assert "are the most that it would have saved" in " ".join(found.stdout.split())


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_table_keeps_to_the_width(width: int) -> None:
    """Nothing is wider than the terminal, and no line ends in spaces."""
    lines = backtest(str(TRACES), "--b", "aggressive", COLUMNS=str(width)).stdout.splitlines()

    assert lines
    assert all(len(line) <= width and line == line.rstrip() for line in lines)


def test_what_is_piped_is_not_padded_to_its_width() -> None:
    """A pipe has no width, and lines must stay such as a person can read."""
    printed = run("backtest", LOOPING, "--a", "conservative", "--b", "balanced").stdout
    assert "gate at turn" in printed
    assert max(map(len, printed.splitlines())) < 300


def test_a_is_what_is_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --a it is the settings file that is here, and the variables win over it."""
    monkeypatch.chdir(tmp_path)
    assert turns_of_gates(as_json(LOOPING, "--b", "balanced")) == [(10, 10)]

    Path("looptrace.toml").write_text('profile = "conservative"\n', encoding="utf-8")
    report = as_json(LOOPING, "--b", "balanced")
    assert turns_of_gates(report) == [(14, 10)]
    assert report["a"]["settings"] == "the settings in force"

    report = as_json(LOOPING, "--b", "balanced", LOOPTRACE_LOOP_THRESHOLD="9")
    assert turns_of_gates(report) == [(None, 10)]


def test_a_file_is_as_good_as_a_profile(tmp_path: Path) -> None:
    """A team compares the file that it would like to have."""
    path = written(tmp_path / "strict.toml", 'profile = "conservative"\n')

    by_file = as_json(LOOPING, "--a", str(path), "--b", "balanced")
    by_name = as_json(LOOPING, "--a", "conservative", "--b", "balanced")
    assert by_file["gates"] == by_name["gates"]
    assert by_file["a"]["settings"] == str(path)


def test_a_store_files_and_standard_input_agree(tmp_path: Path) -> None:
    """The turns of a store are compared as those of the files that are in it."""
    store = str(tmp_path / "store")
    run("ingest", TRACES, "--store", store)
    sides = ("--a", "conservative", "--b", "aggressive", "--prices", PRICES)

    assert as_json(store, *sides) == as_json(str(TRACES), *sides)
    stdin = Path(LOOPING).read_bytes()
    piped = json.loads(backtest("-", *sides, "--format", "json", stdin=stdin).stdout)
    assert piped == as_json(LOOPING, *sides)


def test_a_side_without_gates_says_so() -> None:
    """In a task and in all, so that an empty column is no riddle."""
    cycle = str(TRACES / "release_notes_cycle_loop.jsonl")
    lines = backtest(cycle, "--a", "conservative", "--b", "balanced").stdout.splitlines()

    assert [line.split("  ")[1] for line in lines if line.startswith("  no gate")] == [
        "no gate"
    ] * 2


def test_silence_is_one_sentence() -> None:
    """A reader must not have to search for gates where there are none."""
    found = backtest(HEALTHY, "--a", "conservative", "--b", "balanced").stdout

    assert "Neither would have opened a gate." in found
    assert "the most that it would" not in found


def test_nothing_to_judge_is_said(tmp_path: Path) -> None:
    """Spans that show no turn are no healthy agent."""
    trace = Trace("session")
    trace.span("GET /health")
    path = written(tmp_path / "health.jsonl", trace.lines())

    assert backtest(str(path), "--b", "balanced").stdout.strip() == "No turns to analyse."
    report = as_json(str(path), "--b", "balanced")
    assert (report["tasks"], report["turns"], report["gates"]) == (0, 0, [])


def test_unreadable_parts_end_with_2(tmp_path: Path) -> None:
    """The answer is incomplete, and the rest of it is there."""
    path = written(tmp_path / "cut.jsonl", looping("t").lines() + '{"resourceSpans": [{"sc')
    found = backtest(str(path), "--b", "balanced")

    assert found.exit_code == 2
    assert "gate at turn 3" in found.stdout
    assert "cut.jsonl:7: the JSON is cut off" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--b", "balancd"], "Error: balancd: there is no such file, and no such profile"),
        (["--b", "balanced", "--prices", "no.toml"], "Error: no.toml: cannot be read: No such"),
        ([], "Missing option '--b'"),
    ],
)
def test_what_cannot_be_compared_is_one_line(arguments: list[str], said: str) -> None:
    """What, where, and what there is."""
    found = backtest(LOOPING, *arguments)

    assert found.exit_code == 2
    assert said in found.stderr
    assert not found.stdout


def test_what_is_wrong_in_a_file_is_said_with_its_line(tmp_path: Path) -> None:
    """Both kinds of files speak alike."""
    path = written(tmp_path / "x.toml", 'profile = "balanced"\nprofil = 1\n')

    assert f"Error: {path}:2: there is no 'profil'." in backtest(LOOPING, "--b", str(path)).stderr
    said = backtest(LOOPING, "--b", "balanced", "--prices", str(path)).stderr
    assert f"Error: {path}:1: there is no 'profile'." in said


def test_what_has_no_price_is_named(tmp_path: Path) -> None:
    """A sum that leaves something out says what."""
    path = written(
        tmp_path / "prices.toml",
        'currency = "EUR"\n[models.other]\ninput_per_million = 1\noutput_per_million = 1\n',
    )
    told = backtest(LOOPING, "--b", "balanced", "--prices", path, COLUMNS=None).stdout

    assert "EUR 0.00, plus models without a price" in told
    assert re.search(r"No price for gpt-4\.1-mini \(\d+ responses\)\.", told)
    assert "Costs in money need prices" in backtest(LOOPING, "--b", "balanced").stdout


@pytest.mark.parametrize("hostile", [text for text in HOSTILE if "\ud800" not in text])
def test_the_report_obeys_no_trace(hostile: str, tmp_path: Path) -> None:
    """Names and reasons of a trace are shown, and act on nothing."""
    path = written(tmp_path / "hostile.jsonl", looping(hostile[:1000], hostile[:1000]).lines())
    text = backtest(str(path), "--b", "balanced").stdout

    assert "gate at turn 3" in text
    assert all(line.isprintable() and len(line) <= 80 for line in text.splitlines())
    report = as_json(str(path), "--b", "balanced")
    assert report["gates"][0]["task"] == bounded_name(hostile[:1000])


def test_a_reason_obeys_no_trace(tmp_path: Path) -> None:
    """The names of phases stand in reasons as they were declared."""
    trace = Trace("session")
    for number in range(12):
        call: dict[str, Any] = tool_call("work", f'{{"step": {number}}}') | {
            "looptrace.phase": ("\x1b[31mred\u202e", "test")[number % 2]
        }
        trace.span("execute_tool work", None, call, status="ok")
    path = written(tmp_path / "phases.jsonl", trace.lines())
    text = backtest(str(path), "--b", "balanced").stdout

    assert "gate at turn" in text
    assert all(line.isprintable() for line in text.splitlines())


def keys(value: Any, name: str = "") -> set[str]:
    """List the fields of a report as the page names them; the two sides have the same."""
    if isinstance(value, list):
        return {name} | {key for item in value for key in keys(item, f"{name}[]")}
    if not isinstance(value, dict) or name.endswith(("told", "unpriced")):
        return {name}
    inner = {key for k, v in value.items() for key in keys(v, f"{name}.{k}" if name else k)}
    return inner if name in ("", "skipped[]", "gates[]") else {name} | inner


def test_the_page_describes_every_field(tmp_path: Path) -> None:
    """The page has each field of the JSON, and no other."""
    path = written(tmp_path / "cut.jsonl", looping("t").lines() + "{")
    report = as_json(str(path), "--a", "aggressive", "--b", "balanced", "--prices", PRICES)
    page = (ROOT / "docs" / "backtest.md").read_text(encoding="utf-8").partition("## JSON")[2]
    described = {
        name
        for row in re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", row)
    }
    found = {re.sub(r"^.*\bafter\.", "….after.", key) for key in keys(report)}
    found -= {key.replace("a.", "b.", 1) for key in found if key.startswith("a.")}
    found -= {key.replace("].a.", "].b.") for key in found if "].a." in key}
    found -= {"….after.tokens"}

    assert found == described
    assert set(report["a"]["told"]) == set(ACTIONS)


def test_the_same_input_gives_the_same_bytes() -> None:
    """A report can be kept and compared."""
    command = (str(TRACES), "--b", "aggressive", "--prices", PRICES, "--format", "json")

    assert backtest(*command).stdout == backtest(*command).stdout
