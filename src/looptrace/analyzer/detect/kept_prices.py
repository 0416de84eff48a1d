"""List prices of models from the installed package genai-prices; nothing is fetched."""

import importlib
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from looptrace.errors import InstallError
from looptrace.installation import how_to_install

PACKAGE = "genai-prices"
CURRENCY = "USD"
# It reads `provider/model` as well as the bare name of a model; Bedrock's names are of AWS alone.
_PROVIDERS = ("litellm", "aws")
_FIELDS = (
    *("input_mtok", "output_mtok"),
    *("cache_read_mtok", "cache_write_mtok", "output_reasoning_mtok"),
)


class KeptPricesError(InstallError):
    """The package with list prices cannot be used."""


@dataclass(frozen=True, slots=True)
class KeptPrices:
    """The prices of the installed package on one day, so that all of a run has the same ones.

    Another day with the same prices is no other setting.
    """

    version: str
    day: date = field(repr=False, compare=False)

    def of(self, model: str) -> tuple[float, float, *tuple[float | None, ...]] | None:
        """Return the prices of a million tokens as the fields of `Price`; None if none is known.

        Where the price depends on the length of a request, it is that of short ones.
        """
        package = _package()
        usage = package.Usage(input_tokens=1, output_tokens=1)
        noon = datetime.combine(self.day, time(12), UTC)
        for provider in _PROVIDERS:
            try:
                found = package.calc_price(
                    usage, model, provider_id=provider, genai_request_timestamp=noon
                )
            except LookupError:
                continue
            prices = found.model_price
            read, wrote, *parts = (_amount(getattr(prices, name)) for name in _FIELDS)
            if read is not None:
                return read, wrote or 0.0, *parts
        return None

    @property
    def source(self) -> str:
        """The package, its version and the day, as reports name them."""
        return f"{PACKAGE} {self.version}, list prices of {self.day}"


def kept_prices() -> KeptPrices:
    """Return the prices of today.

    Raises:
        KeptPricesError: if the package is not installed.
    """
    try:
        return KeptPrices(version(PACKAGE), datetime.now(UTC).date())
    except PackageNotFoundError as error:
        why = f"the package {PACKAGE} is not installed: {how_to_install('prices')}"
        raise KeptPricesError(why) from error


def _package() -> Any:
    # It takes a third of a second to import, and few use it.
    return importlib.import_module("genai_prices")


def _amount(price: Any) -> float | None:
    """Return a price as a number; of one with tiers the first."""
    return None if price is None else float(getattr(price, "base", price))
