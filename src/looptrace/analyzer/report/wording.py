"""Shared code of the reports for people: the words, and how much is shown.

The reports themselves are `terminal`, `html`, `json` and `ci`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from looptrace.analyzer.detect.budgets.rules import rule_named
from looptrace.analyzer.detect.findings import Cost, Finding
from looptrace.analyzer.detect.loops import CountedLoop
from looptrace.analyzer.engine.analysis import Analysis, Outage
from looptrace.analyzer.gates.events import GateCause, GateEvent
from looptrace.analyzer.llm_judge import NoOpinion, Opinion
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import is_known, utc_us
from looptrace.rules.vocabulary import NS_PER_S

# Nobody reads more; `--format json` has every finding.
GROUPS_SHOWN_MAX = 100

# Long enough for a UUID, a trace id or a path of some depth.
NAME_LENGTH_MAX = 64

# Long enough for the reason of a finding or of a skipped part, in about three lines.
SENTENCE_LENGTH_MAX = 240

# The most events of one task, shown from its start and its end.
EVENTS_SHOWN_MAX = 20

# The most versions of a service that are named.
VERSIONS_SHOWN_MAX = 5

HOW_TO_LOOK_CLOSER = "looptrace explain PATH --task ID"
HOW_TO_HAND_ON = "looptrace escalation PATH --task ID"

GATE_IS_OPEN = "The gate is open: a person must decide how the task goes on."

WHY_TEXTS: dict[GateCause, str] = {
    "LADDER": "the rule's limit is reached",
    "MAX_PIVOTS_EXCEEDED": "no pivot is left (recovery.max_pivots)",
    "MAX_FORCED_EXCEEDED": "no order to move on is left (recovery.max_forced)",
    "UNBLOCKING_OFF": "authority may not be granted (recovery.unblock)",
    "UNBLOCKING_FAILED": "authority was granted, and the same blockers stop it again",
}
_RESET_TEXTS = {
    "person": "a person spoke",
    "message": "a person wrote",
    "completed": "the task was completed",
    "idle": "the task was idle",
    "run": "the same prompt began a new run",
}

SESSIONS_SHOWN_MAX = 5

# Smaller sums would look like zero.
_SMALLEST_AMOUNT = 0.01
_MINUTE_SECONDS = 60
_HOUR_MINUTES = 60
_TEENS = range(11, 14)
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
# Below this a tenth of a second matters.
_TENTHS_SECONDS_MAX = 10
# Agents with scripted models take less, and `0.0 s` would look like an error.
_SHORTEST_SECONDS = 0.1
# From the largest; a number gets the first unit that is not larger.
_UNITS = {"G": 1_000_000_000, "M": 1_000_000, "k": 1_000}


def shown_of(groups: Sequence[CountedLoop]) -> tuple[Sequence[CountedLoop], int]:
    """Return the groups that a report shows, and how many loops it leaves out."""
    return groups[:GROUPS_SHOWN_MAX], max(0, len(groups) - GROUPS_SHOWN_MAX)


@dataclass(frozen=True, slots=True)
class TaskEvents:
    """The events of one task in their order; if there are many, the start and the end."""

    head: tuple[GateEvent, ...]
    between: int  # events left out
    tail: tuple[GateEvent, ...]
    gate: GateEvent | None  # the open gate at the end


def events_by_task(events: Iterable[GateEvent]) -> dict[str, TaskEvents]:
    """Return the events by task, in the form of a report."""
    by_task: dict[str, list[GateEvent]] = {}
    for event in events:
        by_task.setdefault(event.task, []).append(event)
    return {task: _told(mine) for task, mine in by_task.items()}


def _told(events: list[GateEvent]) -> TaskEvents:
    between = max(0, len(events) - EVENTS_SHOWN_MAX)
    head = len(events) if not between else EVENTS_SHOWN_MAX // 2
    gates = [event for event in events if event.type in ("gate_opened", "gate_resolved")]
    return TaskEvents(
        head=tuple(events[:head]),
        between=between,
        tail=tuple(events[head + between :]),
        gate=gates[-1] if gates and gates[-1].type == "gate_opened" else None,
    )


def place_of(event: GateEvent) -> tuple[int, bool]:
    """Return the turn of an event, and whether it came with a person's message after it."""
    return event.turn, event.action is None and event.reason in ("person", "message")


