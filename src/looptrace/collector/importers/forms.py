"""The forms of records that tracing systems export and agents log, in the order of their tests.

Their modules are many, and a source of OTLP needs none: `documents` imports this one where a record
is something else.
"""

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
    parts_of,
    rows_by,
    spans_of,
)
from looptrace.collector.importers.rows.field_maps import FieldMap, UnreadForm, field_maps
from looptrace.collector.importers.rows.requests import RequestReader
from looptrace.collector.importers.saved import (
    conversations,
    editor_chats,
    session_lines,
    streams,
)
from looptrace.collector.importers.services import (
    ai_devtools,
    assistants,
    clickhouse,
    datadog,
    flowise,
    hook_inputs,
    inspect_logs,
    n8n,
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


def _having(*groups: set[str]) -> IsRecord:
    """Return the test for fields with all names of one of these groups."""
    return lambda names: any(map(set(names).issuperset, groups))


def _exactly(*names: str) -> IsRecord:
    """Return the test for fields with these names and no others."""
    return lambda given: set(given) == set(names)


def _mapped(form: FieldMap) -> RecordForm:
    """Return the form of a row of `rows/forms.toml`."""
    trace, span, parent = form.nesting or ("", "", "")
    nesting = Nesting(trace, span, parent) if form.nesting else None
    reader = partial(RequestReader, form) if form.is_linked else spans_of(form.row_of)
    return RecordForm(form.name, form.is_record, reader, nesting, is_exact=True)


def _unread(form: UnreadForm) -> RecordForm:
    """Return the form of records that cannot be read, whose reader says what to do."""

    def read(_record: dict[str, Any], where: str) -> DecodedSpans:
        return DecodedSpans(problems=[Problem(where, form.why, foreign=True)])

    return RecordForm(form.name, form.is_record, partial(RecordReader, read), is_exact=True)


_MAPS, _UNREAD = field_maps()
# Forms are tried in this order.
FORMS = (
    RecordForm(
        "input of a hook",
        _having(*({"hook_event_name", session} for session in hook_inputs.SESSIONS)),
        hook_inputs.HookInputsReader,
    ),
    RecordForm(
        "line of a session log",
        session_lines.is_qwen_line,
        partial(session_lines.SessionLines, editor_chats.qwen_messages),
    ),
    RecordForm("line of a session log", claude_code.is_line, _log(claude_code.ClaudeCodeLog)),
    RecordForm(
        "line of a session log",
        # Before 0.32 the first line has no payload.
        _having({"id", "timestamp", "instructions"}, {"timestamp", "type", "payload"}),
        _log(codex.CodexLog),
    ),
    RecordForm("event of a stream", cursor_cli.is_line, _log(cursor_cli.CursorStream)),
    RecordForm("event of a stream", streams.is_line, _log(streams.AgentStream)),
    RecordForm(
        "event of a stream",
        _having({"ts", "type", "hookEventName", "taskId"}, {"ts", "type", "event"}),
        _log(streams.ClineStream),
    ),
    RecordForm(
        "event of a stream",
        _having({"type", "timestamp", "sessionID", "part"}, {"type", "sessionID", "error"}),
        _log(opencode.OpencodeStream),
    ),
    RecordForm(
        "event of a stream",
        _having({"type", "session_id", "message"}, {"type", "session_id", "subtype"}),
        _log(claude_stream.ClaudeStream),
    ),
    RecordForm("event of a stream", _exactly("type", "thread_id"), _log(codex_events.CodexEvents)),
    RecordForm(
        "line of a session log",
        session_lines.is_pi_line,
        partial(session_lines.SessionLines, editor_chats.pi_messages),
    ),
    RecordForm(
        "change of a chat",
        session_lines.is_change,
        partial(session_lines.ChatChanges, editor_chats.copilot_messages),
    ),
    RecordForm(
        "line of a session log",
        _exactly("version", "kind", "data"),
        partial(session_lines.SessionLines, editor_chats.kiro_messages),
    ),
    RecordForm(
        "event of a session",
        _having({"type", "data", "id", "parentId", "timestamp"}),
        _log(copilot_cli.CopilotSession),
    ),
    RecordForm("line of a session log", kimi_cli.is_line, _log(kimi_cli.KimiSession)),
    RecordForm(
        "chat of Gemini CLI",
        _having({"sessionId", "messages", "startTime"}),
        rows_by(gemini_cli.rows_of),
    ),
    RecordForm("line of a session log", gemini_cli.is_line, _log(gemini_cli.GeminiChat)),
    RecordForm("session of opencode", _exactly("info", "messages"), rows_by(opencode.rows_of)),
    RecordForm(
        "trajectory",
        _having({"trajectory", "info"}, {"messages", "info", "trajectory_format"}),
        rows_by(swe_agent.rows_of),
    ),
    RecordForm("trajectory", _having({"schema_version", "agent", "steps"}), rows_by(atif.rows_of)),
    RecordForm(
        "event of OpenHands",
        _having(*({"id", "timestamp", "source", of} for of in ("action", "observation", "kind"))),
        _log(openhands.OpenHandsEvents),
    ),
    RecordForm("trace of Tempo", tempo.is_record, partial(RecordReader, tempo.read)),
    RecordForm(
        "trace of Jaeger",
        _having(
            {"traceID", "spans", "processes"},
            # A span in Elasticsearch.
            {"traceID", "spanID", "operationName", "process"},
            {"traceId", "spanId", "operationName", "startTime"},
        ),
        parts_of(jaeger.parts),
        Nesting(lists=("spans",)),
    ),
    RecordForm(
        "span of the OpenAI Agents SDK",
        _having({"object", "span_data"}, {"object", "workflow_name"}),
        openai_agents.OpenAIAgentsReader,
    ),
    RecordForm("trace of any-agent", _having({"spans", "final_output"}), parts_of(any_agent.parts)),
    RecordForm(
        "trace of MLflow",
        _having({"info", "data"}, {"trace", "spans", "trace_metadata"}),
        parts_of(mlflow.parts),
        Nesting(lists=("spans",)),
    ),
    *map(_mapped, _MAPS),
    RecordForm(
        "event of Temporal",
        _having({"eventId", "eventTime", "eventType"}),
        temporal.TemporalReader,
    ),
    RecordForm(
        "step of an assistant",
        _having({"run_id", "thread_id", "step_details"}),
        parts_of(assistants.parts),
    ),
    RecordForm(
        "execution of n8n",
        _having({"data", "mode", "startedAt"}),
        parts_of(n8n.parts),
        NO_NESTING,
    ),
    RecordForm(
        "execution of Flowise",
        _having({"executionData", "agentflowId", "sessionId"}),
        parts_of(flowise.parts),
    ),
    RecordForm(
        "log of Inspect",
        _having({"eval", "samples"}, {"epoch", "messages", "target"}),
        rows_by(inspect_logs.rows_of),
    ),
    RecordForm(
        "event of PostHog",
        _having({"event", "properties", "timestamp"}),
        spans_of(posthog.row_of),
        NO_NESTING,
    ),
    RecordForm(
        "span of Datadog",
        _having({"span_id", "trace_id", "start_ns", "duration", "meta"}),
        spans_of(datadog.row_of),
        NO_NESTING,
    ),
    RecordForm(
        "event of Datadog",
        _exactly("id", "type", "attributes"),
        partial(RecordReader, datadog.read_event),
        NO_NESTING,
    ),
    RecordForm(
        "row of ClickHouse",
        _having({"TraceId", "SpanId", "SpanName", "SpanAttributes", "Duration"}),
        spans_of(clickhouse.row_of),
        NO_NESTING,
    ),
    RecordForm(
        "document of OpenSearch",
        _having({"traceId", "spanId", "durationInNanos", "startTime"}),
        spans_of(opensearch.row_of),
    ),
    RecordForm("document of Elastic", elastic.is_record, reader_of(elastic.told_by)),
    RecordForm(
        "row of Azure Monitor", azure_monitor.is_record, partial(RecordReader, azure_monitor.read)
    ),
    RecordForm(
        "event of CloudWatch",
        _having({"message", "ingestionTime"}, {"results", "statistics"}),
        cloudwatch.CloudWatchReader,
    ),
    RecordForm(
        "log record",
        _having(
            {"stream", "values"},
            {"labels", "line", "timestamp"},
            {"fields", "line", "timestamp"},
            {"Timestamp", "Body", "LogAttributes"},
        ),
        partial(RecordReader, logs.read),
    ),
    RecordForm(
        "event of Honeycomb", _having({"trace.trace_id", "name"}), reader_of(honeycomb.told_by)
    ),
    RecordForm(
        "trace of Cloud Trace",
        _having({"projectId", "traceId", "spans"}, {"name", "spanId", "displayName", "startTime"}),
        parts_of(cloud_trace.parts),
    ),
    RecordForm(
        "file of AI SDK's devtools", _having({"runs", "steps"}), parts_of(ai_devtools.parts)
    ),
    RecordForm(
        "span of Opik",
        opik.is_record,
        parts_of(opik.parts),
        Nesting("trace_id", "id", "parent_span_id", lists=("spans",)),
    ),
    RecordForm(
        "record of Langfuse", langfuse.is_record, parts_of(langfuse.parts), langfuse.NESTING
    ),
    RecordForm("span of Phoenix", phoenix.is_record, spans_of(phoenix.row_of), NO_NESTING),
    RecordForm(
        "run of LangSmith",
        _having({"id", "run_type", "start_time"}),
        spans_of(langsmith.row_of),
        langsmith.NESTING,
    ),
    RecordForm(
        "call of Weave",
        _having({"op_name", "trace_id", "started_at"}),
        spans_of(weave.row_of),
        Nesting("trace_id", "id", "parent_id"),
    ),
    RecordForm(
        "span of Braintrust",
        _having({"span_id", "root_span_id"}),
        spans_of(braintrust.row_of),
        NO_NESTING,
    ),
    RecordForm(
        "trace of X-Ray",
        _having({"Id", "Segments"}, {"id", "name", "trace_id", "start_time"}),
        parts_of(xray.parts),
    ),
    *map(_unread, _UNREAD),
    RecordForm(
        "printed record", printed.is_record, partial(RecordReader, printed.read), NO_NESTING
    ),
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
