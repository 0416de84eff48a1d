"""The options with which a command uses only some of the rules."""

from __future__ import annotations

import click

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
