"""Writes the pages that are made from the code; with `--check` it only says which are stale.

What the commands of a page print is written by `docs.page_runs`.
"""

import asyncio
import inspect
import json
import re
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from google.rpc.code_pb2 import Code  # type: ignore[import-untyped]
from starlette.routing import Route

from looptrace.analyzer.fields.dialect_table import FIELDS, SHIPPED, WRITTEN, Dialect
from looptrace.analyzer.settings.sections import default
from looptrace.collector.erasure.erasures_api import routes
from looptrace.collector.server.access import Access
from looptrace.collector.server.openapi import document
from looptrace.collector.server.receiver.receiver_metrics import CLOSED, Instrument, Reason
from looptrace.collector.server.service import Options, Service
from looptrace.installation import REVISION, SOURCE, install_command

DOCS = Path(__file__).parent

_DIALECTS_HEAD = """# Dialects

<!-- Made from analyzer/fields/dialects.toml by `make docs`; edit it there. -->

Which spans and attributes of which producer are read as what.

## Spans that are not understood

A report counts the spans that became turns, parts of turns, agents or structure, and shows those
that no dialect knows. Below one half, or where no call has a result, this is its first line, and
`local()` and `instrument()` warn of it. `looptrace analyze PATH --explain-span ID` shows what a
span is read as, and by which keys. Your own keys are [settings](settings.md#attributes), for files,
stores, servers and `local()`; a process that forwards its spans has
`forward(settings="looptrace.toml")`. If they change, a store derives its turns anew; a new key of
`session` or `task` joins only what is stored from then on.

## What is read

Calls, results, messages, tokens, errors, session and agent, but for what this list says. A
recorded example tests each row. [dialects.toml](../src/looptrace/analyzer/fields/dialects.toml) has
all conditions and keys, with the producers' sources. `mcp.session.id` is the session only where
traces begin in a server of MCP and name no other. Input includes cached tokens and output includes
reasoning, also where a producer counts them apart.
"""
_FIELDS_HEAD = """## Fields

The first dialect whose conditions a span meets says what it is; of a field the first key that is
present is read. `key#a.b` is a part of a JSON object, `key.*` are flat numbered messages, `@name#a`
is an attribute of the span event of that name, and `key#a*|b*` is the sum of the counts with such
names. A call has failed by its span's status, its result, `error_type`, `is_error`, `success` or
`level`; `error` is only the text of a failure. The keys of OpenTelemetry's conventions and of
looptrace:
"""
_SHOWN_DIALECTS = ("looptrace", "gen_ai")


def dialects_page() -> str:
    """Return the page of the dialects and their keys."""
    read = [_read(dialect) for dialect in SHIPPED.dialects if dialect.writes]
    fields = [f"- `{name}`: {about}{_keys(name)}" for name, about in FIELDS.items()]
    return "\n".join([_DIALECTS_HEAD, *read, "", _FIELDS_HEAD, *fields, ""])


def _keys(field: str) -> str:
    """Return the keys of a field in the dialects that the page shows."""
    shown = (each for each in SHIPPED.dialects if each.name in _SHOWN_DIALECTS)
    return "".join(f" `{key}`" for each in shown for key in each.fields.get(field, ()))


def _read(dialect: Dialect) -> str:
    """Return a producer with its version, and what of it is not read or never written."""
    never = [name for name in WRITTEN if name not in {*dialect.writes, *dialect.unread}]
    less = [("not read", dialect.unread), ("lacks", never)]
    said = "; ".join(f"{word}: {', '.join(names)}" for word, names in less if names)
    return f"- {dialect.producer} ({dialect.version}){said and f'; {said}'}"


_RECEIVER_HEAD = """# The receiver

<!-- Made from collector/server/receiver/receiver_metrics.py by `make docs`; edit them there. -->

`looptrace serve` takes OTLP 1.x: `/v1/traces` and `/v1/logs` over HTTP, as protobuf or JSON, plain
or packed (gzip, deflate, zstd), and the same services over gRPC. `/v1/metrics` is acknowledged and
ignored.

- A request is acknowledged when its spans are on disk.
- A bad span is rejected alone: `partial_success` has the number and the reason.
- A refusal is a `google.rpc.Status` in the form of the request. If another try may succeed, it is
  503 with `Retry-After`, or `UNAVAILABLE` with `RetryInfo`.
- Names of enums and half surrogate pairs, which some exporters write into JSON, are accepted.
- There is no CORS.

A batch that is too large is lost, because OTLP forbids to send it again: set
`OTEL_BSP_MAX_EXPORT_BATCH_SIZE`, or the collector's `send_batch_max_size`.

## Log records

`/v1/logs` takes the [log events of coding agents](coding_agents.md#without-files-otlp-logs) and
[GenAI events of spans](inputs.md#log-records-of-spans), and ignores others. An event may come
before its span or after it, also after a restart. For the rules an event waits for an hour at least
(up to 16 MiB), and the last 16 MiB of spans can still get events; the store has no such limit. A
span gets at most 8 MiB of events. With [several servers](scale.md#several-servers), set
`shards.by = "trace"`, or send spans and logs to one address: an event seldom has a session.

## Limits

The settings are in [`[server]`](settings.md#server). Of gRPC, one message is read at a time for
each three `body_bytes_max` in `in_flight_bytes_max`, none without a token; calls above
`connections_max` get `RESOURCE_EXHAUSTED`. At `connections_max` the oldest HTTP connection without
an accepted request is closed for a new one; where all have one, new connections get 503.
"""


