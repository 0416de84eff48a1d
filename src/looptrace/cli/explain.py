"""`looptrace explain`: the turns of a task, how far each rule got, and the settings that matter."""

import click
import polars as pl

from looptrace.analyzer.report.explanation import print_explanation
from looptrace.analyzer.report.json import explanation_json
from looptrace.analyzer.report.pages import stdout_console
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.task_lookup import some_of, task_named
from looptrace.analyzer.tuning.explain import explain as explain_task
from looptrace.cli import EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.options import format_option


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--task", help="Id of the task or its session; needed only if there are several.")
@format_option
@config_option
@click.pass_context
def explain(
    context: click.Context, paths: tuple[str, ...], task: str | None, form: str, settings: Settings
) -> None:
    """Print the turns of a task in PATHS, how far each rule got, and the actions.

    `repeated_call 2/3` means that the second of three needed attempts ends at this turn, and
    `→ warn by repeated_call` is the action there. The end lists settings that would change the
    result of a rule or a gate; each was tried on the turns.
    """
    parts, skipped = traces.turns(paths, settings)
    traces.warn_of(skipped)
    tasks = pl.concat([part.select("task").unique(maintain_order=True) for part in parts])
    name = _chosen(task, tasks["task"].to_list())
    turns = pl.concat([part.filter(pl.col("task") == name) for part in parts])
    with traces.working():
        explanation = explain_task(turns, settings.policy)
    if form == "json":
        click.echo(explanation_json(name, turns, explanation, settings.directives), nl=False)
    else:
        print_explanation(name, turns, explanation, stdout_console())
    context.exit(EXIT_UNREADABLE if skipped else 0)


def _chosen(task: str | None, tasks: list[str]) -> str:
    if not tasks:
        raise click.UsageError("there are no turns of an agent in the input.")
    if task is not None:
        return task_named(task, tasks)
    if len(tasks) > 1:
        raise click.UsageError(f"name a task by --task; {some_of(tasks)}.")
    return tasks[0]
