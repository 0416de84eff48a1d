"""What SDKs write without OpenTelemetry, exports of services: loops, tokens, sessions."""

from __future__ import annotations

import json

import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import SpansRead, read_spans
from tests.collector.conftest import Write
from tests.collector.importers import platform_exports, service_exports
from tests.collector.importers.exported_run import SESSION, silent_analysis, spans

EXPORTS = {write.__name__: write for write in (*service_exports.WRITERS, *platform_exports.WRITERS)}
IN_LINES = service_exports.IN_LINES | platform_exports.IN_LINES
PLATFORMS = {write.__name__ for write in platform_exports.WRITERS}
# Conversations have no session, and only Cline keeps the tokens of its responses.
WITHOUT_SESSION = {
    *("chat", "chat_lines", "chat_functions", "cline", "gemini_contents", "goose"),
    *("inspect_log", "responses", "tau_bench"),
}
WITHOUT_TOKENS = (
    WITHOUT_SESSION - {"cline"} | {"clickhouse"} | PLATFORMS - platform_exports.WITH_TOKENS
)


def exported(name: str, end: str, write: Write) -> SpansRead:
    """Read the export of a run."""
    made = EXPORTS[name](spans(end))
    if isinstance(made, str):
        return read_spans([write("export", made.encode())])
    lines = "".join(json.dumps(line) + "\n" for line in made) if name in IN_LINES else ""
    return read_spans([write("export", (lines or json.dumps(made)).encode())])


@pytest.mark.parametrize("name", EXPORTS)
def test_the_loop_is_found(name: str, write: Write) -> None:
    """Five equal calls fail, and each is counted once."""
    read = exported(name, "loop", write)
    assert read.skipped == ()
    analysis = analyse(read.spans)
    found = {finding.rule: finding.attempts for finding in analysis.findings}
    assert found.get("repeated_call") == 5
    tools = analysis.turns.filter(kind="tool")
    assert tools["name"].to_list() == ["check_labels"] * 5
    assert tools["failed"].all()


@pytest.mark.parametrize("name", EXPORTS)
def test_a_run_that_works_is_silent(name: str, write: Write) -> None:
    """All of its six calls and their outcomes are read, and no rule fires."""
    silent_analysis(exported(name, "ok", write))


@pytest.mark.parametrize("name", EXPORTS)
def test_tokens_count_once_and_the_session_is_read(name: str, write: Write) -> None:
    """Each response has its tokens, and a run above it adds none."""
    turns = analyse(exported(name, "loop", write).spans).turns
    models = turns.filter(kind="model")
    if name not in WITHOUT_TOKENS:
        assert models["input_tokens"].to_list() == [80] * models.height
        assert models["output_tokens"].to_list() == [12] * models.height
    is_told = set(turns["session"]) == {SESSION}
    assert is_told == (name not in WITHOUT_SESSION)


def test_a_message_of_no_form_is_reported(write: Write) -> None:
    """What stands between messages is told, and the messages are read."""
    lines = [
        {"role": "user", "content": "Get it ready."},
        {"title": "a note"},
        {"role": "assistant", "content": "Done."},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    read = read_spans([write("export", text.encode())])
    assert len(read.skipped) == 1
    assert "left out" in read.skipped[0].why
    assert read.spans.height == 1


def test_texts_of_powershell_are_read(write: Write) -> None:
    """A shell of Windows writes what a command prints in UTF-16."""
    text = json.dumps(EXPORTS["opik"](spans("loop")))
    plain = read_spans([write("plain", text.encode())]).spans
    assert read_spans([write("utf16", text.encode("utf-16"))]).spans.equals(plain)
