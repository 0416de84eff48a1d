"""Conversations as the APIs of models have them: lists of messages, or objects with `messages`.

OpenAI's chat completions and responses, Anthropic's, Google's and the AI SDK's forms are read as
they are by the core; so are the files that agents keep of them, such as Cline's and Roo's
`api_conversation_history.json` (cline/cline@21cb8d2 apps/vscode/src/shared/messages/content.ts) and
Goose's sessions (block/goose@6416fe7 crates/goose/src/conversation/message.rs).
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from looptrace import semconv
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.payloads import canonical, parsed
from looptrace.collector.coding_agents.session_spans import times_in_order
from looptrace.collector.importers.rows.call_numbers import ASKED, CallNumbers
from looptrace.collector.importers.rows.messages import ApiMessage, whole_input_tokens
from looptrace.collector.importers.saved.chats import (
    page_and_langchain_messages,
    with_spoken,
)
from looptrace.collector.importers.saved.saved_forms import (
    chat_form_of,
    is_message_alone,
    message_form_of,
)
from looptrace.collector.importers.spans import (
    NS_PER_MS,
    foreign_row,
    mapping,
    objects,
    session_attributes,
    text_of,
    time_ns,
)
from looptrace.collector.otlp.span_rows import DecodedSpans

_ASSISTANT = frozenset({"assistant", "model"})
# Items of OpenAI's responses: those of one response follow each other.
_THOUGHT = "reasoning"
_ITEMS = frozenset({ASKED, _THOUGHT, "message"})
# A message without a time stands so long after the one before.
_STEP_NS = NS_PER_MS
_TIMES = ("ts", "timestamp", "created_at", "created")
_SAID = frozenset({"content", "tool_calls", ASKED, "parts"})
# Where an object has its messages; `traj` is that of tau-bench.
_HOLDERS = ("messages", "traj")
# A state of a thread of LangGraph, of which there is one for each step.
_STATE = {"values", "next"}
# Answers of Cloudflare's API have messages about themselves.
_ANSWER = {"success", "errors", "result"}
_SESSIONS = ("conversation_id", "session_id", "sessionId", "thread_id", "threadId")
# The id of a thread of Amp (noamsto/houston docs/AMP_AGENT_SUPPORT.md).
_AMP = "T-"

_TOKENS = {
    semconv.GEN_AI_USAGE_INPUT_TOKENS: (
        *(
            "prompt",
            "totalInputTokens",
            "inputTokens",
            "promptTokens",
            "input_tokens",
            "prompt_tokens",
        ),
    ),
    semconv.GEN_AI_USAGE_OUTPUT_TOKENS: (
        *("completion", "outputTokens", "completionTokens", "output_tokens", "completion_tokens"),
    ),
    semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: (
        *("cached", "cachedInputTokens", "cacheReadInputTokens", "cache_read_input_tokens"),
        "cacheReadTokens",
    ),
}


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a message, or of an object with some."""
    fields = set(names)
    is_chat = fields >= _STATE or chat_form_of(fields) is not None
    is_holder = not fields.isdisjoint(_HOLDERS) and not fields >= _ANSWER
    return is_chat or is_message(fields) or is_holder


def is_message(names: Collection[str]) -> bool:
    """Return whether these field names are those of a message that stands alone."""
    fields = set(names)
    is_item = {"type", "call_id"} <= fields and not fields.isdisjoint({"arguments", "output"})
    is_said = "role" in fields and not fields.isdisjoint(_SAID)
    is_api = (is_item or is_said) and fields.isdisjoint(_HOLDERS)
    return is_api or is_message_alone(fields)


def known_messages(messages: object) -> list[ApiMessage]:
    """Return messages, or items of other types between them.

    A word between messages, as Zed has it, is none. Raises ValueError.
    """
    held = messages if isinstance(messages, list) else [{}]
    told = [item for item in held if not isinstance(item, str)]
    items = [each for item in told for each in _api_messages(item)]
    if all(not {"role", "type"}.isdisjoint(each) for each in items) and (told or not held):
        return items
    raise ValueError("its messages are not those of a model's API")


def readable_messages(messages: object) -> list[ApiMessage]:
    """Return messages that become rows at the end of a source, where no error can be reported.

    Raises one of RECORD_ERRORS.
    """
    known = known_messages(messages)
    deque(conversation_rows(known), maxlen=0)
    return known


def _api_messages(item: object) -> Iterable[ApiMessage]:
    message = mapping(item)
    form = message_form_of(message)
    return page_and_langchain_messages(message) if form is None else form.messages_of(message)


