"""What the tokens of models cost, from a table of the user and from an installed package."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from looptrace.analyzer.detect.kept_prices import KeptPrices

TOKENS_PER_PRICE = 1_000_000
# All input and output, and the parts of them that have prices of their own.
PRICED_TOKENS = (
    *("input_tokens", "output_tokens"),
    *("cached_tokens", "cache_write_tokens", "reasoning_tokens"),
)

# The prices of input and output, of input read from a cache and put into one, and of thought.
PricesByKind: TypeAlias = tuple[float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens of the models with a matching name; `*` stands for any text.

    Tokens read from a cache or put into one cost as much as other input where nothing is said, and
    tokens of thought as much as other output. `tiers` has the parts of these prices that tiers of
    the service take, such as 0.5 for `batch`; others take the whole.
    """

    models: str
    input_per_million: float
    output_per_million: float
    cached_per_million: float | None = None
    cache_write_per_million: float | None = None
    reasoning_per_million: float | None = None
    tiers: tuple[tuple[str, float], ...] = ()

    def by_kind(self, tier: str | None) -> PricesByKind:
        """Return the prices of each kind of tokens in a tier of the service."""
        given, wrote = self.input_per_million, self.output_per_million
        cached, written = self.cached_per_million, self.cache_write_per_million
        thought = self.reasoning_per_million
        part = dict(self.tiers).get(tier or "", 1)
        return (
            part * given,
            part * wrote,
            part * (given if cached is None else cached),
            part * (given if written is None else written),
            part * (wrote if thought is None else thought),
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """A table of prices in one currency; the first matching price of a model applies.

    Other models have the price that is kept in an installed package, if one is used.
    """

    currency: str
    table: tuple[Price, ...] = ()
    kept: KeptPrices | None = None

    def of(self, models: Sequence[str]) -> dict[str, Price]:
        """Return the price of each model that has one."""
        priced = self._kept_of(models)
        names = pl.Series(models, dtype=pl.String)
        for price in reversed(self.table):
            fits = names.filter(names.str.contains(_pattern(price.models)))
            priced |= dict.fromkeys(fits, price)
        return priced

    def by_kind(self, model: str, tier: str | None = None) -> PricesByKind | None:
        """Return the prices of a model's kinds of tokens in a tier; None without a price."""
        price = self.of([model]).get(model)
        return price.by_kind(tier) if price else None

    @property
    def source(self) -> str:
        """The package that prices are from, with its version and day; "" without one."""
        return self.kept.source if self.kept else ""

    def _kept_of(self, models: Sequence[str]) -> dict[str, Price]:
        if self.kept is None:
            return {}
        found = {model: self.kept.of(model) for model in set(models)}
        return {model: Price(model, *prices) for model, prices in found.items() if prices}


def money_parts(counts: Sequence[int]) -> tuple[int, int, int, int, int]:
    """Return tokens as `PricesByKind` has their prices; `counts` are those of `PRICED_TOKENS`."""
    read, wrote, cached, written, thought = (max(count, 0) for count in counts)
    thought = min(thought, wrote)
    return max(read - cached - written, 0), wrote - thought, cached, written, thought


def _pattern(models: str) -> str:
    """Write a pattern with stars as a regular expression of the linear-time engine."""
    parts = pl.Series(models.split("*")).map_elements(pl.escape_regex, pl.String)
    return f"(?s)^{'.*'.join(parts)}$"
