"""The explanation of a task at a terminal: turns, how far each rule got, settings that matter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from looptrace.analyzer.detect.loops import loops_in
from looptrace.analyzer.detect.persons import PERSONS
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.report.pages import PIPED_COLUMNS
from looptrace.analyzer.report.strips.text import text_strip
from looptrace.analyzer.report.terminal import ACTION_STYLE
from looptrace.analyzer.report.wording import place_of, told_text
from looptrace.analyzer.text.display import label, plain
from looptrace.analyzer.text.times import utc_ms
from looptrace.analyzer.tuning.counterfactuals import Change, GateMove, MovedGate
from looptrace.analyzer.tuning.explain import Explanation, Progress

_CELL_LENGTH_MAX = 60
# A result may be a whole file, which would leave no room for the other columns.
_PIPED_CELL_LENGTH_MAX = 500
_INDENT_COLUMNS = 2
# A rule that counts every turn is named from this share of its needed count.
_NEAR = 5
# The author of a message, a person or not, and the reason.
_WRITERS = {True: "person", False: "prompt"}
_SPEAKERS: dict[str | None, str] = {
    "intervention": "a person stepped in",
    "message": "a person, in new words",
    "same_words": "not a person: words that came before",
    "attempts": "not a person: after a recorded attempt",
    "setting": "not a person: by persons.messages",
}


def print_explanation(
    name: str, turns: pl.DataFrame, explanation: Explanation, console: Console
) -> None:
    """Print a task (numbered turns), one turn a line, and below it the result of each rule."""
    is_piped = console.width == PIPED_COLUMNS
    length_max = _PIPED_CELL_LENGTH_MAX if is_piped else _CELL_LENGTH_MAX
    console.print(Text(f"task {plain(name, length_max)}", style="bold"))
    if explanation.waits:
        since_ns, by = explanation.waits
        waits = f"waits for a person since {utc_ms(since_ns)}: {plain(by, length_max)}"
        console.print(Text(waits, style="bold"))
    leads = [group.lead for group in loops_in(explanation.findings)]
    is_ascii = console.options.ascii_only
    for line in text_strip(turns, leads, explanation.events, console.width, ascii_only=is_ascii):
        console.print(Text(line), no_wrap=True)
    named = turns.filter(pl.col("agent") != "")["agent"].n_unique() > 1
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", expand=not is_piped)
    table.add_column("turn", justify="right", no_wrap=True)
    if named:
        table.add_column("agent", no_wrap=True, ratio=1)
    table.add_column("what", no_wrap=True, ratio=4)
    table.add_column("outcome", no_wrap=True, ratio=3)
    table.add_column("how far the rules got", ratio=4)
    for i, row in enumerate(turns.iter_rows(named=True)):
        speaker = explanation.speakers[i]
        number = _WRITERS[speaker in PERSONS] if speaker else str(row["turn"])
        agent = [Text(plain(row["agent"], length_max))] if named else []
        what = Text(label(row, length_max))
        place = (row["turn"], row["kind"] == "user")
        decided = [event for event in explanation.events if place_of(event) == place]
        reached = _reached(row, explanation.rules, i)
        reached.append(_SPEAKERS.get(speaker, ""), style="dim")
        outcome = _outcome(row, length_max)
        table.add_row(number, *agent, what, outcome, _with_decided(reached, decided))
    _print_table(table, console, is_piped=is_piped)
    for reason in reasons_of(turns, explanation):
        console.print(reason.text)
        _print_indented(console, reason.more)
    if blind := blind_rules(explanation):
        console.print(Text(f"no turns for: {', '.join(blind)}", style="dim"))
    for gate in gate_reasons_of(explanation):
        console.print(gate.text)
        _print_indented(console, gate.more)


def _print_table(table: Table, console: Console, *, is_piped: bool) -> None:
    """Print a table, to a program without the blanks that fill its last column."""
    if not is_piped:
        console.print(table)
        return
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        console.print(Text(line.rstrip()), no_wrap=True)


@dataclass(frozen=True, slots=True)
class ExplainedResult:
    """The result of a rule or a gate, and the settings that would change it, a line each."""

    text: Text
    more: list[str]
    is_loop: bool


def reasons_of(turns: pl.DataFrame, explanation: Explanation) -> list[ExplainedResult]:
    """Return how far each rule got in a task (numbered turns), and what would change it."""
    return [
        ExplainedResult(
            _furthest(rule, rule.furthest, turns),
            _changes(rule, explanation.changes[rule.rule])
            if rule.rule in explanation.changes
            else [],
            rule.fired,
        )
        for rule in explanation.rules
        if rule.furthest is not None
    ]


def gate_reasons_of(explanation: Explanation) -> list[ExplainedResult]:
    """Return the gates of a task, and the settings by which they would open later or never."""
    return [
        ExplainedResult(
            Text(f"turn {gate.event.turn}: {told_text(gate.event)}", style="bold red"),
            [*map(_move, gate.moves), _without_rule(gate)],
            is_loop=True,
        )
        for gate in explanation.gates
    ]


def blind_rules(explanation: Explanation) -> list[str]:
    """Return the rules that found no turn to look at."""
    return [rule.rule for rule in explanation.rules if rule.furthest is None]


def _print_indented(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(Padding(Text(line), (0, 0, 0, _INDENT_COLUMNS), expand=False))


def _with_decided(reached: Text, decided: list[GateEvent]) -> Text:
    """Return the events of a turn, for the line below how far the rules got."""
    lines = [reached] if reached else []
    for event in decided:
        style = ACTION_STYLE[event.action] if event.action else "bold"
        lines.append(Text(f"→ {told_text(event)}", style=style))
    return Text("\n").join(lines)


def _changes(rule: Progress, changes: tuple[Change, ...]) -> list[str]:
    """Write the settings with which a rule would fire, or be silent."""
    if not changes:
        return [f"no setting of its own would {'silence it' if rule.fired else 'make it fire'}"]
    effect = "would be silent" if rule.fired else "would fire"
    return [f"{effect} with {_setting(change)}" for change in changes]


def _move(move: GateMove) -> str:
    came = "would not have come" if move.turn is None else f"would have come at turn {move.turn}"
    return f"{came} with {_setting(move.change)}"


def _without_rule(gate: MovedGate) -> str:
    other, switch = gate.without_rule, f"rules.{gate.event.rule}.enabled = false"
    if other is None:
        return f"would not have come with {switch}"
    return f"with {switch} there is a gate by {other.rule} at turn {other.turn}"


def _setting(change: Change) -> str:
    then, now = (msgspec.json.encode(value).decode() for value in (change.then, change.now))
    return f"{change.setting} = {then} (now {now})"


def _outcome(row: dict[str, Any], length_max: int) -> Text:
    if row["kind"] != "tool":
        return Text("")
    outcome = plain(row["error"] or row["result"] or "", length_max)
    return Text(outcome, style="red" if row["failed"] else "")


def _reached(row: dict[str, Any], rules: Sequence[Progress], index: int) -> Text:
    """Name the rules that see a repetition here, and the unknown values that prevent one."""
    text = Text()
    if row["kind"] == "tool":
        missing = {"arguments": row["arguments"], "result": row["outcome"]}
        unknown = [what for what, value in missing.items() if value is None]
        text.append(f"unknown {' and '.join(unknown)} " if unknown else "", style="dim")
    for rule in rules:
        attempts = rule.reached[index] or 0
        needed = rule.needed[index] or 0
        if attempts > 1 and attempts * _NEAR >= needed:
            style = "bold red" if attempts >= needed else "yellow"
            text.append(f"{rule.rule} {attempts}/{needed} ", style=style)
    return text


def _furthest(rule: Progress, index: int, turns: pl.DataFrame) -> Text:
    """Write in one line how far a rule got in the task, at the turn with this index."""
    most, needed = rule.reached[index] or 0, rule.needed[index]
    text = Text(f"{rule.rule}: ")
    if most < needed:
        return text.append(f"silent, got to {most} of {needed}")
    at = turns["turn"][index]
    return text.append(f"fired, got to {most} of {needed}, at turn {at}", style="bold red")
