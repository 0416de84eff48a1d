"""Sends the events of one endpoint to its receiver, one after the other.

A row stays in the outbox until the receiver has accepted it. After a kill the event is sent again,
under the same id, and none is lost.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from looptrace import __version__
from looptrace.analyzer.gates.agent_states import AgentState
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.waiting import Waiting
from looptrace.analyzer.settings.page import PageSettings
from looptrace.analyzer.settings.webhook import FILE, VARIABLE, Webhook, check_url
from looptrace.analyzer.text.times import NS_PER_MINUTE
from looptrace.collector.decision_links import DecisionLinks
from looptrace.collector.store.gate_file.attempts import Tried
from looptrace.collector.store.gate_file.endpoint_events import ServerEvent
from looptrace.collector.store.outbox import Delivery, GateBackground, Outbox, PageGroup
from looptrace.collector.webhooks.chat_messages import (
    Answered,
    addressed,
    answered,
    as_edited,
    keeps_messages,
)
from looptrace.collector.webhooks.client import Net, WebhookRequest
from looptrace.collector.webhooks.event_links import NO_LINKS, EventLinks, links_of
from looptrace.collector.webhooks.formats import body_of
from looptrace.collector.webhooks.gate_texts import Telling
from looptrace.collector.webhooks.retry_policy import (
    WAIT_MAX_S,
    EndpointResponse,
    RetryDecision,
    retry_decision,
)
from looptrace.collector.webhooks.signing import SecretError, key_of, secret_text, signed
from looptrace.rules.contract import SettingError
from looptrace.rules.vocabulary import NS_PER_S

_logger = logging.getLogger(__name__)

# How often the worker looks for events that another process wrote.
POLL_S = 5.0
NO_PAGE = PageSettings()
# The pause between two looks at a gate at which nobody waits.
LOOK_AGAIN_S = 60.0
# Returns the state of the agent of a gate, None if it is not open or not known.
AgentOf = Callable[[str], Awaitable[AgentState | None]]
# If the clock differs by more, it was set.
_JUMP_MIN_NS = NS_PER_S
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Receiver:
    """A webhook with the values to which its settings point; its text shows no secret."""

    webhook: Webhook
    url: str
    keys: tuple[bytes, ...]
    service_key: str = ""  # of PagerDuty, or the token of a bot
    links: EventLinks = NO_LINKS
    waiting: tuple[Waiting, ...] = ()

    def __repr__(self) -> str:
        return f"Receiver({self.webhook.name!r})"

    def request(
        self,
        event: GateEvent | ServerEvent,
        now_ns: int,
        gate: GateBackground | None = None,
        group: PageGroup | None = None,
        message: str | None = None,
    ) -> WebhookRequest:
        """Return the request of an event, with the store's current facts about its gate.

        It edits the chat's `message` about the gate, where the event ends or renames it.
        """
        hook = self.webhook
        edited = as_edited(event) if message else None
        telling = Telling(
            self.links, self.service_key, hook.error_text, now_ns, gate, self.waiting, group
        )
        body, content_type = body_of(hook.format, edited or event, telling)
        headers = {
            "content-type": content_type,
            "user-agent": f"looptrace/{__version__}",
            "connection": "close",
        }
        headers |= signed(self.keys, event.id, now_ns // NS_PER_S, body)
        request = WebhookRequest(self.url, headers, body, hook.allow_private)
        if not keeps_messages(hook):
            return request
        return addressed(request, hook, self.service_key, message if edited else None)


def receiver_of(
    webhook: Webhook,
    environment: Mapping[str, str],
    page: PageSettings = NO_PAGE,
    decisions: DecisionLinks | None = None,
) -> Receiver:
    """Read the address of a webhook and its secrets; messages link to the page.

    `decisions` signs decision links; without it there are none.

    Raises:
        SecretError: if a secret cannot be read; the message names the webhook.
    """
    links = links_of(webhook, page, decisions)
    try:
        url = webhook.url
        if url.startswith((VARIABLE, FILE)):
            url = secret_text(url, environment)
            check_url(url, webhook.allow_private)
        texts = [(secret_text(where, environment), where) for where in webhook.secrets]
        if webhook.format == "pagerduty" or webhook.channel:
            return Receiver(webhook, url, (), texts[0][0], links)
        return Receiver(webhook, url, tuple(key_of(*text) for text in texts), links=links)
    except (SecretError, SettingError) as error:
        raise SecretError(f"webhook {webhook.name!r}: {error}") from error


@dataclass(slots=True)
class EndpointWorker:
    """Sends the due events of one endpoint, and records the results.

    `now_ns` is the clock for stored times, and `steady_ns` a clock that is never set. The `others`
    hear when the endpoint is disabled.
    """

    receiver: Receiver
    outbox: Outbox
    net: Net
    now_ns: Callable[[], int]
    steady_ns: Callable[[], int]
    chance: Random
    results: Counter[tuple[str, str]]
    agent_of: AgentOf | None = None
    others: Sequence[Webhook] = ()
    _ahead_ns: int | None = None  # of the clock, before the steady one
    _rest_until_ns: int = 0
    _failures: int = 0  # one after the other
    # Accepted and not yet noted.
    _accepted: tuple[Delivery, Tried, str | None] | None = None

    @property
    def _name(self) -> str:
        return self.receiver.webhook.name

    async def step(self) -> float:
        """Send the next due event, if there is one; returns the seconds until the next step.

        Raises:
            StoreError: if the outbox cannot be used; the next step records what was accepted.
        """
        self._note_accepted()
        self._follow_clock()
        if self.outbox.is_disabled(self._name):
            return POLL_S
        delivery = self.outbox.next(self._name)
        if delivery is None:
            return POLL_S
        now_ns = self.now_ns()
        wait_ns = max(delivery.next_try_ns, self._rest_until_ns, self._allowed_ns(now_ns)) - now_ns
        if wait_ns > 0:
            return min(wait_ns / NS_PER_S, POLL_S)
        hook = self.receiver.webhook
        if hook.group_by == "incident":
            repeat_ns = hook.repeat_minutes * NS_PER_MINUTE
            delivery = self.outbox.grouped(delivery, repeat_ns, now_ns)
            if delivery is None:
                return 0.0
        gate = await self._gate_of(delivery)
        if self._is_left(delivery, gate):
            self.outbox.leave(delivery, now_ns + round(LOOK_AGAIN_S * NS_PER_S))
            return 0.0
        await self._try(delivery, gate)
        return 0.0

    def _allowed_ns(self, now_ns: int) -> int:
        per_minute = self.receiver.webhook.rate_per_minute
        return self.outbox.allowed_ns(self._name, per_minute, now_ns) if per_minute else 0

    async def _try(self, delivery: Delivery, gate: GateBackground | None) -> None:
        hook, message = self.receiver.webhook, None
        if keeps_messages(hook):
            message = self.outbox.message(self._name, delivery.key)
        event, now_ns = delivery.event, self.now_ns()
        request = self.receiver.request(event, now_ns, gate, delivery.group, message)
        began_ns = self.steady_ns()
        it = answered(hook, await self.net.send(request))
        ms = (self.steady_ns() - began_ns) // _NS_PER_MS
        if it.answer.error:
            if message and it.is_gone:
                self.outbox.forget_message(self._name, delivery.key)
            self._failed(delivery, it, ms)
        else:
            tried = Tried(self.now_ns(), it.answer.status, ms)
            self._accepted = delivery, tried, it.message
            self._note_accepted()

    async def _gate_of(self, delivery: Delivery) -> GateBackground | None:
        """Return the store's facts about a gate, with what its agent does now."""
        event = delivery.event
        if delivery.gate is None or self.agent_of is None or isinstance(event, ServerEvent):
            return delivery.gate
        return replace(delivery.gate, agent=await self.agent_of(event.gate))

    def _is_left(self, delivery: Delivery, gate: GateBackground | None) -> bool:
        """Return whether nobody waits at a gate of which the endpoint would be told."""
        is_telling = delivery.event.type in ("gate_opened", "gate_unanswered")
        agent = gate.agent if gate else None
        return (
            is_telling and agent is not None and agent.state in self.receiver.webhook.unless_agent
        )

    def _follow_clock(self) -> None:
        """Keep the planned length of waits when the clock is set."""
        now_ns = self.now_ns()
        ahead_ns = now_ns - self.steady_ns()
        jump_ns = 0 if self._ahead_ns is None else ahead_ns - self._ahead_ns
        if self._ahead_ns is None or abs(jump_ns) >= _JUMP_MIN_NS:
            self.outbox.reschedule(self._name, now_ns, jump_ns, round(WAIT_MAX_S * NS_PER_S))
            self._rest_until_ns += jump_ns
            self._ahead_ns = ahead_ns

    def _note_accepted(self) -> None:
        if self._accepted is None:
            return
        self.outbox.delivered(*self._accepted)
        self._accepted = None
        self._failures = 0
        self.results[self._name, "delivered"] += 1

    def _failed(self, delivery: Delivery, it: Answered, ms: int) -> None:
        self._follow_clock()
        now_ns, answer = self.now_ns(), it.answer
        self._failures += 1
        found = self._verdict(delivery, answer, now_ns)
        self._rest_until_ns = now_ns + round(found.rest_s * NS_PER_S)
        next_ns = None if found.wait_s is None else now_ns + round(found.wait_s * NS_PER_S)
        self.outbox.failed(
            delivery,
            Tried(now_ns, answer.status, ms, answer.error),
            next_try_ns=next_ns,
            disabled_why=found.disabled_why,
            others=self.others,
        )
        if found.disabled_why:
            _logger.error("webhook %r is disabled: %s", self._name, found.disabled_why)
        self.results[self._name, "failed"] += 1
        self.results[self._name, "dead"] += next_ns is None
        self.results[self._name, "disabled"] += found.disabled_why is not None

    def _verdict(self, delivery: Delivery, answer: EndpointResponse, now_ns: int) -> RetryDecision:
        since_ns = self.outbox.failing_ns(self._name)
        return retry_decision(
            answer,
            tries=delivery.tries + 1,
            failures=self._failures,
            failing_s=(now_ns - (now_ns if since_ns is None else since_ns)) / NS_PER_S,
            chance=self.chance.random(),
        )
