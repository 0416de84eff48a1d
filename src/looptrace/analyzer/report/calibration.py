"""Reports of `calibrate` for a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from looptrace.analyzer.report.wording import NAME_LENGTH_MAX, counted
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import utc_s
from looptrace.analyzer.tuning.calibrate import FINISHED_AFTER_S, TASKS_MIN, Calibration
from looptrace.analyzer.tuning.certificates import Certificate
from looptrace.analyzer.tuning.drift import EVIDENCE_MAX, PromiseTest
from looptrace.analyzer.tuning.limits import Limit
from looptrace.rules.prediction.likely_failure import LikelyFailure

_OTHERS = "all others"
# Beyond it, how much evidence there is makes no difference.
_EVIDENCE_SHOWN_MAX = 1_000


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


# What a rule with a limit counts.
_COUNTED = {
    "max_iterations": "steps",
    "consecutive_errors": "failures in a row",
    "no_news": "calls without a new result",
    "same_result": "times the same result",
    "persistent_failure": "times one failure",
    LikelyFailure.name: "percent of a likely failure",
}


def print_limits(learned: Sequence[Limit], share: float, console: Console) -> None:
    """Print which rules would save more as gates, at which limit, and what that promises."""
    _print_lines([limit_text(each, share) for each in learned], console)


def limit_text(limit: Limit, share: float) -> str:
    """Return in words what a learned limit would do, and what it promises."""
    made, alone, (solved, others) = limit.together, limit.alone, limit.beyond
    seen = (
        f"{_name_of(made)}: of {counted(made.losable, 'solved run')} {solved or 'none'} had more "
        f"than {limit.most:,} {_COUNTED[limit.rule]}; {others:,} of {made.others:,} others did. "
        f"A gate there ({limit.rule}), which {limit.chosen_on:,} more solved runs chose, and the "
        f"gates in force would lose {made.lost:,} ({alone.lost:,} without it), so at most "
        f"{made.at_most:.1%}, and save {made.saved:.1%} of the others' steps "
        f"({alone.saved:.1%} without it)."
    )
    if limit.saved_otherwise is not None:
        seen += f" {_rivals(limit)}"
    if limit.is_kept(share):
        return f"{seen} --write puts it into the settings."
    needed = "no number of runs does" if made.needed is None else f"{made.needed:,} would"
    return f"{seen} That does not promise {share:.1%}; {needed}, so let the rule warn."


def _rivals(limit: Limit) -> str:
    """Return in words how a model and the counters compare where the limit was chosen."""
    here, there = f"{limit.saved:.1%}", f"{limit.saved_otherwise:.1%}"
    if limit.rule == LikelyFailure.name:
        return f"The model saves {here} where it was chosen, and no counter more than {there}."
    return f"A model would save {there} where the counter saves {here}: it is not used."


def print_tests(
    tests: Sequence[PromiseTest], withdrawn: Sequence[tuple[int, str]], console: Console
) -> None:
    """Print whether the promises of the learned limits in force still hold.

    `withdrawn` are those that a server withdrew, when and why.
    """
    lines = [
        f"{why}: the server withdrew the promise on {utc_s(at_ns)}, and its limit only warns. "
        "--write makes it a warning in the settings, too."
        for at_ns, why in withdrawn
    ]
    _print_lines([*lines, *(test_text(each) for each in tests)], console)


def seen_text(test: PromiseTest) -> str:
    """Return in words what the runs say that a learned limit spared."""
    names = [plain(name, NAME_LENGTH_MAX) for name in test.override.selectors.values()]
    promised = test.rule.ladder[-1].lost_percent
    most = f"more than {_EVIDENCE_SHOWN_MAX:,}"
    evidence = f"{test.evidence:.1f}" if test.evidence <= _EVIDENCE_SHOWN_MAX else most
    return (
        f"{' / '.join(names) or 'all runs'}: of {counted(test.solved, 'solved run')} that the "
        f"limit of {test.rule.name} spared, {test.beyond:,} had gone beyond it; it promised "
        f"{promised:g} %. The evidence against that was {evidence} to 1"
    )


def test_text(test: PromiseTest) -> str:
    """Return in words whether the promise of a learned limit still holds."""
    seen = seen_text(test)
    if test.is_withdrawn:
        return f"{seen}: the promise is withdrawn. --write makes the limit a warning."
    return f"{seen}, and {EVIDENCE_MAX:.0f} to 1 would withdraw it."


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
