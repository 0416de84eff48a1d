"""Each oddity of `tests/traps.py` is read as its docstring says is right, from a file onwards."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pytest

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import read_spans
from tests import traps
from tests.traps import Requests

Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of a trap's requests."""

    turns: pl.DataFrame
    findings: tuple[Finding, ...]

    def of(self, kind: str, task: str, *columns: str) -> list[Row]:
        """Return columns of a task's turns of one kind, in order; arguments as Python values."""
        mine = self.turns.filter(pl.col("session") == task, pl.col("kind") == kind)
        rows = mine.select(columns).iter_rows()
        return [tuple(map(_value, columns, row)) for row in rows]

    def calls(self, task: str) -> list[Row]:
        """Return name, arguments, result and failure of a task's tool turns."""
        return self.of("tool", task, "name", "arguments", "result", "failed")

    def texts(self, task: str) -> list[str]:
        """Return what the model said in a task."""
        return [text for (text,) in self.of("model", task, "text")]

    def kinds(self, task: str) -> set[str]:
        """Return the kinds of turns that a task has."""
        return set(self.turns.filter(pl.col("session") == task)["kind"])

    def agents(self, task: str) -> set[str]:
        """Return the agents of a task's tool and model turns."""
        return {name for kind in ("tool", "model") for (name,) in self.of(kind, task, "agent")}


def _value(column: str, value: Any) -> Any:
    return json.loads(value) if column == "arguments" and value is not None else value


def reading(folder: Path, requests: Requests) -> Reading:
    """Write requests to a file as JSON lines, read it, and analyse it."""
    path = folder / "trap.jsonl"
    path.write_text("".join(json.dumps(request) + "\n" for request in requests), encoding="utf-8")
    read = read_spans([str(path)])
    analysis = analyse(read.spans, read.skipped)
    assert analysis.skipped == ()
    return Reading(analysis.turns, analysis.findings)


def test_every_trap_has_a_test() -> None:
    """A trap that nobody reads guards nothing."""
    names = {f"test_{name}" for name in vars(traps) if name.startswith("trap_")}

    assert len(names) == 16
    assert names <= set(globals())


def test_trap_01_tool_parameters_schema(tmp_path: Path) -> None:
    """Four different calls must not look the same because they share a schema."""
    read = reading(tmp_path, traps.trap_01_tool_parameters_schema())

    assert read.calls("schema") == [
        ("dim_lights", {"level": level}, "ok", False) for level in (80, 60, 40, 20)
    ]
    assert read.calls("arguments") == [("dim_lights", {"level": 10}, "ok", False)] * 2
    assert read.kinds("schema") == read.kinds("arguments") == {"tool"}
    assert read.findings == ()


def test_trap_02_bare_string_input(tmp_path: Path) -> None:
    """The bare value of a tool's only argument gets its name from the model's call."""
    read = reading(tmp_path, traps.trap_02_bare_string_input())
    forecast = ("get_forecast", {"city": "Oslo"}, "rain", False)
    saved = ("save_forecast", {"city": "Oslo", "text": "rain"}, "saved", False)

    assert read.calls("bare") == [forecast, forecast, forecast, saved]
    assert read.texts("bare") == ["Look 0.", "Look 1.", "Look 2.", "Look 3.", "Done."]
    assert read.kinds("bare") == {"user", "model", "tool"}
    assert {finding.turn_last for finding in read.findings} == {6}


def test_trap_03_openllmetry_wrapped_input(tmp_path: Path) -> None:
    """What a callback adds differs with every step, what the tool was given does not."""
    read = reading(tmp_path, traps.trap_03_openllmetry_wrapped_input())

    assert read.calls("wrapped") == [("count_rows", {"table": "orders"}, "0 rows", False)] * 3
    assert read.kinds("wrapped") == {"tool"}
    assert read.agents("wrapped") == {"helper"}


