"""Reports of `calibrate` and `train` for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from looptrace.analyzer.report.scatter import Axis, Point, scatter_svg
from looptrace.analyzer.report.wording import NAME_LENGTH_MAX, counted
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.tuning.calibrate import FINISHED_AFTER_S, TASKS_MIN, Calibration
from looptrace.analyzer.tuning.certificates import Certificate
from looptrace.analyzer.tuning.limits import Limit

_OTHERS = "all others"
_RADIUS_PX = (3, 14)  # of the fewest and of the most turns


def print_calibration(calibration: Calibration, alarms_per_day: float, console: Console) -> None:
    """Print the proposed thresholds, and the false alarms with and without them."""
    tasks = ", ".join(
        f"{plain(kind, NAME_LENGTH_MAX) if kind else _OTHERS} {count:,}"
        for kind, count in calibration.tasks.items()
    )
    counts = counted(sum(calibration.tasks.values()), "finished task")
    lines = [f"{counts} without a loop in {calibration.days:,.1f} days: {tasks}."]
    if calibration.left_out:
        lines.append(
            f"{counted(calibration.left_out, 'task')} left out: silent for less than"
            f" {FINISHED_AFTER_S // 60} minutes, with an unresolved gate, or of a kind"
            f" with fewer than {TASKS_MIN}."
        )
    _print_lines(lines, console)
    if calibration.proposals:
        console.print(_table(calibration))
    now, then = (
        calibration.a_day(calibration.alarms_now),
        calibration.a_day(calibration.alarms_then),
    )
    alarms = [
        f"False alarms a day, all rules together: {now:.2f} now, {then:.2f} with these settings."
        if calibration.proposals
        else f"The settings in force stay: {now:.2f} false alarms a day."
    ]
    if then > alarms_per_day:
        alarms.append(f"No thresholds reach {alarms_per_day:g} a day; these are the nearest.")
    if calibration.loops:
        alarms.append(
            f"Of {counted(calibration.loops, 'loop')} that a person confirmed,"
            f" {calibration.loops_found_now:,} are found now,"
            f" and {calibration.loops_found_then:,} with these settings."
        )
    else:
        alarms.append("No person confirmed a loop, so the number of missed loops is unknown.")
    _print_lines(alarms, console)


def _print_lines(lines: list[str], console: Console) -> None:
    for line in lines:
        console.print(line, highlight=False, markup=False)


def _table(calibration: Calibration) -> Table:
    table = Table("task kind", "setting", box=None, pad_edge=False)
    for name in ("now", "proposed", "alarms a day now", "then"):
        table.add_column(name, justify="right")
    for proposal in calibration.proposals:
        table.add_row(
            plain(proposal.kind, NAME_LENGTH_MAX) if proposal.kind else _OTHERS,
            f"{proposal.rule}.{proposal.setting}",
            f"{proposal.now:,}",
            f"{proposal.then:,}",
            f"{calibration.a_day(proposal.alarms_now):.2f}",
            f"{calibration.a_day(proposal.alarms_then):.2f}",
        )
    return table


def print_certificates(made: Sequence[Certificate], share: float, console: Console) -> None:
    """Print what gates cost and save in runs of each kind, and what that promises."""
    heads = ("task kind", "agent", "model")
    table = Table(*heads, box=None, pad_edge=False)
    for name in ("solved", "can be lost", "lost", "lost at most", "others stopped", "steps saved"):
        table.add_column(name, justify="right")
    for each in made:
        table.add_row(
            *(plain(name, NAME_LENGTH_MAX) if name else "-" for name in each.kind),
            f"{each.solved:,}",
            f"{each.losable:,}",
            f"{each.lost:,}",
            f"{each.at_most:.1%}",
            f"{each.stopped:,} of {each.others:,}",
            f"{each.saved:.1%}",
        )
    console.print(table)
    _print_lines([_promise(each, share) for each in made], console)


def print_limits(learned: Sequence[Limit], share: float, console: Console) -> None:
    """Print which rules would save more as gates, at which limit, and what that promises."""
    _print_lines([limit_text(each, share) for each in learned], console)


def limit_text(limit: Limit, share: float) -> str:
    """Return in words what a learned limit would do, and what it promises."""
    made, alone = limit.together, limit.alone
    seen = (
        f"{_name_of(made)}: a gate where {limit.rule} counts more than {limit.most:,}, which "
        f"{counted(limit.chosen_on, 'solved run')} chose. Of {made.losable:,} others {made.lost:,} "
        f"would be lost ({alone.lost:,} by the gates in force), so at most {made.at_most:.1%}; "
        f"{made.stopped:,} of {made.others:,} that were not solved would be stopped, which saves "
        f"{made.saved:.1%} of their steps ({alone.saved:.1%} by the gates in force)."
    )
    if limit.is_kept(share):
        return f"{seen} --write puts it into the settings."
    needed = "no number of runs does" if made.needed is None else f"{made.needed:,} would"
    return f"{seen} That does not promise {share:.3g}; {needed}, so let the rule warn."


def _name_of(made: Certificate) -> str:
    return " / ".join(plain(part, NAME_LENGTH_MAX) for part in made.kind if part) or "all runs"


def _promise(made: Certificate, share: float) -> str:
    name = _name_of(made)
    runs = counted(made.losable, "solved run")
    seen = f"{name}: of {runs} that can be lost, gates would have stopped {made.lost:,}"
    if made.at_most <= share:
        return f"{seen}, so at most {made.at_most:.1%} are lost (95 % confidence)."
    if made.needed is None:
        return f"{seen}; no number of runs promises {share:.3g}."
    return (
        f"{seen}, which cannot promise less than {made.at_most:.1%}. "
        f"{share:.1%} needs {made.needed:,} solved runs with {made.lost:,} lost: "
        "until then let rules warn, not gate."
    )


def model_card_text(card: Any) -> str:
    """Write in a few lines how good a model is; its file has all figures."""
    lines = [
        f"{card['tasks']['loop']} tasks with a loop, {card['tasks']['well']} without. On tasks it"
        f" did not learn from, before the loop was complete:",
        f"  area under the ROC curve {card['roc_auc']} (0.5 is chance; by the number of the turn"
        f" {card['roc_auc_of_turn_number']})",
    ]
    lines += [
        f"  from {warning['likely_percent']} %: warns of {warning['loops_warned_of']}"
        f" of {warning['loops']} loops, and of {warning['well_warned_of']}"
        f" of {warning['well']} tasks without"
        for warning in card["warnings"]
    ]
    return "\n".join(lines)


def calibration_svg(bins: Sequence[Mapping[str, Any]]) -> str:
    """Draw predictions against outcomes; a larger dot means more turns."""
    most = max((each["turns"] for each in bins), default=1)
    least, span = _RADIUS_PX[0], _RADIUS_PX[1] - _RADIUS_PX[0]
    points = [
        Point(
            "turns; the more there are, the larger is the dot",
            each["predicted"],
            each["observed"],
            f"{each['turns']} turns: {each['predicted']} predicted, {each['observed']} observed",
            round(least + span * (each["turns"] / most) ** 0.5, 1),
        )
        for each in bins
    ]
    return scatter_svg(
        {"how often a prediction came true": points}, Axis("predicted"), Axis("observed")
    )
