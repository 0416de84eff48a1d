"""The versions of services: an attribute of spans, because that of a resource is not stored."""

from collections.abc import Iterable, Mapping

import msgspec
import polars as pl

from looptrace.semconv import SERVICE_VERSION

# The version of a service in a trace, by both.
Versions = Mapping[tuple[str, str], str]

_KEY = f'"{SERVICE_VERSION}":'
_NO_ATTRIBUTES = "{}"
# A longer one is no version, and is cut.
_CHARS_MAX = 100


def with_versions(spans: pl.DataFrame, versions: Iterable[str | None]) -> pl.DataFrame:
    """Return spans with the version of each among its attributes; None for those without one.

    A version that a span names itself stays.
    """
    given = pl.Series("version", list(versions), pl.String)
    known = given.unique().drop_nulls().to_list()
    begins = {each: "{" + _KEY + msgspec.json.encode(each[:_CHARS_MAX]).decode() for each in known}
    begin = given.replace_strict(begins, default=None, return_dtype=pl.String)
    attributes = spans["attributes"]
    is_empty, is_said = attributes == _NO_ATTRIBUTES, attributes.str.contains(_KEY, literal=True)
    rest = pl.when(is_empty).then(pl.lit("}")).otherwise(pl.lit(",") + attributes.str.slice(1))
    added = pl.when(begin.is_null() | is_said).then(attributes).otherwise(begin + rest)
    return spans.with_columns(added.alias("attributes"))


def versions_of(spans: pl.DataFrame) -> dict[tuple[str, str], str]:
    """Return the version of each service in each trace, of spans (`SPAN_SCHEMA`) that name one."""
    saying = spans.filter(pl.col("attributes").str.contains(_KEY, literal=True))
    if saying.is_empty():
        return {}
    rows = saying.unique(["trace_id", "service"], keep="first", maintain_order=True)
    return {
        (trace_id, service or ""): version
        for trace_id, service, attributes in rows.select("trace_id", "service", "attributes").rows()
        if (version := version_in(attributes))
    }


def version_in(attributes: str) -> str | None:
    """Return the version that the attributes of a span name, as JSON; None where they name none."""
    version = msgspec.json.decode(attributes).get(SERVICE_VERSION) if _KEY in attributes else None
    return version if isinstance(version, str) else None
