"""What models cost, by a table that the user gives; looptrace knows no prices of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from looptrace.analyzer.settings.toml_reader import Node, content, read

MODELS_MAX = 1_000
# No model costs more; such a price is per token, or a slip.
PER_MILLION_MAX = 1_000_000
CURRENCY_CHARS_MAX = 10
TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost of the models whose name fits; `*` stands for any text."""

    models: str
    input_per_million: float
    output_per_million: float


@dataclass(frozen=True, slots=True)
class Prices:
    """A table of prices in one currency; of several that fit a model the first one counts."""

    currency: str
    table: tuple[Price, ...]

    def of(self, models: Sequence[str]) -> dict[str, Price]:
        """Return the price of each model that has one."""
        names = pl.Series(models, dtype=pl.String)
        found: dict[str, Price] = {}
        for price in reversed(self.table):
            fits = names.filter(names.str.contains(_pattern(price.models)))
            found |= dict.fromkeys(fits, price)
        return found


def load(path: Path) -> Prices:
    """Read a file of prices.

    Raises:
        SettingsError: if it cannot be read, is no TOML, or says what cannot be.
    """
    return parsed(content(path), str(path))


def parsed(data: bytes, name: str) -> Prices:
    """Read the content of a file of prices; `name` is what errors call it.

    Raises:
        SettingsError: if it is no TOML, or says what cannot be.
    """
    top = read(data, name).table(("currency", "models"))
    models = _needed(top, "models").named(MODELS_MAX)
    return Prices(
        currency=_needed(top, "currency").words(CURRENCY_CHARS_MAX),
        table=tuple(_price(models, node) for models, node in models.items()),
    )


def _price(models: str, node: Node) -> Price:
    names = ("input_per_million", "output_per_million")
    node.table(names)
    return Price(models, *(_amount(_needed(node, name)) for name in names))


def _amount(node: Node) -> float:
    amount = node.value
    is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
    if not (is_number and 0 <= amount <= PER_MILLION_MAX):
        raise node.wrong(f"a number between 0 and {PER_MILLION_MAX:,}")
    return float(amount)


def _needed(table: Node, key: str) -> Node:
    if key not in table.value:
        raise table.error(f"{table.name or 'the file'} has no {key}.")
    return table.at(key)


def _pattern(models: str) -> str:
    """Write a pattern with stars as a regular expression of the linear-time engine."""
    parts = pl.Series(models.split("*")).map_elements(pl.escape_regex, pl.String)
    return f"(?s)^{'.*'.join(parts)}$"
