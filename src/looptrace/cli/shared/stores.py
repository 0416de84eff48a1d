"""The option --store: a folder, or an address on object storage, of which a command has a copy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from looptrace.cli import Command
from looptrace.collector.store.objects.client import is_object_url

_COPIES = "looptrace.store_copies"
# Tries to write where other writers are first; each takes a moment.
TRIES = 5

T = TypeVar("T")
StoreUse = Literal["read", "written", "served"]


def store_option(
    use: StoreUse,
    meaning: str = "Folder of the store, or s3://BUCKET/PREFIX.",
    *,
    required: bool = True,
    multiple: bool = False,
) -> Callable[[Command], Command]:
    """Return the option that names a store; it is the same for every command.

    The command gets it as `store`, or as `stores` where several may be named.
    """
    return click.option(
        "--store",
        "stores" if multiple else "store",
        metavar="STORE",
        required=required,
        multiple=multiple,
        type=StorePath(use),
        help=meaning,
    )


class StorePath(click.Path):
    """The folder of a store, or an address such as `s3://bucket/prefix`.

    Of an address that is only read the folder of a copy is returned, which goes with the command;
    of one that is written to the address itself, for `written_store`.
    """

    def __init__(self, use: StoreUse) -> None:
        super().__init__(file_okay=False, path_type=Path)
        self._use = use

    def convert(
        self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the folder, or the address."""
        if not is_object_url(value):
            if "://" in str(value):
                self.fail(
                    f"{value}: is not a store; a store is a folder, or at s3://, gs:// or az://. "
                    "`looptrace gates` and `watch` take a running server by --server.",
                    param,
                    ctx,
                )
            if param and param.multiple and "," in str(value) and not Path(value).exists():
                self.fail(f"{value}: give each store a {param.opts[0]} of its own.", param, ctx)
            return super().convert(value, param, ctx)
        if self._use == "served":
            self.fail(
                f"{value}: this command needs the store on a disk of this machine, where the log "
                "and the gates of a server are; name a folder, of which `looptrace copy` keeps a "
                "copy in a bucket.",
                param,
                ctx,
            )
        return store_copy(str(value)) if self._use == "read" else value


def store_copy(url: str) -> Path:
    """Return a folder with the store at an address as it is now, once for each command."""
    # Only here, so that `--help` comes at once.
    from looptrace.collector.store.objects.snapshot import folder_of, stored_at  # noqa: PLC0415

    context = click.get_current_context()
    copies: dict[str, Path] = context.meta.setdefault(_COPIES, {})
    if url not in copies:
        copies[url] = context.with_resource(folder_of(stored_at(url)))
    return copies[url]


@contextmanager
def written_store(store: Path | str) -> Iterator[Path]:
    """Yield the folder to write to; of an address what was written is published at the end."""
    if isinstance(store, Path):
        yield store
        return
    from looptrace.collector.store.publishing.publisher import written  # noqa: PLC0415

    with written(store) as folder:
        yield folder


def written_again(url: str, write: Callable[[Path], T]) -> T:
    """Return what `write` does to the folder of the store at an address.

    Where another writer is first, it is tried again with what that one wrote.

    Raises:
        WrittenMeanwhileError: if others are first each time.
    """
    from looptrace.collector.store.publishing.publisher import WrittenMeanwhileError  # noqa: PLC0415

    for is_last in (*repeat(False, TRIES - 1), True):
        try:
            with written_store(url) as folder:
                return write(folder)
        except WrittenMeanwhileError:
            if is_last:
                raise
    raise AssertionError  # The last try returned or raised.
