"""Whether a span failed, where its status does not say so."""

import json
from typing import Any

import pytest

from looptrace.analyzer.schema.spans import STATUS_ERROR, STATUS_OK
from tests.fields import fields_of

RAISED = {"name": "exception", "attributes": {"exception.message": "timeout"}}
LOGGED = {"name": "gen_ai.execute_tool.exception", "attributes": {}}
OTHER = {"name": "retry", "attributes": {}}


@pytest.mark.parametrize(
    ("status", "result", "events", "failed"),
    [
        (0, None, [RAISED], True),  # Quarkus sets no status.
        (0, None, [LOGGED], True),
        (0, None, [OTHER, RAISED], True),
        (STATUS_ERROR, None, [], True),
        (STATUS_ERROR, "9 passed", [], True),
        (0, "9 passed", [RAISED], None),  # It was caught, and a further try worked.
        (0, None, [RAISED, OTHER], None),
        (STATUS_OK, None, [RAISED], False),
        (0, None, [OTHER], None),
        (0, None, [], None),
    ],
)
def test_an_exception_without_status_and_result_is_a_failure(
    status: int, result: str | None, events: list[dict[str, Any]], failed: bool | None
) -> None:
    """A failure that is read as a success hides a loop, and the other way invents one."""
    called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": result}
    told = json.dumps([{**event, "time_ns": 1} for event in events])
    assert fields_of(called, told, status).failed is failed


@pytest.mark.parametrize("length", [60, 90, 200])
def test_parts_of_a_text_that_was_cut_off_are_read(length: int) -> None:
    """Gemini CLI writes how a call ended into JSON, of which an SDK may keep the beginning."""
    ended = {"status": "error", "response": {"error": {"message": "2 labels are missing" * 9}}}
    called = {
        "gen_ai.operation.name": "tool_call",
        "gen_ai.tool.name": "check_labels",
        "gen_ai.output.messages": json.dumps(ended)[:length],
    }
    fields = fields_of(called)
    assert fields.failed
    assert fields.error is not None
    assert fields.error.startswith("2 lab")