def test_trap_04_argument_wrappers(tmp_path: Path) -> None:
    """The same call is the same whatever decorator wrapped its arguments."""
    read = reading(tmp_path, traps.trap_04_argument_wrappers())
    booked = ("book_room", {"room": "blue", "day": "monday"}, "booked", False)

    for session in ("traceloop", "langfuse", "smolagents", "llamaindex"):
        assert read.calls(session) == [booked], session
        assert read.kinds(session) == {"tool"}
    assert read.turns["call"].n_unique() == 1


@pytest.mark.parametrize("session", ["gap", "split"])
def test_trap_05_gaps_in_indexes(tmp_path: Path, session: str) -> None:
    """A call behind a gap in the numbers, or in a second message, is still the response's."""
    read = reading(tmp_path, traps.trap_05_gaps_in_indexes())

    assert read.calls(session) == [("find_price", {"sku": "A-17"}, "9 EUR", False)]
    assert read.texts(session) == ["I look it up.", "It costs 9 EUR."]


def test_trap_06_arguments_as_text(tmp_path: Path) -> None:
    """Arguments are compared by what they mean, not by whether they came as text."""
    read = reading(tmp_path, traps.trap_06_arguments_as_text())

    for session in ("text", "object"):
        assert read.calls(session) == [("water_plants", {"bed": 3}, "done", False)] * 2
        assert read.texts(session) == ["Once.", "Twice.", "Watered."]
    assert read.turns.filter(pl.col("kind") == "tool")["call"].n_unique() == 1


def test_trap_07_redacted_errors(tmp_path: Path) -> None:
    """A text that stands in for every error proves no two failures the same."""
    read = reading(tmp_path, traps.trap_07_redacted_errors())
    said = "An error occurred while running the tool. Please try again."
    signatures = {signature for (signature,) in read.of("tool", "redacted", "signature")}

    assert read.calls("redacted") == [
        ("get_rate", {"pair": f"EUR/{currency}"}, said, True)
        for currency in ("USD", "GBP", "JPY", "CHF")
    ]
    assert len(signatures) == 4
    assert read.findings == ()
    assert read.agents("redacted") == {"helper"}
    assert read.kinds("redacted") == {"tool"}


def test_trap_08_adk_without_content(tmp_path: Path) -> None:
    """What is not told stays unknown, and one span that many calls overwrote adds no calls."""
    read = reading(tmp_path, traps.trap_08_adk_without_content())
    errors = read.of("tool", "adk_openinference", "error")

    assert read.calls("adk_native") == [("open_gate", None, None, True)] * 3
    assert read.of("tool", "adk_native", "error", "error_type") == [(None, None)] * 3
    assert read.texts("adk_native") == [None, None, None]
    told = ("open_gate", {"gate": "north"}, "motor is stuck", True)
    assert read.calls("adk_openinference") == [told] * 3
    assert errors == [("motor is stuck",)] * 3
    overwritten = read.of("model", "adk_openinference", "text", "input_tokens")
    assert overwritten == [("The gate stays shut.", 100)]
    assert read.agents("adk_native") == read.agents("adk_openinference") == {"porter"}
    assert {finding.task for finding in read.findings} == {"adk_openinference"}


def test_trap_09_linked_traces_nested_tools(tmp_path: Path) -> None:
    """A run over several traces is one task, and a span within its twin is one call."""
    read = reading(tmp_path, traps.trap_09_linked_traces_nested_tools())
    torn = ("ValueError", "rope is torn")
    linked = next(iter(set(read.turns["session"]) - {"nested"}))

    assert read.turns["task"].n_unique() == 2
    assert read.calls(linked) == [("ring_bell", None, None, True)] * 4
    assert read.calls("nested") == [("ring_bell", {"bell": "east"}, "rope is torn", True)] * 2
    for task, calls in ((linked, 4), ("nested", 2)):
        assert read.of("tool", task, "error_type", "error") == [torn] * calls
        assert read.agents(task) == {"ringer"}
        assert read.kinds(task) == {"tool"}


@pytest.mark.parametrize("session", ["llama_openinference", "llama_openllmetry"])
def test_trap_10_llamaindex_doubles(tmp_path: Path, session: str) -> None:
    """A span that only prepares a response is none, and `task` may be a model."""
    read = reading(tmp_path, traps.trap_10_llamaindex_doubles())

    assert read.calls(session) == [("sweep", {"room": "hall"}, "swept", False)] * 2
    assert read.texts(session) == ["I sweep.", "Again.", "Clean."]


