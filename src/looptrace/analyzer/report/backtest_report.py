"""The report of a backtest: side by side for a person, and as JSON (`docs/backtest.md`)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

from looptrace.analyzer.report.json import MONEY_DECIMALS, json_text
from looptrace.analyzer.report.pages import StyledPage, line, wrapped
from looptrace.analyzer.report.wording import (
    GROUPS_SHOWN_MAX,
    NAME_LENGTH_MAX,
    SENTENCE_LENGTH_MAX,
    counted,
    duration_text,
    money_text,
    prices_text,
    tokens_text,
)
from looptrace.analyzer.schema.spans import Skipped
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.tuning.backtest import Backtest, BacktestRow, Opened, Spent, Total
from looptrace.analyzer.tuning.exceptions import Trial
from looptrace.rules.contract import ACTIONS

SCHEMA = 1
AT_MOST = (
    "A gate would have stopped its task until a person decides. The turns after it, up to the next"
    " message of a person or to the end of the task, are the most that it would have saved."
)
NO_PRICES = "Costs in money need prices: --prices FILE, or --prices genai-prices."

# A reader needs no more models; the JSON has all of them.
_MODELS_SHOWN_MAX = 10
_TASKS_SHOWN_MAX = 5
# Fewer than a float has, so that sums in JSON look exact.
_INDENT_COLUMNS = 2
_GAP_COLUMNS = 2
# Piped output has no width; nobody reads wider lines than this.
_HALF_COLUMNS_MAX = 80


def json_backtest(backtest: Backtest, names: tuple[str, str], skipped: Sequence[Skipped]) -> str:
    """Write a backtest as JSON: the same input always gives the same text."""
    report = {
        "schema": SCHEMA,
        "tasks": backtest.tasks,
        "turns": backtest.turns,
        "currency": backtest.currency,
        "prices": backtest.prices or None,
        "skipped": [asdict(part) for part in skipped],
        "a": _total_json(names[0], backtest.a, backtest.currency),
        "b": _total_json(names[1], backtest.b, backtest.currency),
        "gates": [
            {
                "task": row.task,
                "a": _opened_json(row.a, backtest.currency),
                "b": _opened_json(row.b, backtest.currency),
            }
            for row in backtest.rows
        ],
    }
    return json_text(report)


def _total_json(name: str, total: Total, currency: str | None) -> dict[str, object]:
    return {
        "settings": name,
        "findings": total.findings,
        "told": {action: total.actions.get(action, 0) for action in ACTIONS},
        "after": _spent_json(total.after, currency),
    }


def _opened_json(opened: Opened | None, currency: str | None) -> dict[str, object] | None:
    if opened is None:
        return None
    return {
        "turn": opened.turn,
        "rule": opened.rule,
        "why": opened.why,
        "reason": opened.reason,
        "after": _spent_json(opened.after, currency),
    }


def _spent_json(spent: Spent, currency: str | None) -> dict[str, object]:
    return {
        "turns": spent.turns,
        "seconds": spent.seconds,
        "tokens": {"input": spent.input_tokens, "output": spent.output_tokens},
        "money": None if currency is None else round(spent.money, MONEY_DECIMALS),
        "unpriced": dict(sorted(spent.unpriced.items())),
        "untold": spent.untold,
    }


def print_backtest(backtest: Backtest, names: tuple[str, str], console: Console) -> None:
    """Print each task with a gate, A at the left and B at the right, and the totals of both."""
    if not backtest.turns:
        _print(["No turns to analyse."], console)
        return
    counts = f"{counted(backtest.tasks, 'task')}, {counted(backtest.turns, 'turn')}"
    _print([counts, *_verdict(backtest)], console)
    _print_pair(
        [f"A: {plain(names[0], NAME_LENGTH_MAX)}"],
        [f"B: {plain(names[1], NAME_LENGTH_MAX)}"],
        console,
    )
    for row in backtest.rows[:GROUPS_SHOWN_MAX]:
        _print_row(row, backtest.currency, console)
    if len(backtest.rows) > GROUPS_SHOWN_MAX:
        more = len(backtest.rows) - GROUPS_SHOWN_MAX
        _print([f"and {counted(more, 'more row')}: all are in --format json"], console)
    _print(["in all"], console)
    _print_pair(
        _total_lines(backtest.a, backtest.currency),
        _total_lines(backtest.b, backtest.currency),
        console,
    )
    _print(_notes(backtest), console)


def _verdict(backtest: Backtest) -> list[str]:
    if not backtest.rows:
        return ["Neither would have opened a gate."]
    stopped = f"{backtest.tasks - backtest.without_gate:,} of {counted(backtest.tasks, 'task')}"
    return [f"A gate would have opened in {stopped}."]


def _print_row(row: BacktestRow, currency: str | None, console: Console) -> None:
    _print([f"task {plain(row.task, NAME_LENGTH_MAX)}"], console)
    _print_pair(_opened_lines(row.a, currency), _opened_lines(row.b, currency), console)


def _opened_lines(opened: Opened | None, currency: str | None) -> list[str]:
    if opened is None:
        return ["no gate"]
    why = f" ({opened.why})" if opened.why not in (None, "LADDER") else ""
    return [
        f"gate at turn {opened.turn:,}",
        f"by {opened.rule}{why}",
        plain(opened.reason, SENTENCE_LENGTH_MAX),
        *_spent_lines("after it", opened.after, currency),
    ]


def _total_lines(total: Total, currency: str | None) -> list[str]:
    actions = [
        f"{action} {total.actions[action]:,}" for action in ACTIONS if action in total.actions
    ]
    lines = [counted(total.findings, "finding"), *([", ".join(actions)] if actions else [])]
    if not total.actions.get("gate"):
        return [*lines, "no gate"]
    return [*lines, *_spent_lines("after gates", total.after, currency)]


def _spent_lines(when: str, spent: Spent, currency: str | None) -> list[str]:
    if not spent.turns:
        return [f"{when}: nothing"]
    lines = [f"{when}: {counted(spent.turns, 'turn')}, {duration_text(spent.seconds)}"]
    if spent.input_tokens or spent.output_tokens:
        lines.append(tokens_text(spent.input_tokens, spent.output_tokens))
    if currency is not None:
        lines.append(_money_text(spent, plain(currency, NAME_LENGTH_MAX)))
    return lines


def _money_text(spent: Spent, currency: str) -> str:
    return money_text(spent.money, currency, has_unpriced=bool(spent.unpriced))


def _notes(backtest: Backtest) -> list[str]:
    """Write the meaning of the figures, and what is missing in them."""
    if not backtest.rows:
        return []
    notes = [AT_MOST]
    if backtest.currency is None:
        notes.append(NO_PRICES)
    elif source := prices_text(backtest.prices):
        notes.append(source)
    unpriced = Counter(backtest.a.after.unpriced) | Counter(backtest.b.after.unpriced)
    if unpriced:
        shown = [
            f"{plain(model, NAME_LENGTH_MAX) or 'a model without a name'}"
            f" ({counted(count, 'response')})"
            for model, count in sorted(unpriced.items())
        ]
        more = len(shown) - _MODELS_SHOWN_MAX
        rest = f", and {counted(more, 'more model')}" if more > 0 else ""
        notes.append(f"No price for {', '.join(shown[:_MODELS_SHOWN_MAX])}{rest}.")
    if untold := max(backtest.a.after.untold, backtest.b.after.untold):
        notes.append(f"{counted(untold, 'response')} without tokens: their cost is not known.")
    return notes


def _print(lines: Sequence[str], console: Console) -> None:
    page = StyledPage(console)
    page.add_paragraph(map(line, lines))
    page.print()


def _print_pair(left: Sequence[str], right: Sequence[str], console: Console) -> None:
    """Print two columns, each wrapped within its half of the width."""
    half = (console.width - _INDENT_COLUMNS - _GAP_COLUMNS) // 2
    width = min(max(half, 1), _HALF_COLUMNS_MAX)
    halves = [
        [part for line in lines for part in wrapped(Text(line), console, width)]
        for lines in (left, right)
    ]
    for a, b in zip_longest(*halves, fillvalue=Text()):
        a.pad_right(width - a.cell_len + _GAP_COLUMNS)
        line = Text(" " * _INDENT_COLUMNS) + a + b
        line.rstrip()
        console.print(line)


def trial_remarks(trial: Trial, days: int) -> list[str]:
    """Return the trial of exceptions over some days in words, a line each."""
    over = f"Tried over {counted(days, 'day')} and {counted(trial.tasks, 'task')}:"
    ended = f"{trial.own_ended} of {counted(trial.own, 'gate')} of this loop would not open,"
    others = f"and {len(trial.others_ended)} of {counted(trial.others, 'other gate')}."
    shown = [plain(task, NAME_LENGTH_MAX) for task in trial.others_ended[:_TASKS_SHOWN_MAX]]
    if more := len(trial.others_ended) - len(shown):
        shown.append(f"{more} more")
    return [f"{over} {ended} {others}", *([f"The others: {', '.join(shown)}."] if shown else [])]
