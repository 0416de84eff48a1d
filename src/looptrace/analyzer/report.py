"""What the terminal report and the HTML report share: which findings are one loop, and the words.

The reports themselves are `report_terminal`, `report_html` and `report_json`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from looptrace.analyzer.findings import Analysis, Cost, Finding, Summary
from looptrace.rules.contract import ACTIONS

# A reader gives up long before this; `--format json` has every finding.
GROUPS_SHOWN_MAX = 100

# Long enough for a UUID, a trace id or a path of some depth.
NAME_LENGTH_MAX = 64

# Long enough for the reason of a finding or of a skipped part, in about three lines.
SENTENCE_LENGTH_MAX = 240

HOW_TO_LOOK_CLOSER = "looptrace explain PATH --task ID"

_MINUTE_SECONDS = 60
_HOUR_MINUTES = 60
# Below this a tenth of a second tells two loops apart.
_TENTHS_SECONDS_MAX = 10
# Agents with scripted models take less, and `0.0 s` would look like a fault.
_SHORTEST_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Group:
    """One loop as a reader sees it: the strongest finding, and the others that see it too."""

    lead: Finding
    others: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding of this loop, the strongest first."""
        return (self.lead, *self.others)

    @property
    def also(self) -> str:
        """The rules of the other findings, each named once."""
        return ", ".join(dict.fromkeys(finding.rule for finding in self.others))


def grouped(findings: Iterable[Finding]) -> tuple[list[Group], int]:
    """Put findings that see the same loop together, the strongest first.

    At most `GROUPS_SHOWN_MAX` groups are made; the second value counts the findings left over.
    """
    found: list[list[Finding]] = []
    of_task: dict[str, list[list[Finding]]] = {}
    left_over = 0
    for finding in sorted(findings, key=_strongest_first):
        candidates = of_task.setdefault(finding.task, [])
        same = next((group for group in candidates if _is_same_loop(group[0], finding)), None)
        if same is not None:
            same.append(finding)
        elif len(found) < GROUPS_SHOWN_MAX:
            candidates.append([finding])
            found.append(candidates[-1])
        else:
            left_over += 1
    return [Group(lead, tuple(others)) for lead, *others in found], left_over


def _strongest_first(finding: Finding) -> tuple[int, int, str, str, int, str]:
    strength, attempts = ACTIONS.index(finding.action), finding.attempts
    return (-strength, -attempts, finding.rule, finding.task, finding.turn_first, finding.id)


def _is_same_loop(lead: Finding, other: Finding) -> bool:
    """Tell whether two findings of one task overlap by at least half of the smaller.

    Stretches are compared, not single turns: a repeated call and the repeated response that asks
    for it are one loop and share no turn. But two agents side by side are two loops.
    """
    shared = min(lead.turn_last, other.turn_last) - max(lead.turn_first, other.turn_first) + 1
    smaller = min(_length(lead), _length(other))
    if 2 * shared < smaller:
        return False
    return lead.agent == other.agent or not _turns(lead).isdisjoint(_turns(other))


def _length(finding: Finding) -> int:
    return finding.turn_last - finding.turn_first + 1


def _turns(finding: Finding) -> set[int]:
    return {turn.turn for turn in finding.turns}


def counted(count: int, noun: str) -> str:
    """Write `1 turn`, `1,234 turns`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def tokens_text(input_tokens: int, output_tokens: int) -> str:
    """Write `690 input + 100 output tokens`."""
    return f"{input_tokens:,} input + {output_tokens:,} output tokens"


def duration_text(seconds: float) -> str:
    """Write `0.4 s`, `46 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < _SHORTEST_SECONDS:
        return f"under {_SHORTEST_SECONDS} s"
    if seconds < _TENTHS_SECONDS_MAX:
        return f"{seconds:.1f} s"
    minutes, seconds_left = divmod(round(seconds), _MINUTE_SECONDS)
    if not minutes:
        return f"{seconds_left} s"
    hours, minutes_left = divmod(minutes, _HOUR_MINUTES)
    return f"{hours} h {minutes_left} min" if hours else f"{minutes} min {seconds_left} s"


def cost_text(cost: Cost) -> str:
    """Write `46 s, 690 input + 100 output tokens`; only the time where no tokens are recorded."""
    if not cost.input_tokens and not cost.output_tokens:
        return duration_text(cost.seconds)
    return f"{duration_text(cost.seconds)}, {tokens_text(cost.input_tokens, cost.output_tokens)}"


def verdict(analysis: Analysis, shown: list[Group]) -> str:
    """Say in one line what was found."""
    if not analysis.summary.turns:
        return "Nothing to judge."
    if not shown:
        return "No loops found."
    tasks = len({finding.task for finding in analysis.findings})
    return (
        f"{counted(len(shown), 'loop')} in {tasks:,} of {counted(analysis.summary.tasks, 'task')}."
    )


def left_over_text(left_over: int) -> str:
    """Say that a report does not show everything, and where the rest is."""
    return f"and {counted(left_over, 'more finding')}: all are in --format json"


def blind_spots(summary: Summary) -> list[str]:
    """Say what the rules could not see, so that silence is not taken for health."""
    if not summary.spans:
        return ["No spans were read."]
    if not summary.turns:
        return [
            f"{counted(summary.spans, 'span')}, but none is a tool call or a model response"
            " in a dialect looptrace knows."
        ]
    missing = (
        (summary.unknown.arguments, "arguments", "calls"),
        (summary.unknown.results, "results", "outcomes"),
    )
    return [
        f"{counted(count, 'tool turn')} {'carries' if count == 1 else 'carry'} no {what}:"
        f" no rule could compare their {compared}."
        for count, what, compared in missing
        if count
    ]
