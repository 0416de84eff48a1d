"""A thread that tests what learned limits promised, by the spared runs of the store.

Where a promise does not hold, endpoints and the log hear of it, the store notes it, and the server
starts again, with a limit that only warns.
"""

import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import polars as pl

from looptrace.analyzer.detect.spared_tasks import is_spared
from looptrace.analyzer.report.calibration import seen_text
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.tuning.certificates import Outcome, Run, runs_of
from looptrace.analyzer.tuning.drift import PromiseTest, promise_tests, promises
from looptrace.analyzer.tuning.outcomes import outcomes_in
from looptrace.collector.server.receiver.receiver_metrics import Instrument, gauge
from looptrace.collector.store import audit, reader
from looptrace.collector.store.gate_file.endpoint_events import PromiseEvent
from looptrace.collector.store.layout import gates_path
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.outbox import Outbox
from looptrace.collector.store.promises.withdrawn import WithdrawnPromise, read_promises, withdraw
from looptrace.collector.worker import Worker
from looptrace.semconv import GEN_AI_EVALUATION_RESULT

_logger = logging.getLogger(__name__)

# The first test comes at most so long after the start, when the store has been written.
FIRST_S = 60
# Turns of so many tasks are in memory at once.
_TASKS_AT_ONCE = 200
_SPAN_COLUMNS = ["trace_id", "end_ns", "attributes", "events"]


class PromiseTester:
    """A thread that tests promises; it does nothing where the settings have none."""

    def __init__(
        self,
        store_dir: Path,
        settings: Settings,
        on_error: Callable[[Exception], None],
        on_withdrawn: Callable[[], None],
    ) -> None:
        """Test the promises of the settings, and call `on_withdrawn` where one does not hold."""
        self.tests: Sequence[PromiseTest] = ()  # as of the last look
        self.withdrawn = read_promises(store_dir).withdrawn  # of limits that only warn by now
        self._dir = store_dir
        self._settings = settings
        self._on_error = on_error
        self._on_withdrawn = on_withdrawn
        self._worker = Worker("looptrace-promises", self._run)
        self.close = self._worker.close

    def start(self) -> None:
        """Start, if there are promises, and outcomes that test them."""
        if self._settings.outcomes.are_known and any(promises(self._settings.policy.rule_set)):
            self._worker.start()

    def instruments(self) -> list[Instrument]:
        """Return the metrics of promises."""
        return [
            gauge(
                "looptrace.promises.evidence",
                "Greatest evidence against the promise of a learned limit; 20 withdraws it.",
                lambda: {(each.rule.name, each.key): each.evidence for each in self.tests},
                "rule",
                "promise",
            ),
            gauge(
                "looptrace.promises.withdrawn",
                "Learned limits that only warn, because their promise did not hold.",
                lambda: len(self.withdrawn),
            ),
        ]

    def _run(self) -> Generator[float, None, None]:
        every_s = self._settings.outcomes.test_every_s
        yield min(FIRST_S, every_s)
        while not self._worker.is_closing:
            try:
                self._look()
            except StoreError as error:
                _logger.warning("%s", error)
                self._on_error(error)
            yield every_s

    def _look(self) -> None:
        rule_set = self._settings.policy.rule_set
        since_ns = read_promises(self._dir).since_ns
        self.tests = [*promise_tests(spared_runs(self._dir, self._settings), rule_set, since_ns)]
        withdrawn = [each for each in self.tests if each.is_withdrawn]
        if withdrawn:
            self._withdraw(withdrawn, since_ns)
            self._on_withdrawn()

    def _withdraw(self, withdrawn: Sequence[PromiseTest], since_ns: dict[str, int]) -> None:
        """Tell the endpoints, and then note it: after a kill in between both are done again."""
        now_ns = time.time_ns()
        noted = [
            WithdrawnPromise(
                each.key, now_ns, each.rule.name, each.override.selectors, seen_text(each)
            )
            for each in withdrawn
        ]
        with Outbox.open(gates_path(self._dir)) as outbox:
            for each in noted:
                id_ = digest(f"promise_withdrawn {each.key} {since_ns.get(each.key, 0)}")
                event = PromiseEvent(
                    id_, "promise_withdrawn", each.rule, each.selectors, now_ns, each.why
                )
                outbox.tell(event, self._settings.webhooks)
        withdraw(self._dir, noted)
        for each in noted:
            _logger.warning("a promise is withdrawn, and its limit only warns: %s", each.why)
            audit.note(self._dir, "promise withdrawn", None, rule=each.rule, promise=each.key)


def spared_runs(store_dir: Path, settings: Settings) -> list[Run]:
    """Return the runs of a store whose outcome is known, and which a learned limit spared."""
    rules = [rule for _, rule in promises(settings.policy.rule_set)]
    named = reader.read_rows(store_dir, "turns", pl.lit(value=True), ["task", "trace_id"]).unique()
    tasks = named["task"].unique().sort().to_list()
    spared = [task for task in tasks if any(is_spared(task, rule) for rule in rules)]
    traces = named.filter(pl.col("task").is_in(spared))["trace_id"].unique().to_list()
    sources, outcomes = settings.outcomes, [*_outcomes(store_dir, settings, traces)]
    runs: list[Run] = []
    for first in range(0, len(spared), _TASKS_AT_ONCE):
        some = spared[first : first + _TASKS_AT_ONCE]
        turns = reader.read_turns_of_tasks(store_dir, some)
        runs += runs_of(turns, settings, outcomes, with_decisions=sources.decisions)
    return runs


def _outcomes(store_dir: Path, settings: Settings, traces: Sequence[str]) -> Iterator[Outcome]:
    evaluation, attribute = settings.outcomes.by_evaluation, settings.outcomes.by_attribute
    says = pl.lit(value=False)
    if evaluation:
        says |= pl.col("events").str.contains(GEN_AI_EVALUATION_RESULT, literal=True)
    if attribute:
        says |= pl.col("attributes").str.contains(attribute.name, literal=True)
    if evaluation or attribute:
        spans = reader.rows_of(store_dir, "spans", "trace_id", traces, says, _SPAN_COLUMNS)
        yield from outcomes_in(spans, evaluation, attribute)
