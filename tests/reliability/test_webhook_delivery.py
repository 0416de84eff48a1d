"""What is promised of deliveries: at least once, by a schedule that ends, and nothing unsaid.

The simulator drives the real couriers over real files. A seed chooses what the clock, the network
and the disk do, and where the process is killed.
"""

import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from itertools import accumulate
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, TypeVar

import pytest

from looptrace.collector.store.gate_file.attempts import Tried
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.outbox import Outbox
from looptrace.collector.webhooks.client import WebhookRequest
from looptrace.collector.webhooks.endpoint_worker import EndpointWorker, Receiver
from looptrace.collector.webhooks.retry_policy import (
    FAILING_MAX_S,
    WAIT_MAX_S,
    WAITS_S,
    EndpointResponse,
)
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.test_outbox import HOOK, event

SEEDS = int(os.environ.get("LOOPTRACE_SOAK_SEEDS", "250"))
EVENTS = 4
HOUR_S = 3_600
START_NS = 1_000_000 * NS_PER_S
STEPS_MAX = 20_000
CONTROL_SEEDS = 50
# Some 20 processes end one after the other before the last event is delivered.
PROCESSES_MAX = 1_000
OK, ERROR = EndpointResponse(204), EndpointResponse(500, "it answered 500")
RECEIVER = Receiver(HOOK, HOOK.url, (b"k" * 32,))
T = TypeVar("T")


class Killed(BaseException):
    """The process is gone."""


class Disk(sqlite3.Connection):
    """A file that fails when `fault` says so, before a statement or after a commit."""

    fault: Callable[[str], None] = staticmethod(lambda _: None)

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """Run a statement, or fail."""
        self.fault("statement")
        return super().execute(sql, *values)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Any:
        result = super().__exit__(kind, error, traceback)
        self.fault("committed")
        return result


class Chance(Random):
    """Chance that is always the same."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def random(self) -> float:
        """Return the value."""
        return self.value


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waited for something real")


class World:
    """A clock, a receiver, and what came of it."""

    def __init__(
        self, path: Path, answer: Callable[[int], EndpointResponse] = lambda _: OK
    ) -> None:
        self.path = path
        self.now_ns = START_NS
        self.set_ns = 0  # the change of the clock
        self.answer = answer  # by the number of the try, from 0
        self.tries: list[tuple[float, str]] = []  # seconds since the start, id
        self.accepted: Counter[str] = Counter()
        self.bodies: dict[str, set[bytes]] = {}
        self.results: Counter[tuple[str, str]] = Counter()
        self.fault: Callable[[str], None] = lambda _: None
        self.kind: type[EndpointWorker] = EndpointWorker

    async def send(self, request: WebhookRequest) -> EndpointResponse:
        """Receive a request."""
        self.fault("before")
        name = request.headers["webhook-id"]
        self.tries.append(((self.now_ns - START_NS) / NS_PER_S, name))
        self.bodies.setdefault(name, set()).add(request.body)
        answer = self.answer(len(self.tries) - 1)
        self.accepted[name] += answer.status == OK.status
        self.fault("after")
        return answer

    def disk(self, *, sound: bool = False) -> sqlite3.Connection:
        """Connect to the file, which may fail or not."""
        disk = sqlite3.connect(self.path, isolation_level=None, factory=Disk)
        sqlite3.Connection.execute(disk, "PRAGMA synchronous = OFF")  # Nobody pulls the plug here.
        if not sound:
            disk.fault = self.fault
        return disk

    def record(self, *numbers: int) -> None:
        """Record events."""
        with closing(self.disk()) as disk:
            GateStore(self.path, disk, (HOOK,)).record(map(event, numbers), (), self.now_ns)

    def courier(self, disk: sqlite3.Connection, chance: Random) -> tuple[EndpointWorker, Outbox]:
        """Start a process."""
        outbox = Outbox(self.path, disk)
        clocks = (lambda: self.now_ns, lambda: self.now_ns - self.set_ns)
        return self.kind(RECEIVER, outbox, self, *clocks, chance, self.results), outbox

    def set_clock(self, seconds: int) -> None:
        """Set the clock forward or back."""
        self.set_ns += seconds * NS_PER_S
        self.now_ns += seconds * NS_PER_S

    def deliver(self, chance: Random | None = None) -> None:
        """Run a process until nothing is to be sent any more, or until it is killed."""
        with closing(self.disk()) as disk:
            courier, outbox = self.courier(disk, chance or Chance(0.5))
            for _ in range(STEPS_MAX):
                wait_s, soon_ns = 5.0, 0
                with suppress(StoreError):
                    wait_s = run(courier.step())
                    found = outbox.next(HOOK.name)
                    if found is None or outbox.is_disabled(HOOK.name):
                        return
                    # The clock jumps to shortly before there is something to do.
                    soon_ns = found.next_try_ns - 5 * NS_PER_S if wait_s else 0
                self.now_ns = max(self.now_ns + round(wait_s * NS_PER_S), soon_ns)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a new world."""
    path = tmp_path / "gates.db"
    GateStore.open(path).close()
    return World(path)


