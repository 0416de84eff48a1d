"""`looptrace serve`: receive spans, find loops as they happen, and send events."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from looptrace.analyzer.settings.sections import Settings, in_force
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.text.digests import digest
from looptrace.cli.config import CONFIG_PATH, config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.judge_option import judge_option
from looptrace.cli.shared.stores import store_option
from looptrace.collector.erasure import asked
from looptrace.collector.judge.plugins import judge_named
from looptrace.collector.store import audit
from looptrace.collector.store.sqlite_file import is_read_only

if TYPE_CHECKING:
    from looptrace.collector.server.access import Access
    from looptrace.collector.server.service import Addresses
    from looptrace.collector.server.tokens.token_file import Holder

_FILE = click.Path(dir_okay=False, path_type=Path)
_PORT = click.IntRange(0, 65_535)


@click.command()
@store_option("served", "Folder of the store; it is created if it does not exist.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--http-port", type=_PORT, default=4318, show_default=True, help="0: any free port.")
@click.option("--grpc-port", type=_PORT, default=4317, show_default=True, help="0: any free port.")
@click.option("--no-grpc", is_flag=True, help="Receive over HTTP only.")
@click.option(
    "--token-file",
    type=_FILE,
    help="File with the tokens of clients, one a line; by default LOOPTRACE_TOKENS.",
)
@click.option("--tls-cert", type=_FILE, help="Certificate of the server, as PEM.")
@click.option("--tls-key", type=_FILE, help="Key of the certificate, as PEM.")
@click.option(
    "--client-ca", type=_FILE, help="Authority that signs the certificates of clients, as PEM."
)
@click.option(
    "--user-header", metavar="NAME", help="Header in which a proxy names the person it signed in."
)
@click.option(
    "--user-header-from",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of the proxy; from others the header is ignored.",
)
@click.option(
    "--user-header-role",
    type=click.Choice(["viewer", "decider", "admin"]),
    default="viewer",
    show_default=True,
    help="Role of the persons whom the proxy names.",
)
@click.option(
    "--allow-host", multiple=True, help="Another name of this machine, in the Host of requests."
)
@click.option(
    "--content",
    type=click.Choice(["full", "redacted", "hashes"]),
    default="redacted",
    show_default=True,
    help="Texts of agents to keep: all, all except secrets, or only hashes.",
)
@click.option(
    "--export-to",
    metavar="URL",
    help="Receiver of gates as spans, as with `looptrace export`; such as http://HOST:4318.",
)
@click.option(
    "--shard",
    metavar="URL",
    help="Address of this server in shards.urls, if there are several servers.",
)
@judge_option
@config_option
def serve(settings: Settings, store: Path, judge: str | None, **options: Any) -> None:
    """Receive OTLP, find loops as they happen, and notify agents and people of gates.

    Acknowledged spans are on disk. The server ends on SIGTERM or Ctrl-C, within 5 seconds. On
    SIGHUP it reads tokens and certificates again, and logs which settings need a restart.
    """
    with traces.needing("server", "serving"):
        # Only here, because they are an extra.
        from looptrace.collector import gate_exporter  # noqa: PLC0415
        from looptrace.collector.erasure import erasures_api  # noqa: PLC0415
        from looptrace.collector.page.site import Site  # noqa: PLC0415
        from looptrace.collector.server import logs, process, service  # noqa: PLC0415
        from looptrace.collector.server.tokens import token_file  # noqa: PLC0415

    ports: list[str] = []

    def ready(at: service.Addresses) -> None:
        ports.extend(_free_ports(options, at))
        grpc = f", OTLP over gRPC at {at.grpc}" if at.grpc else ""
        _note(store, "started", settings=digest(toml_of(settings)), tokens=len(tokens))
        click.echo(f"looptrace listens: OTLP over HTTP and gates at {at.http}{grpc}")

    read_tokens = partial(token_file.read_tokens, options["token_file"], os.environ)
    tokens = read_tokens()
    listening = _access(options, tokens)
    serving = service.Options(
        store,
        settings,
        listening,
        options["http_port"],
        None if options["no_grpc"] else options["grpc_port"],
        content=options["content"],
        judge=judge_named(judge, settings.judge),
        shard=options["shard"],
        export_to=gate_exporter.Target(options["export_to"]) if options["export_to"] else None,
        page=Site,
        erasures=erasures_api.routes,
        reload=process.Reload(
            listening,
            settings,
            read_tokens,
            partial(in_force, click.get_current_context().meta[CONFIG_PATH], os.environ),
            lambda result: _note(store, "reloaded", result=result),
        ),
    )
    logs.log_to(sys.stderr)
    _erase_what_was_asked(store, settings)
    if asyncio.run(service.serve(serving, ready)):
        process.begin_again(*ports)
    process.end()


def _access(options: Mapping[str, Any], tokens: Mapping[str, Holder]) -> Access:
    from looptrace.collector.server.access import Access  # noqa: PLC0415 - an extra
    from looptrace.collector.server.tokens.proxy import signing_proxy  # noqa: PLC0415 - an extra

    named = (options[f"user_header{part}"] for part in ("", "_from", "_role"))
    return Access(
        options["host"],
        tuple(tokens),
        tokens,
        options["tls_cert"],
        options["tls_key"],
        options["client_ca"],
        options["allow_host"],
        signing_proxy(*named),
    )


def _erase_what_was_asked(store: Path, settings: Settings) -> None:
    """Do what the server was asked to before it started again."""
    if store.is_dir() and not is_read_only(store):
        asked.carry_out(store, settings.policy)


def _free_ports(options: Mapping[str, Any], at: Addresses) -> Iterator[str]:
    """Yield the options that name the ports that were any free ones."""
    for name, address in {"http_port": at.http, "grpc_port": at.grpc}.items():
        if address and not options[name]:
            yield from (f"--{name.replace('_', '-')}", address.rpartition(":")[2])


def _note(store: Path, what: str, **about: str | int) -> None:
    """Add a line to the audit log of a store that can be written."""
    if not is_read_only(store):
        audit.note(store, f"server {what}", None, **about)