def receiver_page() -> str:
    """Return the page of the receiver, with its refusals and counts."""
    lines = [_RECEIVER_HEAD.rstrip()]
    lines += ["", "## Refusals", "", "| reason | HTTP | gRPC | when |", "| --- | --- | --- | --- |"]
    for reason in Reason:
        code = Code.Name(reason.code)
        lines.append(f"| `{reason.name.lower()}` | {reason.http_status} | {code} | {reason.doc} |")
    lines += ["", "`looptrace_receiver_refused_total` counts them by reason,"]
    lines += ["`looptrace_receiver_closed_total` the closed connections:", ""]
    closed = {name.removeprefix("closed_"): sentence for name, sentence in CLOSED.items()}
    lines += [f"- `{reason}`: {sentence}" for reason, sentence in closed.items()]
    return "\n".join([*lines, ""])


_TABLE = re.compile(
    r"(?P<head><!-- `make docs` writes this table. -->\n).*?(?P<tail><!-- end -->)", re.DOTALL
)


# How long a new store may take on a crowded machine.
_STORED_S = 60.0


def served() -> tuple[list[Instrument], list[Route]]:
    """Return what a server shows of itself, and the paths that it serves."""

    async def of(store_dir: str) -> tuple[list[Instrument], list[Route]]:
        service = Service(Options(Path(store_dir), default(), Access(), 0, None, erasures=routes))
        try:
            return service.instruments(), service.routes()
        finally:
            service.close()
            service.archiver.close(_STORED_S)  # The folder is deleted next.

    with TemporaryDirectory() as folder:
        return asyncio.run(of(folder))


_METRICS_HEAD = """# Metrics of a server

<!-- Made from the instruments of a server by `make docs`. -->

`/metrics` has these under Prometheus's names, with those of the process and `looptrace_build_info`.
`OTEL_EXPORTER_OTLP_ENDPOINT` sends the same by OTLP, with dots for `_` and without `_total`.
Counters begin at 0 with each start, except those of loops and gates. What loops cost and what
helped are as of an earlier scrape, and absent in the first. The
[runbook](runbook.md#what-to-watch) says which to watch.
"""


def metrics_page(instruments: list[Instrument]) -> str:
    """Return the page of every number of a server, under Prometheus's names."""
    lines = [_METRICS_HEAD]
    for each in instruments:
        name = each.name.replace(".", "_") + ("_total" if each.kind == "counter" else "")
        labels = [label for label in each.labels if label != "le"]
        by = f", by {' and '.join(f'`{label}`' for label in labels)}" if labels else ""
        about = each.doc.replace(f", by {' and '.join(labels)}", "") if labels else each.doc
        lines.append(f"- `{name}`{by}: {about}")
    return "\n".join([*lines, ""])


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

One small agent for each source of the requirements, and what looptrace says of it.
Each script records its agent with the OpenTelemetry SDK, in the attributes of
[dialects](dialects.md#fields), and writes OTLP to `build/examples/NAME.json`:
`.venv/bin/python -m examples.a_failures` in the project's root (`make test` makes `.venv`).
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
    """Write what an example is about, the command, and its output."""
    recorder = _import("examples.recorder")
    title, _, about = (inspect.getdoc(module) or "").partition("\n\n")
    name = module.__name__.rpartition(".")[2]
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.json"
        recorder.recorded(module.work, path)
        output = recorder.told(path)
    return (
        f"## {title.rstrip('.')}\n\n{about} ([script](../examples/{name}.py))\n\n"
        f"```text\n{output}```\n"
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
    settings, rules = _import("docs.settings_page"), _import("docs.rule_pages")
    pages = rules.pages(settings.rule_tables())
    wanted = {DOCS / "rules" / name: text for name, text in pages.items()}
    wanted[DOCS / "api.md"] = api_page()
    wanted[DOCS / "commands.md"] = _import("docs.commands_page").page()
    wanted[DOCS / "dialects.md"] = dialects_page()
    wanted[DOCS / "examples.md"] = examples_page()
    wanted[DOCS / "receiver.md"] = receiver_page()
    instruments, routes = served()
    wanted[DOCS / "metrics.md"] = metrics_page(instruments)
    wanted[DOCS / "openapi.json"] = json.dumps(document(routes), indent=2) + "\n"
    gates = DOCS / "gates.md"
    wanted[gates] = _with_table(gates.read_text(encoding="utf-8"), rules.ladders())
    wanted |= _benchmarks()
    diagrams = _import("docs.diagrams")
    wanted[DOCS / "pictures/gate_states.svg"] = diagrams.gate_states()
    wanted[DOCS / "pictures/turn_to_webhook.svg"] = diagrams.turn_to_webhook()
    wanted[DOCS / "schema.md"] = _import("docs.schema_page").page()
    wanted[DOCS / "settings.md"] = settings.page()
    wanted[DOCS / "looptrace.schema.json"] = settings.schema()
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
