"""Names that a package offers without importing the modules that define them.

An agent's process imports packages whose modules need Polars, which it may lack. `looptrace` itself
may be imported only for its version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package, by the module that defines each of its names.

    It raises AttributeError for any other name.
    """

    def getattr_(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return getattr_
