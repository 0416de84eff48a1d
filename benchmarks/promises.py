"""Whether promises of certificates and learned limits hold on problems that they have not seen.

The problems of a kind are split into halves, 20 times. On one half certificates and limits are made
as `looptrace calibrate` makes them; on the other it is counted how many solved runs are lost. A
promise holds where that share is no more than the bound. Then limits are learned on the runs of all
models but one, and the runs of the unseen model are stopped with them; the test of promises gets
the solved runs of that model one by one.

    python -m benchmarks.promises --data ../shared/labelled
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.labelled import HEALTHY, Runs, labelled_runs
from looptrace.analyzer.settings.sections import default
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.tuning.certificates import (
    Certificate,
    Outcome,
    Run,
    RunKind,
    by_kind,
    certificate,
    needed_for,
    runs_of,
)
from looptrace.analyzer.tuning.drift import EVIDENCE_MAX, evidence_of
from looptrace.analyzer.tuning.limits import Limit, limits, stopped_at

SOLVED, _ = HEALTHY
ONE_MODEL = "one model"
SPLITS = 20
SHARES = (0.05, 0.1)
# Of fewer solved runs in a half no share is worth comparing.
LOSABLE_MIN = 10
_INTERCODE = re.compile(r"ic_(?P<task>[a-z]+)_(multiturn_)?(?P<model>.+?)(_\d+_turns|-1_turns)")


def known_runs(folder: Path) -> list[Run]:
    """Return the runs whose outcome the environment told, of InterCode by task and model."""
    return [run for runs in labelled_runs(folder) for run in _known(runs)]


def _known(runs: Runs) -> Iterable[Run]:
    outcomes = [
        Outcome(solved=bool(label.value), session=label.session, problem=_problem(label.session))
        for label in runs.labels
        if label.name == SOLVED
    ]
    sessions = dict(runs.turns.select("task", "session").unique().iter_rows())
    for run in runs_of(runs.turns, default(), outcomes) if outcomes else []:
        match = _INTERCODE.match(sessions[run.task] or "")
        kind = (match["task"], "", match["model"]) if match else (runs.name, "", ONE_MODEL)
        yield replace(run, kind=RunKind(*kind))


def _problem(session: str) -> str:
    """Return what a run tried: a number of a task, whatever the model or trial."""
    match = _INTERCODE.match(session)
    name = session.rpartition(":")[2].partition("_trial")[0]
    return f"{match['task']} {name}" if match else name


@dataclass(frozen=True, slots=True)
class Held:
    """The promises of a kind: how many were made, and how many held on the other half."""

    made: int = 0
    held: int = 0
    above: int = 0  # promises that allow no more than the share, though too few runs were solved

    def and_one(self, promise: Certificate, unseen: Certificate) -> Held:
        """Return the count with one promise more."""
        lost = unseen.lost / unseen.losable
        return Held(self.made + 1, self.held + (lost <= promise.at_most), self.above)


def halved(runs: Iterable[Run], split: int) -> tuple[list[Run], list[Run]]:
    """Return runs in halves by problem, which also differ from those that `limits` makes."""
    parts: tuple[list[Run], list[Run]] = ([], [])
    for run in runs:
        named = replace(run, problem=f"{split} {run.problem}")
        parts[int(digest(f"half {named.problem}"), 16) % 2].append(named)
    return parts


def of_gates(kind: RunKind, runs: Sequence[Run]) -> Held:
    """Return how the certificates of a kind hold, with the gates as they are."""
    held = Held()
    for split in range(SPLITS):
        seen, unseen = (certificate(kind, half, SHARES[0]) for half in halved(runs, split))
        if min(seen.losable, unseen.losable) >= LOSABLE_MIN:
            held = held.and_one(seen, unseen)
    return held


def of_limits(kind: RunKind, runs: Sequence[Run], share: float) -> Held:
    """Return how the limits of a kind hold that keep a promise of a share."""
    held = Held()
    for split in range(SPLITS):
        seen, unseen = halved(runs, split)
        for limit in limits(seen, default().policy.rule_set, share):
            if limit.is_kept(share):
                too_few = limit.together.losable < (needed_for(0, share) or 0)
                held = held.and_one(limit.together, _with(limit, kind, unseen))
                held = replace(held, above=held.above + too_few)
    return held


def _with(limit: Limit, kind: RunKind, runs: Sequence[Run]) -> Certificate:
    """Return what a limit does to other runs."""
    return certificate(kind, [stopped_at(run, limit.rule, limit.most) for run in runs], SHARES[0])


def unseen_models(runs: Sequence[Run], share: float) -> list[tuple[str, Limit, Certificate, int]]:
    """Return for each model the limit of the others, its loss there, and when it is withdrawn.

    That is the number of solved runs until then, 0 where they do not speak against the promise.
    """
    found = []
    for model in sorted({run.kind.model for run in runs}):
        kind = RunKind(runs[0].kind.task_kind, "", "")
        others = [replace(run, kind=kind) for run in runs if run.kind.model != model]
        own = [replace(run, kind=kind) for run in runs if run.kind.model == model]
        own = [*by_kind(own)[kind]]
        for limit in limits(others, default().policy.rule_set, share):
            draws = [
                stopped_at(run, limit.rule, limit.most).later > 0
                for run in own
                if run.solved and run.steps > 1
            ]
            evidence = [evidence_of(draws[:n], share) for n in range(1, len(draws) + 1)]
            until = next((n for n, each in enumerate(evidence, 1) if each >= EVIDENCE_MAX), 0)
            found.append((model, limit, _with(limit, kind, own), until))
    return found


def lines(runs: Sequence[Run]) -> list[str]:
    """Return the report in Markdown."""
    several = [run for run in runs if run.kind.model != ONE_MODEL]
    pooled = [replace(run, kind=run.kind._replace(model="all models")) for run in several]
    kinds = by_kind([*runs, *pooled])
    total = Held()
    table = [
        "| kind | promises by gates | hold | by a limit, 5 % | hold | by a limit, 10 % | hold |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for kind, alike in sorted(kinds.items(), key=lambda pair: pair[0]):
        every = [of_gates(kind, alike), *(of_limits(kind, alike, share) for share in SHARES)]
        if every[0].made:
            cells = " | ".join(f"{each.made} | {each.held}" for each in every)
            table.append(f"| {kind.task_kind}, {kind.model} | {cells} |")
        for each in every:
            total = Held(total.made + each.made, total.held + each.held, total.above + each.above)
    table.append(
        f"\n{total.held:,} of {total.made:,} promises hold ({total.held / total.made:.1%});"
    )
    table.append(f"{total.above} limits were promised with fewer solved runs than needed.\n")
    return [*table, *_models(runs)]


def _models(runs: Sequence[Run]) -> list[str]:
    of_several = [run for run in runs if run.kind.task_kind == "sql"]
    table = [
        "| unseen model | limit of the others | promised | lost there | withdrawn after |",
        "| --- | --- | --- | --- | --- |",
    ]
    for share in SHARES:
        for model, limit, made, until in unseen_models(of_several, share):
            lost = f"{made.lost} of {made.losable} ({made.lost / max(made.losable, 1):.1%})"
            after = f"{until} solved runs" if until else "-"
            promised = f"{share:.0%}" + ("" if limit.is_kept(share) else ", not kept")
            table.append(
                f"| {model} | `{limit.rule}` above {limit.most} | {promised} | {lost} | {after} |"
            )
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="Folder of the labelled runs.")
    print("\n".join(lines(known_runs(parser.parse_args().data))))


if __name__ == "__main__":
    main()
