"""The settings of webhooks: the receiver, the format, and the events."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Annotated, Literal, get_args

from msgspec import Meta

from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.text.addresses import URL_CHARS_MAX, address_of
from looptrace.analyzer.text.names import SECRET, Name
from looptrace.rules.contract import (
    Action,
    SettingError,
    check_bounds,
    numbers,
    refuse,
    required,
    setting,
)

Format = Literal[
    "standard", "cloudevents", "slack", "discord", "teams", "pagerduty", "alertmanager"
]
FORMATS: tuple[Format, ...] = get_args(Format)

Grouping = Literal["gate", "incident"]

# A value with such a prefix names the place of a secret, and is not a secret itself.
VARIABLE, FILE = "env:", "file:"

# Two, so that a receiver can accept a new one before the old one ends.
SECRETS_MAX = 2
FILTER_MAX = 50
MINUTES_MAX = 7 * 24 * 60
_PRIVATE_MAX = 20  # networks of one webhook
_CHANNEL_CHARS_MAX = 80
_SLACK_METHOD = "/chat.postMessage"
# The settings of a webhook that choose events, and the field of an event for each.
FILTERS = {"rules": "rule", "actions": "action", "agents": "agent", "services": "service"}
# The events of a gate; a receiver that keeps states cannot use an event without an end.
_OF_GATES = ("gate_opened", "gate_renamed", "gate_unanswered", "gate_resolved")
_OF_STATES = ("pagerduty", "alertmanager")
# The fields of a link to a gate.
GATE, TASK = "{gate}", "{task}"

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")

_SecretText = Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX, extra=SECRET)]


# The states of agents at whose gates nobody waits.
Left = Literal["ended", "went_on"]


@dataclass(frozen=True, slots=True)
class Webhook:
    """One receiver. An empty filter matches every event.

    Raises:
        SettingError: if a value is wrong; it quotes no address and no secret.
    """

    name: Name = required("Its name in lists, metrics and errors.")
    url: _SecretText = required(
        "The receiver's address: https://..., or env:VARIABLE or file:PATH with the address."
    )
    format: Format = setting("standard", doc=f"One of {', '.join(FORMATS)}.")
    secrets: Annotated[tuple[_SecretText, ...], Meta(max_length=SECRETS_MAX)] = setting(
        (),
        doc="Places of the secrets (env:VARIABLE or file:PATH), the newest first; two "
        "while one replaces the other. For pagerduty, the integration key.",
    )
    gate_url: Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX)] = setting(
        "", doc="Link to a gate for people, with {gate} and {task} in it."
    )
    error_text: bool = setting(
        True,
        doc="Whether to send the text of the last error before a gate, as it is "
        "stored, at most 500 characters.",
    )
    decision_hours: int = setting(
        0,
        ge=0,
        le=720,
        doc="Hours for which the links in a message let anybody decide on its gate without "
        "the server's token; 0 for no links. They need page.url.",
    )
    rate_per_minute: int = setting(
        0,
        ge=0,
        le=600,
        doc="The most requests in any minute; 0 for no limit. Further events wait.",
    )
    channel: Annotated[str, Meta(max_length=_CHANNEL_CHARS_MAX)] = setting(
        "",
        doc="With format slack, id of the channel in which a bot writes; `secrets` "
        "then names its token, and messages are edited when their gate ends.",
    )
    escalations_only: bool = setting(
        False, doc="Whether it receives only gates that are escalated to it."
    )
    group_by: Grouping = setting(
        "gate",
        doc="`gate` sends each gate; `incident` sends the first gate of an incident, "
        "with the number of open ones, and the end of the last one.",
    )
    unless_agent: Annotated[tuple[Left, ...], Meta(max_length=2)] = setting(
        ("ended",),
        doc="Gates are only listed, not sent, while their agent has `ended`, or "
        "`went_on` without asking.",
    )
    repeat_minutes: int = setting(
        0,
        ge=0,
        le=MINUTES_MAX,
        doc='With `group_by = "incident"`, minutes until further gates of an incident are sent, '
        "all together; 0 for never.",
    )
    allow_private: Annotated[tuple[Name, ...], Meta(max_length=_PRIVATE_MAX)] = setting(
        (), doc="Private networks in which the receiver may be."
    )
    rules: Annotated[tuple[Name, ...], Meta(max_length=FILTER_MAX)] = setting(
        (), doc="Only events of these rules."
    )
    actions: Annotated[tuple[Action, ...], Meta(max_length=FILTER_MAX)] = setting(
        (), doc="Only events that ask for one of these actions."
    )
    agents: Annotated[tuple[Name, ...], Meta(max_length=FILTER_MAX)] = setting(
        (), doc="Only events of these agents."
    )
    services: Annotated[tuple[Name, ...], Meta(max_length=FILTER_MAX)] = setting(
        (), doc="Only events of these services (service.name)."
    )

    def __post_init__(self) -> None:
        check_bounds("webhooks", numbers(self))
        refuse(self._problems())

    def _problems(self) -> Iterator[str]:
        try:
            _check_address(self.url, self.allow_private)
        except SettingError as error:
            yield str(error)
        if self.gate_url:
            filled = self.gate_url.replace(GATE, "g").replace(TASK, "t")
            if not address_of(filled):
                yield "webhooks.gate_url must be an https:// or http:// address."
        if not all(map(_is_reference, self.secrets)):
            yield (
                f"webhooks.secrets must name the place of each secret: {VARIABLE}VARIABLE or "
                f"{FILE}PATH, never the secret itself."
            )
        if self.repeat_minutes and self.group_by != "incident":
            yield 'webhooks.repeat_minutes needs group_by = "incident".'
        yield from self._channel_problems()
        if self.format in ("standard", "pagerduty") and not self.secrets:
            yield f"webhooks.secrets must name one: {_WHY_SECRET[self.format]}."
        for network in self.allow_private:
            try:
                ip_network(network)
            except ValueError:
                yield (
                    f"webhooks.allow_private has {network!r}, which is not a network such as "
                    "10.1.0.0/16 or 127.0.0.1."
                )

    def _channel_problems(self) -> Iterator[str]:
        if not self.channel:
            return
        if self.format != "slack":
            yield 'webhooks.channel needs format = "slack".'
        if len(self.secrets) != 1:
            yield "webhooks.secrets must name one with webhooks.channel: the token of the bot."
        is_written = not self.url.startswith((VARIABLE, FILE))
        if is_written and not self.url.endswith(_SLACK_METHOD):
            yield (
                "webhooks.url must be https://slack.com/api/chat.postMessage with webhooks.channel."
            )

    def takes(self, event: GateEvent) -> bool:
        """Return whether the format has a form for an event.

        In a format of states, a name of a gate that is over would open it again.
        """
        is_over = event.type == "gate_renamed" and event.status == "active"
        return self.format not in _OF_STATES or (event.type in _OF_GATES and not is_over)

    def wants(self, event: GateEvent) -> bool:
        """Return whether an event matches the format and all filters.

        A field without a value matches no filter; but a loop of no one agent matches every agent.
        """
        if self.escalations_only or not self.takes(event):
            return False
        filters = {name: getattr(event, of) for name, of in FILTERS.items() if getattr(self, name)}
        if event.finding and not event.agent:
            filters.pop("agents", None)
        return all(value in getattr(self, name) for name, value in filters.items())


def check_url(url: str, allow_private: tuple[str, ...]) -> None:
    """Refuse an address to which nothing can or should be sent.

    Raises:
        SettingError: for such an address; it does not quote it, because it may contain a secret.
    """
    address = address_of(url)
    if not address:
        raise SettingError(
            "webhooks.url must be https://HOST/PATH in ASCII, without user, password or fragment."
        )
    if address.scheme == "http" and not allow_private:
        raise SettingError(
            "webhooks.url must begin with https://; http:// is only for networks that "
            "allow_private names."
        )


_WHY_SECRET = {
    "standard": "it signs the messages",
    "pagerduty": "it is the integration key",
}


def _check_address(value: str, allow_private: tuple[str, ...]) -> None:
    if value.startswith((VARIABLE, FILE)):
        if not _is_reference(value):
            raise SettingError(f"webhooks.url must be {VARIABLE}VARIABLE or {FILE}PATH.")
        return
    check_url(value, allow_private)


def _is_reference(value: str) -> bool:
    if value.startswith(VARIABLE):
        return _VARIABLE_NAME.fullmatch(value.removeprefix(VARIABLE)) is not None
    return value.startswith(FILE) and value != FILE
