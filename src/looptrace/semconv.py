"""The names of attributes that looptrace reads and writes, each once; this module imports nothing.

OpenTelemetry's package of conventions marks those for generative AI as unstable, and the analyzer
does not need OpenTelemetry. Names that only one framework writes are in the table of
`analyzer.fields.dialect_table`.
"""

# OpenTelemetry's conventions for generative AI, and for errors.
GEN_AI_OPERATION_NAME = "gen_ai.operation.name"
GEN_AI_CONVERSATION_ID = "gen_ai.conversation.id"
GEN_AI_AGENT_NAME = "gen_ai.agent.name"
GEN_AI_REQUEST_MODEL = "gen_ai.request.model"
GEN_AI_INPUT_MESSAGES = "gen_ai.input.messages"
GEN_AI_OUTPUT_MESSAGES = "gen_ai.output.messages"
GEN_AI_RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
GEN_AI_CONVERSATION_COMPACTED = "gen_ai.conversation.compacted"
MCP_SESSION_ID = "mcp.session.id"
GEN_AI_USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS = "gen_ai.usage.cache_write.input_tokens"
GEN_AI_USAGE_REASONING_OUTPUT_TOKENS = "gen_ai.usage.reasoning.output_tokens"
GEN_AI_TOOL_NAME = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID = "gen_ai.tool.call.id"
GEN_AI_TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
GEN_AI_TOOL_CALL_RESULT = "gen_ai.tool.call.result"
GEN_AI_EVALUATION_RESULT = "gen_ai.evaluation.result"
GEN_AI_EVALUATION_NAME = "gen_ai.evaluation.name"
GEN_AI_EVALUATION_SCORE_LABEL = "gen_ai.evaluation.score.label"
GEN_AI_EVALUATION_SCORE_VALUE = "gen_ai.evaluation.score.value"
GEN_AI_EVALUATION_EXPLANATION = "gen_ai.evaluation.explanation"
ERROR_TYPE = "error.type"
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"
EXCEPTION_STACKTRACE = "exception.stacktrace"
SESSION_ID = "session.id"
USER_ID = "user.id"
OPENAI_RESPONSE_SERVICE_TIER = "openai.response.service_tier"  # also of other services
SERVICE_VERSION = "service.version"

# looptrace's own attributes: the records of an agent's author.
TASK_ID = "looptrace.task.id"
TASK_PARENT_ID = "looptrace.task.parent_id"
TASK_KIND = "looptrace.task.kind"
TASK_STATUS = "looptrace.task.status"
TASK_OUTCOME = "looptrace.task.outcome"  # whether the run was solved, in the author's words
PHASE = "looptrace.phase"
PHASE_START_NS = "looptrace.phase.start_ns"  # of the span that declares the value, on a copy of it
ITERATION = "looptrace.iteration"
PAYER = "looptrace.payer"  # the session from whose budget all is paid; an entry of the baggage
BLOCKERS = "looptrace.blockers"
COMPLETED_WORK = "looptrace.completed_work"
DECISION = "looptrace.decision"
NOTE = "looptrace.note"
DIFFERING_TOKENS = "looptrace.usage.differing_tokens"
OPEN = "looptrace.open"  # on a span that has not ended; the end of a copy is when it was made
RECORD = "looptrace.record"  # on a span that was made of a record of an agent's log
OPEN_REASON = "open"  # the finish reason of a request to a model in such a copy
WAITS_FOR_PERSON = "waits_for_person"  # the type of what ended a call that a person answers
SILENT = "(silent)"  # the model of a copy that stands for an agent that does nothing

# looptrace's own attributes: the fields of a gate event.
GATE_ID = "looptrace.gate.id"
EVENT_TYPE = "looptrace.event.type"
RULE_ID = "looptrace.rule.id"
ACTION = "looptrace.action"
TURN_FIRST = "looptrace.turn.first"
TURN_LAST = "looptrace.turn.last"
ATTEMPTS = "looptrace.attempts"
LOOP_COUNT = "looptrace.loop_count"
SIGNATURE = "looptrace.signature"
PROGRESS_PREFIX = "looptrace.progress."
METRIC_PREFIX = "looptrace.metric."  # the author's own metrics, by their names

# Span events, and the scope of looptrace's own spans.
GATE_EVENT = "looptrace.gate"
INTERVENTION_EVENT = "looptrace.human_intervention"
SCOPE = "looptrace"

# Events that have what a model was given and what it answered.
DETAILS_EVENT = "gen_ai.client.inference.operation.details"
CHOICE_EVENT = "gen_ai.choice"
# Messages were span events before GenAI 1.37. Some frameworks still put them into an event.
MESSAGE_EVENTS = frozenset(
    f"gen_ai.{role}.message" for role in ("system", "user", "assistant", "tool")
)