def told_text(event: GateEvent) -> str:
    """Write `gate by repeated_call, at the 5th time: the rule's limit is reached`."""
    return f"{event_name(event)}{_told_more(event)}"


def event_name(event: GateEvent) -> str:
    """Name an event in a word or two: the action, or the change of a gate or a counter."""
    return "left alone" if event.is_left_alone else event.action or event.type.replace("_", " ")


def _told_more(event: GateEvent) -> str:
    if event.type == "gate_resolved":
        decision = f": {plain(event.decision, NAME_LENGTH_MAX)}" if event.decision else ""
        return f" by a person{decision}"
    if event.type == "counter_reset":
        return f"{times_before(event)}: {reset_text(event.reason)}"
    more = {
        "gate": f": {WHY_TEXTS[event.why]}" if event.why else "",
        "retry_later": f": after {event.retry_after_s} s",
        "pivot": f": change of course {event.pivots}",
    }
    action = event.action or ""
    return f" by {event.rule}, {reached_text(event)}{more.get(action, '')}"


def reached_text(event: GateEvent) -> str:
    """Write `at the 3rd time`, or `at 94 % of the limit`: how far the loop of an event had come."""
    if counts_percents(event.rule):
        return f"at {event.attempts} % of the limit"
    return f"at the {ordinal(event.attempts)} time"


def counts_percents(name: str) -> bool:
    """Return whether the attempts of a rule are percents of a limit."""
    rule = rule_named(name)
    return rule is not None and rule.counts_percents


def times_before(event: GateEvent) -> str:
    """Write ` after 5 times`: how often the task had repeated itself before a reset, if it had."""
    return f" after {event.loop_count + 1:,} times" if event.loop_count else ""


def ordinal(number: int) -> str:
    """Write `1st`, `2nd`, `3rd`, `11th`."""
    ending = "th" if number % 100 in _TEENS else _ENDINGS.get(number % 10, "th")
    return f"{number:,}{ending}"


def reset_text(reason: str) -> str:
    """Write why counts begin again."""
    return _RESET_TEXTS.get(reason) or plain(reason, NAME_LENGTH_MAX)


def opinion_text(opinion: Opinion | NoOpinion) -> str:
    """Write the opinion of a judge, or why it has none, bounded and on one line."""
    if isinstance(opinion, NoOpinion):
        return f"no opinion: {opinion.why}"
    questions = {
        "regressive": opinion.is_regressive,
        "no progress": opinion.no_progress,
        "external": opinion.is_external,
    }
    answers = ", ".join(f"{what}: {'yes' if holds else 'no'}" for what, holds in questions.items())
    return f"{answers}. {opinion.reasoning}"


def counted(count: int, noun: str) -> str:
    """Write `1 turn`, `1,234 turns`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def count_text(count: float) -> str:
    """Write `940`, `11.9 k`, `3.2 M`: the digits that a person remembers."""
    for unit, size in _UNITS.items():
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f}"


def tokens_text(
    input_tokens: int, output_tokens: int, cached_tokens: int = 0, reasoning_tokens: int = 0
) -> str:
    """Write `690 input (500 cached) + 100 output (60 reasoning) tokens`, without empty parts."""
    cached = f" ({cached_tokens:,} cached)" if cached_tokens else ""
    thought = f" ({reasoning_tokens:,} reasoning)" if reasoning_tokens else ""
    return f"{input_tokens:,} input{cached} + {output_tokens:,} output{thought} tokens"


def duration_text(seconds: float) -> str:
    """Write `0.4 s`, `46 s`, `3 min`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < _SHORTEST_SECONDS:
        return f"under {_SHORTEST_SECONDS} s"
    if seconds < _TENTHS_SECONDS_MAX:
        return f"{seconds:.1f} s"
    minutes, seconds_left = divmod(round(seconds), _MINUTE_SECONDS)
    if not minutes:
        return f"{seconds_left} s"
    hours, minutes_left = divmod(minutes, _HOUR_MINUTES)
    if hours:
        return f"{hours} h {minutes_left} min" if minutes_left else f"{hours} h"
    return f"{minutes} min {seconds_left} s" if seconds_left else f"{minutes} min"


