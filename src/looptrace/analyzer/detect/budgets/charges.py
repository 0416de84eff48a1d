"""What responses have spent, one by one here, and in sums by the second for other servers."""

from collections.abc import Collection
from typing import Annotated, NamedTuple

import msgspec

from looptrace.bounded_dict import BoundedDict
from looptrace.rules.vocabulary import NS_PER_S

# Sums that are known again when a response of theirs comes late, or is no longer one.
SHARES_KEPT_MAX = 200_000
_NAME_CHARS_MAX = 1_024

_Name = Annotated[str, msgspec.Meta(max_length=_NAME_CHARS_MAX)]


class Added(msgspec.Struct, frozen=True):
    """What a person has added to a budget; None is as much as the limit, once more."""

    budget: str
    added: float | None = None
    at_ns: int | None = None  # when it was decided at another server, if it was


class Charge(NamedTuple):
    """What a response has spent, in the order of time, or what a person has added then."""

    end_ns: int
    key: tuple[str, ...]  # of the turn
    task: str = ""  # "" for a sum of another server
    session: str = ""
    user: str = ""
    agent: str = ""
    service: str = ""
    tokens: int = 0
    money: int = 0  # billionths
    added: Added | None = None
    is_told: bool = False  # by another server


class Share(msgspec.Struct, frozen=True, array_like=True):
    """What one server spent within a second for one session, user, agent and service.

    Or what a person has added to a budget then. A name is "" where no limit asks for it. A later
    share of the same names replaces an earlier one, so that it may come again.
    """

    at_ns: int  # the end of the second, or when the person decided
    session: _Name = ""
    user: _Name = ""
    agent: _Name = ""
    service: _Name = ""
    budget: _Name = ""  # of a person's addition
    tokens: int = 0
    money: int = 0  # billionths
    added: float | None = None

    @property
    def key(self) -> tuple[int | str, ...]:
        """What it replaces, of its server."""
        return self.at_ns, self.session, self.user, self.agent, self.service, self.budget

    def charge(self, server: str) -> Charge:
        """Return it as the ledger counts it."""
        if self.budget:
            key = addition_key(self.budget, self.at_ns)
            return Charge(self.at_ns, key, added=Added(self.budget, self.added), is_told=True)
        return Charge(
            self.at_ns,
            (server, *map(str, self.key)),
            session=self.session,
            user=self.user,
            agent=self.agent,
            service=self.service,
            tokens=self.tokens,
            money=self.money,
            is_told=True,
        )


def addition_key(budget: str, at_ns: int) -> tuple[str, ...]:
    """Return the key of what a person has added: one decision may come by many ways."""
    return budget, str(at_ns)


class OwnShares:
    """The sums of a ledger's own charges, and those that are another since they were last taken."""

    def __init__(self, limits: Collection[str]) -> None:
        """Sum by the names that these limits ask for."""
        whose = {limit.partition("_")[0] for limit in limits}
        self._names = [name for name in ("session", "user", "agent", "service") if name in whose]
        self._sums: BoundedDict[tuple[int | str, ...], Share] = BoundedDict(SHARES_KEPT_MAX)
        self._changed: BoundedDict[tuple[int | str, ...], Share] = BoundedDict(SHARES_KEPT_MAX)

    def add(self, charge: Charge, times: int) -> None:
        """Add a charge, or take it back (-1)."""
        if charge.is_told:
            return
        if charge.added is not None:
            amount = charge.added
            share = Share(charge.end_ns, budget=amount.budget, added=amount.added)
        else:
            ends_ns = (charge.end_ns // NS_PER_S + 1) * NS_PER_S - 1
            names = {name: getattr(charge, name) for name in self._names}
            share = Share(ends_ns, **names)
            before = self._sums.get(share.key, share)
            share = msgspec.structs.replace(
                share,
                tokens=before.tokens + times * charge.tokens,
                money=before.money + times * charge.money,
            )
            self._sums[share.key] = share
        self._changed[share.key] = share

    def take(self) -> list[Share]:
        """Return the sums that are another since the last call."""
        changed, self._changed = [*self._changed.values()], BoundedDict(SHARES_KEPT_MAX)
        return changed
