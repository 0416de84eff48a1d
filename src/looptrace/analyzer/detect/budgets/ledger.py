"""The ledger of budgets: what tasks have spent together up to each response.

Files and live spans use the same one. The sum at a response has all responses that ended before
it, whatever their task. A response that comes late is counted where it ended, and those after it
count again, as far back as turns may move.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import msgspec

from looptrace.analyzer.detect.budgets.limits import Budgets
from looptrace.analyzer.detect.budgets.rules import BUDGET_RULES, TOKENS, BudgetRule
from looptrace.analyzer.detect.prices import Prices
from looptrace.analyzer.schema.turns import AT, TURN_KEY, Turn, TurnKey
from looptrace.analyzer.text.times import utc_day
from looptrace.bounded_dict import BoundedDict
from looptrace.rules.vocabulary import BILLIONTHS, NS_PER_S, PERCENTS, SOFT_PERCENT

# The columns of turns that the ledger reads, and the kinds of turns.
SPENDING_COLUMNS = (
    *("task", "session", "service", "kind", "trace_id", "span_id", "call_id", "name", "result"),
    *("end_ns", "input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens"),
)
SPENDING_KINDS = ("model", "user")
# A turn that comes so long after later ones is counted among the earliest that are held.
MOVES_S = 120
# Responses that are known again when their spans come a second time.
CHARGES_KEPT_MAX = 100_000
# Sessions and services whose sums are held.
ACCOUNTS_MAX = 100_000
# Tasks with responses at which a budget fires.
TASKS_MAX = 10_000
_MODELS_KEPT_MAX = 1_000
_PER_TOKEN = BILLIONTHS / 1_000_000


class Added(msgspec.Struct, frozen=True):
    """What a person has added to a budget; None is as much as the limit, once more."""

    budget: str
    added: float | None = None


class Charge(NamedTuple):
    """What a response has spent, in the order of time, or what a person has added then."""

    end_ns: int
    key: tuple[str, ...]  # of the turn
    task: str
    session: str
    service: str
    tokens: int
    money: int  # billionths
    added: Added | None = None


class Crossing(NamedTuple):
    """A response at which a budget is nearly or wholly spent."""

    rule: BudgetRule
    percent: int


class _Standing(NamedTuple):
    """What was spent of a budget, and what may be, in tokens or billionths."""

    spent: int
    allowed: float


@dataclass(slots=True)
class _Account:
    """How a budget stood before the charges that may still move, these, and how it stood after."""

    settled: _Standing
    recent: list[Charge] = field(default_factory=list)
    after: list[_Standing] = field(default_factory=list)


class Ledger:
    """The sums of the budgets that are set."""

    def __init__(self, budgets: Budgets, prices: Prices | None) -> None:
        self._limits = budgets.limits
        self._unit = prices.currency if prices else ""
        self._prices = prices
        self._known: BoundedDict[str, tuple[float, ...] | None] = BoundedDict(_MODELS_KEPT_MAX)
        self._accounts: BoundedDict[str, _Account] = BoundedDict(ACCOUNTS_MAX)
        self._charges: BoundedDict[tuple[str, ...], Charge] = BoundedDict(CHARGES_KEPT_MAX)
        self._fires: BoundedDict[str, dict[tuple[str, ...], list[Crossing]]]
        self._fires = BoundedDict(TASKS_MAX)
        self._changed: dict[str, set[tuple[str, ...]]] = {}

    def take(
        self, turns: Iterable[Turn], gone: Iterable[TurnKey] = ()
    ) -> Mapping[str, set[tuple[str, ...]]]:
        """Count turns (`TURN_SCHEMA`), each once; those that are gone no longer count.

        Return the responses at which budgets fire otherwise than before, by their tasks.
        """
        self._changed = {}
        if not self._limits:
            return self._changed
        for lost in gone:
            self._drop(plain_key(lost))
        charges = [charge for turn in turns if (charge := self._charge(turn))]
        for charge in sorted(charges, key=_IN_TIME):
            if self._charges.get(charge.key) != charge:
                self._drop(charge.key)
                self._spend(charge)
        return self._changed

    def fires(self, task: str) -> Mapping[tuple[str, ...], Sequence[Crossing]]:
        """Return the responses of a task at which a budget fires, by the keys of their turns."""
        return self._fires.get(task) or {}

    @property
    def tasks(self) -> list[str]:
        """The tasks with such responses."""
        return [*self._fires]

    def _charge(self, turn: Turn) -> Charge | None:
        """Return what a turn spends or adds; None for nothing."""
        if turn[AT["kind"]] == "user" and turn[AT["name"]] is not None and turn[AT["result"]]:
            more = msgspec.json.decode(turn[AT["result"]], type=Added)
            # One decision may be on the gates of many tasks, at one moment.
            at_ns = turn[AT["end_ns"]]
            return Charge(at_ns, (more.budget, str(at_ns)), "", "", "", 0, 0, more)
        if turn[AT["kind"]] != "model":
            return None
        counts = [max(turn[AT[name]] or 0, 0) for name in _TOKENS]
        read, wrote, cached, written = counts
        money = 0
        if prices := self._prices_of(turn[AT["name"]]):
            parts = (max(read - cached - written, 0), wrote, cached, written)
            each = (count * price for count, price in zip(parts, prices, strict=True))
            money = round(sum(each) * _PER_TOKEN)
        tokens = max(read - cached, 0) + wrote
        if not (tokens or money):
            return None
        return Charge(
            end_ns=turn[AT["end_ns"]],
            key=plain_key(tuple(turn[AT[name]] for name in TURN_KEY)),
            task=turn[AT["task"]],
            session=turn[AT["session"]],
            service=turn[AT["service"]] or "",
            tokens=tokens,
            money=money,
        )

    def _prices_of(self, model: str | None) -> tuple[float, ...] | None:
        if self._prices is None or model is None:
            return None
        if model not in self._known:
            self._known[model] = self._prices.by_kind(model)
        return self._known[model]

    def _spend(self, charge: Charge) -> None:
        self._charges[charge.key] = charge
        for name, title in self._titles(charge):
            account = self._account(name, title)
            place = bisect_left(account.recent, _IN_TIME(charge), key=_IN_TIME)
            account.recent.insert(place, charge)
            self._count(name, title, account, place)
            newest_ns = account.recent[-1].end_ns - MOVES_S * NS_PER_S
            while account.recent[0].end_ns < newest_ns:
                del account.recent[0]
                account.settled = account.after.pop(0)

    def _count(self, name: str, title: str, account: _Account, since: int) -> None:
        """Say how a budget stands after each charge from one on, and at which of them it fires."""
        limit = self._limits[name] * _one(name)
        del account.after[since:]
        spent, allowed = account.after[-1] if account.after else account.settled
        for charge in account.recent[since:]:
            if charge.added is not None:
                more = charge.added.added
                allowed = max(allowed, spent) + (limit if more is None else more * _one(name))
            else:
                spent += _amount(name, charge)
                self._fire(name, title, charge, _Standing(spent, allowed))
            account.after.append(_Standing(spent, allowed))

    def _fire(self, name: str, title: str, charge: Charge, now: _Standing) -> None:
        fires = self._fires.get(charge.task) or {}
        others = [each for each in fires.get(charge.key, ()) if each.rule.title != title]
        percent = int(now.spent * PERCENTS // now.allowed)
        if percent >= SOFT_PERCENT:
            one = _one(name)
            rule = BUDGET_RULES[name](
                title=title,
                spent=now.spent / one,
                limit=now.allowed / one,
                unit=TOKENS if name.endswith(TOKENS) else self._unit,
            )
            others.append(Crossing(rule, percent))
        if others == fires.get(charge.key, []):
            return
        self._changed.setdefault(charge.task, set()).add(charge.key)
        if others:
            fires[charge.key] = others
            self._fires[charge.task] = fires
        else:
            del fires[charge.key]

    def _drop(self, key: tuple[str, ...]) -> None:
        """Take back what a response has spent."""
        charge = self._charges.pop(key, None)
        if charge is None:
            return
        self._fires.get(charge.task, {}).pop(key, None)
        for name, title in self._titles(charge):
            account = self._account(name, title)
            place = bisect_left(account.recent, _IN_TIME(charge), key=_IN_TIME)
            if account.recent[place : place + 1] == [charge]:
                del account.recent[place]
                self._count(name, title, account, place)
            else:  # It was settled.
                taken = _amount(name, charge)
                account.settled = account.settled._replace(spent=account.settled.spent - taken)
                self._count(name, title, account, 0)

    def _account(self, name: str, title: str) -> _Account:
        """Return the account of a budget, which is the last to be forgotten now."""
        limit = self._limits[name] * _one(name)
        account = self._accounts.pop(title, None) or _Account(_Standing(0, limit))
        self._accounts[title] = account
        return account

    def _titles(self, charge: Charge) -> list[tuple[str, str]]:
        """Return the budgets that a response spends from: the limit, and the name of the budget."""
        if charge.added is not None:
            budget = charge.added.budget
            return [(limit, budget) for limit in self._limits if budget.startswith(_OF[limit])]
        day = utc_day(charge.end_ns)
        names = {
            "session": charge.session,
            "service": charge.service and f"{charge.service} on {day}",
            "day": day,
        }
        return [
            (limit, f"{_OF[limit]}{name}")
            for limit in self._limits
            if (name := names[limit.partition("_")[0]])
        ]


_IN_TIME = itemgetter(0, 1)
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
_WHOSE = {"session": "of session ", "service": "of service ", "day": "of all tasks on "}
# The beginning of the names of budgets, by their limit.
_OF = {name: f"{name.partition('_')[2]} {_WHOSE[name.partition('_')[0]]}" for name in BUDGET_RULES}


def plain_key(key: TurnKey) -> tuple[str, ...]:
    """Return the key of a turn, with "" in place of None, so that keys have an order."""
    return tuple(part or "" for part in key)


def _one(limit: str) -> int:
    """Return a token, or the unit of a currency, as it is counted."""
    return 1 if limit.endswith(TOKENS) else BILLIONTHS


def _amount(limit: str, charge: Charge) -> int:
    return charge.tokens if limit.endswith(TOKENS) else charge.money
