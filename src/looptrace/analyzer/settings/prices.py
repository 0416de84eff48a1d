"""The file with the prices of models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from looptrace.analyzer.detect.prices import Price, Prices
from looptrace.analyzer.settings.tables import checked
from looptrace.analyzer.settings.toml_reader import Errors, content, read
from looptrace.analyzer.text.names import Name

MODELS_MAX = 1_000
# No model costs more; a higher price is per token, or a mistake.
PER_MILLION_MAX = 1_000_000
CURRENCY_CHARS_MAX = 10

_Amount = Annotated[float, Meta(ge=0, le=PER_MILLION_MAX)]


class _PriceTable(Struct, forbid_unknown_fields=True):
    input_per_million: _Amount
    output_per_million: _Amount
    cached_per_million: _Amount | UnsetType = UNSET
    cache_write_per_million: _Amount | UnsetType = UNSET


class _File(Struct, forbid_unknown_fields=True):
    models: Annotated[dict[Name, _PriceTable], Meta(max_length=MODELS_MAX)]
    currency: Annotated[str, Meta(min_length=1, max_length=CURRENCY_CHARS_MAX)]


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
    table = (Price(models, **_given(price)) for models, price in file.models.items())
    return Prices(file.currency, tuple(table))


def _given(price: _PriceTable) -> dict[str, float]:
    """Return the prices that a table has."""
    return {name: amount for name, amount in structs.asdict(price).items() if amount is not UNSET}
