from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.store import outbox
from looptrace.collector.store.gate_file.attempts import Tried
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.outbox import Delivery, Outbox
from looptrace.rules.vocabulary import NS_PER_S

DAY_NS = 86_400 * NS_PER_S
NOW_NS = 1_000 * DAY_NS
HOOK = Webhook("all", "https://hooks.example/", "slack")


def event(number: int = 1, **about: object) -> GateEvent:
    """Return an event; `about` replaces fields."""
    names = (f"{number:016x}", "loop_detected", "t", number, number, "active", "active")
    found = {"agent": "planner", "service": "shop", "action": "warn", "rule": "cycle"}
    base = GateEvent(*names, signature=f"s{number}", **found)  # type: ignore[arg-type]
    return replace(base, **about)  # type: ignore[arg-type]


def opened(number: int, **about: object) -> GateEvent:
    """Return the event that opens gate `g`."""
    found = {"type": "gate_opened", "action": "gate", "gate": "g", "why": "LADDER", **about}
    return event(number, **found)


def resolved(number: int) -> GateEvent:
    """Return the event that ends gate `g`, which has few fields."""
    return event(number, type="gate_resolved", gate="g", agent="", service="", action=None)


def recorded(
    path: Path, *events: GateEvent, hooks: tuple[Webhook, ...] = (HOOK,), now_ns: int = NOW_NS
) -> None:
    """Record events, to be sent to webhooks."""
    with GateStore.open(path, hooks) as gates:
        gates.record(events, (), now_ns)


def pending(out: Outbox, name: str) -> list[str]:
    """Take out all that waits for an endpoint, in the order of trying."""
    found = []
    while (delivery := out.next(name)) is not None:
        found.append(delivery.event.id)
        out.delivered(delivery, Tried(NOW_NS))
    return found


@pytest.fixture
def out(path: Path) -> Iterator[Outbox]:
    """Return the outbox of a new store."""
    GateStore.open(path).close()
    with Outbox.open(path) as found:
        yield found


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"rules": ("cycle", "chant")}, [1, 2, 4]),
        ({"actions": ("gate",)}, [2, 4]),
        ({"agents": ("planner",)}, [1, 2, 3, 4]),
        ({"services": ("shop",), "rules": ("monologue",)}, [3]),
        ({"agents": ("nobody",)}, []),
    ],
)
def test_filters_choose_what_is_sent(
    path: Path, out: Outbox, filters: dict[str, tuple[str, ...]], wanted: list[int]
) -> None:
    """A resolution goes to the webhooks that got its gate; missing fields match no filter."""
    hook = replace(HOOK, **filters)  # type: ignore[arg-type]
    events = [
        event(1),
        opened(2),
        event(3, rule="monologue"),
        resolved(4),
        event(5, type="counter_reset", rule="", agent="", service="", action=None),
    ]
    recorded(path, *events, hooks=(hook,))

    assert pending(out, "all") == [f"{number:016x}" for number in wanted]


def test_nothing_is_written_where_nobody_is_told(path: Path, out: Outbox) -> None:
    """A store without webhooks has an outbox without rows, and the same events twice have one."""
    recorded(path, event(1), hooks=())
    assert out.endpoints() == []
    recorded(path, event(1), event(2))
    recorded(path, event(1), event(2))
    assert pending(out, "all") == [event(2).id]


def test_an_outbox_that_is_full_counts_what_it_leaves_out(
    path: Path, out: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share of one endpoint never takes that of another."""
    monkeypatch.setattr(outbox, "ROWS_MAX", 6)
    picky = replace(HOOK, name="picky", rules=("chant",))
    recorded(path, *map(event, range(1, 6)), hooks=(HOOK, picky))
    recorded(path, event(6, rule="chant"), hooks=(HOOK, picky))

    found = {each.name: (each.pending, each.dropped) for each in out.endpoints()}
    assert found == {"all": (3, 3), "picky": (1, 0)}
    out.delivered(first(out), Tried(NOW_NS))
    recorded(path, event(7), hooks=(HOOK, picky))
    assert (out.endpoint("all").pending, out.endpoint("all").dropped) == (3, 3)


def first(out: Outbox) -> Delivery:
    """Return what is tried first."""
    found = out.next("all")
    assert found is not None
    return found


def failed(out: Outbox, delivery: Delivery, *, next_try_ns: int | None) -> None:
    """Note that a try failed."""
    out.failed(delivery, Tried(NOW_NS, error="500"), next_try_ns=next_try_ns)


def test_dead_letters_are_replayed_and_forgotten_after_a_month(path: Path, out: Outbox) -> None:
    """Nothing is lost at once, and nothing is kept for ever."""
    recorded(path, event(1), event(2), event(3))
    for _ in range(2):
        failed(out, first(out), next_try_ns=None)
    failed(out, first(out), next_try_ns=NOW_NS + DAY_NS)
    known = out.endpoint("all")
    assert (known.pending, known.dead, known.failing_ns, known.error) == (1, 2, NOW_NS, "500")
    assert out.replay("other", 0, NOW_NS + 5) == 0
    assert out.replay("all", NOW_NS + 1, NOW_NS + 5) == 0
    assert out.replay("all", NOW_NS, NOW_NS + 5) == 2
    again = first(out)
    assert (again.event.id, again.tries, again.next_try_ns) == (event(1).id, 0, NOW_NS + 5)

    failed(out, again, next_try_ns=None)
    out.sweep(NOW_NS + 30 * DAY_NS)
    assert (out.endpoint("all").pending, out.endpoint("all").dead) == (2, 1)
    out.sweep(NOW_NS + 30 * DAY_NS + 6)
    assert (out.endpoint("all").pending, out.endpoint("all").dead) == (0, 2)
    out.sweep(NOW_NS + 61 * DAY_NS)
    assert out.endpoint("all").dead == 0


def test_disabling_lasts_until_somebody_enables(path: Path, out: Outbox) -> None:
    """A restart does not begin to knock again at a door that was closed."""
    recorded(path, event(1))
    delivery = first(out)
    out.failed(
        delivery, Tried(NOW_NS, error="410"), next_try_ns=NOW_NS + 1, disabled_why="it is gone"
    )
    with Outbox.open(path) as later:
        assert later.endpoint("all").disabled_why == "it is gone"
        assert later.enable("all", NOW_NS)
        assert not later.enable("other", NOW_NS)
    assert out.endpoint("all").disabled_ns is None
    assert (first(out)).tries == 1


def test_the_end_of_a_gate_comes_with_its_beginning(path: Path, out: Outbox) -> None:
    """Alertmanager takes an alert that starts when it ends for another one, or for none."""
    recorded(path, opened(5), resolved(7), event(8))
    starts = {}
    while (delivery := out.next("all")) is not None:
        starts[delivery.event.type] = delivery.gate and delivery.gate.opened_ns
        out.delivered(delivery, Tried(NOW_NS))
    assert starts == {"gate_opened": 5, "gate_resolved": 5, "loop_detected": None}
