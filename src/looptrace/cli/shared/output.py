"""The options that several commands share about what they print, and who says it."""

from __future__ import annotations

import click

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
