"""What a team declares to be the same."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from looptrace._core import VOLATILE_RESULT_KEYS, matches_nothing, pattern_fault
from looptrace.analyzer.text.names import Name
from looptrace.analyzer.text.session_names import session_name
from looptrace.rules.contract import required, setting

PATTERN_CHARS_MAX = 500
TOOL_KEYS_MAX = 50


@dataclass(frozen=True, slots=True)
class Tool:
    """Declarations about one tool; a key is at the top level, or a path with dots.

    If `same_call` names the only keys that count, no key is volatile by its name. The calls of a
    `polling` tool are unknown as calls and have no signature, so no rule sees them repeat. Their
    failures still count.
    """

    volatile_keys: Annotated[tuple[Name, ...], Meta(max_length=TOOL_KEYS_MAX)] = setting(
        (), doc="Arguments that do not count, by key or path with dots."
    )
    same_call: Annotated[tuple[Name, ...], Meta(max_length=TOOL_KEYS_MAX)] = setting(
        (), doc="The only arguments that count, instead of volatile_keys."
    )
    polling: bool = setting(
        False, doc="Whether the tool is meant to be polled, so that its calls never repeat."
    )


@dataclass(frozen=True, slots=True)
class TextMask:
    """A part of results and errors that is not compared, and the placeholder for it."""

    pattern: Annotated[str, Meta(min_length=1, max_length=PATTERN_CHARS_MAX)] = required(
        "A regular expression in the syntax of Rust's regex, which runs in linear time."
    )
    name: Name = required("The placeholder of the part.")


@dataclass(frozen=True, slots=True)
class Results:
    """The keys in results with values that are not compared."""

    volatile_keys: Annotated[tuple[Name, ...], Meta(max_length=TOOL_KEYS_MAX)] = setting(
        (),
        doc="Further keys whose values are new with every result: ids, times, "
        "durations and counters.",
    )
    telling_keys: Annotated[tuple[Name, ...], Meta(max_length=TOOL_KEYS_MAX)] = setting(
        (),
        doc="Keys that count although looptrace ignores them by default: of what a "
        "call sends or makes, of counters of calls, or of these: "
        f"{', '.join(sorted(VOLATILE_RESULT_KEYS))}.",
    )

    @property
    def keys(self) -> frozenset[str]:
        """All keys that are volatile in results."""
        return frozenset({*VOLATILE_RESULT_KEYS, *self.volatile_keys} - {*self.telling_keys})


@dataclass(frozen=True, slots=True)
class Sessions:
    """When the sessions of two spans are the same."""

    join_services: bool = setting(
        False,
        doc="Whether the same session id of several services is one task even if they "
        "share no trace.",
    )

    def name_of(self, session: str, service: str | None) -> str:
        """Return the name of a session's task, for a span of a service."""
        return session_name(session, None if self.join_services else service)


PER_SERVICE = Sessions()


@dataclass(frozen=True, slots=True)
class Sameness:
    """The declarations of a team: tools by name, masks in their order, results, sessions."""

    tools: Mapping[str, Tool] = field(default_factory=dict)
    masks: tuple[TextMask, ...] = ()
    results: Results = field(default_factory=Results)
    sessions: Sessions = PER_SERVICE


NOTHING = Sameness()


def check_pattern(pattern: str) -> None:
    """Check a pattern for a mask.

    Raises:
        ValueError: in one line, if it is empty, too long, or refused by the linear-time engine.
    """
    if not 1 <= len(pattern) <= PATTERN_CHARS_MAX:
        raise ValueError(f"a pattern has 1 to {PATTERN_CHARS_MAX} characters, not {len(pattern)}")
    if fault := pattern_fault(pattern):
        lines = fault.splitlines()
        message = next((line for line in lines if line.startswith("error: ")), lines[0])
        raise ValueError(f"cannot compile {pattern!r}: {message.removeprefix('error: ')}")
    if matches_nothing(pattern):
        raise ValueError(f"{pattern!r} matches an empty text, so it would match everywhere")
