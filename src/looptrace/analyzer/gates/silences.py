"""Silences: gates that are not sent to webhooks for a while; their agents get them as ever."""

from dataclasses import astuple, dataclass, fields

from looptrace.analyzer.detect.budgets.rules import rule_named
from looptrace.analyzer.detect.rule_plugins import every_rule
from looptrace.analyzer.gates.decisions import GateError, NoGateError
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.incidents import BETWEEN_TURNS, identity_of
from looptrace.analyzer.text.near_names import did_you_mean

# As long as an undelivered event is kept.
HOURS_MAX = 30 * 24
WHY_CHARS_MAX = 1_000
MATCHER_CHARS_MAX = 200
_OUTAGE = "outage "


class NoSilenceError(NoGateError):
    """There is no silence with this id."""


@dataclass(frozen=True, slots=True)
class Matchers:
    """What a gate must have to be silenced; "" matches every gate."""

    rule: str = ""
    tool: str = ""
    agent: str = ""
    service: str = ""
    incident: str = ""

    def matches(self, opening: GateEvent) -> bool:
        """Return whether a gate, or another event of a loop, has all of it."""
        wanted = self.rule, self.agent, self.service, self.incident
        given = opening.rule, opening.agent, opening.service, incident_of(opening)
        is_tool = not self.tool or self.tool in opening.tools
        return is_tool and all(
            not one or one == is_ for one, is_ in zip(wanted, given, strict=True)
        )

    @property
    def text(self) -> str:
        """What is matched, in words: `rule repeated_call, agent scout`."""
        given = ((each.name, getattr(self, each.name)) for each in fields(self))
        return ", ".join(f"{name} {value}" for name, value in given if value)


@dataclass(frozen=True, slots=True)
class Silence:
    """A silence, and how many gates it holds back now."""

    id: str
    matchers: Matchers
    made_ns: int
    ends_ns: int
    who: str | None = None
    why: str = ""
    held: int = 0


@dataclass(frozen=True, slots=True)
class Inhibition:
    """An outage that holds back the pages of the loops that it causes, until its end."""

    outage: str  # its id
    signature: str  # of its failures
    sessions: frozenset[str]
    ends_ns: int
    why: str  # the outage in words

    @property
    def who(self) -> str:
        """The author of its silences."""
        return f"{_OUTAGE}{self.outage}"

    def causes(self, opening: GateEvent) -> bool:
        """Return whether a gate is of a loop of nothing but failures of the outage."""
        is_its_failure = {*opening.signature.split(BETWEEN_TURNS)} == {self.signature}
        return is_its_failure and opening.session in self.sessions


def is_of_outage(silence: Silence) -> bool:
    """Return whether an outage made a silence, and no person."""
    return (silence.who or "").startswith(_OUTAGE)


def incident_of(event: GateEvent) -> str:
    """Return the incident of the gate, or of another event, of a loop."""
    about = event.rule, event.tools, event.signature, event.agent, event.service
    return identity_of(*about).id


def check_silence(matchers: Matchers, why: str, now_ns: int, ends_ns: int, longest_ns: int) -> None:
    """Refuse a silence of everything, without a reason, or without a near end.

    Raises:
        GateError: if it is refused.
    """
    values = astuple(matchers)
    if not any(values):
        raise GateError("a silence needs a rule, a tool, an agent, a service or an incident.")
    if max(map(len, values)) > MATCHER_CHARS_MAX:
        raise GateError(f"a matcher has more than {MATCHER_CHARS_MAX} characters.")
    if not why.strip():
        raise GateError("a silence needs a reason.")
    if len(why) > WHY_CHARS_MAX:
        raise GateError(f"the reason has more than {WHY_CHARS_MAX} characters.")
    if not now_ns < ends_ns <= now_ns + longest_ns:
        raise GateError(f"a silence ends within {HOURS_MAX} hours from now.")
    if matchers.rule and rule_named(matchers.rule) is None:
        hint = did_you_mean(matchers.rule, (rule.name for rule in every_rule()))
        raise GateError(f"there is no rule {matchers.rule!r}. {hint}")
