"""Measures detection: `python -m benchmarks.quality --data FOLDER [--healthy FOLDER]`.

looptrace is measured as a user runs it, with its defaults, on runs that people (or the environment)
labelled: all of its rules, its findings that gate, each rule alone; and beside it a detector that
only looks at the length of a session, and other detectors that are installed (`benchmarks.peers`).
`--healthy` names a folder of traces of which those called `*-ok` should stay silent.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks import peers, scatter
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
from looptrace import __version__
from looptrace.analyzer.batch import findings_of
from looptrace.analyzer.findings import Finding
from looptrace.analyzer.ruleset import DEFAULT, RuleSet
from looptrace.rules.contract import Rule
from looptrace.rules.registry import known_rules

OURS = f"looptrace {__version__}"
GATES = "looptrace, findings that gate"
ACTIONS = "looptrace, equal calls in a row"
# The rules that say of a call that it repeats the one before it, which is what some labels ask. To
# those labels one failure under other actions is no repetition, and to looptrace it is a loop.
SAME_ACTION = ("repeated_call", "stutter")
LENGTH = "length alone"
# The length control flags every later step of a session.
LENGTH_MAX = 15
ALL = "all files"
HEALTHY_PATTERN = "*-ok.jsonl"


@dataclass(frozen=True, slots=True)
class Line:
    """How well one detector answers one target on one file, or on all that have the target."""

    target: str
    file: str
    detector: str
    score: Score


@dataclass(frozen=True, slots=True)
class Alarms:
    """The healthy runs of one source that a detector flagged, of how many there are."""

    source: str
    detector: str
    flagged: list[str]
    healthy: int


def by_findings(judging: RuleSet, keep: Callable[[Finding], bool] = lambda _: True) -> Detector:
    """Return rules as a detector: each finding is a loop."""

    def detect(runs: Runs) -> Flags:
        flags: dict[str, list[Loop]] = {}
        for finding in filter(keep, findings_of(runs.turns, judging)):
            steps = [runs.steps.get((t.trace_id, t.span_id), t.turn) for t in finding.turns]
            flags.setdefault(finding.session, []).append(Loop(steps, finding.period))
        return flags

    return detect


def by_length(runs: Runs) -> Flags:
    """Flag all steps of a session beyond the longest that is taken for healthy."""
    steps: dict[str, list[int]] = {}
    counted = runs.turns.filter(pl.col("turn") >= LENGTH_MAX).sort("session", "turn")
    for session, trace, span, turn in counted.select(
        "session", "trace_id", "span_id", "turn"
    ).iter_rows():
        steps.setdefault(session, []).append(runs.steps.get((trace, span), turn))
    return {session: [Loop(later)] for session, later in steps.items() if len(later) > 1}


def detectors() -> tuple[dict[str, Detector], list[str]]:
    """Return every detector by name, and the names of those that are not installed."""
    others, absent = peers.installed()
    ours: dict[str, Detector] = {
        OURS: by_findings(DEFAULT),
        GATES: by_findings(DEFAULT, lambda finding: finding.action == "gate"),
        ACTIONS: by_findings(DEFAULT, lambda finding: finding.rule in SAME_ACTION),
    }
    alone = {_alone(rule): by_findings(RuleSet((rule,))) for rule in known_rules()}
    return ours | others | {LENGTH: by_length} | alone, absent


def _alone(rule: Rule) -> str:
    return f"{rule.name} alone" + ("" if rule.on_by_default else " (off by default)")


def measured(
    every: Iterable[Runs], asked: Mapping[str, Detector]
) -> tuple[list[Line], list[Alarms]]:
    """Hold every detector against the labels of every file."""
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


def table(lines: Iterable[Line], alarms: Iterable[Alarms], file: str = ALL) -> str:
    """Write the figures as Markdown: a table for each target, and one of the false alarms."""
    parts = []
    for title, of_target in _grouped(line for line in lines if line.file == file).items():
        parts += [
            f"\n**{title}** ({of_target[0].score.positives} of {_count(of_target[0].score)})\n"
        ]
        parts += [
            "| detector | flagged | precision | recall | F1 |",
            "| --- | --- | --- | --- | --- |",
        ]
        parts += [
            f"| {line.detector} | {line.score.flagged} | {_share(line.score.precision)} "
            f"| {_share(line.score.recall)} | {_share(line.score.f1)} |"
            for line in of_target
            if line.score.flagged or line.detector in (OURS, GATES, ACTIONS)
        ]
    parts += [
        "\n**healthy runs that are flagged**\n",
        "| detector | runs | flagged |",
        "| --- | --- | --- |",
    ]
    parts += [
        f"| {one.detector} | {one.source} | {len(one.flagged)} of {one.healthy} |"
        for one in alarms
        if one.flagged or one.detector in (OURS, GATES, ACTIONS)
    ]
    return "\n".join(parts)


def _grouped(lines: Iterable[Line]) -> dict[str, list[Line]]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.target, []).append(line)
    return groups


def _count(one: Score) -> int:
    return one.positives + one.false_positives + one.true_negatives


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def as_json(lines: Iterable[Line], alarms: Iterable[Alarms]) -> dict[str, Any]:
    """Return all figures, also those of single files."""
    return {
        "version": __version__,
        "scores": [
            {"target": line.target, "file": line.file, "detector": line.detector}
            | asdict(line.score)
            | {name: getattr(line.score, name) for name in ("precision", "recall", "f1")}
            for line in lines
        ],
        "false_alarms": [asdict(one) for one in alarms],
    }


def main() -> int:
    """Measure, and print the tables; returns 2 where there is nothing to measure."""
    parser = argparse.ArgumentParser(description="Measure detection on labelled runs.")
    parser.add_argument("--data", type=Path, required=True, help="folder of labelled runs")
    parser.add_argument("--healthy", type=Path, help="folder of traces, of which *-ok are healthy")
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--plot", type=Path, help="write precision against recall there, as SVG")
    options = parser.parse_args()
    asked, absent = detectors()
    for name in absent:
        print(f"{name} is not installed and left out; pip install {name}", file=sys.stderr)
    try:
        lines, alarms = measured(labelled_runs(options.data), asked)
        alarms += alarms_of(options.healthy, asked) if options.healthy else []
    except MissingError as error:
        print(error, file=sys.stderr)
        return 2
    print(table(lines, alarms))
    if options.json:
        options.json.write_text(json.dumps(as_json(lines, alarms), indent=1) + "\n")
    if options.plot:
        options.plot.write_text(scatter.drawn(_panels(lines)))
    return 0


def _panels(lines: Iterable[Line]) -> dict[str, list[scatter.Point]]:
    """Return a panel for each target, with a point for each detector that flags anything."""
    whole = (line for line in lines if line.file == ALL and not line.detector.endswith("alone"))
    return {
        title: [
            scatter.Point(line.detector, line.score.recall or 0, line.score.precision or 0)
            for line in of_target
            if line.score.flagged
        ]
        for title, of_target in _grouped(whole).items()
    }


if __name__ == "__main__":
    sys.exit(main())
