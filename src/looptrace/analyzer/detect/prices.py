"""What the tokens of models cost, from a table of the user and from an installed package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from looptrace.analyzer.detect.kept_prices import KeptPrices

TOKENS_PER_PRICE = 1_000_000
# All input and output, and the parts of the input that have prices of their own.
PRICED_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens of the models with a matching name; `*` stands for any text.

    Tokens read from a cache or put into one cost as much as other input where nothing is said.
    """

    models: str
    input_per_million: float
    output_per_million: float
    cached_per_million: float | None = None
    cache_write_per_million: float | None = None

    @property
    def by_kind(self) -> tuple[float, float, float, float]:
        """The prices of input, output, and input read from a cache and put into one."""
        given, cached = self.input_per_million, self.cached_per_million
        written = self.cache_write_per_million
        return (
            *(given, self.output_per_million),
            *(given if cached is None else cached, given if written is None else written),
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

    def by_kind(self, model: str) -> tuple[float, float, float, float] | None:
        """Return the prices of a model's kinds of tokens, as `Price.by_kind`; None without one."""
        price = self.of([model]).get(model)
        return price.by_kind if price else None

    @property
    def source(self) -> str:
        """The package that prices are from, with its version and day; "" without one."""
        return self.kept.source if self.kept else ""

    def _kept_of(self, models: Sequence[str]) -> dict[str, Price]:
        if self.kept is None:
            return {}
        found = {model: self.kept.of(model) for model in set(models)}
        return {model: Price(model, *prices) for model, prices in found.items() if prices}


def _pattern(models: str) -> str:
    """Write a pattern with stars as a regular expression of the linear-time engine."""
    parts = pl.Series(models.split("*")).map_elements(pl.escape_regex, pl.String)
    return f"(?s)^{'.*'.join(parts)}$"
