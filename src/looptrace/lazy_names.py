"""Names that a package offers without importing the modules that define them.

An agent's process imports packages whose modules need Polars, which it may lack. `looptrace` itself
may be imported for one name.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package, by the module that defines each name.

    The first raises AttributeError for any other name, the second lists the public names.
    """

    def getattr_(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    def dir_() -> list[str]:
        here = vars(sys.modules[package])
        return sorted({*here["__all__"], *(name for name in here if name.startswith("__"))})

    return getattr_, dir_
