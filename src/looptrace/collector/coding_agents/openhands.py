"""Rows from the events of OpenHands, from a session's folder or from its API.

Until version 1 an event has an `action` or an `observation` by name, and an observation the id of
the action that caused it; since then it has a `kind`, and calls have the ids of the model.
"""

from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.coding_agents.session_spans import Agent, Word, texts_of
from looptrace.collector.coding_agents.session_thread import Thread
from looptrace.collector.otlp.span_rows import time_ns_of

PRODUCT = "openhands"
STEP_NS = 1_000_000

_PERSON = "user"
_ERRORS = ("error", "AgentErrorEvent", "ConversationErrorEvent")
# The actions of an agent that are not calls of a tool.
_TALK = ("message", "think", "system", "recall", "change_agent_state", "condensation", "finish")


class OpenHandsEvents:
    """The state of reading the events of one session."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._last_ns = 0

    def read(self, event: dict[str, Any]) -> list[SpanRow]:
        """Return the rows that an event completes."""
        self._last_ns = time_ns_of(event.get("timestamp")) or self._last_ns + STEP_NS
        if self._thread is None:  # Events do not name their session.
            first = f"{event['id']} {event['timestamp']}"
            self._thread = Thread(Agent(PRODUCT, "", PRODUCT, trace=first))
        self._read(self._thread, event)
        return self._thread.taken()

    def rest(self) -> list[SpanRow]:
        """Return the rows that the end of the session completes."""
        return [] if self._thread is None else self._thread.ended()

    def _read(self, thread: Thread, event: dict[str, Any]) -> None:
        if "kind" in event:
            self._event(thread, event)
        elif "observation" in event:
            self._observation(thread, event)
        elif event.get("source") == _PERSON and event.get("action") == "message":
            thread.hears(str(event["id"]), self._last_ns, Word(text=_said(event)))
        elif event.get("source") == "agent":
            self._action(thread, event)

    def _action(self, thread: Thread, event: dict[str, Any]) -> None:
        about = event.get("tool_call_metadata") or {}
        response = about.get("model_response") or {}
        key = str(response.get("id") or event["id"])
        action, model = str(event["action"]), response.get("model")
        args = event.get("args") or {}
        thought = str(args.get("thought") or (_said(event) if action in _TALK else ""))
        if thought:
            thread.says(key, self._last_ns, thought, model)
        if action not in _TALK:
            asked = {name: args[name] for name in args if name != "thought"}
            tool = about.get("function_name") or action
            thread.calls(key, self._last_ns, str(event["id"]), tool, asked, model)

    def _observation(self, thread: Thread, event: dict[str, Any]) -> None:
        extras = event.get("extras") or {}
        code = (extras.get("metadata") or {}).get("exit_code", extras.get("exit_code"))
        failed = event["observation"] in _ERRORS or (isinstance(code, int) and code > 0)
        said = True if failed else False if code == 0 else None
        call_id = str(event.get("cause"))
        thread.gets(call_id, self._last_ns, str(event.get("content") or ""), said, None)

    def _event(self, thread: Thread, event: dict[str, Any]) -> None:
        kind, call_id = event["kind"], str(event.get("tool_call_id"))
        if kind == "MessageEvent":
            text = texts_of((event.get("llm_message") or {}).get("content"))
            if event.get("source") == _PERSON:
                thread.hears(str(event["id"]), self._last_ns, Word(text=text))
            else:
                thread.says(str(event["id"]), self._last_ns, text, None)
        elif kind == "ActionEvent":
            key = str(event.get("llm_response_id") or event["id"])
            thought = texts_of(event.get("thought"))
            if thought:
                thread.says(key, self._last_ns, thought, None)
            action = dict(event.get("action") or {})
            action.pop("kind", None)
            tool = str(event.get("tool_name"))
            thread.calls(key, self._last_ns, call_id, tool, action, None)
        elif kind == "ObservationEvent":
            seen = event.get("observation") or {}
            text = texts_of(seen.get("content") or seen.get("output") or seen.get("error"))
            code = (seen.get("metadata") or {}).get("exit_code", seen.get("exit_code"))
            failed = bool(seen.get("is_error")) or (isinstance(code, int) and code > 0)
            thread.gets(call_id, self._last_ns, text, True if failed else None, None)
        elif kind in _ERRORS:
            thread.gets(call_id, self._last_ns, str(event.get("error")), True, None)


def _said(event: dict[str, Any]) -> str:
    args = event.get("args") or {}
    return str(args.get("content") or event.get("message") or "")
