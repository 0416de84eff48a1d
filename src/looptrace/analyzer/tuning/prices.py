"""The prices of models, from a table of the user; looptrace has no prices of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import polars as pl
from msgspec import Meta, Struct

from looptrace.analyzer.settings.tables import checked
from looptrace.analyzer.settings.toml_reader import Errors, content, read
from looptrace.analyzer.text.names import Name

MODELS_MAX = 1_000
# No model costs more; a higher price is per token, or a mistake.
PER_MILLION_MAX = 1_000_000
CURRENCY_CHARS_MAX = 10
TOKENS_PER_PRICE = 1_000_000


_Amount = Annotated[float, Meta(ge=0, le=PER_MILLION_MAX)]


class _PriceTable(Struct, forbid_unknown_fields=True):
    input_per_million: _Amount
    output_per_million: _Amount


class _File(Struct, forbid_unknown_fields=True):
    models: Annotated[dict[Name, _PriceTable], Meta(max_length=MODELS_MAX)]
    currency: Annotated[str, Meta(min_length=1, max_length=CURRENCY_CHARS_MAX)]


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens of the models with a matching name; `*` stands for any text."""

    models: str
    input_per_million: float
    output_per_million: float


@dataclass(frozen=True, slots=True)
class Prices:
    """A table of prices in one currency; the first matching price of a model applies."""

    currency: str
    table: tuple[Price, ...]

    def of(self, models: Sequence[str]) -> dict[str, Price]:
        """Return the price of each model that has one."""
        names = pl.Series(models, dtype=pl.String)
        priced: dict[str, Price] = {}
        for price in reversed(self.table):
            fits = names.filter(names.str.contains(_pattern(price.models)))
            priced |= dict.fromkeys(fits, price)
        return priced


def load(path: Path) -> Prices:
    """Read a file of prices.

    Raises:
        SettingsError: if it cannot be read, is not TOML, or has invalid values.
    """
    return parsed(content(path), str(path))


def parsed(data: bytes, name: str) -> Prices:
    """Read the content of a file of prices; errors use its `name`.

    Raises:
        SettingsError: if it is not TOML, or has invalid values.
    """
    errors = Errors()
    _, file = checked(read(data, name), _File, errors)
    errors.check()
    table = (
        Price(models, price.input_per_million, price.output_per_million)
        for models, price in file.models.items()
    )
    return Prices(file.currency, tuple(table))


def _pattern(models: str) -> str:
    """Write a pattern with stars as a regular expression of the linear-time engine."""
    parts = pl.Series(models.split("*")).map_elements(pl.escape_regex, pl.String)
    return f"(?s)^{'.*'.join(parts)}$"