def test_trap_11_no_tool_spans(tmp_path: Path) -> None:
    """Messages alone show calls and how they went; agents' spans alone show nothing."""
    read = reading(tmp_path, traps.trap_11_no_tool_spans())
    station = {"to": "station"}
    busy = ("call_taxi", station, "Error: Busy: no taxi is free", True)

    assert set(read.turns["task"]) == {"sdk@traps"}
    assert read.calls("sdk") == [busy, busy, ("call_taxi", station, "on its way", False)]
    assert read.texts("sdk") == ["Call.", "Call again.", "Once more.", "It comes."]
    assert read.findings == ()


def test_trap_12_openllmetry_langgraph(tmp_path: Path) -> None:
    """Middleware and the making of an agent are no turns, and a workflow takes no hand-off."""
    read = reading(tmp_path, traps.trap_12_openllmetry_langgraph())

    assert set(read.turns["task"]) == {"graph"}
    assert read.calls("graph") == [
        ("cut_hedge", {"side": side}, "cut", False) for side in ("left", "right")
    ]
    assert read.texts("graph") == ["Left.", "Right.", "Neat."]
    assert read.agents("graph") == {"gardener"}
    assert read.kinds("graph") == {"user", "model", "tool"}


def test_trap_13_custom_operations(tmp_path: Path) -> None:
    """Frameworks invent operations; one that nobody knows is neither a turn nor an error."""
    read = reading(tmp_path, traps.trap_13_custom_operations())

    assert read.calls("custom") == [("feed_cat", {"grams": 50}, "eaten", False)] * 2
    assert read.texts("custom") == ["Feed.", "Feed again."]
    assert read.kinds("custom") == {"user", "model", "tool"}


def test_trap_14_parents_first(tmp_path: Path) -> None:
    """Turns come in the order in which they ended, not in the order of the file."""
    read = reading(tmp_path, traps.trap_14_parents_first())

    assert read.calls("early") == [
        ("fetch", {"page": page}, body, False) for page, body in ((1, "a"), (2, "b"), (3, "c"))
    ]
    assert read.texts("early") == ["One.", "Two.", "Three.", "Read."]
    assert [turn for (turn,) in read.of("tool", "early", "turn")] == [2, 4, 6]
    assert read.agents("early") == {"helper"}


@pytest.mark.parametrize("session", ["old", "latest"])
def test_trap_15_content_in_events(tmp_path: Path, session: str) -> None:
    """What stands in span events, of either style, counts like attributes, and only once."""
    read = reading(tmp_path, traps.trap_15_content_in_events())
    failed, worked = read.of(
        "tool", session, "name", "arguments", "failed", "error_type", "error", "result"
    )

    assert failed[:-1] == ("knock", {"door": 4}, True, "RuntimeError", "nobody home")
    assert worked == ("knock", {"door": 4}, False, None, None, "come in")
    assert read.texts(session) == ["Knock.", "Knock again.", "We are in."]
    assert read.agents(session) == {"helper"}
    assert read.kinds(session) == {"user", "model", "tool"}


def test_trap_16_returned_error(tmp_path: Path) -> None:
    """A returned error is a failure though the span's status is silent; a mention is none."""
    read = reading(tmp_path, traps.trap_16_returned_error())
    turns = read.of("tool", "returned", "name", "failed", "error", "result")
    errors = [error for _, _, error, _ in turns]

    assert [turn[:2] for turn in turns] == [("pay", True)] * 3 + [("pay", False)] * 2
    said = zip(errors, ("card declined", "card expired", "no such card"), strict=False)
    assert all(text in error for error, text in said)
    assert errors[3:] == [None, None]
    assert turns[3][3] == "0 errors, 1 payment made"
    assert json.loads(turns[4][3]) == {"error": None, "paid": True}
    assert read.kinds("returned") == {"tool"}
