"""The events that a stream gets: all of what it asks for and nothing else, however it is cut."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from looptrace.analyzer.gates.directives import OWN
from looptrace.analyzer.gates.events import EventType, GateEvent
from looptrace.analyzer.gates.state_machine import Gate, TaskState
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.sdk.gate_stream import events_in
from looptrace.collector.server.asked_tasks import Asked
from looptrace.collector.server.streams import event_feed
from looptrace.collector.server.streams.event_feed import Changes, EventFeed
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.reader import open_gates
from looptrace.collector.store.writer import ingest
from looptrace.rules.actions import Action

TASKS = [f"task-{number}" for number in range(4)]
TRACES = [f"{number:032x}" for number in range(1, 7)]
STEPS = 60
WAIT_S = 30.0


@dataclass
class Told:
    """The events so far of a store that each event changes."""

    gates: GateStore
    changes: Changes
    chance: random.Random
    events: list[GateEvent] = field(default_factory=list)
    open: dict[str, GateEvent] = field(default_factory=dict)

    def tell(
        self, task: str, trace: str, kind: EventType | None = None, action: Action | None = "warn"
    ) -> None:
        """Record a warning of a task, or that its gate opens or is resolved."""
        number = len(self.events) + 1
        gate = ""
        if kind is None and self.chance.random() < 0.6:
            kind = "gate_resolved" if task in self.open else "gate_opened"
            gate = f"g{number}"
            if task in self.open:  # It is of the turn that opened it.
                gate, trace = self.open[task].gate, self.open[task].trace_id
        event = GateEvent(
            *(f"e{number}", kind or "loop_detected", task, number, number, "active", "active"),
            trace_id=trace,
            gate=gate,
            why="LADDER",
            action=action,
            signature=f"s{number}",  # An equal warning would be known as the one before.
        )
        if kind == "gate_opened":
            self.open[task] = event
        elif kind == "gate_resolved":
            del self.open[task]
        opened = self.open.get(task)
        held = None if opened is None else Gate(opened.gate, "r", "s", opened.at_ns)
        self.gates.record([event], [TaskState(task, gate=held)], number)
        self.events.append(event)
        self.changes.tell()


@asynccontextmanager
async def telling(folder: Path, chance: random.Random) -> AsyncIterator[tuple[EventFeed, Told]]:
    """Open the feed of a new store, and what tells it."""
    changes = Changes()
    ingest(SPAN_SCHEMA.to_frame(), folder)
    feed = EventFeed(folder, changes, OWN)
    with open_gates(folder) as gates:
        yield feed, Told(gates, changes, chance)
    feed.close()


def sent_in(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the number and the event of each part of a text; {} for a number alone."""
    for number, data in events_in(iter(text.encode().splitlines(keepends=True))):
        yield number, json.loads(data or "{}")


class Client:
    """A process that asks for more and more, and restarts its stream after a cut."""

    def __init__(self, name: str, feed: EventFeed, chance: random.Random) -> None:
        self.name, self.feed, self.chance = name, feed, chance
        self.names = Asked()
        self.asked_at: dict[str, int] = {}  # events that there were when a trace was asked for
        self.last_id: int | None = None
        self.seen: list[dict[str, Any]] = []
        self.texts = ""
        self.is_known = asyncio.Event()  # The stream has begun.

    async def ask(self, names: Asked, told: Told) -> None:
        """Ask for more, beside the stream where it is open."""
        for trace in names.traces:
            self.asked_at.setdefault(trace, len(told.events))
        joined = Asked(
            tuple(dict.fromkeys((*self.names.tasks, *names.tasks))),
            traces=tuple(dict.fromkeys((*self.names.traces, *names.traces))),
        )
        self.names = joined
        if self.is_known.is_set():
            await self.feed.change(self.name, names, ())

    async def follow(self) -> None:
        """Follow, and be cut off now and then, also in the middle of a text."""
        while True:
            stream = self.feed.follow(self.names, self.last_id, self.name)
            self.texts = ""
            asked = self.names
            async with aclosing(stream) as texts:
                await self._read(texts, asked, self.chance.choice((1, 2, 5, 30)))
            self.is_known.clear()
            await asyncio.sleep(0)

    async def _read(self, texts: AsyncIterator[str], asked: Asked, count: int) -> None:
        async for text in texts:
            count -= 1
            self.texts += text if count else text[: self.chance.randrange(len(text))]
            whole, _, _ = self.texts.rpartition("\n\n")
            self.texts = self.texts.removeprefix(whole + "\n\n") if whole else self.texts
            for number, notice in sent_in(f"{whole}\n\n"):
                if number:
                    assert int(number) >= (self.last_id or 0)
                    self.last_id = int(number)
                if notice:
                    self.take(notice)
            if ": here" in text and not self.is_known.is_set():
                self.is_known.set()
                new = Asked(
                    tuple({*self.names.tasks} - {*asked.tasks}),
                    traces=tuple({*self.names.traces} - {*asked.traces}),
                )
                await self.feed.change(self.name, new, ())
            if count == 0:
                return

    def take(self, notice: dict[str, Any]) -> None:
        """Take an event, which must be new."""
        assert notice["task"] in self.names.tasks or notice["trace_id"] in self.names.traces
        if notice not in self.seen:
            self.seen.append(notice)

    def missing(self, told: Told) -> list[str]:
        """Return what it should know and does not."""
        ids = [each["id"] for each in self.seen]
        # A stream begins without the openings of gates that ended before.
        ended = {each.gate for each in told.events if each.type == "gate_resolved"}
        missing = [
            event.id
            for number, event in enumerate(told.events)
            if number >= self.asked_at.get(event.trace_id, STEPS)
            and event.id not in ids
            and not (event.type == "gate_opened" and event.gate in ended)
        ]
        for task in self.names.tasks:
            held = None
            for each in self.seen:
                if each["task"] == task and each["type"] == "gate_opened":
                    held = each["gate"]
                elif each["type"] == "gate_resolved" and each["gate"] == held:
                    held = None  # As in an agent, the end of another gate does not end this one.
            opened = told.open.get(task)
            if held != (opened and opened.gate):
                missing.append(f"the end of {task}")
        return missing


