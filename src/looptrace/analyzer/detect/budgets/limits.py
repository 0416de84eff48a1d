"""The limits of what several tasks may spend together."""

from __future__ import annotations

from dataclasses import dataclass, fields

from looptrace.rules.contract import check_bounds, numbers, setting
from looptrace.rules.guards.money_budget import MONEY_MAX
from looptrace.rules.guards.token_budget import TOKENS_MAX

# A service or a day spends more than a task.
_TASKS = 1_000


@dataclass(frozen=True, slots=True)
class Budgets:
    """What several tasks may spend together; 0 is no limit. Days are those of UTC."""

    session_tokens: int = setting(
        0, ge=0, le=TOKENS_MAX, doc="Tokens that all tasks of a session may take; 0 is no limit."
    )
    session_money: float = setting(
        0.0, ge=0, le=MONEY_MAX, doc="What all tasks of a session may cost; 0 is no limit."
    )
    service_tokens: int = setting(
        0, ge=0, le=TOKENS_MAX, doc="Tokens that a service may take a day; 0 is no limit."
    )
    service_money: float = setting(
        0.0, ge=0, le=MONEY_MAX * _TASKS, doc="What a service may cost a day; 0 is no limit."
    )
    day_tokens: int = setting(
        0, ge=0, le=TOKENS_MAX, doc="Tokens that all tasks may take a day; 0 is no limit."
    )
    day_money: float = setting(
        0.0, ge=0, le=MONEY_MAX * _TASKS, doc="What all tasks may cost a day; 0 is no limit."
    )

    def __post_init__(self) -> None:
        check_bounds("budgets", numbers(self))

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set, by the name of the setting."""
        named = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: limit for name, limit in named.items() if limit}
