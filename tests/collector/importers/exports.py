"""All forms of the run, by name."""

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import isfunction
from typing import Any

from looptrace.collector.files.reader import SpansRead, read_spans
from tests.collector.conftest import Write
from tests.collector.importers import (
    agent_exports,
    chat_exports,
    gateway_exports,
    platform_exports,
    row_exports,
    saved_exports,
    service_exports,
    system_exports,
)
from tests.collector.importers.exported_run import Span, spans

SYSTEMS, PLATFORMS, SERVICES, SAVED, ROWS = (
    {
        name: write
        for module in modules
        for name, write in vars(module).items()
        if isfunction(write) and write.__module__ == module.__name__ and name[0] != "_"
    }
    for modules in (
        (system_exports, agent_exports),
        (platform_exports,),
        (service_exports,),
        (saved_exports,),
        (row_exports, gateway_exports, chat_exports),
    )
)
EXPORTS: Mapping[str, Callable[[Sequence[Span]], Any]] = (
    SYSTEMS | PLATFORMS | SERVICES | SAVED | ROWS
)
# Streams and exports that are a record a line.
IN_LINES = {
    *("langfuse_export", "phoenix_frame", "langsmith", "honeycomb", "signoz", "clickhouse"),
    *("weave", "weave_otel", "weave_langchain", "claude_stream", "codex_exec", "copilot_cli"),
    *("strands", "camel", "camel_before", "pi", "droid", "qwen_code"),
    *("chat_lines", "gemini_cli_lines", "goose", "claude_hooks", "cursor_hooks"),
    *("copilot_stream", "gemini_stream", "droid_stream", "opencode_stream"),
    *("cline_stream", "kiro_session", "pi_stream", "qwen_stream", "vscode_changes"),
}


def written(made: Any, *, in_lines: bool = False) -> bytes:
    """Return as text what a form makes: a text, an object, or the records of lines."""
    if isinstance(made, str):
        return made.encode()
    if in_lines or isinstance(made, tuple):
        records = made[1] if isinstance(made, tuple) else made
        return "".join(json.dumps(record) + "\n" for record in records).encode()
    return json.dumps(made, indent=2).encode()


def text_of(name: str, end: str) -> bytes:
    """Return an export of a run as its system writes it."""
    return written(EXPORTS[name](spans(end)), in_lines=name in IN_LINES)


def exported(name: str, end: str, write: Write) -> SpansRead:
    """Read the export of a run."""
    return read_spans([write("export", text_of(name, end))])
