"""`looptrace backtest`: a comparison of two settings over the same traces."""

from functools import partial

import click
from rich.console import Console

from looptrace.analyzer.detect.prices import Prices
from looptrace.analyzer.report.backtest_report import json_backtest, print_backtest
from looptrace.analyzer.settings.given import settings_of
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.tuning.backtest import backtest_part, joined
from looptrace.cli import EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.engine_option import engine_of, engine_options
from looptrace.cli.shared.options import format_option, prices_option

IN_FORCE = "the settings in force"


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--a", "a", metavar="SETTINGS", help="A profile or a settings file.  [default: as --config]"
)
@click.option(
    "--b",
    "b",
    metavar="SETTINGS",
    required=True,
    help="A profile or a settings file, to compare with A.",
)
@prices_option("; without it the report has no costs in money")
@format_option
@engine_options
@config_option
@click.pass_context
def backtest(
    context: click.Context,
    paths: tuple[str, ...],
    a: str | None,
    b: str,
    prices: Prices | None,
    form: str,
    engine: str,
    address: str | None,
    settings: Settings,
) -> None:
    """Compare two SETTINGS over PATHS: trace files, folders, globs, a store, or -.

    The report shows which gates each would have opened, at which turn, and the cost of the turns
    after it. LOOPTRACE_ variables change the settings in force, but no named profile or file. Exits
    with 0, and with 2 if some of the input could not be read.
    """
    sides = settings if a is None else settings_of(a), settings_of(b)
    table = prices or settings.prices
    work = partial(backtest_part, a=sides[0], b=sides[1], prices=table)
    with engine_of(engine, address, paths) as evaluating:
        at_once = any(side.policy.budgets.limits for side in sides)
        parts, skipped = traces.work_on(paths, settings, work, evaluating, at_once=at_once)
        with traces.working():
            comparison = joined(parts, table)
    names = (a or IN_FORCE, b)
    if form == "json":
        click.echo(json_backtest(comparison, names, skipped), nl=False)
    else:
        print_backtest(comparison, names, Console())
    traces.warn_of(skipped)
    context.exit(EXIT_UNREADABLE if skipped else 0)
