"""Measures detection: `python -m benchmarks.quality --data FOLDER [--healthy FOLDER]`.

looptrace is measured as a user runs it, with its defaults, on runs that people (or the environment)
labelled: all of its rules, its findings that gate, each rule alone; and beside it a detector of the
length of a session, and other installed detectors (`benchmarks.peers`). `--healthy` names a folder
of traces, of which those called `*-ok` should be silent.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import polars as pl

from benchmarks import peers
from benchmarks.labelled import (
    TARGETS,
    Detector,
    Flags,
    Loop,
    MissingError,
    Runs,
    Score,
    false_alarms,
    labelled_runs,
    read_runs,
    score,
)
from benchmarks.scatter import Axis, Point, scatter_svg
from benchmarks.stop_loss import StopLoss, stop_loss_svg, stop_loss_tables, stop_losses
from looptrace import __version__
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.rule_plugins import known_rules
from looptrace.analyzer.detect.ruleset import DEFAULT, RuleSet
from looptrace.analyzer.engine import batch
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.rules.contract import Rule

OURS = "looptrace"
GATES = "looptrace, findings that gate"
ACTIONS = "looptrace, equal calls in a row"
# The rules that find a call that repeats the one before it, which is the target of some labels. For
# those labels one failure under other actions is not a repetition; for looptrace it is a loop.
SAME_ACTION = ("repeated_call", "stutter")
# The rules that count what a task did, such as tries of any kind: no turn of such a finding
# repeats another one.
COUNTS = ("no_measurable_progress", "consecutive_errors", "max_iterations")
LENGTH = "length alone"
# The length control flags every later step of a session.
LENGTH_MAX = 15
ALL = "all files"
HEALTHY_PATTERN = "*-ok.jsonl"
DIGITS = 4
SHARES = (
    *("lost_share", "lost_share_max", "lost_share_of_losable", "lost_share_of_stopped"),
    "saved_share",
)


@dataclass(frozen=True, slots=True)
class Line:
    """The score of one detector for one target on one file, or on all files with the target."""

    target: str
    file: str
    detector: str
    score: Score


@dataclass(frozen=True, slots=True)
class Alarms:
    """The healthy runs of one source that a detector flagged, and the number of all."""

    source: str
    detector: str
    flagged: list[str]
    healthy: int


def by_findings(rule_set: RuleSet, keep: Callable[[Finding], bool] = lambda _: True) -> Detector:
    """Return rules as a detector: each finding is a loop."""

    def flag(runs: Runs) -> Flags:
        flags: dict[str, list[Loop]] = {}
        for finding in filter(keep, batch.detect(runs.turns, DetectionPolicy(rule_set)).findings):
            steps = [runs.steps.get((t.trace_id, t.span_id), t.turn) for t in finding.turns]
            period = len(steps) if finding.rule in COUNTS else finding.period
            flags.setdefault(finding.session, []).append(Loop(steps, period))
        return flags

    return flag


def by_length(runs: Runs) -> Flags:
    """Flag all steps of a session beyond the longest healthy length."""
    steps: dict[str, list[int]] = {}
    counted = runs.turns.filter(pl.col("turn") >= LENGTH_MAX).sort("session", "turn")
    for session, trace, span, turn in counted.select(
        "session", "trace_id", "span_id", "turn"
    ).iter_rows():
        steps.setdefault(session, []).append(runs.steps.get((trace, span), turn))
    return {session: [Loop(later)] for session, later in steps.items() if len(later) > 1}


def ours() -> dict[str, Detector]:
    """Return looptrace with its defaults, parts of its findings, each rule alone, the length."""
    whole: dict[str, Detector] = {
        OURS: by_findings(DEFAULT),
        GATES: by_findings(DEFAULT, lambda finding: finding.action == "gate"),
        ACTIONS: by_findings(DEFAULT, lambda finding: finding.rule in SAME_ACTION),
        LENGTH: by_length,
    }
    return whole | {_alone(rule): by_findings(RuleSet((rule,))) for rule in known_rules()}


def _alone(rule: Rule) -> str:
    return f"{rule.name} alone" + ("" if rule.on_by_default else " (off by default)")


def measured(
    every: Iterable[Runs], asked: Mapping[str, Detector]
) -> tuple[list[Line], list[Alarms]]:
    """Score every detector by the labels of every file."""
    lines: dict[tuple[str, str, str], Score] = {}
    alarms = []
    for runs in every:
        for name, detect in asked.items():
            flags = detect(runs)
            flagged, healthy = false_alarms(runs.labels, flags)
            if healthy:
                alarms.append(Alarms(runs.name, name, flagged, healthy))
            for target in TARGETS:
                one = score(target, runs.labels, flags)
                if one is not None:
                    lines[target.title, runs.name, name] = one
                    every_file = (target.title, ALL, name)
                    lines[every_file] = lines.get(every_file, Score()) + one
    return [Line(*key, value) for key, value in lines.items()], alarms


def alarms_of(folder: Path, asked: Mapping[str, Detector]) -> list[Alarms]:
    """Count the healthy traces of a folder that each detector flags, each trace by itself.

    Raises:
        MissingError: if there are none.
    """
    paths = sorted(folder.glob(HEALTHY_PATTERN))
    if not paths:
        raise MissingError(f"{folder} holds no {HEALTHY_PATTERN}; name a folder of healthy traces.")
    every = [Runs(path.stem, *read_runs([str(path)]), ()) for path in paths]
    return [
        Alarms(folder.name, name, [runs.name for runs in every if detect(runs)], len(every))
        for name, detect in asked.items()
    ]


def table(lines: Iterable[Line], alarms: Iterable[Alarms]) -> str:
    """Write the figures over all files as Markdown: a row a detector, a column a target."""
    of_targets = _grouped(line for line in lines if line.file == ALL)
    of_sources = {source: list(found) for source, found in groupby(alarms, lambda a: a.source)}
    heads = [
        *(f"{title} ({_positive(found[0].score)})" for title, found in of_targets.items()),
        *(f"false alarms, {name} (of {found[0].healthy})" for name, found in of_sources.items()),
    ]
    cells: dict[str, dict[str, str]] = {}
    for place, found in enumerate(of_targets.values()):
        for line in found:
            if line.score.flagged:
                cells.setdefault(line.detector, {})[heads[place]] = _cell(line.score)
    for place, counted in enumerate(of_sources.values(), len(of_targets)):
        for one in counted:
            if one.detector in cells:
                cells[one.detector][heads[place]] = str(len(one.flagged))
    rows = [["detector", *heads], ["---"] * (len(heads) + 1)]
    rows += [[name, *(row.get(head, "-") for head in heads)] for name, row in cells.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _grouped(lines: Iterable[Line]) -> dict[str, list[Line]]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.target, []).append(line)
    return groups


def _positive(one: Score) -> str:
    return f"{one.positives} of {one.positives + one.false_positives + one.true_negatives}"


def _cell(one: Score) -> str:
    return f"{one.precision:.2f} / {one.recall:.2f} / {one.f1:.2f}"


def as_json(lines: Iterable[Line], alarms: Iterable[Alarms], losses: Iterable[StopLoss]) -> str:
    """Return the figures of all detectors that flagged anything, also those of single files."""
    scores = [
        {"target": line.target, "file": line.file, "detector": line.detector}
        | asdict(line.score)
        | {name: _rounded(getattr(line.score, name)) for name in ("precision", "recall", "f1")}
        for line in lines
        if line.score.flagged
    ]
    healthy = [asdict(one) for one in alarms]
    stops = [
        asdict(loss) | {name: _rounded(getattr(loss, name)) for name in SHARES} for loss in losses
    ]
    parts = {
        "version": __version__,
        "scores": scores,
        "false_alarms": healthy,
        "stop_loss": stops,
    }
    written = (
        f"{json.dumps(key)}: " + json.dumps(value).replace("}, {", "},\n {")
        for key, value in parts.items()
    )
    return "{" + ",\n".join(written) + "}\n"


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, DIGITS)


def main() -> int:
    """Measure, and print the tables; return 2 where there is nothing to measure."""
    parser = argparse.ArgumentParser(description="Measure detection on labelled runs.")
    parser.add_argument("--data", type=Path, required=True, help="folder of labelled runs")
    parser.add_argument("--healthy", type=Path, help="folder of traces, of which *-ok are healthy")
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--plot", type=Path, help="write precision against recall there, as SVG")
    parser.add_argument("--stop-loss-plot", type=Path, help="write saved against lost, as SVG")
    options = parser.parse_args()
    others, absent = peers.installed()
    asked = ours() | others
    for name in absent:
        print(f"{name} is not installed and left out; pip install {name}", file=sys.stderr)
    try:
        every = labelled_runs(options.data)
        lines, alarms = measured(every, asked)
        alarms += alarms_of(options.healthy, asked) if options.healthy else []
    except MissingError as error:
        print(error, file=sys.stderr)
        return 2
    losses = stop_losses(every, others)
    print(table(lines, alarms))
    print(f"\n{stop_loss_tables(losses)}")
    if options.json:
        options.json.write_text(as_json(lines, alarms, losses))
    if options.plot:
        options.plot.write_text(scatter_svg(_panels(lines), Axis("recall"), Axis("precision")))
    if options.stop_loss_plot:
        options.stop_loss_plot.write_text(stop_loss_svg(losses))
    return 0


def _panels(lines: Iterable[Line]) -> dict[str, list[Point]]:
    """Return a panel for each target, with a point for each detector that flags anything."""
    rules = {_alone(rule) for rule in known_rules()}
    whole = (line for line in lines if line.file == ALL and line.detector not in rules)
    return {
        title: [
            Point(line.detector, line.score.recall or 0, line.score.precision or 0)
            for line in of_target
            if line.score.flagged
        ]
        for title, of_target in _grouped(whole).items()
    }


if __name__ == "__main__":
    sys.exit(main())