class ConversationReader:
    """The reader of conversations; messages that stand alone are one for each thread."""

    def __init__(self) -> None:
        self._messages: dict[str | None, list[ApiMessage]] = {}
        self._states: dict[str | None, list[ApiMessage]] = {}  # the longest of each thread

    def read(self, record: dict[str, Any], _where: str) -> DecodedSpans:
        """Return the rows of an object with messages. Raises one of RECORD_ERRORS."""
        session, chat = _session_of(record), chat_form_of(record)
        if record.keys() >= _STATE:
            known = self._states.get(session, [])
            told = readable_messages(mapping(record["values"]).get("messages"))
            self._states[session] = max(known, told, key=len)
            return DecodedSpans()
        if chat is not None:
            held: object = list(chat.messages_of(record))
        else:
            held = next((parsed(record[name]) for name in _HOLDERS if name in record), None)
        if held is None:
            self._messages.setdefault(session, []).extend(readable_messages([record]))
            return DecodedSpans()
        chats = [(session, held)] if session is not None else _by_session(held)
        return DecodedSpans(
            [
                row
                for named, told in chats
                for row in conversation_rows(
                    known_messages(told), model=record.get("model"), session=named
                )
            ]
        )

    def rest(self) -> list[SpanRow]:
        """Return the rows of the messages that stood alone."""
        threads = [*self._messages.items(), *self._states.items()]
        return [
            row for session, told in threads for row in conversation_rows(told, session=session)
        ]


def _session_of(record: dict[str, Any]) -> str | None:
    form = chat_form_of(record)
    own_names = (*_SESSIONS, form.session) if form is not None and form.session else _SESSIONS
    named = next((record[name] for name in own_names if record.get(name)), None)
    if named is None and record.keys() >= _STATE:
        named = mapping(record.get("checkpoint")).get("thread_id")
    own = record.get("id")
    if named is None and isinstance(own, str) and own.startswith(_AMP):
        named = own
    return None if named is None else str(named)


def _by_session(messages: object) -> Iterable[tuple[str | None, object]]:
    """Return messages by the sessions that they name, if any."""
    chats = defaultdict[str | None, list[ApiMessage]](list)
    for message in objects(messages):
        chats[_session_of(message)].append(message)
    return [(None, messages)] if chats.keys() <= {None} else chats.items()


def conversation_rows(
    messages: list[ApiMessage], *, model: object = None, session: object = None
) -> Iterator[SpanRow]:
    """Yield a row for each response, with the messages since the one before."""
    trace = digest(canonical(messages), size_bytes=16)
    messages = _oldest_first(messages)
    times = times_in_order([_time_ns(message) for message in messages], _STEP_NS)
    plain = list(map(CallNumbers().numbered, map(with_spoken, messages)))
    responses = list(_responses(messages))
    first = 0
    for number, (start, end) in enumerate(responses):
        said = messages[start:end]
        named = next((name for name in map(_model, said) if name), model)
        # The messages after the last response were given to none.
        stop = len(plain) if number == len(responses) - 1 else end
        usage = _usage(said[-1])
        yield foreign_row(
            trace=trace,
            span=f"{trace} {number}",
            parent=None,
            name="chat",
            start_ns=times[first],
            end_ns=times[end - 1],
            scope="conversation",
            service="conversation",
            attributes={
                semconv.GEN_AI_OPERATION_NAME: "chat",
                semconv.GEN_AI_REQUEST_MODEL: named if isinstance(named, str) else None,
                semconv.GEN_AI_INPUT_MESSAGES: text_of(plain[first:start]),
                semconv.GEN_AI_OUTPUT_MESSAGES: text_of(plain[start:stop]),
                semconv.GEN_AI_AGENT_NAME: next((m["agent"] for m in said if "agent" in m), None),
                **usage,
                **session_attributes(session),
            },
        )
        first = end


def _oldest_first(messages: list[ApiMessage]) -> list[ApiMessage]:
    """Return messages in their order; some APIs, such as Letta's, list the newest first."""
    known = [at_ns for at_ns in map(_time_ns, messages) if at_ns]
    return messages[::-1] if known and known[0] > known[-1] else messages


def _responses(messages: list[ApiMessage]) -> Iterator[tuple[int, int]]:
    """Yield where each response begins and ends: a message, or items that follow each other."""
    start: int | None = None
    for place, message in enumerate(messages):
        is_item = message.get("type") in _ITEMS
        if start is not None and not (is_item and _is_answer(message)):
            yield start, place
            start = None
        if start is None and _is_answer(message):
            start = place
    if start is not None:
        yield start, len(messages)


def _is_answer(message: ApiMessage) -> bool:
    return message.get("role") in _ASSISTANT or message.get("type") in (ASKED, _THOUGHT)


def _model(message: ApiMessage) -> object:
    told = mapping(message.get("modelInfo"))
    return message.get("model") or told.get("modelId") or told.get("id")


def _usage(message: ApiMessage) -> dict[str, Any]:
    """Return the tokens of a response, which Cline, Amp and the AI SDK name each otherwise."""
    metrics = mapping(message.get("metrics"))  # Those of Cline's command line are tokens.
    told = mapping(metrics.get("tokens")) or metrics or mapping(message.get("usage"))
    found = {
        key: next((told[name] for name in names if told.get(name) is not None), None)
        for key, names in _TOKENS.items()
    }
    if "cache_read_input_tokens" in told:  # Anthropic counts it beside the rest of the input.
        found[semconv.GEN_AI_USAGE_INPUT_TOKENS] = whole_input_tokens(told)
    return found


def _time_ns(message: ApiMessage) -> int | None:
    return next((time_ns(message[name]) for name in _TIMES if message.get(name)), None)
