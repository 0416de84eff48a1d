"""The other endpoints hear of one that is disabled, as nobody reads the log at night."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from looptrace.analyzer.settings.webhook import FORMATS
from looptrace.collector.store.gate_file.endpoint_events import EndpointEvent, PromiseEvent
from looptrace.collector.store.gates import GateStore
from looptrace.collector.webhooks.formats import BODY_BYTES_MAX, body_of
from looptrace.collector.webhooks.gate_texts import Telling
from looptrace.collector.webhooks.retry_policy import EndpointResponse
from tests.collector.store.test_outbox import HOOK, event, recorded
from tests.collector.webhooks.test_attempts import Endpoint

GONE = EndpointResponse(410, "it answered 410")
SECOND = replace(HOOK, name="second", format="standard", secrets=("env:A",), rules=("chant",))
LEAD = replace(SECOND, name="lead", escalations_only=True)


def test_others_hear_that_one_is_disabled_and_enabled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They hear of it whatever their filters are; agents and exports do not."""
    path = tmp_path / "gates.db"
    recorded(path, event(1), event(2), hooks=(HOOK, SECOND))
    endpoint = Endpoint(path, HOOK, SECOND, LEAD)
    endpoint.answer = GONE
    with caplog.at_level(logging.ERROR):
        endpoint.sends()
    assert "webhook 'all' is disabled: it answered 410 Gone" in caplog.text
    assert endpoint.outbox.next("lead") is None
    other = Endpoint(path, SECOND)
    other.now_ns = endpoint.now_ns
    other.sends()
    (sent,) = other.sent
    body = json.loads(sent.body)
    assert body["type"] == "looptrace.endpoint.disabled"
    assert body["data"] == {
        "id": sent.headers["webhook-id"],
        "endpoint": "all",
        "reason": "it answered 410 Gone",
        "events_waiting": 2,
    }
    with GateStore.open(path) as gates:
        assert [each.id for _, each in gates.events()] == [event(1).id, event(2).id]
    for _ in range(2):  # The second time it was enabled already.
        assert endpoint.outbox.enable("all", other.now_ns + 1, (HOOK, SECOND, LEAD))
    other.now_ns += 1
    other.sends()
    assert [json.loads(each.body)["type"] for each in other.sent[1:]] == [
        "looptrace.endpoint.enabled"
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_has_a_body_for_both(form: str) -> None:
    """A receiver that keeps states closes what it opened."""
    off = EndpointEvent("1", "endpoint_disabled", "pager", 1, "it answered 410 Gone", 3)
    on = replace(off, type="endpoint_enabled", reason="a person enabled it")
    bodies = [body_of(form, each, Telling(key="k"))[0] for each in (off, on)]  # type: ignore[arg-type]
    assert all(len(body) < BODY_BYTES_MAX for body in bodies)
    first, second = map(json.loads, bodies)
    if form == "pagerduty":
        assert (first["event_action"], second["event_action"]) == ("trigger", "resolve")
        assert first["dedup_key"] == second["dedup_key"]
    elif form == "alertmanager":
        assert (first["status"], second["status"]) == ("firing", "resolved")
        assert first["alerts"][0]["labels"] == second["alerts"][0]["labels"]
    else:
        assert b"pager" in bodies[0]
        assert b"410 Gone" in bodies[0]
        assert bodies[0] != bodies[1]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_has_a_body_for_a_promise(form: str) -> None:
    """It names the rule, the turns that it is for, and why."""
    event = PromiseEvent(
        "1", "promise_withdrawn", "no_news", {"model": "m-1"}, 1, "2 of <3> had gone beyond it"
    )
    body, _ = body_of(form, event, Telling(key="k"))  # type: ignore[arg-type]
    assert len(body) < BODY_BYTES_MAX
    assert b"had gone beyond it" in body
    text = json.loads(body)
    if form == "pagerduty":
        assert text["dedup_key"] == "looptrace promise no_news m-1"
    elif form == "alertmanager":
        labels = {"alertname": "LooptracePromise", "promise": "no_news m-1"}
        assert text["alerts"][0]["labels"] == labels
    elif form in ("standard", "cloudevents"):
        assert text["type"] == "looptrace.promise.withdrawn"
        assert text["data"]["turns"] == {"model": "m-1"}
