"""The options with which a command analyses a store on the machines of a cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from looptrace.cli import Command
from looptrace.cli.shared import traces
from looptrace.engines import Engine


def engine_options(command: Command) -> Command:
    """Add `--engine` and `--address` to a command."""
    engine = click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="Where the buckets of a store are analysed: here, or by a running Ray cluster.",
    )
    address = click.option(
        "--address",
        metavar="ADDRESS",
        help="The Ray cluster.  [default: RAY_ADDRESS, or that of this machine]",
    )
    return engine(address(command))


@contextmanager
def engine_of(name: str, address: str | None, paths: Sequence[str]) -> Iterator[Engine]:
    """Return the engine that analyses the buckets of the store in `paths`.

    Raises:
        UnavailableError: if no cluster answers.
        InstallError: if the extra is not installed.
    """
    if name == "local":
        if address is not None:
            raise click.UsageError("--address needs --engine ray.")
        yield map
        return
    if traces.store_of(paths) is None:
        raise click.UsageError(
            "--engine ray analyses the buckets of a store; make a store with `looptrace ingest`."
        )
    with traces.needing("ray", "--engine ray"):
        from looptrace.ray_tasks import RayTasks  # noqa: PLC0415 - Few have it.
    with RayTasks(address) as tasks:
        yield tasks.map
