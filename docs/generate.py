"""Writes the pages that are made from the code; with `--check` it only says which are stale.

What the commands of a page print is written by `docs.page_runs`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from google.rpc.code_pb2 import Code  # type: ignore[import-untyped]
from starlette.routing import Route

from looptrace.analyzer.fields.dialect_table import FIELDS, SHIPPED, WRITTEN, Dialect
from looptrace.analyzer.settings.docs_page import page, schema
from looptrace.analyzer.settings.file_tables import EXAMPLES
from looptrace.analyzer.settings.sections import default
from looptrace.collector.server.access import Access
from looptrace.collector.server.openapi import document
from looptrace.collector.server.receiver.receiver_metrics import NAMES, Instrument, Reason
from looptrace.collector.server.service import Options, Service
from looptrace.installation import REVISION, SOURCE, install_command
from looptrace.rules.docs import ladders, pages

DOCS = Path(__file__).parent

_DIALECTS_HEAD = """# Dialects

<!-- Made from analyzer/fields/dialects.toml by `make docs`; edit it there. -->

Which spans and attributes of which producer are read as what. The table is one file,
`analyzer/fields/dialects.toml`; your own keys go into `looptrace.toml`, in the same form.

## Spans that are not understood

A report says how many spans became turns, parts of turns, agents or structure, and how those look
that no dialect knows: scope, name and attributes. Below one half, or where no call has a result,
this is its first line, and a process with `local()` or `instrument()` warns of it.
`looptrace analyze PATH --explain-span ID` shows what a span is read as, and by which keys. Keys of
your own are [settings](settings.md#attributes), for files, stores, servers and `local()`:

```toml
{own}```

A process that forwards its spans knows your keys by `forward(settings="looptrace.toml")`. A store
derives its turns anew where they change, but a new key of `session` or `task` joins only what is
stored from then on.

## What is read

Each row is tested with a recorded example. *Not written*: the producer's source writes it nowhere.
`mcp.session.id` is the session where traces begin in a server of MCP and name no other: its client
is not instrumented, and each call has a trace of its own. Where a span with a parent has that id
too, traces stay apart, because clients of several agents may share a connection.
"""
_KINDS_HEAD = """## Kinds

A span is what the first dialect says whose conditions it meets. `structure` is a known span that is
no turn by itself. A `part` adds what it tells to the call around it. A `step` is a call if it shows
what it was given and how it ended, and nothing known lies within it. A span of no dialect is *not
understood*.

| dialect | a span with | is |
| --- | --- | --- |"""
_BESIDE_HEAD = """## Tokens

The input of a turn has what was cached in it, and the output what was thought, as the conventions
want it. Producers of these rows count such parts beside the rest. Others show it: by a part that is
larger than the whole, or by a total with room for the parts.

| dialect | a span with | counts parts beside |
| --- | --- | --- |"""
_FIELDS_HEAD = """## Fields

A field is read from the first key that is present, the keys of the span's dialect first. `key#a.b`
is a part of a JSON object, `key.*` are flat numbered messages, `@name#a` is an attribute of the
span event of that name, and `key#a*|b*` is the sum of the counts with such names.

| field | dialect | keys |
| --- | --- | --- |"""


def dialects_page() -> str:
    """Return the page of the dialects and their keys."""
    dialects = SHIPPED.dialects
    kinds = [
        f"| {dialect.name} | {row.condition} | {row.kind} |"
        for dialect in dialects
        for row in dialect.kinds
    ]
    keys = [
        f"| {name} | {dialect.name} | {_keys(dialect.fields[name])} |"
        for name in FIELDS
        for dialect in dialects
        if name in dialect.fields
    ]
    beside = [
        f"| {dialect.name} | {row.condition} | {row.kind} |"
        for dialect in dialects
        for row in dialect.beside
    ]
    head = "| producer | version | read from | " + " | ".join(WRITTEN) + " |"
    rule = "| --- | --- | --- |" + " --- |" * len(WRITTEN)
    read = [_read(dialect) for dialect in dialects if dialect.writes]
    parts = [
        [_DIALECTS_HEAD.replace("{own}", EXAMPLES["attributes"]), head, rule, *read],
        [_KINDS_HEAD, *kinds],
        [_BESIDE_HEAD, *beside],
        [_FIELDS_HEAD, *keys],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _keys(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys).replace("|", "\\|")


def _read(dialect: Dialect) -> str:
    said = dict.fromkeys(dialect.writes, "yes") | dict.fromkeys(dialect.unread, "no")
    cells = [dialect.producer, dialect.version, "; ".join(dialect.source)]
    return f"| {' | '.join(cells + [said.get(name, 'not written') for name in WRITTEN])} |"


_RECEIVER_HEAD = """# The receiver

<!-- Made from collector/server/receiver/receiver_metrics.py by `make docs`; edit them there. -->

`looptrace[server]` takes OTLP 1.x: `/v1/traces` and `/v1/logs` over HTTP, as protobuf or JSON,
plain or packed (gzip, deflate, zstd), with a length or in chunks, and the same services over gRPC.
`/v1/metrics` is acknowledged and ignored, so that agents that export everything need no second
address.

- A request is acknowledged when its spans are on disk, and not before.
- A bad span is rejected alone: the others are kept, and `partial_success` has the number of
  rejected spans and the reason. A request without one good span is refused with 400.
- Every refusal over OTLP's paths is a `google.rpc.Status` in the form of the request. If
  another try may succeed, it is 503 with `Retry-After`, and `UNAVAILABLE` with `RetryInfo`. No
  input of a client causes another 5xx.
- JSON is read as OTLP has it: ids in hex of either case, 64-bit integers as numbers or strings,
  unknown fields ignored. Names of enums and half surrogate pairs, which some exporters write, are
  accepted.
- There is no CORS: the preflight request of a page of another origin gets 405, and the page may
  not send.

## Log records

`/v1/logs` takes the [log events of coding agents](coding_agents.md#without-files-otlp-logs), and
[GenAI events of spans](inputs.md#log-records-of-spans); other log records are acknowledged and
ignored. An event may come before its span or after it, also after a restart. One that comes first
waits for its span in memory, for an hour at least and up to 16 MiB of them; the last 16 MiB of
spans can still get events, and a task whose turns had settled is evaluated anew. In the store an
event stays without a limit of time until its span comes. A span gets at most 8 MiB of events.
Events that name no span are counted as `events_placeless` and logged once; those whose span did
not come in time are `looptrace_detection_events_alone_total`. With [several
servers](scale.md#several-servers) an event goes by its trace, because it seldom has a session:
set `shards.by = "trace"`, or let the agent's exporters send both to one address.

Clients that send large prompts should compress. A batch that is refused as too large is lost, since
OTLP forbids to send it again, so set `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`, or the collector's
`send_batch_max_size`, to what fits the limits.

## Limits

The section [`[server]`](settings.md#server) of the settings has the limits. They apply to gRPC,
too: a message is read when there is room for `body_bytes_max` in `in_flight_bytes_max`, one at a
time for each three `body_bytes_max` of it, because gRPC copies a message twice, and unpacked as a
body of HTTP is; without a token none is read. Where there are `connections_max`
connections, the oldest one without an accepted request is closed for a new one, whatever its
address; where all have one, requests on new connections get 503. Calls of gRPC above
`connections_max` get `RESOURCE_EXHAUSTED`.
"""


def receiver_page() -> str:
    """Return the page of the receiver, with its refusals and counts."""
    lines = [_RECEIVER_HEAD.rstrip()]
    lines += ["", "## Refusals", "", "| reason | HTTP | gRPC | when |", "| --- | --- | --- | --- |"]
    for reason in (one.value for one in Reason):
        code = Code.Name(reason.code)
        lines.append(f"| `{reason.name}` | {reason.http_status} | {code} | {reason.doc} |")
    lines += ["", "## Counts", "", "| name | what it counts |", "| --- | --- |"]
    lines += [f"| `{name}` | {sentence} |" for name, sentence in NAMES.items()]
    return "\n".join([*lines, ""])


_TABLE = re.compile(
    r"(?P<head><!-- `make docs` writes this table. -->\n).*?(?P<tail><!-- end -->)", re.DOTALL
)


# How long a new store may take on a crowded machine.
_STORED_S = 60.0


def served() -> tuple[list[Instrument], list[Route]]:
    """Return what a server shows of itself, and the paths that it serves."""

    async def of(store_dir: str) -> tuple[list[Instrument], list[Route]]:
        service = Service(Options(Path(store_dir), default(), Access(), 0, None))
        try:
            return service.instruments(), service.routes()
        finally:
            service.close()
            service.archiver.close(_STORED_S)  # The folder is deleted next.

    with TemporaryDirectory() as folder:
        return asyncio.run(of(folder))


def with_numbers(text: str, instruments: list[Instrument]) -> str:
    """Return the runbook with every number of a server, under Prometheus's names."""
    lines = ["", "| name | kind | labels | what it is |", "| --- | --- | --- | --- |"]
    for each in instruments:
        name = each.name.replace(".", "_") + ("_total" if each.kind == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in each.labels)
        lines.append(f"| `{name}` | {each.kind} | {labels} | {each.doc} |")
    return _with_table(text, "\n".join([*lines, ""]))


def _with_table(text: str, rows: str) -> str:
    """Return a page with these rows in the place that it marks for a table."""
    return _TABLE.sub(lambda match: f"{match['head']}{rows}\n{match['tail']}", text)


def _benchmarks() -> dict[Path, str]:
    """Return the page of the benchmarks with its table, and its plots."""
    made, path = _import("docs.benchmarks_page"), DOCS / "benchmarks.md"
    recorded = made.figures()
    return {
        path: _with_table(path.read_text(encoding="utf-8"), made.table(recorded)),
        DOCS / made.THROUGHPUT: made.throughput_svg(recorded),
        DOCS / made.LATENCY: made.latency_svg(recorded),
    }


_EXAMPLES_HEAD = """# Examples

<!-- Made from the scripts in examples/ by `make docs`; edit them there. -->

One small agent for each of the five sources of the requirements, and the output of looptrace for
it: the task, the turn, the action and its rule, and the reason. Each script records its agent with
the OpenTelemetry SDK, as its author would. [`recorder.py`](../examples/recorder.py) starts and ends
the spans, and fixes their ids and times so that every run is the same.

An agent is the span `invoke_agent NAME`, a tool call `execute_tool NAME`, and a model's response
`chat MODEL`, all with the attributes of the GenAI conventions. On the agent's span the scripts add
what these have no word for: `looptrace.task.id`, `looptrace.task.parent_id`,
`looptrace.task.status`, `looptrace.blockers`, `looptrace.completed_work`; on a tool's
`looptrace.phase`. A person who steps in is the span event `looptrace.human_intervention` with
`looptrace.note`.

A script writes its spans to `build/examples/NAME.json`, which is OTLP: `looptrace analyze` and
`looptrace explain` read it too. Run the commands in the project's root, in its environment
(`make test` makes one in `.venv`).
"""


def api_page() -> str:
    """Return the page of the public names."""
    text: str = _import("docs.api_page").page()
    return text


def _import(name: str) -> ModuleType:
    """Import a module that stands beside the package, also where this file is run as a script."""
    if str(DOCS.parent) not in sys.path:
        sys.path.append(str(DOCS.parent))
    return import_module(name)


_EXAMPLES = ("a_failures", "b_attempts", "c_outputs", "d_phases", "e_pivots")


def examples_page() -> str:
    """Return the page of the examples, with what looptrace tells of each."""
    modules = [_import(f"examples.{name}") for name in _EXAMPLES]
    return "\n".join([_EXAMPLES_HEAD, *map(_example, modules)])


def _example(module: ModuleType) -> str:
    """Write what an example is about, its script, the command, and its output."""
    recorder = _import("examples.recorder")
    title, _, about = (inspect.getdoc(module) or "").partition("\n\n")
    # The script between its imports and its last lines, which only start it.
    source = inspect.getsource(module).partition("import Recorder, tell\n")[2]
    script = source.partition("\n\nif __name__")[0].strip()
    name = module.__name__.rpartition(".")[2]
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.json"
        recorder.recorded(module.work, path)
        output = recorder.told(path)
    return (
        f"## {title.rstrip('.')}\n\n{about}\n\n```python\n{script}\n```\n\n"
        f"```sh\npython -m examples.{name}\n```\n\n```text\n{output}```\n"
    )


_INSTALL = re.compile(r"pip install '?(?:looptrace|\.)(?:\[(?P<extra>[\w,]+)\]')?(?=[`\s\"&)])")
_REVISION = re.compile(r"(OWNER/looptrace(?:@| .*\n +rev: ))[\w.]+")
_WHERE = re.compile(r"(?P<head><!-- `make docs` writes where to install. -->\n).*(?=\n)")


def with_installation(text: str) -> str:
    """Return a page or an example with the commands that install looptrace today."""
    where = " in a checkout, the folder with `README.md`" if SOURCE == "." else ""
    is_published = "" if SOURCE != "." else " looptrace is not on a package index yet."
    sentence = f"Run these commands{where}.{is_published}"
    text = _WHERE.sub(lambda match: match["head"] + sentence, text)
    text = _REVISION.sub(lambda match: match[1] + REVISION, text)
    return _INSTALL.sub(lambda match: install_command(match["extra"] or ""), text)


def installing() -> list[Path]:
    """Return the files that a reader may take a command to install looptrace from."""
    kinds = ("*.md", "*.ipynb", "*.yml", "*.yaml")
    folders = (DOCS, DOCS.parent / "examples")
    found = [path for folder in folders for kind in kinds for path in folder.rglob(kind)]
    installed = {path for path in found if "node_modules" not in path.parts}
    return sorted({*DOCS.parent.glob("*.md"), *installed})


def stale() -> dict[Path, str]:
    """Return the pages that differ from the code, with the text that they should have."""
    wanted = {DOCS / "rules" / name: text for name, text in pages().items()}
    wanted[DOCS / "api.md"] = api_page()
    wanted[DOCS / "commands.md"] = _import("docs.commands_page").page()
    wanted[DOCS / "dialects.md"] = dialects_page()
    wanted[DOCS / "examples.md"] = examples_page()
    wanted[DOCS / "receiver.md"] = receiver_page()
    runbook = DOCS / "runbook.md"
    instruments, routes = served()
    wanted[runbook] = with_numbers(runbook.read_text(encoding="utf-8"), instruments)
    wanted[DOCS / "openapi.json"] = json.dumps(document(routes), indent=2) + "\n"
    gates = DOCS / "gates.md"
    wanted[gates] = _with_table(gates.read_text(encoding="utf-8"), ladders())
    wanted[DOCS / "modules.md"] = _import("docs.modules").page()
    wanted |= _benchmarks()
    diagrams = _import("docs.diagrams")
    wanted[DOCS / "pictures/gate_states.svg"] = diagrams.gate_states()
    wanted[DOCS / "pictures/turn_to_webhook.svg"] = diagrams.turn_to_webhook()
    wanted[DOCS / "schema.md"] = _import("docs.schema_page").page()
    wanted[DOCS / "settings.md"] = page()
    wanted[DOCS / "looptrace.schema.json"] = schema()
    for path in installing():
        text = wanted.get(path) or path.read_text(encoding="utf-8")
        wanted[path] = with_installation(text)
    return {
        path: text
        for path, text in wanted.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }


def main() -> None:
    """Write the stale pages, or end with 1 and name them."""
    found = stale()
    if "--check" in sys.argv:
        names = ", ".join(str(path.relative_to(DOCS.parent)) for path in found)
        sys.exit(f"{names}: stale; run `make docs`." if found else 0)
    for path, text in found.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
