"""The last evaluation of a store, and what was lost of its results since, to be found again."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.gates.resolutions import Resolution
from looptrace.analyzer.text.digests import digest
from looptrace.collector.store.buckets.evaluated import EvaluatedBucket, buckets_short
from looptrace.collector.store.buckets.gated_tasks import decisions_in_turns
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.layout import EVENTS_LOST, read_evaluated, write_evaluated


class StoreEvaluation:
    """The settings and gates of a store's last evaluation.

    `losses` are sentences on parts that were lost, and how much of them was found again.
    """

    def __init__(self, store_dir: Path, gates: GateStore, policy: DetectionPolicy) -> None:
        self.losses: list[str] = []
        self._dir = store_dir
        self._gates = gates
        self._settings = digest(repr(policy))
        self._lost: Sequence[Resolution] = ()  # decisions that only turns may have

    def is_current(self) -> bool:
        """Return whether findings and gates are those of the settings, and all there."""
        return not self._is_behind() and read_evaluated(self._dir).settings == self._settings

    def note(self) -> None:
        """Note that findings and gates are those of the settings."""
        noted = read_evaluated(self._dir)._replace(
            settings=self._settings,
            events=self._gates.last_seq(),
            decisions=len(self._gates.resolutions()),
        )
        write_evaluated(self._dir, noted)

    def resolutions(self) -> Sequence[Resolution]:
        """Return the decisions of the gates, and those that only the turns have."""
        decided = self._gates.resolutions()
        ids = {each.id for each in decided}
        return [*decided, *(each for each in self._lost if each.id not in ids)]

    @contextmanager
    def finding_again(self) -> Iterator[None]:
        """Find lost gates and decisions again, if there are any, while all is evaluated.

        Webhooks get nothing meanwhile, and then the openings of open gates, because what they still
        had to get is lost, too.
        """
        if not self._is_behind():
            yield
            return
        noted = read_evaluated(self._dir)
        # Until all is found, also if this is killed.
        write_evaluated(self._dir, noted._replace(events=EVENTS_LOST))
        self._lost, known = decisions_in_turns(self._dir), {g.id for g in self._gates.gates()}
        with self._gates.silent():
            yield
        decisions = self._gates.put_back(self._lost)
        self._lost = ()
        new = [gate for gate in self._gates.gates() if gate.id not in known]
        opened = [gate.id for gate in new if gate.status == "open"]
        self._gates.send_openings(opened, time.time_ns())
        self.losses.append(
            f"the file of the gates was lost, or a part of it: {len(new)} gates were found again, "
            f"{len(opened)} of them open, with {decisions} of {max(decisions, noted.decisions)} "
            "decisions that were counted. Lost are decisions since then, who decided, opinions of "
            "a judge, and what webhooks had to send; they get the openings of the open gates again."
        )

    def buckets_short(self, evaluated: dict[int, EvaluatedBucket]) -> list[int]:
        """Return the buckets that lost turns or findings; lost spans are reported, once."""
        derived, spans = buckets_short(self._dir, evaluated)
        for bucket in spans:
            del evaluated[bucket]
            self.losses.append(
                f"{self._dir}/spans/day=*/bucket={bucket:02}: spans were lost; their turns, "
                "findings and gates stay until others come for their tasks, so ingest the traces "
                "again."
            )
        return derived

    def _is_behind(self) -> bool:
        """Return whether the file of the gates lacks events that it had."""
        return self._gates.last_seq() < read_evaluated(self._dir).events
