"""Sends the events of one endpoint to its receiver, one after the other.

A row stays in the outbox until the receiver has accepted it. After a kill the event is sent again,
under the same id, and none is lost.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from looptrace import __version__
from looptrace.analyzer.gates.agent_states import AgentState
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.waiting import Waiting
from looptrace.analyzer.settings.page import PageSettings
from looptrace.analyzer.settings.webhook import FILE, VARIABLE, Webhook, check_url
from looptrace.collector.decision_links import DecisionLinks
from looptrace.collector.store.outbox import Delivery, GateBackground, Outbox, PageGroup
from looptrace.collector.webhooks.client import Net, WebhookRequest
from looptrace.collector.webhooks.event_links import NO_LINKS, EventLinks, links_of
from looptrace.collector.webhooks.formats import Telling, body_of
from looptrace.collector.webhooks.retry_policy import (
    WAIT_MAX_S,
    EndpointResponse,
    RetryDecision,
    retry_decision,
)
from looptrace.collector.webhooks.signing import SecretError, key_of, secret_text, signed
from looptrace.rules.contract import SettingError
from looptrace.rules.vocabulary import NS_PER_S

# The results of so many latest tries are remembered.
DELIVERIES_KEPT = 10
# How often the worker looks for events that another process wrote.
POLL_S = 5.0
NO_PAGE = PageSettings()
# Returns the state of the agent of a gate, None if it is not open or not known.
AgentOf = Callable[[str], Awaitable[AgentState | None]]
# If the clock differs by more, it was set.
_JUMP_MIN_NS = NS_PER_S
_NS_PER_MINUTE = 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Receiver:
    """A webhook with the values to which its settings point; its text shows no secret."""

    webhook: Webhook
    url: str
    keys: tuple[bytes, ...]
    integration_key: str = ""
    links: EventLinks = NO_LINKS
    waiting: tuple[Waiting, ...] = ()

    def __repr__(self) -> str:
        return f"Receiver({self.webhook.name!r})"

    def request(
        self,
        event: GateEvent,
        now_ns: int,
        gate: GateBackground | None = None,
        group: PageGroup | None = None,
    ) -> WebhookRequest:
        """Return the message of an event, with the store's current facts about its gate."""
        hook = self.webhook
        telling = Telling(
            self.links, self.integration_key, hook.error_text, now_ns, gate, self.waiting, group
        )
        body, content_type = body_of(hook.format, event, telling)
        headers = {
            "content-type": content_type,
            "user-agent": f"looptrace/{__version__}",
            "connection": "close",
        }
        headers |= signed(self.keys, event.id, now_ns // NS_PER_S, body)
        return WebhookRequest(self.url, headers, body, hook.allow_private)


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
        if webhook.format == "pagerduty":
            return Receiver(webhook, url, (), texts[0][0], links)
        return Receiver(webhook, url, tuple(key_of(*text) for text in texts), links=links)
    except (SecretError, SettingError) as error:
        raise SecretError(f"webhook {webhook.name!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class PastDelivery:
    """A try to deliver, and its result; `error` is empty if it was accepted."""

    at_ns: int
    event: str  # its type
    task: str
    gate: str
    error: str


class EndpointWorker:
    """Sends the due events of one endpoint, and records the results.

    `now_ns` is the clock for stored times, and `steady_ns` a clock that is never set.
    """

    def __init__(
        self,
        receiver: Receiver,
        outbox: Outbox,
        net: Net,
        now_ns: Callable[[], int],
        steady_ns: Callable[[], int],
        chance: Random,
        results: Counter[tuple[str, str]],
        agent_of: AgentOf | None = None,
    ) -> None:
        self._receiver = receiver
        self._name = receiver.webhook.name
        self._outbox = outbox
        self._net = net
        self._now_ns = now_ns
        self._steady_ns = steady_ns
        self._ahead_ns: int | None = None  # of the clock, before the steady one
        self._chance = chance
        self._results = results
        self._agent_of = agent_of
        self._rest_until_ns = 0
        self._failures = 0  # one after the other
        self._accepted: Delivery | None = None  # and not yet noted
        self.past: deque[PastDelivery] = deque(maxlen=DELIVERIES_KEPT)

    async def step(self) -> float:
        """Send the next due event, if there is one; returns the seconds until the next step.

        Raises:
            StoreError: if the outbox cannot be used; the next step records what was accepted.
        """
        self._note_accepted()
        self._follow_clock()
        if self._outbox.is_disabled(self._name):
            return POLL_S
        delivery = self._outbox.next(self._name)
        if delivery is None:
            return POLL_S
        wait_ns = max(delivery.next_try_ns, self._rest_until_ns) - self._now_ns()
        if wait_ns > 0:
            return min(wait_ns / NS_PER_S, POLL_S)
        hook = self._receiver.webhook
        if hook.group_by == "incident":
            repeat_ns = hook.repeat_minutes * _NS_PER_MINUTE
            delivery = self._outbox.grouped(delivery, repeat_ns, self._now_ns())
            if delivery is None:
                return 0.0
        gate, now_ns = await self._gate_of(delivery), self._now_ns()
        request = self._receiver.request(delivery.event, now_ns, gate, delivery.group)
        answer = await self._net.send(request)
        self._remember(delivery.event, answer)
        if answer.error:
            self._failed(delivery, answer)
        else:
            self._accepted = delivery
            self._note_accepted()
        return 0.0

    async def _gate_of(self, delivery: Delivery) -> GateBackground | None:
        """Return the store's facts about a gate, with what its agent does now."""
        if delivery.gate is None or self._agent_of is None:
            return delivery.gate
        return replace(delivery.gate, agent=await self._agent_of(delivery.event.gate))

    def _follow_clock(self) -> None:
        """Keep the planned length of waits when the clock is set."""
        now_ns = self._now_ns()
        ahead_ns = now_ns - self._steady_ns()
        jump_ns = 0 if self._ahead_ns is None else ahead_ns - self._ahead_ns
        if self._ahead_ns is None or abs(jump_ns) >= _JUMP_MIN_NS:
            self._outbox.reschedule(self._name, now_ns, jump_ns, round(WAIT_MAX_S * NS_PER_S))
            self._rest_until_ns += jump_ns
            self._ahead_ns = ahead_ns

    def _remember(self, event: GateEvent, answer: EndpointResponse) -> None:
        tried = (self._now_ns(), event.type, event.task, event.gate, answer.error)
        self.past.appendleft(PastDelivery(*tried))

    def _note_accepted(self) -> None:
        if self._accepted is None:
            return
        self._outbox.delivered(self._accepted, self._now_ns())
        self._accepted = None
        self._failures = 0
        self._results[self._name, "delivered"] += 1

    def _failed(self, delivery: Delivery, answer: EndpointResponse) -> None:
        self._follow_clock()
        now_ns = self._now_ns()
        self._failures += 1
        found = self._verdict(delivery, answer, now_ns)
        self._rest_until_ns = now_ns + round(found.rest_s * NS_PER_S)
        next_ns = None if found.wait_s is None else now_ns + round(found.wait_s * NS_PER_S)
        self._outbox.failed(
            delivery,
            answer.error,
            now_ns,
            next_try_ns=next_ns,
            disabled_why=found.disabled_why,
        )
        self._results[self._name, "failed"] += 1
        self._results[self._name, "dead"] += next_ns is None
        self._results[self._name, "disabled"] += found.disabled_why is not None

    def _verdict(self, delivery: Delivery, answer: EndpointResponse, now_ns: int) -> RetryDecision:
        since_ns = self._outbox.failing_ns(self._name)
        return retry_decision(
            answer,
            tries=delivery.tries + 1,
            failures=self._failures,
            failing_s=(now_ns - (now_ns if since_ns is None else since_ns)) / NS_PER_S,
            chance=self._chance.random(),
        )
