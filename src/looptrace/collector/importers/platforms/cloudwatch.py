"""Events of CloudWatch Logs whose messages are spans or log records, as those of AgentCore are.

Spans are in the log group `aws/spans`, a span of OTLP each; what agents log is in their own group
(docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-Transaction-Search.html); Bedrock
logs requests to models. Events are those of `aws logs filter-log-events` and `get-log-events`, or
results of Logs Insights.
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.console import printed
from looptrace.collector.importers.records import RECORD_ERRORS, wrong
from looptrace.collector.importers.rows.requests import LoggedReader
from looptrace.collector.otlp.json import MEND
from looptrace.collector.otlp.span_rows import DecodedSpans, Problem

_MESSAGE = "@message"


class CloudWatchReader:
    """The reader of events and results; other messages are no spans, and say nothing."""

    def __init__(self) -> None:
        self._logged = LoggedReader()

    def read(self, record: dict[str, Any], where: str) -> DecodedSpans:
        """Return the rows of the messages of a record. Raises one of RECORD_ERRORS."""
        if "results" not in record:
            return self._message(record["message"], where)
        out = DecodedSpans()
        for index, result in enumerate(record["results"]):
            message = next((each["value"] for each in result if each["field"] == _MESSAGE), None)
            try:
                read = self._message(message, where)
            except RECORD_ERRORS as error:
                why = f"results[{index}] was left out: {wrong(error)}; {MEND}"
                out.problems.append(Problem(where, why))
                continue
            out.rows.extend(read.rows)
            out.problems.extend(read.problems)
        return out

    def _message(self, message: object, where: str) -> DecodedSpans:
        held = parsed(message)
        if isinstance(held, dict) and printed.is_record(held):
            return printed.read(held, where)
        return self._logged.read(held, where) if isinstance(held, dict) else DecodedSpans()

    def rest(self) -> list[SpanRow]:
        """Return the rows of requests to models."""
        return self._logged.rest()