def cost_text(cost: Cost, money: str = "") -> str:
    """Write `46 s, 690 input + 100 output tokens, EUR 0.42`, without unrecorded parts."""
    tokens = tokens_text(cost.input_tokens, cost.output_tokens) if cost.tokens else ""
    seconds = duration_text(cost.seconds) if cost.seconds else ""
    return ", ".join(filter(None, (seconds, tokens, money)))


def loop_money_text(analysis: Analysis, finding: Finding) -> str:
    """Write what a loop cost in money; empty without prices."""
    if (money := analysis.money) is None:
        return ""
    currency = plain(money.currency, NAME_LENGTH_MAX)
    has_unpriced = finding.id in money.unpriced
    return money_text(money.spent[finding.id], currency, has_unpriced=has_unpriced)


def money_text(money: float, currency: str, *, has_unpriced: bool) -> str:
    """Write `EUR 0.12`, with a remark if a part of it has no price."""
    is_small = 0 < money < _SMALLEST_AMOUNT
    written = f"under {currency} {_SMALLEST_AMOUNT}" if is_small else f"{currency} {money:,.2f}"
    return f"{written}, plus models without a price" if has_unpriced else written


def prices_text(source: str) -> str:
    """Write which package prices are from; empty where they are the user's own."""
    return f"Prices: {source}." if source else ""


def loop_cost_text(cost: Cost, money: str = "", share: float | None = None) -> str:
    """Write `11.9 k tokens, EUR 0.42, 38 s in the loop, 31 % of the task`.

    Without tokens, money or a share of the task these are left out.
    """
    parts = [f"{count_text(cost.tokens)} tokens"] if cost.tokens else []
    parts += [money] if money else []
    parts += [f"{duration_text(cost.seconds)} in the loop"] if cost.seconds else []
    if share is not None:
        parts.append(f"{share:.0%} of the task".replace("%", " %"))
    return ", ".join(parts)


def versions_text(versions: Sequence[str], resolved_in: str, back_in: str) -> str:
    """Write `resolved in 1.4.2, back in 1.5.0`, else `version 1.4.2`; "" where none is known."""
    resolved, back = (plain(each, NAME_LENGTH_MAX) for each in (resolved_in, back_in))
    said = [f"resolved in {resolved}"] if resolved else []
    said += [f"back in {back}"] if back else []
    if said:
        return ", ".join(said)
    shown = [plain(each, NAME_LENGTH_MAX) for each in versions[:VERSIONS_SHOWN_MAX]]
    more = len(versions) - len(shown)
    words = "version " if len(versions) == 1 else "versions "
    return words + ", ".join([*shown, *([f"{more} more"] if more else [])]) if versions else ""


def outage_text(outage: Outage) -> str:
    """Write `12 sessions met error:503 in fetch: 40 failures within 8 min 10 s`."""
    what = plain(outage.signature, NAME_LENGTH_MAX)
    where = f" in {plain(outage.tool, NAME_LENGTH_MAX)}" if outage.tool else ""
    lasted = duration_text((outage.last_ns - outage.first_ns) / NS_PER_S)
    sessions, failures = (
        counted(len(outage.sessions), "session"),
        counted(outage.failures, "failure"),
    )
    return f"{sessions} met {what}{where}: {failures} within {lasted}"


def outage_more(outage: Outage, events: Iterable[GateEvent]) -> str:
    """Write the time of an outage, its sessions, and the findings that it explains."""
    shown = ", ".join(plain(s, NAME_LENGTH_MAX) for s in outage.sessions[:SESSIONS_SHOWN_MAX])
    more = len(outage.sessions) - SESSIONS_SHOWN_MAX
    others = f" and {more:,} more" if more > 0 else ""
    gates = sum(e.type == "gate_opened" and e.finding in outage.findings for e in events)
    of_gates = f", with {counted(gates, 'gate')}" if gates else ""
    explains = counted(len(outage.findings), "finding")
    since = f"since {utc_us(outage.first_ns)}, " if is_known(outage.first_ns) else ""
    return f"{since}in {shown}{others}; explains {explains}{of_gates}"


def left_over_text(left_over: int) -> str:
    """Write how many loops a report leaves out, and where they are."""
    return f"and {counted(left_over, 'more loop')}: all are in --format json"
