"""The prices of models: a file of one's own, an installed package, or both."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from looptrace.analyzer.detect.kept_prices import (
    CURRENCY,
    PACKAGE,
    KeptPrices,
    KeptPricesError,
    kept_prices,
)
from looptrace.analyzer.detect.prices import Price, Prices
from looptrace.analyzer.settings.tables import checked
from looptrace.analyzer.settings.toml_reader import (
    Errors,
    Node,
    SettingsError,
    content,
    read,
    shown,
)
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
    others: Literal["genai-prices"] | UnsetType = UNSET  # the prices of models that it leaves out


def load(source: str | Path) -> Prices:
    """Read a file of prices, or those of the installed package where it is named instead.

    Raises:
        SettingsError: if the file cannot be read, is not TOML, or has invalid values, or if the
            package is not installed.
    """
    if str(source) == PACKAGE:
        try:
            return Prices(CURRENCY, kept=kept_prices())
        except KeptPricesError as error:
            raise SettingsError(f"{error}.") from error
    return parsed(content(Path(source)), str(source))


def parsed(data: bytes, name: str) -> Prices:
    """Read the content of a file of prices; errors use its `name`.

    Raises:
        SettingsError: as `load`.
    """
    errors = Errors()
    top, file = checked(read(data, name), _File, errors)
    errors.check()
    table = (Price(models, **_given(price)) for models, price in file.models.items())
    return Prices(file.currency, tuple(table), _others(top, file))


def _others(top: Node, file: _File) -> KeptPrices | None:
    """Return the prices of the models that a file leaves out."""
    if file.others is UNSET:
        return None
    if file.currency != CURRENCY:
        why = f"currency is {shown(file.currency)}; it must be '{CURRENCY}', as in {PACKAGE}."
        raise top.at("currency").error(why)
    try:
        return kept_prices()
    except KeptPricesError as error:
        raise top.at("others").error(f"others cannot be used: {error}.") from error


def _given(price: _PriceTable) -> dict[str, float]:
    """Return the prices that a table has."""
    return {name: amount for name, amount in structs.asdict(price).items() if amount is not UNSET}
