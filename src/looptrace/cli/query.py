"""`looptrace query`: query a store, with looptrace's queries or with your own SQL."""

import csv
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import click

from looptrace import queries
from looptrace.analyzer.detect.prices import Prices
from looptrace.analyzer.report.pages import stdout_console
from looptrace.analyzer.report.tables import ROWS_SHOWN_MAX, json_lines, print_rows
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.cli.config import config_option
from looptrace.cli.shared.options import prices_option
from looptrace.cli.shared.stores import store_option
from looptrace.cli.shared.traces import warn_of_waiting
from looptrace.collector.store.sql.connection import QueryResult, ask_query, ask_typed


@click.command()
@click.argument("name", required=False)
@store_option(
    "read",
    "Folder of a store, or s3://BUCKET/PREFIX; several are queried as one.",
    required=False,
    multiple=True,
)
@click.option("--param", "params", multiple=True, metavar="KEY=VALUE", help="Value of a parameter.")
@click.option("--sql", help="Your own SQL instead of NAME: one statement, which can only read.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Format of the rows.",
)
@prices_option("; without prices money is empty")
@config_option
def query(
    name: str | None,
    stores: tuple[Path, ...],
    params: tuple[str, ...],
    sql: str | None,
    form: str,
    prices: Prices | None,
    settings: Settings,
) -> None:
    """Run the query NAME on a store; with neither NAME nor --sql, list the queries.

    SQL reads spans, turns, findings, events, gates, incidents, pivots and tasks. "DESCRIBE turns"
    shows the columns of a table.
    """
    if name is None and sql is None:
        _list_queries()
        return
    if name is not None and sql is not None:
        raise click.UsageError("Give either NAME or --sql.")
    if not stores:
        raise click.UsageError("Missing option '--store': the folder of the store to query.")
    shipped = None if name is None else _query(name)
    values = _values(shipped, params)
    for store_dir in stores:
        warn_of_waiting(store_dir)
    prices = prices or settings.prices
    asking = (
        ask_query(stores, shipped, values, prices)
        if shipped
        else ask_typed(stores, sql or "", prices)
    )
    with asking as answer:
        _FORMATS[form](answer)


def _list_queries() -> None:
    for query in map(queries.load, queries.names()):
        click.echo(f"{query.name}\n    {query.purpose}")
        for parameter in query.parameters:
            click.echo(f"    --param {parameter.name}=…  {parameter.meaning}")


def _query(name: str) -> queries.Query:
    if name not in queries.names():
        raise click.UsageError(f"There is no query {name!r}. {did_you_mean(name, queries.names())}")
    return queries.load(name)


def _values(query: queries.Query | None, params: tuple[str, ...]) -> dict[str, str]:
    """Read the given parameters, and check that the query has them."""
    wanted = tuple(parameter.name for parameter in query.parameters) if query else ()
    values: dict[str, str] = {}
    for param in params:
        name, equals, value = param.partition("=")
        if not equals:
            raise click.UsageError(f"--param {param!r} must be KEY=VALUE.")
        if name not in wanted:
            raise click.UsageError(
                f"The query has no parameter {name!r}. {did_you_mean(name, wanted)}"
            )
        values[name] = value
    for name in wanted:
        if name not in values:
            raise click.UsageError(f"Missing parameter: give --param {name}=….")
    return values


def _print_table(answer: QueryResult) -> None:
    rows = chain.from_iterable(answer.batches)
    if not print_rows(answer.columns, rows, stdout_console()):
        click.echo(
            f"Only the first {ROWS_SHOWN_MAX} rows are shown; --format csv has all.", err=True
        )


def _print_json(answer: QueryResult) -> None:
    for line in json_lines(answer.columns, chain.from_iterable(answer.batches)):
        click.echo(line)


def _print_csv(answer: QueryResult) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    for batch in answer.batches:
        writer.writerows(batch)


_FORMATS: dict[str, Callable[[QueryResult], None]] = {
    "table": _print_table,
    "json": _print_json,
    "csv": _print_csv,
}
