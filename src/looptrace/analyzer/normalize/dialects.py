"""The dialects that spans speak: one table from canonical field and dialect to attribute keys.

One dialect is chosen per span (`span_kinds`), so that a span that carries two conventions counts
once. A field is read from the first key that is present, the chosen dialect's keys first.

A key may be written `key#field` for a field of a JSON object, `key.*` for flat numbered messages,
and `@name` for what `with_events` makes of span events. The keys were read off traces of the
frameworks (see docs/dialects.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain, filterfalse
from typing import Any

from looptrace import semconv
from looptrace.analyzer.normalize.flat_messages import FlatKeys
from looptrace.analyzer.text.payloads import parsed

KEYS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    # No convention has a word for these; they are read off any span, and a status makes an attempt.
    "task": {"looptrace": (semconv.TASK_ID,)},
    "task_parent": {"looptrace": (semconv.TASK_PARENT_ID,)},
    "task_kind": {"looptrace": (semconv.TASK_KIND,)},
    "phase": {"looptrace": (semconv.PHASE,)},
    "phase_start_ns": {"looptrace": (semconv.PHASE_START_NS,)},
    "iteration": {"looptrace": (semconv.ITERATION,)},
    "status": {"looptrace": (semconv.TASK_STATUS,)},
    "blockers": {"looptrace": (semconv.BLOCKERS,)},
    "completed_work": {"looptrace": (semconv.COMPLETED_WORK,)},
    "tests_failed": {"looptrace": ("looptrace.progress.tests_failed",)},
    "tests_total": {"looptrace": ("looptrace.progress.tests_total",)},
    "coverage": {"looptrace": ("looptrace.progress.coverage",)},
    "files_created": {"looptrace": ("looptrace.progress.files_created",)},
    "dependencies_added": {"looptrace": ("looptrace.progress.dependencies_added",)},
    "code_written": {"looptrace": ("looptrace.progress.code_written",)},
    "session": {
        "langsmith": ("langsmith.metadata.session_id", "langsmith.metadata.thread_id"),
        "gen_ai": (semconv.GEN_AI_CONVERSATION_ID,),
        "openinference": (semconv.SESSION_ID, "metadata#session_id", "metadata#thread_id"),
        "traceloop": (
            "traceloop.association.properties.session_id",
            "traceloop.association.properties.thread_id",
        ),
        "langfuse": ("langfuse.session.id",),
        "vercel": ("ai.settings.context.sessionId", "ai.telemetry.metadata.sessionId"),
    },
    "agent": {
        "langsmith": ("langsmith.metadata.lc_agent_name",),
        "gen_ai": (semconv.GEN_AI_AGENT_NAME,),
        "openinference": ("agent.name", "graph.node.id", "metadata#lc_agent_name"),
        "traceloop": (
            "traceloop.association.properties.lc_agent_name",
            "crewai.agent.role",
        ),
        "vercel": ("ai.telemetry.functionId",),
    },
    "tool": {
        "gen_ai": (semconv.GEN_AI_TOOL_NAME,),
        "openinference": ("tool.name",),
        "traceloop": ("traceloop.entity.name",),
        "vercel": ("ai.toolCall.name",),
    },
    "model": {
        "gen_ai": (semconv.GEN_AI_REQUEST_MODEL, "gen_ai.response.model"),
        "openinference": ("llm.model_name",),
        "langfuse": ("langfuse.observation.model.name",),
        "vercel": ("ai.model.id",),
    },
    "call_id": {
        "gen_ai": (semconv.GEN_AI_TOOL_CALL_ID,),
        "openinference": ("tool_call.id", "tool.id"),
        "vercel": ("ai.toolCall.id",),
    },
    # Never OpenInference's tool.parameters: half of the frameworks put the schema there.
    "arguments": {
        "langsmith": ("gen_ai.prompt",),
        "gen_ai": (
            semconv.GEN_AI_TOOL_CALL_ARGUMENTS,
            "tool_arguments",
            "@gen_ai.tool.message#content",
        ),
        "openinference": ("input.value",),
        "traceloop": ("traceloop.entity.input",),
        "langfuse": ("langfuse.observation.input",),
        "vercel": ("ai.toolCall.args", "ai.toolCall.input"),
    },
    "result": {
        "langsmith": ("gen_ai.completion",),
        "gen_ai": (semconv.GEN_AI_TOOL_CALL_RESULT, "tool_response", "@gen_ai.choice#message"),
        "openinference": ("output.value",),
        "traceloop": ("traceloop.entity.output",),
        "langfuse": ("langfuse.observation.output",),
        "vercel": ("ai.toolCall.result", "ai.toolCall.output"),
    },
    "error_type": {"gen_ai": (semconv.ERROR_TYPE,)},
    "error": {
        "gen_ai": ("error.message",),
        "langfuse": ("langfuse.observation.status_message",),
    },
    "level": {"gen_ai": ("gen_ai.tool.status",), "langfuse": ("langfuse.observation.level",)},
    "given": {
        "langsmith": ("gen_ai.prompt",),
        "gen_ai": (semconv.GEN_AI_INPUT_MESSAGES, "@gen_ai.messages", "gen_ai.prompt.*"),
        "openinference": ("llm.input_messages.*", "input.value"),
        "langfuse": ("langfuse.observation.input",),
        "vercel": ("ai.prompt.messages", "ai.prompt"),
    },
    "answer": {
        "langsmith": ("gen_ai.completion",),
        "gen_ai": (semconv.GEN_AI_OUTPUT_MESSAGES, "@gen_ai.choice#message", "gen_ai.completion.*"),
        "openinference": ("llm.output_messages.*", "output.value"),
        "langfuse": ("langfuse.observation.output",),
        "vercel": ("ai.response.text",),
    },
    "answer_calls": {"vercel": ("ai.response.toolCalls",)},
    "input_tokens": {
        "gen_ai": (semconv.GEN_AI_USAGE_INPUT_TOKENS, "gen_ai.usage.prompt_tokens"),
        "openinference": ("llm.token_count.prompt",),
        "langfuse": ("langfuse.observation.usage_details#input",),
        "vercel": ("ai.usage.inputTokens", "ai.usage.promptTokens"),
    },
    "output_tokens": {
        "gen_ai": (semconv.GEN_AI_USAGE_OUTPUT_TOKENS, "gen_ai.usage.completion_tokens"),
        "openinference": ("llm.token_count.completion",),
        "langfuse": ("langfuse.observation.usage_details#output",),
        "vercel": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
    },
}

# Before GenAI 1.37 messages were span events, and an event still carries them in some frameworks.
_MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
# How a key of the table ends that stands for flat keys of messages: `llm.input_messages.*`.
_MESSAGES = "*"
# Sets of attributes whose fields are kept; spans of one framework have some ten.
KEY_SETS_KEPT = 1024

DETAILS_EVENT = "gen_ai.client.inference.operation.details"
_CHOICE_EVENT = "gen_ai.choice"


class CanonicalFields:
    """The canonical fields of one span, read from its attributes (`with_events`) in a dialect."""

    __slots__ = ("_attributes", "_flat", "_keys", "others")

    def __init__(self, attributes: dict[str, Any], dialect: str) -> None:
        self._attributes = attributes
        present = tuple(filter(_ATTRIBUTES.__contains__, attributes))
        others = filterfalse(_ATTRIBUTES.__contains__, attributes)
        # The keys that are of no field.
        self._flat, self.others = _FLAT_KEYS.gather(attributes, others)
        self._keys = _keys_by_field(dialect, present, tuple(self._flat))

    def __contains__(self, name: str) -> bool:
        """Return whether a key of the field is present."""
        return name in self._keys

    def has_any(self, names: frozenset[str]) -> bool:
        """Return whether a key of any of these fields is present."""
        return not names.isdisjoint(self._keys)

    def texts(self, names: frozenset[str]) -> dict[str, str]:
        """Return the texts of those of these fields that have one."""
        found: dict[str, str] = {}
        for name in self._keys:
            if name in names and (text := self.text(name)) is not None:
                found[name] = text
        return found

    def value(self, name: str) -> Any:
        """Return the value of a canonical field, None where no key of it is present."""
        if name not in self._keys:
            return None
        for key, part in self._keys[name]:
            if (value := self._value(key, part)) is not None:
                return value
        return None

    def text(self, name: str) -> str | None:
        """Return the value of a canonical field as text, None where it is absent or empty."""
        if name not in self._keys:
            return None
        value = self.value(name)
        return None if value is None or value == "" else str(value)

    def _value(self, key: str, part: str | None) -> Any:
        if part is None:
            return self._attributes[key]
        if part == _MESSAGES:
            return self._flat[key]
        holder = parsed(self._attributes[key])
        return holder.get(part) if isinstance(holder, dict) else None


def attribute_keys(names: Iterable[str]) -> set[str]:
    """Return the attributes that these canonical fields are read from, whatever the dialect."""
    return {key for name in names for keys in _READ[name].values() for key, _ in keys}


def with_events(attributes: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the attributes with what GenAI span events say, under keys of their own.

    The attributes of a details event count as the span's. Message events become `@name` with
    their attributes, and together `@gen_ai.messages`, a list of {"role", "content"}.
    """
    if not events:
        return attributes
    found = dict(attributes)
    messages: list[dict[str, Any]] = []
    for event in events:
        name, said = event["name"], event["attributes"]
        if name == DETAILS_EVENT:
            found = {**said, **found}
        elif name == _CHOICE_EVENT:
            found.setdefault("@gen_ai.choice", said)
        elif name in _MESSAGE_EVENTS:
            found.setdefault(f"@{name}", said)
            messages.append({"role": _MESSAGE_EVENTS[name], "content": parsed(said.get("content"))})
    if messages:
        found["@gen_ai.messages"] = messages
    return found


