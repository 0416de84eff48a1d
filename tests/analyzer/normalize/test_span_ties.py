import json

import polars as pl
import pytest

from looptrace.analyzer.fields.span_fields import span_fields_of
from looptrace.analyzer.normalize.span_ties import with_ties
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.files.reader import read_spans

ROW = {
    "trace_id": "1" * 32,
    "span_id": "2" * 16,
    "name": "s",
    "start_ns": 1,
    "end_ns": 2,
    "status": 0,
    "events": "[]",
    "links": "[]",
}
DETAILS = "gen_ai.client.inference.operation.details"
DEEP = "[" * 3_000 + "]" * 3_000


def assert_same_ties(spans: pl.DataFrame) -> None:
    """Assert that the columns say what reading the whole spans says."""
    columns = with_ties(spans).select("session", "task", "task_parent", "linked_traces").rows()
    whole = [(s.session, s.task, s.task_parent, list(s.links)) for s in span_fields_of(spans)]
    assert columns == whole


@pytest.mark.parametrize(
    "source", ["examples/traces", "examples/sessions", "tests/framework_traces"]
)
def test_the_columns_are_what_the_spans_say(source: str) -> None:
    """A trace lies where its turns need it only if both read the same, in every dialect."""
    spans = read_spans([source]).spans
    assert_same_ties(spans)
    assert with_ties(spans)["session"].n_unique() > 1


@pytest.mark.parametrize(
    ("attributes", "events"),
    [
        ({"gen_ai.conversation.id": ""}, []),
        ({"gen_ai.conversation.id": 7, "looptrace.task.id": "a"}, []),
        ({"metadata": '{"session_id": "m"}', "openinference.span.kind": "LLM"}, []),
        ({"metadata": '{"thread_id": ' + DEEP + "}"}, []),
        ({"session.id": "o", "gen_ai.conversation.id": "g"}, []),
        ({"langfuse.session.id": "l", "langfuse.observation.type": "tool", "session.id": "o"}, []),
        (
            {"looptrace.task.id": "b", "looptrace.task.parent_id": "a", "x": {"y": [1, None]}},
            [{"name": DETAILS, "time_ns": 1, "attributes": {"gen_ai.conversation.id": "e"}}],
        ),
    ],
)
def test_what_is_odd_is_read_alike(attributes: object, events: object) -> None:
    """Wherever the ids stand, and whatever they are instead of texts."""
    links = [{"trace_id": "3" * 32, "span_id": "4" * 16}]
    rows = [
        ROW | {"attributes": json.dumps(attributes), "events": json.dumps(events)},
        ROW | {"attributes": json.dumps(attributes), "links": json.dumps(links)},
    ]
    assert_same_ties(pl.DataFrame(rows, SPAN_SCHEMA))
