"""Delivery on a thread of its own, with a task for each endpoint, so that none delays another."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import SystemRandom

from looptrace.analyzer.gates.agent_states import NOTHING_HEARD, AgentState, Heard
from looptrace.analyzer.gates.waiting import Waiting
from looptrace.analyzer.settings.page import PageSettings
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.agent_states import agent_states
from looptrace.collector.decision_links import DecisionLinks
from looptrace.collector.store.key import content_key
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.outbox import Outbox
from looptrace.collector.webhooks.client import Http, Net
from looptrace.collector.webhooks.endpoint_worker import (
    NO_PAGE,
    POLL_S,
    AgentOf,
    EndpointWorker,
    Receiver,
    receiver_of,
)
from looptrace.collector.worker import Worker

# How often rows that are too old are deleted.
SWEEP_S = 3_600.0
# The part of the time for closing in which running deliveries may still end by themselves.
_ENDING_SHARE = 0.8

_logger = logging.getLogger(__name__)


class Dispatcher:
    """Sends the events in the outbox of a gate store to webhooks, until it is closed.

    It may be killed at any moment; the next dispatcher goes on from there.
    """

    def __init__(
        self,
        path: Path,
        webhooks: Iterable[Webhook],
        environment: Mapping[str, str],
        net: Net | None = None,
        page: PageSettings = NO_PAGE,
        heard: Callable[[], Heard] = lambda: NOTHING_HEARD,
        waiting: tuple[Waiting, ...] = (),
    ) -> None:
        """Prepare to deliver; messages link to the page, and say what agents do by `heard`."""
        self._path = path
        receivers = receivers_of(path, webhooks, environment, page)
        self._receivers = [replace(receiver, waiting=waiting) for receiver in receivers]
        self._net = net or Http()
        self._heard = heard
        self._results: Counter[tuple[str, str]] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._woken: dict[str, asyncio.Event] = {}
        self._closing_s = 0.0
        self._worker = Worker("looptrace-webhooks", self._work)
        Outbox.open(path).close()

    def start(self) -> None:
        """Begin to deliver; one that was closed before does not."""
        loop = asyncio.new_event_loop()
        self._loop = loop
        if not self._worker.start():
            loop.close()

    def wake(self) -> None:
        """Look into the outbox now, because there are new events."""
        self._call(self._wake_all)

    def close(self, timeout_s: float) -> bool:
        """Stop; running deliveries may end. Returns whether all ended within the time."""
        self._closing_s = timeout_s * _ENDING_SHARE
        self._call(self._stop)
        return self._worker.close(timeout_s)

    def results(self) -> dict[tuple[str, ...], float]:
        """Return the number of tries by endpoint and result.

        Results are `delivered`, `failed` (of these `dead` and `disabled`), and `error` if the store
        could not be used.
        """
        return {(*key,): count for key, count in self._results.items()}

    def _call(self, what: Callable[[], None]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # It has ended, and there is nobody to call.
                self._loop.call_soon_threadsafe(what)

    def _wake_all(self) -> None:
        for event in self._woken.values():
            event.set()

    def _stop(self) -> None:
        self._stopping.set()
        self._wake_all()

    def _work(self) -> None:
        loop = self._loop or asyncio.new_event_loop()
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        with Outbox.open(self._path) as outbox:
            tasks = [asyncio.ensure_future(self._sweep(outbox))]
            for receiver in self._receivers:
                others = _others(receiver, self._receivers)
                about = (self._net, self._results, others, self._agent_of)
                courier = _worker(receiver, outbox, *about)
                tasks.append(asyncio.ensure_future(self._deliver(receiver.webhook.name, courier)))
            await self._stopping.wait()
            _, late = await asyncio.wait(tasks, timeout=self._closing_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _agent_of(self, gate_id: str) -> AgentState | None:
        """Return the state of the agent of a gate, if it is open; no message waits for it."""
        try:
            states = await asyncio.to_thread(agent_states, self._path.parent, self._heard())
        except StoreError as error:
            _logger.warning("gate %s is sent without the state of its agent: %s", gate_id, error)
            return None
        return states.get(gate_id)

    async def _sweep(self, outbox: Outbox) -> None:
        while not self._stopping.is_set():
            with self._going_on("sweep"):
                outbox.sweep(time.time_ns())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), SWEEP_S)

    async def _deliver(self, name: str, courier: EndpointWorker) -> None:
        woken = self._woken[name] = asyncio.Event()
        while not self._stopping.is_set():
            woken.clear()
            wait_s = POLL_S
            with self._going_on(name):
                wait_s = await courier.step()
            if wait_s and not self._stopping.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), wait_s)

    @contextmanager
    def _going_on(self, name: str) -> Iterator[None]:
        """Log the error, and try again later: other endpoints have events, too."""
        try:
            yield
        except StoreError as error:
            _logger.warning("webhook %r: %s", name, error)
            self._results[name, "error"] += 1
        except Exception:
            _logger.exception("webhook %r", name)
            self._results[name, "error"] += 1


def receivers_of(
    path: Path, webhooks: Iterable[Webhook], environment: Mapping[str, str], page: PageSettings
) -> list[Receiver]:
    """Read the addresses of the webhooks of a gate store; its key signs decision links."""
    chosen = list(webhooks)
    asked = any(webhook.decision_hours for webhook in chosen)
    decisions = DecisionLinks(content_key(path.parent)) if asked else None
    return [receiver_of(webhook, environment, page, decisions) for webhook in chosen]


def deliver_due(path: Path, receivers: Sequence[Receiver]) -> dict[tuple[str, str], int]:
    """Send what is due now, each endpoint beside the others; return results as `Dispatcher`."""
    results: Counter[tuple[str, str]] = Counter()

    async def emptied(receiver: Receiver, outbox: Outbox) -> None:
        courier = _worker(receiver, outbox, Http(), results, _others(receiver, receivers))
        while not await courier.step():
            pass

    async def run() -> None:
        with Outbox.open(path) as outbox:
            outbox.sweep(time.time_ns())
            await asyncio.gather(*(emptied(receiver, outbox) for receiver in receivers))

    asyncio.run(run())
    return dict(results)


def _worker(
    receiver: Receiver,
    outbox: Outbox,
    net: Net,
    results: Counter[tuple[str, str]],
    others: Sequence[Webhook],
    agent_of: AgentOf | None = None,
) -> EndpointWorker:
    of = (receiver, outbox, net, time.time_ns, time.monotonic_ns, SystemRandom(), results)
    return EndpointWorker(*of, agent_of, others)


def _others(receiver: Receiver, receivers: Sequence[Receiver]) -> list[Webhook]:
    return [each.webhook for each in receivers if each is not receiver]