def _split(key: str) -> tuple[str, str | None]:
    """Split a key of the table into an attribute, or a prefix of flat keys, and what of it."""
    if key.endswith(_MESSAGES):
        return key.removesuffix(_MESSAGES), _MESSAGES
    attribute, _, part = key.partition("#")
    return attribute, part or None


_READ = {
    name: {dialect: tuple(map(_split, keys)) for dialect, keys in by_dialect.items()}
    for name, by_dialect in KEYS.items()
}
_SPLIT = [key for by_dialect in _READ.values() for keys in by_dialect.values() for key in keys]
_ATTRIBUTES = {key for key, part in _SPLIT if part != _MESSAGES}
_FLAT_KEYS = FlatKeys(tuple({key for key, part in _SPLIT if part == _MESSAGES}))


@lru_cache(maxsize=KEY_SETS_KEPT)
def _keys_by_field(
    dialect: str, attributes: tuple[str, ...], prefixes: tuple[str, ...]
) -> dict[str, list[tuple[str, str | None]]]:
    """Return the keys of each field that spans with these attributes have, in order of choice."""
    present = {*attributes, *prefixes}
    found = {}
    for name, by_dialect in _READ.items():
        others = (keys for other, keys in by_dialect.items() if other != dialect)
        in_order = chain(by_dialect.get(dialect, ()), *others)
        if keys := [key for key in in_order if key[0] in present]:
            found[name] = keys
    return found
