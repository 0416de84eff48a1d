"""The responses, calls and results of one agent of a session, while its log is read."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from looptrace.analyzer.schema.message import UNNAMED
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.coding_agents.session_spans import (
    NO_USAGE,
    Agent,
    Usage,
    Word,
    model_row,
    person_row,
    tool_row,
)


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
