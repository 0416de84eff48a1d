"""The forms of records that tracing systems export and agents log, in the order of their tests.

Their modules are many, and a source of OTLP needs none: `documents` imports this one where a record
is something else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.coding_agents import (
    atif,
    claude_code,
    claude_stream,
    codex,
    codex_events,
    copilot_cli,
    cursor_cli,
    gemini_cli,
    kimi_cli,
    openhands,
    swe_agent,
)
from looptrace.collector.importers import (
    any_agent,
    braintrust,
    jaeger,
    langfuse,
    langsmith,
    mlflow,
    phoenix,
    tempo,
    weave,
    zipkin,
)
from looptrace.collector.importers.console import printed
from looptrace.collector.importers.platforms import (
    azure_monitor,
    cloud_trace,
    cloudwatch,
    elastic,
    honeycomb,
    logs,
    opensearch,
    xray,
)
from looptrace.collector.importers.platforms.spans_and_logs import reader_of
from looptrace.collector.importers.records import (
    NO_NESTING,
    IsRecord,
    Nesting,
    Reader,
    RecordReader,
    spans_of,
)
from looptrace.collector.importers.rows.field_maps import FieldMap, UnreadForm, field_maps
from looptrace.collector.importers.rows.requests import RequestReader
from looptrace.collector.importers.services import (
    ai_devtools,
    assistants,
    clickhouse,
    conversations,
    datadog,
    inspect_logs,
    openai_agents,
    opencode,
    opik,
    posthog,
    temporal,
)
from looptrace.collector.otlp.span_rows import DecodedSpans, Problem


class Log(Protocol):
    """The state of reading one log of an agent."""

    def read(self, line: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that a line completes. Raises BadSpanError."""

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the log completes."""


@dataclass(frozen=True, slots=True)
class RecordForm:
    """A form of records: the name of one, the test of its fields, its reader, those within it."""

    name: str
    is_record: IsRecord
    reader: Callable[[], Reader]
    nesting: Nesting | None = None  # None: a record holds no others
    is_exact: bool = False  # Its fields tell it from all others, also within one source.
    is_fragment: IsRecord = lambda _names: False  # A record of these fields is a part of one.


class _LogReader:
    """The reader of the lines of an agent's log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def read(self, record: dict[str, Any], _where: str) -> DecodedSpans:
        return DecodedSpans(self._log.read(record))

    def rest(self) -> list[SpanRow]:
        return self._log.rest()


def _log(make: Callable[[], Log]) -> Callable[[], Reader]:
    return lambda: _LogReader(make())


class _UnreadReader:
    """The reader of records that cannot be read, which says what to do."""

    def __init__(self, form: UnreadForm) -> None:
        self._form = form

    def read(self, _record: dict[str, Any], where: str) -> DecodedSpans:
        return DecodedSpans(problems=[Problem(where, self._form.why, foreign=True)])

    def rest(self) -> list[SpanRow]:
        return []


def _mapped(form: FieldMap) -> RecordForm:
    """Return the form of a row of `rows/forms.toml`."""
    trace, span, parent = form.nesting or ("", "", "")
    nesting = Nesting(trace, span, parent) if form.nesting else None
    reader = partial(RequestReader, form) if form.is_linked else spans_of(form.row_of)
    return RecordForm(form.name, form.is_record, reader, nesting, is_exact=True)


def _unread(form: UnreadForm) -> RecordForm:
    return RecordForm(form.name, form.is_record, partial(_UnreadReader, form), is_exact=True)


