"""The limits of what several tasks may spend together."""

from dataclasses import dataclass, fields

from looptrace.rules.contract import check_bounds, numbers, setting
from looptrace.rules.guards.money_budget import MONEY_MAX
from looptrace.rules.guards.token_budget import TOKENS_MAX

# Several tasks spend more than one.
_SHARED_MONEY_MAX = MONEY_MAX * 1_000


def _tokens(who: str, period: str) -> int:
    doc = f"Tokens of {who} {period}; 0 is no limit."
    return setting(0, ge=0, le=TOKENS_MAX, doc=doc)


def _money(who: str, period: str, most: int = _SHARED_MONEY_MAX) -> float:
    doc = f"Cost of {who} {period}; 0 is no limit."
    return setting(0.0, ge=0, le=most, doc=doc)


_SESSION, _USER, _AGENT = "a session", "a user", "an agent"
_SERVICE, _ALL = "a service", "all tasks"


@dataclass(frozen=True, slots=True)
class Budgets:
    """What several tasks may spend together; 0 is no limit. Days are those of UTC."""

    session_tokens: int = _tokens(_SESSION, "in all")
    session_money: float = _money(_SESSION, "in all", MONEY_MAX)
    session_minute_tokens: int = _tokens(_SESSION, "a minute")
    session_minute_money: float = _money(_SESSION, "a minute")
    user_tokens: int = _tokens(_USER, "a day")
    user_money: float = _money(_USER, "a day")
    user_minute_tokens: int = _tokens(_USER, "a minute")
    user_minute_money: float = _money(_USER, "a minute")
    agent_tokens: int = _tokens(_AGENT, "a day")
    agent_money: float = _money(_AGENT, "a day")
    agent_minute_tokens: int = _tokens(_AGENT, "a minute")
    agent_minute_money: float = _money(_AGENT, "a minute")
    service_tokens: int = _tokens(_SERVICE, "a day")
    service_money: float = _money(_SERVICE, "a day")
    service_minute_tokens: int = _tokens(_SERVICE, "a minute")
    service_minute_money: float = _money(_SERVICE, "a minute")
    day_tokens: int = _tokens(_ALL, "a day")
    day_money: float = _money(_ALL, "a day")
    minute_tokens: int = _tokens(_ALL, "a minute")
    minute_money: float = _money(_ALL, "a minute")

    def __post_init__(self) -> None:
        check_bounds("budgets", numbers(self))

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set, by the name of the setting."""
        named = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: limit for name, limit in named.items() if limit}
