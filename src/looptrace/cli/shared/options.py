"""Options that several commands share."""

from collections.abc import Callable
from typing import Any

import click
import msgspec

from looptrace.analyzer.detect.prices import Prices
from looptrace.cli import Command

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "json"]),
    default="terminal",
    show_default=True,
    help="Format of the output.",
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
    "--ignore", multiple=True, metavar="RULE", help="Leave this rule out; may be repeated."
)


def _load(_context: click.Context, _option: click.Parameter, source: str | None) -> Prices | None:
    if source is None:
        return None
    from looptrace.analyzer.settings import prices  # noqa: PLC0415 - Few give prices.

    return prices.load(source)


def prices_option(otherwise: str = "") -> Callable[[Command], Command]:
    """Return the option; the help says what happens `otherwise`, without prices."""
    return click.option(
        "--prices",
        metavar="SOURCE",
        callback=_load,
        help="Prices of models: a file, or genai-prices for the list prices of that package"
        f"{otherwise}.",
    )


def print_json(value: Any) -> None:
    """Print a value as `--format json` asks for it."""
    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())
