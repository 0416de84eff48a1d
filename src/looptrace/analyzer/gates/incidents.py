"""Incidents: the gates of loops that are the same across tasks and sessions."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, get_args

from looptrace.analyzer.detect.loops import GUARDS
from looptrace.analyzer.gates.decisions import GateError, NoGateError
from looptrace.analyzer.text.digests import digest
from looptrace.rules.registry import RULES, family_of

# The states in the order in which a person should look at them; a person says all but one.
IncidentState = Literal["back_again", "open", "acknowledged", "muted", "resolved"]
STATES: tuple[IncidentState, ...] = get_args(IncidentState)
SAID: tuple[IncidentState, ...] = STATES[1:]

BETWEEN_TURNS = " → "  # of a round, in a signature

# What a reason counts of one gate: its turns, the times outside of quoted texts and arguments, or
# the number that it begins with.
_TURNS_OF_ONE = re.compile(r", turns \d+–\d+$")
_TIMES_OF_ONE = re.compile(r" \d+ times(?![^(]*\))(?![^“]*”)")
_FIRST_COUNT = re.compile(r"^\d+ ")


class NoIncidentError(NoGateError):
    """There is no incident with this id."""


class Identity(NamedTuple):
    """What the gates of an incident share."""

    family: str  # of their rules, which see the same loop; or one rule
    tool: str
    signature: str
    agent: str
    service: str

    @property
    def id(self) -> str:
        """The id of the incident, the same on every server."""
        return digest("\0".join(("incident", *self)))


def identity_of(
    rule: str, tools: Iterable[str], signature: str, agent: str, service: str
) -> Identity:
    """Return the identity of the incident of a gate, from its opening.

    Rules of a family see the same loop in several ways, and a round may begin at any of its turns.
    A guard limits whatever a task does, so that what was done does not tell its gates apart.
    """
    if rule in GUARDS:
        return Identity(rule, "", "", agent, service)
    names = ", ".join(sorted(set(tools)))
    return Identity(families().get(rule, rule), names, _turned(signature), agent, service)


def title_of(reason: str) -> str:
    """Return the reason of a gate as that of an incident, without the counts of the one gate."""
    text = _TIMES_OF_ONE.sub(" again and again", _TURNS_OF_ONE.sub("", reason), count=1)
    return _FIRST_COUNT.sub("many ", text)


@cache
def families() -> dict[str, str]:
    """Return the family of each rule; a rule of a plugin has none."""
    return {rule.name: family_of(rule).__name__.rpartition(".")[2] for rule in RULES}


def _turned(signature: str) -> str:
    """Return the signature of a round that begins at its first turn in alphabetical order."""
    turns = signature.split(BETWEEN_TURNS)
    return BETWEEN_TURNS.join(min(turns[n:] + turns[:n] for n in range(len(turns))))


@dataclass(frozen=True, slots=True)
class IncidentWord:
    """What a person said of an incident; None for what they did not mention."""

    at_ns: int
    state: IncidentState | None = None
    until_ns: int | None = None  # the end of a mute
    owner: str | None = None  # "" for nobody
    who: str | None = None
    why: str | None = None


class Times(NamedTuple):
    """When the gates of an incident opened and ended; None where no gate did."""

    first_open_ns: int | None  # of the gates that wait for a person
    last_open_ns: int | None
    ended_ns: int | None  # of the last end


class VersionsSeen(NamedTuple):
    """The versions of a service in which an incident was seen, first those that came first."""

    every: tuple[str, ...] = ()
    resolved_in: str = ""  # that of the last gate before a resolution; "" without one
    back_in: str = ""  # that of the gate that brought it back


def versions_seen(
    openings: Iterable[tuple[int, str]],
    state: IncidentState,
    said: IncidentWord | None,
    times: Times,
) -> VersionsSeen:
    """Return the versions of an incident's gates (opening and version, in the order of time).

    A resolved incident was resolved in its last version. One that is back was resolved in the last
    version before the gate that brought it back.
    """
    named = [(at_ns, version) for at_ns, version in openings if version]
    every = tuple(dict.fromkeys(version for _, version in named))
    if not named or state not in ("resolved", "back_again"):
        return VersionsSeen(every)
    if state == "resolved" or times.first_open_ns is None:
        return VersionsSeen(every, named[-1][1])
    is_said = said is not None and said.state == "resolved"
    since_ns = said.at_ns + 1 if said and is_said else times.first_open_ns
    before = [version for at_ns, version in named if at_ns < since_ns]
    after = [version for at_ns, version in named if at_ns >= since_ns]
    return VersionsSeen(every, before[-1] if before else "", after[0] if after else "")


def check_word(word: IncidentWord) -> None:
    """Refuse what cannot be said of an incident.

    Raises:
        GateError: if the state is none to say, or a mute has no end in the future.
    """
    if word.state is not None and word.state not in SAID:
        raise GateError(f"an incident cannot be set to {word.state!r}; choose {', '.join(SAID)}.")
    if (word.state == "muted") != (word.until_ns is not None):
        raise GateError("only a muted incident has an end.")
    if word.until_ns is not None and word.until_ns <= word.at_ns:
        raise GateError("the end of a mute must be in the future.")
    if word.state is None and word.owner is None:
        raise GateError("there is nothing to change: name a state or an owner.")


def state_of(said: IncidentWord | None, times: Times, now_ns: int) -> IncidentState:
    """Return the state of an incident; `said` is the last word that named a state.

    It is resolved when a person says so, or when all of its gates have ended. A gate that opens
    after that brings it back.
    """
    if said and said.until_ns is not None and now_ns < said.until_ns:
        return "muted"
    first_ns, last_ns, ended_ns = times
    if first_ns is None or last_ns is None:
        return "resolved"
    if said and said.state == "resolved":
        return "back_again" if last_ns > said.at_ns else "resolved"
    if said and said.state == "acknowledged" and said.at_ns >= first_ns:
        return "acknowledged"
    is_new = ended_ns is not None and ended_ns <= first_ns
    is_reopened = said is not None and said.state == "open" and said.at_ns >= first_ns
    if is_new and not is_reopened:
        return "back_again"
    return "acknowledged" if said and said.state == "acknowledged" else "open"
