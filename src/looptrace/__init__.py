"""looptrace finds LLM agents that are stuck in loops, from their OpenTelemetry traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from looptrace.errors import InputError, InstallError, LooptraceError, UnavailableError
from looptrace.lazy_names import lazy_names

if TYPE_CHECKING:
    from looptrace.collector import instrument
else:  # Without OpenTelemetry, which a program that asks for the version does not need.
    __getattr__ = lazy_names(__name__, {"instrument": "looptrace.collector"})

__all__ = [
    "InputError",
    "InstallError",
    "LooptraceError",
    "UnavailableError",
    "__version__",
    "instrument",
]
__version__ = "0.1.0"
