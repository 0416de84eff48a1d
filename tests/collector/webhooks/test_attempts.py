"""The log of deliveries: what it has, how long it is, what is sent again, and the rate."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.store.gate_file import attempts
from looptrace.collector.store.gate_file.attempts import Tried
from looptrace.collector.store.outbox import Outbox
from looptrace.collector.webhooks.client import WebhookRequest
from looptrace.collector.webhooks.endpoint_worker import EndpointWorker, Receiver
from looptrace.collector.webhooks.retry_policy import EndpointResponse
from looptrace.rules.contract import SettingError
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.test_outbox import HOOK, NOW_NS, event, opened, pending, recorded
from tests.reliability.test_webhook_delivery import run

MS_NS = 1_000_000


class Endpoint:
    """An endpoint of a store with a clock of its own; each request takes 7 ms."""

    def __init__(self, path: Path, hook: Webhook = HOOK, *others: Webhook) -> None:
        self.now_ns = NOW_NS
        self.answer = EndpointResponse(204)
        self.sent: list[WebhookRequest] = []
        self.outbox = Outbox.open(path)
        clocks = (lambda: self.now_ns, lambda: self.now_ns)
        receiver = Receiver(hook, hook.url, (), "xoxb-1")
        results = Counter[tuple[str, str]]()
        self.worker = EndpointWorker(
            receiver, self.outbox, self, *clocks, Random(1), results, others=others
        )

    async def send(self, request: WebhookRequest) -> EndpointResponse:
        """Receive a request."""
        self.sent.append(request)
        self.now_ns += 7 * MS_NS
        return self.answer

    def sends(self) -> float:
        """Send what may be sent now; return the wait before the next."""
        while not (wait_s := run(self.worker.step())):
            pass
        return wait_s


def test_each_attempt_is_in_the_log(path: Path) -> None:
    """Who asks why nobody was paged sees each attempt, with what the receiver said."""
    recorded(path, opened(1))
    endpoint = Endpoint(path)
    endpoint.answer = EndpointResponse(503, "it answered 503")
    endpoint.sends()
    endpoint.answer = EndpointResponse(204)
    endpoint.now_ns += 10 * NS_PER_S
    endpoint.sends()
    second, first = endpoint.outbox.attempts()
    assert (first.status, first.error, first.ms) == (503, "it answered 503", 7)
    assert (second.status, second.error, second.ms) == (204, "", 7)
    assert (first.event, first.type, first.task) == (opened(1).id, "gate_opened", "t")
    assert (first.gate, first.endpoint, first.at_ns) == ("g", "all", NOW_NS + 7 * MS_NS)
    assert endpoint.outbox.attempts(failed=True) == [first]
    assert endpoint.outbox.attempts("all", opened(1).id, limit=1) == [second]
    assert endpoint.outbox.attempts("other") == []


def test_the_log_stays_short(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that fails for months fills no disk, and takes nothing from another's log."""
    monkeypatch.setattr(attempts, "ATTEMPTS_MAX", 10)
    monkeypatch.setattr(attempts, "_TRIM_EVERY", 4)
    second = replace(HOOK, name="second")
    recorded(path, event(1), hooks=(HOOK, second))
    with Outbox.open(path) as outbox:
        other, delivery = outbox.next("second"), outbox.next("all")
        assert other
        assert delivery
        outbox.failed(other, Tried(NOW_NS, error="500"), next_try_ns=NOW_NS)
        for number in range(100):
            outbox.failed(delivery, Tried(NOW_NS + number, error="500"), next_try_ns=NOW_NS)
            assert len(outbox.attempts("all", limit=1_000)) <= 10 + 4
        assert outbox.attempts("all")[0].at_ns == NOW_NS + 99
        assert len(outbox.attempts("second")) == 1
        outbox.sweep(NOW_NS + attempts.KEPT_S * NS_PER_S + 50)
        assert outbox.attempts("second") == []
        assert outbox.attempts("all")[-1].at_ns >= NOW_NS + 50


def test_an_event_is_sent_again_as_often_as_somebody_asks(path: Path) -> None:
    """The receiver knows it by its id, and it is sent like any other."""
    recorded(path, event(1), event(2))
    endpoint = Endpoint(path)
    endpoint.sends()
    for count in (3, 4):
        assert endpoint.outbox.resend(event(1).id, None, endpoint.now_ns) == 1
        endpoint.sends()
        assert len(endpoint.sent) == count
        assert endpoint.sent[-1].headers["webhook-id"] == event(1).id
    assert endpoint.outbox.resend(event(1).id, "other", endpoint.now_ns) == 0
    assert endpoint.outbox.resend(event(3).id, None, endpoint.now_ns) == 0
    assert endpoint.outbox.replay("all", 0, endpoint.now_ns) == 0
    assert endpoint.outbox.replay("all", endpoint.now_ns + 1, 0, accepted=True) == 0
    assert endpoint.outbox.replay("all", NOW_NS, endpoint.now_ns, accepted=True) == 2
    assert sorted(pending(endpoint.outbox, "all")) == [event(1).id, event(2).id]


def test_an_endpoint_gets_no_more_in_a_minute_than_it_may(path: Path) -> None:
    """A hundred gates at once would be refused by a chat, or block it for everybody."""
    hook = replace(HOOK, rate_per_minute=3)
    recorded(path, *map(event, range(1, 11)), hooks=(hook,))
    endpoint = Endpoint(path, hook)
    times = []
    for _ in range(400):
        before = len(endpoint.sent)
        endpoint.sends()
        times += [endpoint.now_ns] * (len(endpoint.sent) - before)
        endpoint.now_ns += NS_PER_S
        if len(endpoint.sent) == 4:  # A new process knows what the one before sent.
            kept = endpoint.sent
            endpoint = Endpoint(path, hook)
            endpoint.now_ns, endpoint.sent = times[-1] + NS_PER_S, kept
    assert len(endpoint.sent) == 10
    minute_ns = 60 * NS_PER_S
    gaps = [later - earlier for earlier, later in zip(times[:-3], times[3:], strict=True)]
    assert min(gaps) >= minute_ns - NS_PER_S
    assert times[-1] - times[0] < 4 * minute_ns


def test_bounds_of_the_new_settings() -> None:
    """A wrong value is named before anything is sent."""
    with pytest.raises(SettingError, match=r"rate_per_minute is 601; .*between 0 and 600"):
        Webhook("a", "https://a.example/", "slack", rate_per_minute=601)
    with pytest.raises(SettingError, match="channel needs format"):
        Webhook("a", "https://a.example/", "discord", ("env:A",), channel="C1")
    with pytest.raises(SettingError, match="the token of the bot"):
        Webhook("a", "https://slack.com/api/chat.postMessage", "slack", channel="C1")
    with pytest.raises(SettingError, match=r"must be https://slack.com/api/chat.postMessage"):
        Webhook("a", "https://hooks.slack.com/x", "slack", ("env:A",), channel="C1")
