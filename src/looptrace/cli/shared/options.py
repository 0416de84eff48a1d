"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from looptrace.analyzer.detect.prices import Prices

F = TypeVar("F", bound=Callable[..., Any])

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "json"]),
    default="terminal",
    show_default=True,
    help="Form of the output.",
)
by_option = click.option(
    "--by", "who", help="Your name; if your token has a name, that one is recorded."
)
select_option = click.option(
    "--select",
    multiple=True,
    metavar="RULE",
    help="Use only this rule, even if it is off; may be repeated.",
)
ignore_option = click.option(
    "--ignore",
    multiple=True,
    metavar="RULE",
    help="Leave this rule out; may be repeated.",
)


def _load(_context: click.Context, _option: click.Parameter, source: str | None) -> Prices | None:
    if source is None:
        return None
    from looptrace.analyzer.settings import prices  # noqa: PLC0415 - Few give prices.

    return prices.load(source)


def prices_option(otherwise: str = "") -> Callable[[F], F]:
    """Return the option; the help says what happens `otherwise`, without prices."""
    return click.option(
        "--prices",
        metavar="SOURCE",
        callback=_load,
        help="Prices of models: a file, or genai-prices for the list prices of that package"
        f"{otherwise}.",
    )
