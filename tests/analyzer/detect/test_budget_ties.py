"""Two agents in two services spend one budget, if their trace or the id of a session ties them."""

from __future__ import annotations

from pathlib import Path

import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.settings.given import settings_of
from looptrace.collector.files.reader import read_spans
from tests.otlp import Attributes, Trace

POLICY = settings_of({"budgets": {"session_tokens": 10_000}}).policy
CONVERSATION = "gen_ai.conversation.id"
# What a processor copies from the baggage that came with the request.
CARRIED = "session.id"
REQUEST: Attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 1_000,
}


def spending(trace: Trace, agent: Attributes, parent: str | None = None) -> tuple[str, str]:
    """Let an agent spend 6,000 tokens; return the id of its span, and its trace as lines."""
    root = trace.span("agent", parent, {"gen_ai.operation.name": "invoke_agent", **agent})
    for _ in range(6):
        trace.span("chat m", root, REQUEST)
    return root, trace.lines()


@pytest.mark.parametrize(
    ("first", "second", "shared", "is_one"),
    [
        ({}, {}, True, True),
        ({CONVERSATION: "trip"}, {}, True, True),
        ({CARRIED: "trip"}, {CARRIED: "trip"}, False, True),
        ({CONVERSATION: "trip"}, {CONVERSATION: "other"}, True, False),
        ({}, {}, False, False),
    ],
)
def test_a_budget_is_shared_by_the_trace_or_the_session(
    first: Attributes, second: Attributes, shared: bool, is_one: bool, tmp_path: Path
) -> None:
    """Neither service alone reaches the limit; with sessions of their own they are two budgets."""
    plan = Trace("plan", session_key=None, service="plan")
    search = Trace("search", session_key=None, service="search", at="2026-03-02T09:01:00+00:00")
    root, written = spending(plan, first)
    _, others = spending(search, second, root if shared else None)
    written += others.replace(search.trace_id, plan.trace_id) if shared else others
    path = tmp_path / "spans.jsonl"
    path.write_text(written, encoding="utf-8")
    read = read_spans([str(path)])

    found = {finding.rule for finding in analyse(read.spans, read.skipped, POLICY).findings}
    assert ("session_tokens_budget" in found) is is_one