# --- At least once -------------------------------------------------------------------------------


class LostError(Exception):
    """A promise was not kept."""


class MarksFirst(EndpointWorker):
    """Takes an event out of the outbox before the receiver has it: the control arm."""

    async def step(self) -> float:
        """Mark, then send."""
        delivery = self.outbox.next(self._name)
        if delivery is not None:
            self.outbox.delivered(delivery, Tried(0))
            await self.net.send(self.receiver.request(delivery.event, self.now_ns()))
        return 0.0


class Storm(World):
    """A world in which all that can go wrong does, by a seed."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__(path, self.any_answer)
        self.chance = Random(seed)
        self.spare = 0  # kills, and answers that were lost: each explains one more copy
        self.fault = self.any_fault

    def any_answer(self, _: int) -> EndpointResponse:
        """Accept, refuse, or ask for time."""
        asked = EndpointResponse(429, "it answered 429", self.chance.randint(0, 99))
        return self.chance.choice([OK, OK, ERROR, asked])

    def any_fault(self, what: str) -> None:
        """Kill the process, or let the disk fail."""
        if what == "statement" and self.chance.random() < 0.01:
            raise sqlite3.OperationalError("disk I/O error")
        if self.chance.random() < (0.01 if what == "statement" else 0.06):
            self.spare += 1
            raise Killed

    async def send(self, request: WebhookRequest) -> EndpointResponse:
        """Receive a request; sometimes the answer is lost."""
        found = await super().send(request)
        if not found.error and self.chance.random() < 0.1:
            self.spare += 1
            return EndpointResponse(None, "no answer within 15 s")
        return found

    def tell(self, number: int) -> None:
        """Record an event, with as many processes as it takes."""
        told = 0
        while told < number:
            with suppress(Killed, StoreError):
                self.record(number)
            with closing(self.disk(sound=True)) as disk:
                told = GateStore(self.path, disk).last_seq()


def simulated(
    template: Path, path: Path, seed: int, kind: type[EndpointWorker] = EndpointWorker
) -> None:
    """Live through a life with kills, lost answers, refusals and disks that fail."""
    shutil.copyfile(template, path)
    world = Storm(path, seed)
    world.kind = kind
    for number in range(1, EVENTS + 1):
        world.tell(number)
        with suppress(Killed, StoreError):
            world.deliver(world.chance)
    for _ in range(PROCESSES_MAX):
        with suppress(Killed, StoreError):
            world.deliver(world.chance)
        with closing(world.disk(sound=True)) as disk:
            outbox = Outbox(path, disk)
            if outbox.next(HOOK.name) is None and not outbox.endpoint(HOOK.name).dead:
                break
            # Somebody looks after the dead letters, and after an endpoint that is disabled.
            outbox.replay(None, 0, world.now_ns)
            outbox.enable(HOOK.name, world.now_ns)
    else:
        raise LostError(f"seed {seed}: {PROCESSES_MAX} processes did not deliver what was left")
    check(world, seed)


def lost(template: Path, seeds: int, kind: type[EndpointWorker] = EndpointWorker) -> list[str]:
    """Return what broke a promise in so many lives."""
    found = []
    for seed in range(seeds):
        try:
            simulated(template, template.with_name(f"{seed}.db"), seed, kind)
        except LostError as error:
            found.append(str(error))
        finally:
            template.with_name(f"{seed}.db").unlink()
    return found


def check(world: Storm, seed: int) -> None:
    """Compare what was received with what was promised."""
    wanted = {event(number).id for number in range(1, EVENTS + 1)}
    if set(world.accepted) != wanted or not all(world.accepted.values()):
        raise LostError(f"seed {seed}: received {dict(world.accepted)}")
    copies = sum(world.accepted.values()) - len(wanted)
    if copies > world.spare:
        raise LostError(f"seed {seed}: {copies} copies, kills and lost answers {world.spare}")
    if any(len(bodies) > 1 for bodies in world.bodies.values()):
        raise LostError(f"seed {seed}: one id with several bodies")


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """Make an empty store, which each life copies."""
    path = tmp_path / "template.db"
    GateStore.open(path).close()
    return path


def test_every_event_is_received_whatever_is_killed_when(template: Path) -> None:
    """P11: each event at least once under one id, and no more copies than kills explain."""
    assert lost(template, SEEDS) == []


def test_the_simulator_finds_a_mark_that_comes_before_the_answer(template: Path) -> None:
    """P11, control arm: a simulator that did not find this would find nothing."""
    found = lost(template, CONTROL_SEEDS, MarksFirst)
    assert found
    assert all("received" in each for each in found)


def test_any_one_call_of_the_disk_may_fail(template: Path) -> None:
    """P11 and P24: a disk that fails once, wherever, costs neither an event nor a copy."""
    for number in range(1, 200):
        path = template.with_name(f"{number}.db")
        shutil.copyfile(template, path)
        world, calls = World(path), 0
        world.record(1, 2)

        def fault(what: str, failing: int = number) -> None:
            nonlocal calls
            calls += what == "statement"
            if what == "statement" and calls == failing:
                raise sqlite3.OperationalError("disk full")

        world.fault = fault
        world.deliver()
        assert world.accepted == {event(1).id: 1, event(2).id: 1}, number
        assert world.results["all", "delivered"] == 2, number
        if calls < number:
            break
    assert calls > 10


# --- The schedule --------------------------------------------------------------------------------


@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
def test_tries_come_when_the_schedule_says(world: World, chance: float, factor: float) -> None:
    """P12: ten tries in some 75 hours, each wait up to a fifth longer or shorter; then it is dead.

    The rest of the endpoint after its first failures never holds back a single event.
    """
    world.answer = lambda _: ERROR
    world.record(1)
    world.deliver(chance=Chance(chance))

    waits = [wait * factor for wait in WAITS_S]
    assert [at for at, _ in world.tries] == pytest.approx(list(accumulate(waits)))
    assert sum(WAITS_S) == 75 * HOUR_S + 35 * 60 + 5
    with Outbox.open(world.path) as outbox:
        assert (outbox.endpoint("all").pending, outbox.endpoint("all").dead) == (0, 1)
    assert world.results == {("all", "failed"): 10, ("all", "dead"): 1, ("all", "disabled"): 0}


@pytest.mark.parametrize(("asked_s", "waited_s"), [(3, 5), (77, 77), (7 * 86_400, 86_400)])
def test_retry_after_is_kept_up_to_a_day(world: World, asked_s: int, waited_s: int) -> None:
    """P12: a receiver that asks for time gets it, for all events, but not forever."""
    busy = EndpointResponse(429, "it answered 429", asked_s)
    world.answer = lambda number: OK if number else busy
    world.record(1, 2)
    world.deliver()

    first, second = event(1).id, event(2).id
    assert [name for _, name in world.tries] == [first, second, first]
    assert world.tries[1][0] == pytest.approx(min(max(asked_s, 4), waited_s))
    assert world.tries[2][0] == pytest.approx(waited_s)


@pytest.mark.parametrize("days", [-10, -1, 1, 400])
def test_a_clock_that_is_set_holds_nothing_back(world: World, days: int) -> None:
    """P12: a wait has its planned length, by a clock that cannot be set."""
    world.answer = lambda number: OK if number > 1 else ERROR
    world.record(1, 2)
    with closing(world.disk()) as disk:
        courier, outbox = world.courier(disk, Chance(0.5))
        assert run(courier.step()) == 0.0
        world.set_clock(days * 86_400)
        waited_s = 0.0
        while outbox.next("all") and waited_s < HOUR_S:
            wait_s = run(courier.step())
            world.now_ns += round(wait_s * NS_PER_S)
            waited_s += wait_s
        assert outbox.endpoint("all").disabled_why is None
    assert world.accepted == {event(1).id: 1, event(2).id: 1}
    assert waited_s == 4 + 8  # as long as the endpoint rests


def test_a_new_process_waits_no_longer_than_any_wait_lasts(world: World) -> None:
    """P12: it cannot know how the clock was set while none ran."""
    world.answer = lambda number: OK if number else ERROR
    world.record(1, 2)
    with closing(world.disk()) as disk:
        run(world.courier(disk, Chance(0.5))[0].step())
    world.set_clock(-10 * 86_400)
    world.deliver()
    assert world.accepted == {event(1).id: 1, event(2).id: 1}
    first, second = (at + 10 * 86_400 for at, _ in world.tries[1:])
    assert first == 0
    assert second == pytest.approx(WAIT_MAX_S)


def test_gone_disables_until_somebody_enables(world: World) -> None:
    """P12: 410 means never again; nothing of it is lost."""
    world.answer = lambda number: OK if number else EndpointResponse(410, "it answered 410")
    world.record(1, 2)
    world.deliver()
    with Outbox.open(world.path) as outbox:
        assert outbox.endpoint("all").disabled_why == "it answered 410 Gone"
        assert len(world.tries) == 1
        world.deliver()
        assert len(world.tries) == 1
        outbox.enable("all", world.now_ns)
    world.deliver()
    assert world.accepted == {event(1).id: 1, event(2).id: 1}


def tried_for(world: World, answer: Callable[[int], EndpointResponse]) -> tuple[float, str | None]:
    """Send an event an hour until the endpoint is disabled, for 250 hours at most."""
    world.answer = answer
    for hour in range(250):
        world.now_ns = START_NS + hour * HOUR_S * NS_PER_S
        world.record(hour + 1)
        with closing(world.disk()) as disk:
            courier, outbox = world.courier(disk, Chance(0.5))
            while not run(courier.step()):
                pass
            if outbox.is_disabled("all"):
                return hour, outbox.endpoint("all").disabled_why
    return 250, None


def test_an_endpoint_that_only_fails_is_disabled_after_five_days(world: World) -> None:
    """P12: 120 hours of nothing but failure."""
    hours, why = tried_for(world, lambda _: ERROR)
    assert hours == FAILING_MAX_S / HOUR_S == 120
    assert why == "every try failed for 120 hours"


def test_a_success_now_and_then_keeps_an_endpoint(world: World) -> None:
    """P12: one success in a hundred tries restarts the count."""
    assert tried_for(world, lambda number: ERROR if (number + 1) % 100 else OK) == (250, None)


def test_dead_letters_come_back_by_replay(world: World) -> None:
    """P12: what died is kept and can be sent after all, under the same id."""
    world.answer = lambda number: ERROR if number < len(WAITS_S) else OK
    world.record(1)
    world.deliver()
    with Outbox.open(world.path) as outbox:
        assert outbox.replay("all", 0, world.now_ns) == 1
    world.deliver()
    assert world.accepted == {event(1).id: 1}
    assert len(world.bodies[event(1).id]) == 1


def test_a_broken_endpoint_is_spared(world: World) -> None:
    """P15: of a hundred events only some are tried while an endpoint fails, and all afterwards."""
    down = 10
    world.answer = lambda number: ERROR if number < down else OK
    world.record(*range(1, 101))
    world.deliver()

    gaps = [b - a for (a, _), (b, _) in zip(world.tries[: down + 1], world.tries[1:], strict=False)]
    assert gaps[:5] == pytest.approx([4, 8, 16, 32, 60])
    assert set(world.accepted.values()) == {1}
    assert len(world.accepted) == 100
