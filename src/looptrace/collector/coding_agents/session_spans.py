"""Rows of the span table from the records of a coding agent's session, with GenAI attributes.

Such an agent has no spans, so ids are made here: reading the same session again makes the same ids.
A person's message is the event that `intervened` records, on a span of its own or on a call's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Self

from looptrace import semconv
from looptrace.analyzer.schema.spans import LOGGED, SpanRow
from looptrace.collector.otlp.span_rows import ERROR, OK, UNSET, BadSpanError, span_row

# The decisions of a person, beside messages.
INTERRUPTED, REJECTED, ANSWERED = "interrupted", "rejected", "answered"

_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8


class Word(NamedTuple):
    """An act of a person: a decision, a text, or both."""

    decision: str | None = None
    text: str | None = None


class Usage(NamedTuple):
    """The tokens of one response, all and parts of them, and why it ended.

    By `differing_tokens` the usage that a log gives for a run differs from that of its responses.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None  # of the input, like the next
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None  # of the output
    finish_reason: str | None = None
    differing_tokens: int | None = None

    def checked(self) -> Self:
        """Return it, if its counts are numbers. Raises BadSpanError for one that is none."""
        counts = self._replace(finish_reason=None)
        if bad := [count for count in counts if not isinstance(count, int | float | None)]:
            raise BadSpanError(f"expected a number of tokens, found {bad[0]!r:.60}")
        return self


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of a session; `trace` names the part of the session that is one trace.

    Where a session has no name, `trace` must distinguish it from others. An agent that exports its
    log may export spans, too: then `is_exported`, and a record may name a span.
    """

    product: str  # the service's name, as in "claude-code"
    session: str
    name: str
    trace: str = ""
    is_exported: bool = False
    span: tuple[str, str] = ("", "")  # ids of trace and span


def texts_of(content: object, *, shows_kinds: bool = False) -> str:
    """Return the texts of a message's parts, which may be one text.

    A part without a text, such as a picture, is left out, or represented by its kind.
    """
    if not isinstance(content, list):
        return "" if content is None else str(content)
    dicts = (part for part in content if isinstance(part, dict))
    texts = (part.get("text", f"<{part.get('type')}>" if shows_kinds else "") for part in dicts)
    return "\n".join(map(str, texts))


def times_in_order(times: Sequence[int | None], step_ns: int) -> list[int]:
    """Return times in the order of their lines; a line without one stands next to its neighbour.

    Without any time the lines begin at 1970, as `looptrace.analyzer.text.times` knows.
    """
    first = next((i for i, time in enumerate(times) if time is not None), len(times))
    last_ns = (times[first] or 0) - first * step_ns - step_ns if first < len(times) else 0
    found = []
    for time in times:
        last_ns = max(last_ns + step_ns, time or 0)
        found.append(last_ns)
    return found


def tool_row(
    agent: Agent,
    key: str,
    start_ns: int,
    end_ns: int,
    *,
    tool: str,
    call_id: str | None,
    arguments: Any,
    result: Any,
    failed: bool | None,
    error: str = "",
    error_type: str | None = None,
    word: Word | None = None,
) -> SpanRow:
    """Return the row of a tool call; `word` is the refusal of a person, if there was one."""
    attributes = {
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
        semconv.GEN_AI_TOOL_NAME: tool,
        semconv.GEN_AI_TOOL_CALL_ID: call_id,
        semconv.GEN_AI_TOOL_CALL_ARGUMENTS: arguments,
        semconv.GEN_AI_TOOL_CALL_RESULT: result,
        semconv.ERROR_TYPE: error_type,
    }
    return _row(
        agent, key, f"execute_tool {tool}", start_ns, end_ns, attributes, failed, error, word
    )


def model_row(
    agent: Agent,
    key: str,
    start_ns: int,
    end_ns: int,
    *,
    model: str | None,
    given: Sequence[dict[str, Any]] = (),
    answer: Sequence[dict[str, Any]] | None = None,
    usage: Usage = NO_USAGE,
    failed: bool = False,
    error: str = "",
) -> SpanRow:
    """Return the row of a response with the parts of its `answer`, None where the log has none.

    `given` are messages. A response that never came has failed.
    """
    said = None if answer is None else _said(answer)
    attributes = {
        semconv.GEN_AI_OPERATION_NAME: "chat",
        semconv.GEN_AI_REQUEST_MODEL: model,
        semconv.GEN_AI_INPUT_MESSAGES: list(given) or None,
        semconv.GEN_AI_OUTPUT_MESSAGES: said,
        semconv.GEN_AI_RESPONSE_FINISH_REASONS: usage.finish_reason,
        semconv.GEN_AI_USAGE_INPUT_TOKENS: usage.input_tokens,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: usage.output_tokens,
        semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: usage.cached_tokens,
        semconv.GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS: usage.cache_write_tokens,
        semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: usage.reasoning_tokens,
        semconv.DIFFERING_TOKENS: usage.differing_tokens,
    }
    return _row(agent, key, _chat(model), start_ns, end_ns, attributes, failed or None, error)


def answer_row(agent: Agent, key: str, at_ns: int, *, model: str | None, text: str) -> SpanRow:
    """Return the text of a response as an event of its span (`LOGGED`), which `model_row` makes.

    The two come in any order, because a log may tell the text and the tokens in records of their
    own.
    """
    trace_id, span_id = _ids(agent, _chat(model), key)
    said = {semconv.GEN_AI_OUTPUT_MESSAGES: _said([{"type": "text", "content": text}])}
    return span_row(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id="",
        name="",
        start_ns=at_ns,
        end_ns=at_ns,
        status=LOGGED,
        status_message="",
        service=agent.product,
        scope=None,
        attributes={},
        events=[(semconv.DETAILS_EVENT, at_ns, said)],
        links=(),
    )


def person_row(agent: Agent, key: str, at_ns: int, word: Word) -> SpanRow:
    """Return the row of an act of a person."""
    return _row(agent, key, "person", at_ns, at_ns, {}, word=word)


def _row(
    agent: Agent,
    key: str,
    name: str,
    start_ns: int,
    end_ns: int,
    attributes: dict[str, Any],
    failed: bool | None = None,
    error: str = "",
    word: Word | None = None,
) -> SpanRow:
    trace_id, span_id = _ids(agent, name, key)
    said = {semconv.DECISION: word.decision, semconv.NOTE: word.text} if word else {}
    common = {
        semconv.GEN_AI_CONVERSATION_ID: agent.session or None,
        semconv.GEN_AI_AGENT_NAME: agent.name,
        semconv.RECORD: agent.is_exported or None,
    }
    return span_row(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id="",
        name=name,
        start_ns=min(start_ns, end_ns),
        end_ns=end_ns,
        status={None: UNSET, False: OK, True: ERROR}[failed],
        status_message=error,
        service=agent.product,
        scope=None,
        attributes=_known(common | attributes),
        events=[(semconv.INTERVENTION_EVENT, end_ns, _known(said))] if word else [],
        links=[agent.span] if all(agent.span) else [],
    )


def _known(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _chat(model: str | None) -> str:
    return f"chat {model}" if model else "chat"


def _said(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "assistant", "parts": list(parts)}]


def _ids(agent: Agent, name: str, key: str) -> tuple[str, str]:
    """Return the ids of trace and span of a record."""
    # Agents of a run may number their calls alike.
    who = () if agent.name == agent.product else (agent.name,)
    return (
        _hex_id(_TRACE_ID_BYTES, agent.product, agent.session, agent.trace),
        _hex_id(_SPAN_ID_BYTES, agent.product, agent.session, *who, name, key),
    )


def _hex_id(size: int, *parts: str) -> str:
    return blake2b("\0".join(parts).encode(errors="replace"), digest_size=size).hexdigest()
