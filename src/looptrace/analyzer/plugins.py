"""Plug-ins: what installed distributions offer by entry points, made or refused in one line."""

from __future__ import annotations

import sys
import traceback
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from looptrace.analyzer.text.display import plain
from looptrace.errors import InstallError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

_WHY_CHARS_MAX = 200


class PluginError(InstallError):
    """A plug-in cannot be used; the message names its distribution and says what to do."""


def offered(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group by name; a distribution twice on the path counts once."""
    if not _may_be_offered(group):
        return ()
    # Its import, and its reading of every distribution, take longer than that of a small trace.
    from importlib.metadata import entry_points  # noqa: PLC0415

    points = {(point.name, point.value): point for point in entry_points(group=group)}
    return tuple(points[key] for key in sorted(points))


def _may_be_offered(group: str) -> bool:
    """Return whether some distribution on the path names the group, or may in a place unknown."""
    if any(hasattr(each, "find_distributions") for each in sys.meta_path if each != PathFinder):
        return True
    folders = list(map(Path, sys.path))
    if any(path.suffix == ".egg" or path.is_file() for path in folders):
        return True
    names = (path for folder in folders for path in folder.glob("*-info/entry_points.txt"))
    return any(group.encode() in path.read_bytes() for path in names)


def make(point: EntryPoint, kind: type[T], must: str, *given: object) -> T:
    """Import what an entry point names, and call it with what is `given`; mostly nothing is.

    Raises:
        PluginError: if it cannot be imported or made, or is not of this kind; `must` says what it
            must be.
    """
    try:
        made = point.load()(*given)
    except Exception as error:  # The code is another's, and may raise anything.
        why = traceback.format_exception_only(error)[-1].strip()
        raise refusal(point, f"it cannot be made: {why}") from error
    if not isinstance(made, kind):
        raise refusal(point, f"it must be {must}")
    return made


def refusal(point: EntryPoint, why: str) -> PluginError:
    """Return the error of a plug-in: which one, of which distribution, why, and what to do."""
    owner = f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed distribution"
    return PluginError(
        f"the plug-in {point.value!r} of {owner} cannot be used: {plain(why, _WHY_CHARS_MAX)}. "
        f"Correct its entry point in the group {point.group}, or uninstall it."
    )
