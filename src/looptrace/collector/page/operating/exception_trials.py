"""The trial of an exception on the newest tasks of a store, within what a page may take."""

from collections.abc import Collection
from pathlib import Path

import polars as pl

from looptrace.analyzer.detect.counters import DAY_S
from looptrace.analyzer.detect.ruleset import Override
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.tuning.exceptions import Trial, TrialPart, trial_of
from looptrace.collector.store import reader
from looptrace.collector.store.gate_file.incidents import IncidentDetails
from looptrace.rules.vocabulary import NS_PER_S

# Days before the newest gate.
DAYS_TRIED = 7
# A page tries no more turns, of the newest tasks; the command line tries all.
TURNS_TRIED_MAX = 50_000


def tried_on(
    store_dir: Path,
    details: IncidentDetails,
    exceptions: Collection[Override],
    settings: Settings,
    turns_max: int = TURNS_TRIED_MAX,
) -> tuple[Trial, int]:
    """Return what exceptions for an incident would have done to the gates of the last days.

    The number is that of the tasks of these days that were too many.
    """
    with reader.open_gates(store_dir) as gates:
        newest_ns = max(each.last_ns for each in gates.incidents())
    since_ns = newest_ns - DAYS_TRIED * DAY_S * NS_PER_S
    tasks = reader.read_tasks(store_dir).filter(pl.col("last_ns") >= since_ns)
    # Those of the incident come first, or the trial would say nothing of it.
    is_own = pl.col("task").is_in(list({gate.task for gate in details.gates}))
    tasks = tasks.sort(is_own, "last_ns", "task", descending=[True, True, False])
    tried = tasks.filter(pl.col("turns").cum_sum() - pl.col("turns") < turns_max)
    turns = reader.read_turns_of_tasks(store_dir, tried["task"].to_list())
    part = TrialPart(settings, tuple(exceptions), since_ns)(turns)
    own = {(gate.task, gate.rule) for gate in details.gates}
    return trial_of([part], own), tasks.height - tried.height
