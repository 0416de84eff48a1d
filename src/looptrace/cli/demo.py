"""`looptrace demo`: the loops of the example traces that looptrace contains."""

import shutil
from pathlib import Path

import click

import looptrace
from looptrace.analyzer.report.pages import output_of
from looptrace.analyzer.report.terminal import print_report
from looptrace.analyzer.settings.sections import default
from looptrace.cli.shared import traces

TRACES = Path(looptrace.__file__).parent / "demo_traces"


@click.command()
@click.option(
    "--into",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to copy the example traces to, for commands of your own.",
)
def demo(folder: Path | None) -> None:
    """Find the loops in the example traces of looptrace, with the default settings."""
    if folder is not None:
        _copy(folder)
    print_report(traces.analysis([str(folder or TRACES)], default()), output_of())
    click.echo(
        f"\nThese traces are in {folder or TRACES}; `looptrace analyze PATH` reads your own."
    )


def _copy(folder: Path) -> None:
    """Copy the traces; existing files in the folder are not changed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for trace in TRACES.iterdir():
            if not (folder / trace.name).exists():
                shutil.copyfile(trace, folder / trace.name)
    except OSError as error:
        raise click.UsageError(
            f"{folder} cannot be written: {error.strerror}; name another folder."
        ) from error
