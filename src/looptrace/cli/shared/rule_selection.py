"""The options by which a command uses some of the rules alone."""

from __future__ import annotations

import click

select_option = click.option(
    "--select",
    multiple=True,
    metavar="RULE",
    help="Use these rules alone, also those that are off; may be given several times.",
)
ignore_option = click.option(
    "--ignore",
    multiple=True,
    metavar="RULE",
    help="Leave these rules out; may be given several times.",
)
