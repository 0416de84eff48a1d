"""Judging of open gates: the opinion is recorded, and may resolve a gate with progress."""

import logging
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

from looptrace.analyzer.llm_judge import Judge, Opinion, ask
from looptrace.analyzer.settings.judge import ChatSettings
from looptrace.collector.store import reader
from looptrace.collector.store.buckets.turns_around import read_turns_around
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.locks import StoreError
from looptrace.collector.worker import Worker

_logger = logging.getLogger(__name__)

# The interval of looking for gates whose turns come into the store later than they do.
LOOK_EVERY_S = 2.0


class Judged(NamedTuple):
    """The numbers of gates that a judge resolved, and of those without stored turns so far."""

    resolved: int
    waiting: int


def judge_gates(store_dir: Path, gates: GateStore, judge: Judge, *, decides: bool) -> Judged:
    """Ask once about each open gate without an exact match.

    Raises:
        StoreError: if the store cannot be read, or an opinion cannot be written.
    """
    resolved = waiting = 0
    for gate in gates.unjudged():
        finding = gates.finding(gate.id)
        turns = None if finding is None else read_turns_around(store_dir, finding)
        if finding is None or turns is None:
            waiting += 1
            continue
        opinion = ask(judge, finding, turns)
        if opinion is None:
            continue
        progress = isinstance(opinion, Opinion) and opinion.is_progress
        resolved += gates.add_opinion(gate.id, opinion, resolves=decides and progress)
    return Judged(resolved, waiting)


class GateJudge:
    """A thread of a server that asks a judge about gates as they open."""

    def __init__(
        self,
        store_dir: Path,
        judge: Judge,
        stated: ChatSettings | None,
        on_resolved: Callable[[], None],
        on_waiting: Callable[[], None],
    ) -> None:
        """Judge the gates of a store; the `stated` settings of a judge say whether it decides.

        This thread calls `on_resolved` after a decision, and `on_waiting` where the turns of a gate
        should be stored soon.
        """
        self._dir = store_dir
        self._judge = judge
        self._decides = stated is not None and stated.decides
        self._on_resolved = on_resolved
        self._on_waiting = on_waiting
        self._worker = Worker("looptrace-judge", self._run)  # It begins with the open gates.
        self.start, self.wake = self._worker.start, self._worker.wake
        self.close = self._worker.close  # A waiting question is abandoned.

    def _run(self) -> Generator[float, None, None]:
        while True:
            if not self._worker.is_closing:
                self._look()
            yield LOOK_EVERY_S

    def _look(self) -> None:
        try:
            with reader.open_gates(self._dir) as gates:
                judged = judge_gates(self._dir, gates, self._judge, decides=self._decides)
        except StoreError as error:
            _logger.warning("%s", error)
            return
        if judged.resolved:
            self._on_resolved()
        if judged.waiting:
            self._on_waiting()
