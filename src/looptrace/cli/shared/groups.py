"""Commands with commands of their own."""

import click

_CHARS_MAX = 1_000  # Longer than any first sentence: click would cut it at the width of the screen.


class CommandGroup(click.Group):
    """A group whose help has the whole first sentence of each command."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with its whole first sentence."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, each.get_short_help_str(_CHARS_MAX)) for name, each in commands if each]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
