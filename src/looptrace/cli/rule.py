"""`looptrace rule`: the description of a rule, and its settings in force."""

import click

from looptrace.analyzer.detect.rule_plugins import every_rule
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.cli.config import config_option
from looptrace.rules.contract import Rule
from looptrace.rules.docs import about, summary


@click.command()
@click.argument("name", required=False)
@config_option
def rule(name: str | None, settings: Settings) -> None:
    """Print what the rule NAME finds, what it ignores, and its settings in force.

    Without NAME, the rules are listed.
    """
    rules = {each.name: each for each in every_rule()}
    in_force = {each.name: each for each in settings.policy.rule_set.rules}
    if name is None:
        for known, each in rules.items():
            click.echo(f"{known}{'' if known in in_force else ' (off)'}\n    {summary(each)}")
    elif name in rules:
        click.echo(_text(rules[name], in_force.get(name)))
    else:
        raise click.UsageError(f"there is no rule {name!r}. {did_you_mean(name, rules)}")


def _text(kind: type[Rule], in_force: Rule | None) -> str:
    shown = in_force or kind()
    settings = [
        f"{name} = {value} ({bounds['ge']} to {bounds['le']}): {bounds['doc']}"
        for name, (value, bounds) in shown.settings().items()
    ]
    ladder = [f"from {rung.attempts} attempts on: {rung.action}" for rung in shown.ladder]
    state = "The rule is on." if in_force else "The rule is off; `enabled = true` switches it on."
    head = "Settings in force" if in_force else "Settings"
    lines = [kind.name, "", about(kind), "", state, "", f"{head}:", *settings, "", "Actions:"]
    return "\n".join([*lines, *ladder])
