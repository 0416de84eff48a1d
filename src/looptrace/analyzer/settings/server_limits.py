"""The sections `server` and `retention` of the settings: limits of memory, disk and time."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from looptrace.analyzer.text.names import Name
from looptrace.rules.contract import check_bounds, numbers, required, setting

_SERVICES_MAX = 50
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; sizes in bytes, times in seconds.

    Attributes, events and links have no limits of their own: they stay text, so they cost only
    their bytes.
    """

    body_bytes_max: int = setting(16 * MIB, ge=KIB, le=64 * MIB, doc="Bytes of a request as sent.")
    unpacked_bytes_max: int = setting(
        16 * MIB, ge=KIB, le=256 * MIB, doc="Bytes of a request after decompression."
    )
    unpacked_ratio_max: int = setting(
        200, ge=10, le=2_000, doc="Unpacked bytes for each packed byte, in requests above 1 MiB."
    )
    in_flight_bytes_max: int = setting(
        48 * MIB, ge=KIB, le=4096 * MIB, doc="Bytes of all requests that are not answered yet."
    )
    spans_max: int = setting(10_000, ge=1, le=1_000_000, doc="Spans in a request.")
    span_bytes_max: int = setting(
        4 * MIB, ge=KIB, le=256 * MIB, doc="Bytes of a span; only a larger span itself is rejected."
    )
    depth_max: int = setting(
        32, ge=8, le=200, doc="Levels of nested lists and maps in the attributes of a span."
    )
    header_bytes_max: int = setting(
        16 * KIB, ge=KIB, le=256 * KIB, doc="Bytes of the headers of a request."
    )
    header_s: int = setting(10, ge=1, le=600, doc="Seconds for the headers to arrive.")
    body_s: int = setting(30, ge=1, le=600, doc="Seconds for the body to arrive.")
    idle_s: int = setting(60, ge=1, le=3_600, doc="Seconds for which an idle connection is kept.")
    connections_max: int = setting(
        10_000,
        ge=1,
        le=100_000,
        doc="Connections at once; for more, the oldest without an accepted request is closed.",
    )
    retry_after_s: int = setting(
        5, ge=1, le=600, doc="Seconds until a refused client should try again."
    )
    decoders: int = setting(2, ge=1, le=64, doc="Threads that unpack and decode requests.")
    block_ms: int = setting(
        20,
        ge=0,
        le=1_000,
        doc="Milliseconds for which requests are gathered to be written together.",
    )
    block_bytes_max: int = setting(
        128 * KIB,
        ge=KIB,
        le=256 * MIB,
        doc="Bytes of such requests; with more they are written at once.",
    )
    unended_s: int = setting(
        0,
        ge=0,
        le=2_592_000,
        doc="Seconds without a span after which a run counts as silent, if neither its root nor an "
        "agent ended after its last call; for agents that do not report open spans. 0 is never.",
    )
    tasks_max: int = setting(
        10_000,
        ge=1,
        le=1_000_000,
        doc="Tasks in live detection at once; beyond, the idlest task is dropped.",
    )
    log_bytes_max: int = setting(
        GIB, ge=MIB, le=1024 * GIB, doc="Acknowledged bytes that are not in the store yet."
    )
    store_every_s: int = setting(
        5, ge=1, le=3_600, doc="Seconds between two moves of few spans from the log to the store."
    )
    retention_days: int = setting(
        30,
        ge=1,
        le=36_500,
        doc="Days from their arrival for which spans, turns and findings are kept; gates stay. A "
        "deletion is announced a day before.",
    )
    retention_bytes_max: int = setting(
        100 * GIB,
        ge=MIB,
        le=1 << 60,
        doc="Bytes of spans, turns and findings; beyond, the days that arrived first are deleted, "
        "announced a day before.",
    )

    def __post_init__(self) -> None:
        check_bounds("server", numbers(self))


@dataclass(frozen=True, slots=True)
class ServiceRetention:
    """For how long spans, turns and findings of some services are kept."""

    services: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=_SERVICES_MAX)] = required(
        "The services (service.name)."
    )
    days: int = setting(
        30, ge=1, le=36_500, doc="Days for which they are kept, in place of `retention_days`."
    )

    def __post_init__(self) -> None:
        check_bounds("retention", numbers(self))
