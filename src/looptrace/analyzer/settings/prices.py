"""The prices of models: a table of one's own, an installed package, or both."""

from pathlib import Path
from typing import Annotated, Any, Literal

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

TIERS_MAX = 20
# No tier of a service costs more times its standard price.
TIER_PART_MAX = 100

_Amount = Annotated[float, Meta(ge=0, le=PER_MILLION_MAX)]
_TierPart = Annotated[float, Meta(ge=0, le=TIER_PART_MAX)]


class ModelPrices(Struct, forbid_unknown_fields=True):
    """The prices of a million tokens of some models, as a file has them."""

    input_per_million: Annotated[_Amount, Meta(description="Input.")]
    output_per_million: Annotated[_Amount, Meta(description="Output.")]
    cached_per_million: (
        Annotated[_Amount, Meta(description="Input read from a cache; else as other input.")]
        | UnsetType
    ) = UNSET
    cache_write_per_million: (
        Annotated[_Amount, Meta(description="Input put into a cache; else as other input.")]
        | UnsetType
    ) = UNSET
    reasoning_per_million: (
        Annotated[_Amount, Meta(description="Output that is thought; else as other output.")]
        | UnsetType
    ) = UNSET
    tiers: (
        Annotated[
            dict[Name, _TierPart],
            Meta(
                max_length=TIERS_MAX,
                description="The part of these prices that tiers of the service take, such as "
                "`{ batch = 0.5, flex = 0.5, priority = 2.0 }`; others take the whole.",
            ),
        ]
        | UnsetType
    ) = UNSET


class PriceTable(Struct, forbid_unknown_fields=True):
    """A table of prices, as a file or the section of the settings has it."""

    models: Annotated[
        dict[Name, ModelPrices],
        Meta(
            max_length=MODELS_MAX,
            description="Prices by the names of models; `*` is any text, and the first that fits "
            "counts.",
        ),
    ]
    currency: Annotated[
        str,
        Meta(
            min_length=1, max_length=CURRENCY_CHARS_MAX, description="The currency, such as `EUR`."
        ),
    ]
    others: (
        Annotated[
            Literal["genai-prices"],
            Meta(
                description="Where the prices of other models are from; the currency is then USD."
            ),
        ]
        | UnsetType
    ) = UNSET


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
    """Read the content of a file of prices; errors use its `name`."""
    errors = Errors()
    top, file = checked(read(data, name), PriceTable, errors)
    errors.check()
    return of_table(top, file)


def of_table(top: Node, file: PriceTable) -> Prices:
    """Return the prices of a table.

    Raises:
        SettingsError: if the package that it names is not installed, or has another currency.
    """
    table = (Price(models, **_given(price)) for models, price in file.models.items())
    return Prices(file.currency, tuple(table), _others(top, file))


def table_of(prices: Prices) -> dict[str, Any]:
    """Return prices as a table of TOML."""
    others = {"others": PACKAGE} if prices.kept else {}
    models = {}
    for price in prices.table:
        amounts = {name: getattr(price, name) for name in _AMOUNTS}
        known = {name: amount for name, amount in amounts.items() if amount is not None}
        models[price.models] = known | ({"tiers": dict(price.tiers)} if price.tiers else {})
    return {"currency": prices.currency, **others, "models": models}


_AMOUNTS = tuple(name for name in ModelPrices.__struct_fields__ if name != "tiers")


def _others(top: Node, file: PriceTable) -> KeptPrices | None:
    """Return the prices of the models that a table leaves out."""
    if file.others is UNSET:
        return None
    if file.currency != CURRENCY:
        at = top.at("currency")
        why = f"{at.name} is {shown(file.currency)}; it must be '{CURRENCY}', as in {PACKAGE}."
        raise at.error(why)
    try:
        return kept_prices()
    except KeptPricesError as error:
        at = top.at("others")
        raise at.error(f"{at.name} cannot be used: {error}.") from error


def _given(price: ModelPrices) -> dict[str, Any]:
    """Return the prices that a table has, as fields of `Price`."""
    given = {name: value for name, value in structs.asdict(price).items() if value is not UNSET}
    if price.tiers is not UNSET:
        given["tiers"] = tuple((name.lower(), part) for name, part in price.tiers.items())
    return given