_MAPS, _UNREAD = field_maps()
# Forms are tried in this order.
FORMS = (
    RecordForm("line of a session log", claude_code.is_line, _log(claude_code.ClaudeCodeLog)),
    RecordForm("line of a session log", codex.is_line, _log(codex.CodexLog)),
    RecordForm("event of a stream", cursor_cli.is_line, _log(cursor_cli.CursorStream)),
    RecordForm("event of a stream", claude_stream.is_line, _log(claude_stream.ClaudeStream)),
    RecordForm("event of a stream", codex_events.is_line, _log(codex_events.CodexEvents)),
    RecordForm("event of a session", copilot_cli.is_line, _log(copilot_cli.CopilotSession)),
    RecordForm("line of a session log", kimi_cli.is_line, _log(kimi_cli.KimiSession)),
    RecordForm("chat of Gemini CLI", gemini_cli.is_chat, _log(gemini_cli.GeminiChat)),
    RecordForm("session of opencode", opencode.is_session, _log(opencode.OpencodeSession)),
    RecordForm("trajectory", swe_agent.is_trajectory, _log(swe_agent.Trajectory)),
    RecordForm("trajectory", atif.is_trajectory, _log(atif.AtifTrajectory)),
    RecordForm("event of OpenHands", openhands.is_event, _log(openhands.OpenHandsEvents)),
    RecordForm("trace of Tempo", tempo.is_record, tempo.TempoReader),
    RecordForm(
        "trace of Jaeger",
        jaeger.is_record,
        lambda: RecordReader(jaeger.parts),
        Nesting(lists=("spans",)),
    ),
    RecordForm(
        "span of the OpenAI Agents SDK", openai_agents.is_record, openai_agents.OpenAIAgentsReader
    ),
    RecordForm("trace of any-agent", any_agent.is_record, lambda: RecordReader(any_agent.parts)),
    RecordForm(
        "trace of MLflow",
        mlflow.is_record,
        lambda: RecordReader(mlflow.parts),
        Nesting(lists=("spans",)),
    ),
    *map(_mapped, _MAPS),
    RecordForm("event of Temporal", temporal.is_record, temporal.TemporalReader),
    RecordForm(
        "step of an assistant", assistants.is_record, lambda: RecordReader(assistants.parts)
    ),
    RecordForm("log of Inspect", inspect_logs.is_record, inspect_logs.InspectReader),
    RecordForm("event of PostHog", posthog.is_record, spans_of(posthog.row_of), NO_NESTING),
    RecordForm("span of Datadog", datadog.is_record, spans_of(datadog.row_of), NO_NESTING),
    RecordForm("event of Datadog", datadog.is_event, datadog.DatadogEventReader, NO_NESTING),
    RecordForm("row of ClickHouse", clickhouse.is_record, spans_of(clickhouse.row_of), NO_NESTING),
    RecordForm("document of OpenSearch", opensearch.is_record, spans_of(opensearch.row_of)),
    RecordForm("document of Elastic", elastic.is_record, reader_of(elastic.told_by)),
    RecordForm("row of Azure Monitor", azure_monitor.is_record, azure_monitor.AzureReader),
    RecordForm("event of CloudWatch", cloudwatch.is_record, cloudwatch.CloudWatchReader),
    RecordForm("log record", logs.is_record, logs.LogReader),
    RecordForm("event of Honeycomb", honeycomb.is_record, reader_of(honeycomb.told_by)),
    RecordForm(
        "trace of Cloud Trace", cloud_trace.is_record, lambda: RecordReader(cloud_trace.parts)
    ),
    RecordForm(
        "file of AI SDK's devtools", ai_devtools.is_record, lambda: RecordReader(ai_devtools.parts)
    ),
    RecordForm(
        "span of Opik",
        opik.is_record,
        lambda: RecordReader(opik.parts),
        Nesting("trace_id", "id", "parent_span_id", lists=("spans",)),
    ),
    RecordForm(
        "record of Langfuse",
        langfuse.is_record,
        lambda: RecordReader(langfuse.parts),
        langfuse.NESTING,
    ),
    RecordForm("span of Phoenix", phoenix.is_record, spans_of(phoenix.row_of), NO_NESTING),
    RecordForm(
        "run of LangSmith", langsmith.is_record, spans_of(langsmith.row_of), langsmith.NESTING
    ),
    RecordForm(
        "call of Weave",
        weave.is_record,
        spans_of(weave.row_of),
        Nesting("trace_id", "id", "parent_id"),
    ),
    RecordForm("span of Braintrust", braintrust.is_record, spans_of(braintrust.row_of), NO_NESTING),
    RecordForm("trace of X-Ray", xray.is_record, lambda: RecordReader(xray.parts)),
    *map(_unread, _UNREAD),
    RecordForm("printed record", printed.is_record, printed.PrintedReader, NO_NESTING),
    RecordForm("span of Zipkin", zipkin.is_record, spans_of(zipkin.row_of), NO_NESTING),
    RecordForm(
        "conversation",
        conversations.is_record,
        conversations.ConversationReader,
        is_fragment=conversations.is_message,
    ),
)


def form_of(names: Collection[str]) -> RecordForm | None:
    """Return the form of a record by the names of its fields; None where it is unknown."""
    return next((form for form in FORMS if form.is_record(names)), None)