@pytest.mark.parametrize("seed", range(6))
def test_no_event_is_lost_whenever_names_are_added_and_streams_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A task begins with its open gate, a trace gets all of its events, and no others come."""
    monkeypatch.setattr(event_feed, "RECENT_MAX", STEPS)
    monkeypatch.setattr(event_feed, "SILENCE_S", 0.01)
    chance = random.Random(seed)

    async def go() -> None:
        async with telling(tmp_path, chance) as (feed, told):
            clients = [Client(f"stream-{number}", feed, chance) for number in range(3)]
            following = [asyncio.create_task(client.follow()) for client in clients]
            for _ in range(STEPS):
                if chance.random() < 0.5:
                    asked = Asked(tasks=(chance.choice(TASKS),))
                    if chance.random() < 0.5:
                        asked = Asked(traces=(chance.choice(TRACES),))
                    await chance.choice(clients).ask(asked, told)
                told.tell(chance.choice(TASKS), chance.choice(TRACES))
                await asyncio.sleep(chance.choice((0, 0, 0.002, 0.02)))
            deadline_s = time.monotonic() + WAIT_S
            while missing := {client.name: client.missing(told) for client in clients}:
                ended = [task.exception() for task in following if task.done()]
                if ended or not any(missing.values()):
                    break
                assert time.monotonic() < deadline_s, missing
                await asyncio.sleep(0.01)
            assert not ended
            for task in following:
                task.cancel()
            results = await asyncio.gather(*following, return_exceptions=True)
            assert [r for r in results if not isinstance(r, asyncio.CancelledError)] == []

    asyncio.run(go())


def test_a_gate_that_ends_while_a_stream_begins_is_told_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loaded server can pass on the end of a gate before it has told that the gate is open."""

    async def go() -> list[str]:
        async with telling(tmp_path, random.Random(1)) as (feed, told):
            while "task-0" not in told.open:
                told.tell("task-0", TRACES[0])
            since = len(told.events)
            begin, loop = feed._begin, asyncio.get_running_loop()

            async def end() -> None:
                while "task-0" in told.open:
                    told.tell("task-0", TRACES[0])

            def begin_and_end(asked: Asked, seq: int) -> Any:
                opened_at, opened, came = begin(asked, seq)
                asyncio.run_coroutine_threadsafe(end(), loop).result(WAIT_S)
                return opened_at, opened, [*came, *feed._after(opened_at)]

            monkeypatch.setattr(feed, "_begin", begin_and_end)
            kinds: list[str] = []
            async with aclosing(feed.follow(Asked(tasks=("task-0",)), since)) as texts:
                async for text in texts:
                    if ": here" in text:
                        break
                    kinds += [notice["type"] for _, notice in sent_in(text) if notice]
        return [kind for kind in kinds if kind != "loop_detected"]

    assert asyncio.run(go()) == ["gate_opened", "gate_resolved"]


def test_what_is_left_alone_is_told_to_nobody_and_hides_nothing(tmp_path: Path) -> None:
    """A task that is left alone for comparison hears nothing, and its trace keeps its past."""

    async def go() -> list[str]:
        async with telling(tmp_path, random.Random(1)) as (feed, told):
            while len(told.events) < 3:  # The second one is left alone.
                action: Action | None = None if len(told.events) == 1 else "warn"
                told.tell("task-0", TRACES[0], "loop_detected", action)
            ids: list[str] = []
            async with (
                aclosing(feed.follow(Asked(tasks=("task-1",)), None)) as first,
                aclosing(feed.follow(Asked(traces=(TRACES[0],)), None)) as second,
            ):
                assert ": here" in [text async for text in _begin_of(first)][-1]
                async for text in _begin_of(second):
                    ids += [notice["id"] for _, notice in sent_in(text) if notice]
        return ids

    assert asyncio.run(go()) == ["e1", "e3"]


async def _begin_of(stream: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield the texts of a stream up to the sign that it has begun."""
    async for text in stream:
        yield text
        if ": here" in text:
            return
