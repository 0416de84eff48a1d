"""Exports of tracing systems and agents: the loop is found in each, a run that works is silent."""

from __future__ import annotations

import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import read_spans
from tests.collector.conftest import Write
from tests.collector.importers.exports import EXPORTS, text_of


@pytest.mark.parametrize("name", EXPORTS)
def test_the_loop_is_found(name: str, write: Write) -> None:
    """Five equal calls fail, as the export of each system has them."""
    read = read_spans([write("export", text_of(name, "loop"))])
    assert read.skipped == ()
    analysis = analyse(read.spans)
    found = {finding.rule for finding in analysis.findings}
    assert {"repeated_call"} <= found
    assert {
        finding.attempts for finding in analysis.findings if finding.rule == "repeated_call"
    } == {5}


@pytest.mark.parametrize("name", EXPORTS)
def test_a_run_that_works_is_silent(name: str, write: Write) -> None:
    """All of its six calls are read, and no rule fires."""
    read = read_spans([write("export", text_of(name, "ok"))])
    analysis = analyse(read.spans)
    assert (read.skipped, analysis.findings) == ((), ())
    assert analysis.turns.filter(kind="tool").height == 6
