"""The ledger of budgets: what tasks have spent together up to each response.

Files and live spans use the same one. The sum at a response has all responses that ended before
it, whatever their task; that of a rate has those of the minute up to it. A response that comes late
is counted where it ended, and those after it count again, as far back as turns may move. So is what
other servers spent: they tell sums by the second.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter, mul
from typing import NamedTuple

from looptrace.analyzer.detect.budgets.charges import Added, Charge, OwnShares, Share, addition_key
from looptrace.analyzer.detect.budgets.limits import Budgets
from looptrace.analyzer.detect.budgets.rules import BUDGET_RULES, TOKENS, BudgetRule
from looptrace.analyzer.detect.prices import PRICED_TOKENS, Prices, PricesByKind, money_parts
from looptrace.analyzer.schema.turns import AT, TURN_KEY, TurnKey, TurnTuple
from looptrace.analyzer.text.times import utc_day
from looptrace.bounded_dict import BoundedDict
from looptrace.rules.vocabulary import BILLIONTHS, NS_PER_S, PERCENTS, SOFT_PERCENT
from looptrace.typed_json import decoded

# The columns of turns that the ledger reads, and the kinds of turns.
SPENDING_COLUMNS = (
    *("task", "session", "payer", "user_id", "agent", "service", "kind", "trace_id", "span_id"),
    *("call_id", "name", "service_tier", "result", "end_ns", *PRICED_TOKENS),
)
SPENDING_KINDS = ("model", "user")
# A turn that comes so long after later ones is counted among the earliest that are held.
MOVES_S = 120
MINUTE_S = 60
_MINUTE_NS = MINUTE_S * NS_PER_S
# Responses that are known again when their spans come a second time.
CHARGES_KEPT_MAX = 100_000
# Sessions, users, agents and services whose sums are held.
ACCOUNTS_MAX = 100_000
# Tasks with responses at which a budget fires.
TASKS_MAX = 10_000
_MODELS_KEPT_MAX = 1_000
# Budgets are counted after so many charges of one call, and what no longer moves is let go.
_CHARGES_AT_ONCE = 1_000
_PER_TOKEN = BILLIONTHS / 1_000_000


class Crossing(NamedTuple):
    """A response at which a budget is nearly or wholly spent."""

    rule: BudgetRule
    percent: int


class _Standing(NamedTuple):
    """What was spent of a budget, and what may be, in tokens or billionths.

    Of a rate nothing counts that was spent before a person let it go on, and more than the limit is
    allowed until a minute later.
    """

    spent: int  # since the budget began, also of a rate
    allowed: float
    forgiven: int = 0
    allowed_until_ns: int = 0


@dataclass(slots=True)
class _Account:
    """How a budget stood before the charges that may still move, these, and how it stood after."""

    settled: _Standing
    recent: list[Charge] = field(default_factory=list)
    after: list[_Standing] = field(default_factory=list)


class Ledger:
    """The sums of the budgets that are set."""

    def __init__(self, budgets: Budgets, prices: Prices | None, moves_s: int = MOVES_S) -> None:
        """Begin with nothing spent; a response that comes later than `moves_s` counts later."""
        self._moves_s = moves_s
        self._limits = budgets.limits
        self._unit = prices.currency if prices else ""
        self._prices = prices
        self._known: BoundedDict[tuple[str, str], PricesByKind | None]
        self._known = BoundedDict(_MODELS_KEPT_MAX)
        self._accounts: BoundedDict[str, _Account] = BoundedDict(ACCOUNTS_MAX)
        self._charges: BoundedDict[tuple[str, ...], Charge] = BoundedDict(CHARGES_KEPT_MAX)
        self._fires: BoundedDict[str, dict[tuple[str, ...], list[Crossing]]]
        self._fires = BoundedDict(TASKS_MAX)
        self._changed: dict[str, set[tuple[str, ...]]] = {}
        # By name, the limit of each budget and the first charge since which it is to be counted.
        self._uncounted: dict[str, tuple[str, int]] = {}
        self._heard: list[Charge] = []
        self._own: OwnShares | None = None

    def keep_shares(self) -> OwnShares:
        """Keep the sums for other servers from now on; return them."""
        self._own = OwnShares(self._limits)
        return self._own

    def hear(self, server: str, shares: Iterable[Share]) -> None:
        """Count with the next turns what another server spent, and what was added there."""
        self._heard += [share.charge(server) for share in shares]

    def take(
        self,
        turns: Iterable[TurnTuple],
        gone: Iterable[TurnKey] = (),
        replaced: Iterable[TurnTuple] = (),
    ) -> Mapping[str, set[tuple[str, ...]]]:
        """Count turns (`TURN_SCHEMA`), each once; those that are gone or replaced no longer count.

        `replaced` have counted, however long ago. Return the responses at which budgets fire
        otherwise than before, by their tasks.
        """
        self._changed = {}
        if not self._limits:
            return self._changed
        for lost in gone:
            self._drop(plain_key(lost))
        heard, self._heard = self._heard, []
        charges = {charge.key: charge for charge in heard}
        charges |= {charge.key: charge for turn in turns if (charge := self._charge(turn))}
        for turn in replaced:
            if charge := self._charge(turn):
                before = self._charges.setdefault(charge.key, charge)
                # A person's decision stays, because it is on the gates of many tasks.
                if charge.added is None and before != charges.get(charge.key):
                    self._drop(charge.key)
        for number, charge in enumerate(sorted(charges.values(), key=_IN_TIME), 1):
            if self._charges.get(charge.key) != charge:
                self._drop(charge.key)
                self._spend(charge)
            if not number % _CHARGES_AT_ONCE:
                self._count_all()
        self._count_all()
        return self._changed

    def fires(self, task: str) -> Mapping[tuple[str, ...], Sequence[Crossing]]:
        """Return the responses of a task at which a budget fires, by the keys of their turns."""
        return self._fires.get(task) or {}

    @property
    def tasks(self) -> list[str]:
        """The tasks with such responses."""
        return [*self._fires]

    def _charge(self, turn: TurnTuple) -> Charge | None:
        """Return what a turn spends or adds; None for nothing."""
        if turn[AT["kind"]] == "user" and turn[AT["name"]] is not None and turn[AT["result"]]:
            more = decoded(turn[AT["result"]], Added)
            # One decision may be on the gates of many tasks, at one moment.
            at_ns = more.at_ns or turn[AT["end_ns"]]
            amount, key = Added(more.budget, more.added), addition_key(more.budget, at_ns)
            return Charge(at_ns, key, added=amount, is_told=more.at_ns is not None)
        if turn[AT["kind"]] != "model":
            return None
        counts = [max(turn[AT[name]] or 0, 0) for name in PRICED_TOKENS]
        read, wrote, cached, *_ = counts
        money = 0
        if prices := self._prices_of(turn[AT["name"]], turn[AT["service_tier"]]):
            each = map(mul, money_parts(counts), prices)
            money = round(sum(each) * _PER_TOKEN)
        tokens = max(read - cached, 0) + wrote
        if not (tokens or money):
            return None
        return Charge(
            end_ns=turn[AT["end_ns"]],
            key=plain_key(tuple(turn[AT[name]] for name in TURN_KEY)),
            task=turn[AT["task"]],
            session=turn[AT["payer"]] or turn[AT["session"]],
            user=turn[AT["user_id"]] or "",
            agent=turn[AT["agent"]],
            service=turn[AT["service"]] or "",
            tokens=tokens,
            money=money,
        )

    def _prices_of(self, model: str | None, tier: str | None) -> PricesByKind | None:
        if self._prices is None or model is None:
            return None
        key = (model, tier or "")
        if key not in self._known:
            self._known[key] = self._prices.by_kind(*key)
        return self._known[key]

    def _spend(self, charge: Charge) -> None:
        self._charges[charge.key] = charge
        if self._own:
            self._own.add(charge, 1)
        for name, title in self._titles(charge):
            account = self._account(name, title)
            place = bisect_left(account.recent, _IN_TIME(charge), key=_IN_TIME)
            account.recent.insert(place, charge)
            self._note(name, title, place)

    def _note(self, name: str, title: str, place: int) -> None:
        """Have a budget counted again from a charge on."""
        _, first = self._uncounted.get(title, (name, place))
        self._uncounted[title] = name, min(first, place)

    def _count_all(self) -> None:
        """Count the budgets of which charges came or went, and settle what no longer moves."""
        for title, (name, place) in self._uncounted.items():
            account = self._account(name, title)
            self._count(name, title, account, place)
            if account.recent:
                held_s = self._moves_s + (MINUTE_S if is_rate(name) else 0)
                oldest_ns = account.recent[-1].end_ns - held_s * NS_PER_S
                over = bisect_left(account.recent, oldest_ns, key=itemgetter(0))
                if over:
                    account.settled = account.after[over - 1]
                    del account.recent[:over], account.after[:over]
        self._uncounted = {}

    def _count(self, name: str, title: str, account: _Account, since: int) -> None:
        """Say how a budget stands after each charge from one on, and at which of them it fires."""
        del account.after[since:]
        now = account.after[-1] if account.after else account.settled
        for charge in account.recent[since:]:
            if charge.added is not None:
                now = self._let_go_on(name, now, charge.end_ns, charge.added.added)
            else:
                now = now._replace(spent=now.spent + _amount(name, charge))
                spent, allowed = now.spent, now.allowed
                if is_rate(name):
                    before = _spent_before(account, charge.end_ns - _MINUTE_NS)
                    spent -= max(before, now.forgiven)
                    if charge.end_ns >= now.allowed_until_ns:
                        allowed = self._limits[name] * _one(name)
                self._fire(name, title, charge, spent, allowed)
            account.after.append(now)

    def _let_go_on(self, name: str, now: _Standing, at_ns: int, added: float | None) -> _Standing:
        """Return how a budget stands after a person has added to it."""
        limit = self._limits[name] * _one(name)
        if is_rate(name):
            allowed = limit + (added or 0) * _one(name)
            return _Standing(now.spent, allowed, now.spent, at_ns + _MINUTE_NS)
        more = limit if added is None else added * _one(name)
        return now._replace(allowed=max(now.allowed, now.spent) + more)

    def _fire(self, name: str, title: str, charge: Charge, spent: int, allowed: float) -> None:
        """Note whether a budget fires at a response, of which this was spent and this may be."""
        if charge.is_told:
            return  # Its own server gates.
        fires = self._fires.get(charge.task) or {}
        others = [each for each in fires.get(charge.key, ()) if each.rule.title != title]
        percent = int(spent * PERCENTS // allowed)
        if percent >= SOFT_PERCENT:
            one = _one(name)
            rule = BUDGET_RULES[name](
                title=title,
                spent=spent / one,
                limit=allowed / one,
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
        charge = self._charges.pop(key, None)
        if charge is None:
            return
        if self._own:
            self._own.add(charge, -1)
        self._fires.get(charge.task, {}).pop(key, None)
        for name, title in self._titles(charge):
            account = self._account(name, title)
            place = bisect_left(account.recent, _IN_TIME(charge), key=_IN_TIME)
            if account.recent[place : place + 1] == [charge]:
                del account.recent[place]
                self._note(name, title, place)
            else:  # It was settled.
                taken, then = _amount(name, charge), account.settled
                account.settled = then._replace(
                    spent=then.spent - taken, forgiven=max(then.forgiven - taken, 0)
                )
                self._note(name, title, 0)

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
        on = f" on {utc_day(charge.end_ns)}"
        names = {
            "session": charge.session,
            "user": charge.user,
            "agent": charge.agent,
            "service": charge.service,
        }
        titles = []
        for limit in self._limits:
            whose = limit.partition("_")[0]
            day = "" if whose == "session" or is_rate(limit) else on
            if whose not in names or names[whose]:
                titles.append((limit, f"{_OF[limit]}{names.get(whose, '')}{day}"))
        return titles


_IN_TIME = itemgetter(0, 1)


def is_rate(limit: str) -> bool:
    """Return whether a limit is of what is spent in a minute."""
    return "minute" in limit


def _named(limit: str) -> str:
    """Return the beginning of the names of the budgets of a limit."""
    whose, unit = limit.partition("_")[0], limit.rpartition("_")[2]
    of = "all tasks" if whose in ("day", "minute") else f"{whose} "
    return f"{unit} {'a minute ' if is_rate(limit) else ''}of {of}"


_OF = {limit: _named(limit) for limit in BUDGET_RULES}


def _spent_before(account: _Account, at_ns: int) -> int:
    """Return what was spent of a budget up to a moment, which is held."""
    place = bisect_right(account.recent, at_ns, key=itemgetter(0))
    return account.after[place - 1].spent if place else account.settled.spent


def plain_key(key: TurnKey) -> tuple[str, ...]:
    """Return the key of a turn, with "" in place of None, so that keys have an order."""
    return tuple(part or "" for part in key)


def _one(limit: str) -> int:
    """Return a token, or the unit of a currency, as it is counted."""
    return 1 if limit.endswith(TOKENS) else BILLIONTHS


def _amount(limit: str, charge: Charge) -> int:
    return charge.tokens if limit.endswith(TOKENS) else charge.money
