"""What fingerprints were made with, so that stored ones are made again only after a change."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from importlib.resources import files

import polars as pl

from looptrace.analyzer.fingerprint.equivalence import Sameness
from looptrace.analyzer.text.digests import digest

_PACKAGES = (
    "looptrace.analyzer.fingerprint",
    "looptrace.analyzer.fingerprint.volatile",
    "looptrace.analyzer.text",
)


def fingerprint_source(sameness: Sameness) -> str:
    """Return a hash of everything that fingerprints depend on besides the turns.

    These are the declarations, the code, and the version of the engine that runs the patterns.
    """
    return digest(f"{sameness!r} {_code()} {pl.__version__}")


@cache
def _code() -> str:
    """Return a hash of the modules that make fingerprints; an installation may lack the sources."""
    modules = (module for package in _PACKAGES for module in files(package).iterdir())
    texts = (each.read_text("utf-8") for each in modules if each.name.endswith(".py"))
    return digest("".join([version("looptrace"), *sorted(texts)]))
