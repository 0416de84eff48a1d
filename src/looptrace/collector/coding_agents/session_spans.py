"""Rows of the span table from the records of a coding agent's session, with GenAI attributes.

Such an agent has no spans, so ids are made here: reading the same session again makes the same ids.
A person's message is the event that `intervened` records, on a span of its own or on a call's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, Self

from looptrace import semconv
from looptrace.analyzer.schema.message import UNNAMED
from looptrace.analyzer.schema.spans import SpanRow
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
    said = None if answer is None else [{"role": "assistant", "parts": list(answer)}]
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
    name = f"chat {model}" if model else "chat"
    return _row(agent, key, name, start_ns, end_ns, attributes, failed or None, error)


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
    # Agents of a run may number their calls alike.
    who = () if agent.name == agent.product else (agent.name,)
    said = {semconv.DECISION: word.decision, semconv.NOTE: word.text} if word else {}
    common = {
        semconv.GEN_AI_CONVERSATION_ID: agent.session or None,
        semconv.GEN_AI_AGENT_NAME: agent.name,
        semconv.RECORD: agent.is_exported or None,
    }
    return span_row(
        trace_id=_hex_id(_TRACE_ID_BYTES, agent.product, agent.session, agent.trace),
        span_id=_hex_id(_SPAN_ID_BYTES, agent.product, agent.session, *who, name, key),
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


def _hex_id(size: int, *parts: str) -> str:
    return blake2b("\0".join(parts).encode(errors="replace"), digest_size=size).hexdigest()


@dataclass(slots=True)
class _Response:
    """A response while its parts arrive; its input is what arrived since the one before."""

    key: str
    start_ns: int
    end_ns: int
    given: list[dict[str, Any]]
    model: str | None = None
    parts: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = NO_USAGE


class _Call(NamedTuple):
    tool: str
    arguments: Any
    at_ns: int


class Thread:
    """The responses, calls and results of one agent of a session, while its log is read.

    A call becomes a row when its result arrives, and a response when it is complete, because logs
    write its parts one by one.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._rows: list[SpanRow] = []
        self._response: _Response | None = None
        self._calls: dict[str, _Call] = {}
        self._given: list[dict[str, Any]] = []
        self._heard_ns: int | None = None
        self._spent = [0, 0]  # tokens of the responses that are complete

    def says(self, key: str, at_ns: int, text: str, model: str | None) -> None:
        """Add a text of the response that `key` names."""
        self._part(key, at_ns, model, {"type": "text", "content": text})

    def calls(
        self,
        key: str,
        at_ns: int,
        call_id: str | None,
        tool: str,
        arguments: Any,
        model: str | None,
    ) -> None:
        """Add a call that the response asks for; a call without an id gets no result."""
        tool = tool or UNNAMED
        part = {"type": "tool_call", "id": call_id, "name": tool, "arguments": arguments}
        self._part(key, at_ns, model, part)
        if call_id is not None:
            self._calls[call_id] = _Call(tool, arguments, at_ns)

    def uses(self, key: str, usage: Usage) -> None:
        """Add the tokens of the response that `key` names, unless it is complete."""
        counted = usage.checked()
        if self._response is not None and self._response.key == key:
            self._response.usage = counted

    @property
    def spent(self) -> tuple[int, int]:
        """The tokens of all responses: input and output."""
        usage = self._response.usage if self._response else NO_USAGE
        return (
            self._spent[0] + (usage.input_tokens or 0),
            self._spent[1] + (usage.output_tokens or 0),
        )

    def lacks(self, input_tokens: int, output_tokens: int) -> None:
        """Add tokens that the log counts in all, but with no response, to the last response.

        Where it counts less than the responses say, a number is negative, and nothing is added.
        """
        if self._response is not None:
            own = self._response.usage
            added = max(0, input_tokens), max(0, output_tokens)
            self._response.usage = own._replace(
                input_tokens=(own.input_tokens or 0) + added[0] or own.input_tokens,
                output_tokens=(own.output_tokens or 0) + added[1] or own.output_tokens,
                differing_tokens=abs(input_tokens) + abs(output_tokens) or None,
            )

    def tool_of(self, call_id: str) -> str | None:
        """Return the tool of a call that has no result yet."""
        call = self._calls.get(call_id)
        return call.tool if call else None

    def gets(
        self, call_id: str, at_ns: int, result: str | None, failed: bool | None, word: Word | None
    ) -> None:
        """Add the result of a call; the results of calls that are not in the log are ignored."""
        call = self._calls.pop(call_id, None)
        if call is None:
            return
        tool, arguments, start_ns = call
        at_ns = max(at_ns, start_ns)  # Some logs stamp a call's end before the response with it.
        self._rows.append(
            tool_row(
                self.agent,
                call_id,
                start_ns,
                at_ns,
                tool=tool,
                call_id=call_id,
                arguments=arguments,
                result=result,
                failed=failed,
                word=word,
            )
        )
        part = {"type": "tool_call_response", "id": call_id, "response": result}
        self._given.append({"role": "tool", "parts": [part]})
        self._heard_ns = at_ns

    @property
    def has_results(self) -> bool:
        """Whether calls got their results since the last response."""
        return bool(self._given) and self._given[-1]["role"] == "tool"

    def sees(self, text: str) -> None:
        """Add what an agent was shown that is no result of a call."""
        part = {"type": "tool_call_response", "id": None, "response": text}
        self._given.append({"role": "tool", "parts": [part]})

    def hears(self, key: str, at_ns: int, word: Word) -> None:
        """Add an act of a person, which ends the response before."""
        self.close()
        self._rows.append(person_row(self.agent, key, at_ns, word))
        self._given, self._heard_ns = [], at_ns

    def fails(self, key: str, at_ns: int, error: str, model: str | None) -> None:
        """Add a response that never came."""
        self.close()
        self._rows.append(
            model_row(self.agent, key, at_ns, at_ns, model=model, failed=True, error=error)
        )

    def close(self) -> None:
        """End the last response."""
        done, self._response = self._response, None
        if done is None:
            return
        self._spent[0] += done.usage.input_tokens or 0
        self._spent[1] += done.usage.output_tokens or 0
        self._rows.append(
            model_row(
                self.agent,
                done.key,
                done.start_ns,
                done.end_ns,
                model=done.model,
                given=done.given,
                answer=done.parts,
                usage=done.usage,
            )
        )
        # An agent that goes on without a call has its own last text as input.
        if all(part["type"] == "text" for part in done.parts):
            self._given.insert(0, {"role": "assistant", "parts": done.parts})

    def ended(self, *, is_whole: bool = False) -> list[SpanRow]:
        """Return the rows that the end of the log completes.

        A response that waits for results may get more parts, and is left out, unless the log is
        whole: then its calls were never answered.
        """
        if is_whole:
            self.close()
        parts = self._response.parts if self._response else ()
        if not any(part.get("id") in self._calls for part in parts):
            self.close()
        return self.taken()

    def taken(self) -> list[SpanRow]:
        """Return the rows that were completed since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def _part(self, key: str, at_ns: int, model: str | None, part: dict[str, Any]) -> None:
        if self._response is None or self._response.key != key:
            self.close()
            start_ns = at_ns if self._heard_ns is None else min(self._heard_ns, at_ns)
            self._response = _Response(key, start_ns, at_ns, self._given, model)
            self._given = []
        if not self._given:  # A result is not earlier than the response that asked for it.
            self._response.end_ns = at_ns
        self._response.parts.append(part)
