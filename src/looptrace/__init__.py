"""looptrace finds LLM agents that are stuck in loops, from their OpenTelemetry traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from looptrace.errors import LooptraceError

if TYPE_CHECKING:
    from looptrace.collector import LoopSpanProcessor

__all__ = ["LooptraceError", "__version__", "instrument"]
__version__ = "0.1.0"


def instrument(**options: Any) -> LoopSpanProcessor:
    """Watch the agents of this process for loops: `looptrace.collector.instrument`."""
    # Only here, because whoever asks for the version does not need OpenTelemetry.
    from looptrace.collector import instrument as begin  # noqa: PLC0415

    return begin(**options)
