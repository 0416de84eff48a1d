"""Histories of Temporal's workflows, as `temporal workflow show --output json` prints them.

An activity is a call of an agent, or a request to a model: then it gives messages and returns some
(the plug-in for OpenAI's agents; temporalio/sdk-python@3a464f9 tests/contrib/openai_agents/
histories). The events are those of temporalio/api@f53963d temporal/api/history/v1/message.proto.
Payloads stand as values, or in base64 with their encoding.
"""

from base64 import b64decode
from typing import Any

from looptrace import semconv
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.rows.messages import answer_of, messages_of
from looptrace.collector.importers.spans import (
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)
from looptrace.collector.otlp.span_rows import BadSpanError, DecodedSpans

_ATTRIBUTES = "EventAttributes"
_STARTED = "workflowExecutionStarted"
_SCHEDULED = "activityTaskScheduled"
_COMPLETED = "activityTaskCompleted"
_FAILED = ("activityTaskFailed", "activityTaskTimedOut", "activityTaskCanceled")
_PLAIN = ("json/", "")


class TemporalReader:
    """The reader of the events of histories, one history after the other."""

    def __init__(self) -> None:
        self._workflow: dict[str, Any] = {}
        self._activities: dict[str, tuple[int, dict[str, Any]]] = {}  # by the event

    def read(self, record: dict[str, Any], _where: str) -> DecodedSpans:
        """Return the row of an activity that an event ends. Raises one of RECORD_ERRORS."""
        held = next((name for name in record if name.endswith(_ATTRIBUTES)), None)
        if held is None:
            return DecodedSpans()
        kind, told = held.removesuffix(_ATTRIBUTES), mapping(record[held])
        at_ns = time_ns(record["eventTime"])
        if kind == _STARTED:
            rows = self.rest()
            self._workflow = told
            return DecodedSpans(rows)
        if kind == _SCHEDULED:
            self._activities[str(record["eventId"])] = at_ns, told
        elif kind == _COMPLETED or kind in _FAILED:
            start_ns, scheduled = self._activities.pop(str(told["scheduledEventId"]))
            return DecodedSpans([self._row(scheduled, told, start_ns, at_ns, kind != _COMPLETED)])
        return DecodedSpans()

    def rest(self) -> list[SpanRow]:
        """Return the rows of activities that have not ended."""
        left = [self._row(told, {}, at_ns, 0, None) for at_ns, told in self._activities.values()]
        self._activities = {}
        return left

    def _row(
        self,
        scheduled: dict[str, Any],
        ended: dict[str, Any],
        start_ns: int,
        end_ns: int,
        failed: bool | None,
    ) -> SpanRow:
        workflow = self._workflow.get("workflowId")
        run = self._workflow.get("originalExecutionRunId") or workflow or "workflow"
        agent = mapping(self._workflow.get("workflowType")).get("name")
        name = mapping(scheduled["activityType"])["name"]
        given = _values(scheduled.get("input"))
        answer = _values(ended.get("result"))
        one = given[0] if len(given) == 1 else given or None
        result = answer[0] if answer else None
        failure = _message(mapping(ended.get("failure")))
        asked = messages_of(one) if isinstance(parsed(one), dict) else []
        is_model = bool(asked) and all(not {"role", "type"}.isdisjoint(each) for each in asked)
        return foreign_row(
            trace=run,
            span=f"{run} {scheduled['activityId']}",
            parent=None,
            name=name,
            start_ns=start_ns,
            end_ns=end_ns,
            failed=failed or None,
            error=failure or None,
            service="temporal",
            scope="temporal",
            attributes={
                semconv.GEN_AI_AGENT_NAME: agent,
                **session_attributes(workflow),
                **(_response(one, asked, result) if is_model else _call(name, one, result)),
            },
        )


def _call(name: object, given: Any, result: Any) -> dict[str, Any]:
    return {
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
        semconv.GEN_AI_TOOL_NAME: name,
        semconv.GEN_AI_TOOL_CALL_ARGUMENTS: text_of(given),
        semconv.GEN_AI_TOOL_CALL_RESULT: text_of(result),
    }


def _response(given: Any, asked: list[dict[str, Any]], result: Any) -> dict[str, Any]:
    said, usage = answer_of(result), mapping(mapping(result).get("usage"))
    request = mapping(given)
    return {
        semconv.GEN_AI_OPERATION_NAME: "chat",
        semconv.GEN_AI_REQUEST_MODEL: request.get("model_name") or request.get("model"),
        semconv.GEN_AI_INPUT_MESSAGES: text_of(asked),
        semconv.GEN_AI_OUTPUT_MESSAGES: text_of(said) if said else None,
        semconv.GEN_AI_USAGE_INPUT_TOKENS: usage.get("input_tokens"),
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: usage.get("output_tokens"),
    }


def _values(payloads: Any) -> list[Any]:
    """Return the values of payloads. Raises BadSpanError for those that a codec has made."""
    if isinstance(payloads, list):
        return payloads
    return [_value(payload) for payload in mapping(payloads).get("payloads") or ()]


def _value(payload: dict[str, Any]) -> Any:
    encoding = b64decode(str(mapping(payload.get("metadata")).get("encoding") or "")).decode()
    if encoding == "binary/null":
        return None
    if not encoding.startswith(_PLAIN):
        raise BadSpanError(f"its payloads are {encoding}; export it with `--codec-endpoint`")
    return parsed(b64decode(str(payload.get("data") or "")).decode())


def _message(failure: dict[str, Any]) -> str:
    """Return the message of a failure: that of its first cause, which the others wrap."""
    while cause := mapping(failure.get("cause")):
        failure = cause
    return str(failure.get("message") or "")
