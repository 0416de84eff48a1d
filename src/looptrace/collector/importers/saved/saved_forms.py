"""The forms of saved chats: messages, alone or in lists, and records with a whole chat."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from looptrace.collector.importers.rows.messages import ApiMessage
from looptrace.collector.importers.saved import agent_steps, editor_chats
from looptrace.collector.importers.saved import framework_messages as messages
from looptrace.collector.importers.saved.chats import (
    chatgpt_messages,
    claude_messages,
    inner_message,
    kiro_messages,
    training_messages,
)
from looptrace.collector.importers.spans import mapping, objects

_LEVELS_MAX = 8


@dataclass(frozen=True, slots=True)
class SavedForm:
    """A form of saved records: the names of fields that tell it, and its messages of an API."""

    needs: frozenset[str]
    messages_of: Callable[[dict[str, Any]], Iterable[ApiMessage]]
    lacks: frozenset[str] = frozenset()
    is_alone: bool = True  # These names tell it also where it is in no list of messages.
    session: str = ""  # The field that has the session's id, beside the usual ones.
    is_whole: bool = False  # Such a record has no other fields.

    def is_form(self, names: Collection[str]) -> bool:
        """Return whether these field names are those of such a record."""
        fields = set(names)
        is_needed = self.needs == fields if self.is_whole else self.needs <= fields
        return is_needed and self.lacks.isdisjoint(fields)


def _form(
    needs: str,
    messages_of: Callable[[dict[str, Any]], Iterable[ApiMessage]],
    *,
    lacks: str = "",
    is_alone: bool = True,
    session: str = "",
    is_whole: bool = False,
) -> SavedForm:
    names, others = frozenset(needs.split()), frozenset(lacks.split())
    return SavedForm(names, messages_of, others, is_alone, session, is_whole)


def _in_contexts(record: dict[str, Any], levels: int = _LEVELS_MAX) -> Iterator[ApiMessage]:
    """Yield the messages of the contexts within a state of AutoGen, agent after agent."""
    for name, value in record.items():
        if name == "llm_context":
            for message in objects(mapping(value).get("messages")):
                yield from messages.autogen_messages(message)
        elif levels and isinstance(value, dict):
            yield from _in_contexts(value, levels - 1)


def _of_store(record: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a store of LlamaIndex, whose only key is the same for everybody."""
    store = mapping(record.get("store"))
    for name, held in store.items():
        about = {"session_id": name} if len(store) > 1 else {}
        yield from ({**message, **about} for message in objects(held))


def _of_crush(record: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a session of Crush (`crush session show --json`).

    charmbracelet/crush@37f36e9 internal/cmd/session.go: only `meta` names the session.
    """
    about = {"session_id": mapping(record["meta"]).get("uuid")}
    yield from ({**message, **about} for message in objects(record["messages"]))


def _of_run(record: dict[str, Any]) -> Iterable[ApiMessage]:
    return objects(record["steps"])


# A message of these is one of a list, a line, or one in `messages` of an object.
MESSAGES = (
    _form("role message", lambda record: [inner_message(record)]),
    _form("threadId message", lambda record: [inner_message(record)]),
    _form("parts kind", messages.pydantic_messages, lacks="role"),
    _form("models_usage source type", messages.autogen_messages),
    _form("config run_id session_id message_meta", messages.autogen_messages),
    _form("message_type date", messages.letta_messages),
    _form("role tool_responses", messages.ag2_messages),
    _form("role blocks", messages.llamaindex_messages),
    _form("role contents", messages.microsoft_messages),
    _form("role items", messages.microsoft_messages, is_alone=False),
    _form("Role Items", messages.microsoft_messages),
    _form("message message_id created_at", messages.strands_messages),
    _form("role content threadId resourceId", messages.mastra_messages),
    _form("message role_at_backend", messages.camel_messages),
    _form("invocationId author", messages.adk_messages),
    _form("invocation_id author", messages.adk_messages),
    _form("agentName output toolCalls", messages.agentkit_messages),
    _form("kind source offset data creation_utc", messages.parlant_messages),
    _form("task task_images", agent_steps.smolagents_messages),
    _form("step_number timing observations", agent_steps.smolagents_messages),
    _form("plan model_output_message timing", agent_steps.smolagents_messages),
    _form("model_output result state", agent_steps.browser_use_messages, is_alone=False),
    _form("User", editor_chats.zed_messages, is_alone=False),
    _form("Agent", editor_chats.zed_messages, is_alone=False),
)
# A record of these is a whole chat.
CHATS = (
    _form("conversation_id history", lambda record: kiro_messages(record["history"])),
    _form("conversations", lambda record: training_messages(record["conversations"])),
    _form("mapping current_node", chatgpt_messages),
    _form(
        "uuid chat_messages",
        lambda record: claude_messages(record["chat_messages"]),
        session="uuid",
    ),
    _form("agent_states", _in_contexts),
    _form("llm_context", _in_contexts),
    _form("chat_store", lambda record: _of_store(mapping(record["chat_store"]))),
    _form("store class_name", _of_store, is_whole=True),
    _form("steps state token_usage", _of_run),
    _form("events appName", lambda record: objects(record["events"]), session="id"),
    _form("events app_name", lambda record: objects(record["events"]), session="id"),
    _form("tool_name_0 observation_0", agent_steps.dspy_messages),
    _form("agent_steps llm_interactions", agent_steps.trae_messages),
    _form("agent_thoughts query answer", agent_steps.dify_messages),
    _form("history workspaceDirectory", editor_chats.continue_messages),
    _form("requests responderUsername", editor_chats.copilot_messages),
    _form("meta messages", _of_crush, is_whole=True),
    _form("conversation working_dir", lambda record: objects(record["conversation"]), session="id"),
    _form("chat_history human_input", messages.ag2_chat_messages),
    # browser-use; a chat of any other has its session beside.
    _form("history", lambda record: objects(record["history"]), is_whole=True),
)


def message_form_of(names: Collection[str]) -> SavedForm | None:
    """Return the form of a message by the names of its fields; None for one of an API."""
    return next((form for form in MESSAGES if form.is_form(names)), None)


def is_message_alone(names: Collection[str]) -> bool:
    """Return whether these field names are those of such a message where it stands alone."""
    return any(form.is_alone and form.is_form(names) for form in MESSAGES)


def chat_form_of(names: Collection[str]) -> SavedForm | None:
    """Return the form of a record that holds a chat; None for any other."""
    return next((form for form in CHATS if form.is_form(names)), None)
