"""All forms of the run, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import isfunction
from typing import Any

from tests.collector.importers import agent_exports, system_exports
from tests.collector.importers.exported_run import Span, spans

EXPORTS: Mapping[str, Callable[[Sequence[Span]], Any]] = {
    name: write
    for module in (system_exports, agent_exports)
    for name, write in vars(module).items()
    if isfunction(write) and write.__module__ == module.__name__ and name[0] != "_"
}
# Streams and exports that are a record a line.
IN_LINES = {
    *("langfuse_export", "phoenix_frame", "langsmith"),
    *("weave", "weave_otel", "claude_stream", "codex_exec", "copilot_cli"),
}


def text_of(name: str, end: str) -> bytes:
    """Return an export of a run as its system writes it."""
    export = EXPORTS[name](spans(end))
    if name in IN_LINES:
        return "".join(json.dumps(line) + "\n" for line in export).encode()
    return json.dumps(export, indent=2).encode()
