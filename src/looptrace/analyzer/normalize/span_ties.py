"""What ties a span's trace to others: its session, its tasks, and the traces it links to.

The ties are read once, when a span is stored, and kept in columns of their own.
"""

from collections.abc import Iterable

import polars as pl

from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.fields.span_fields import reader_by
from looptrace.analyzer.fingerprint.equivalence import Sessions
from looptrace.analyzer.schema.spans import NO_ITEMS, SPAN_TIES_SCHEMA, linked_traces


def with_ties(spans: pl.DataFrame, dialects: DialectTable = SHIPPED) -> pl.DataFrame:
    """Return spans (`SPAN_SCHEMA`) with their ties (`SPAN_TIES_SCHEMA`).

    Those that have them stay as they are.
    """
    if not SPAN_TIES_SCHEMA.keys() - set(spans.columns):
        return spans
    named = pl.DataFrame(
        reader_by(dialects).ties(spans.select("parent_span_id", "attributes", "events"))
    )
    return spans.hstack(named).hstack([_links_of(spans)])


def tie_rows(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of a trace and what it is tied to (`tie`); every trace is tied to itself.

    The spans have the columns of SPAN_TIES_SCHEMA.
    """
    trace = pl.col("trace_id")
    named = [
        spans.lazy().select(trace, tie=pl.col(name).fill_null(trace)).unique()
        for name in ("session", "task", "task_parent")
    ]
    linked = spans.lazy().filter(pl.col("linked_traces").list.len() > 0)
    linked = linked.select(trace, tie="linked_traces").explode("tie")
    return pl.concat([*named, linked]).unique().collect()


def _links_of(spans: pl.DataFrame) -> pl.Series:
    name, kind = "linked_traces", SPAN_TIES_SCHEMA["linked_traces"]
    if (spans["links"] == NO_ITEMS).all():
        return pl.Series(name, [[]], kind).new_from_index(0, spans.height)
    return pl.Series(name, list(map(linked_traces, spans["links"])), kind)


def groups(links: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the smallest connected name for every name in the pairs."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        root = name
        while leader.setdefault(root, root) != root:
            root = leader[root]
        while leader[name] != root:
            leader[name], name = root, leader[name]
        return root

    for first, second in links:
        low, high = sorted((find(first), find(second)))
        leader[high] = low
    return {name: find(name) for name in list(leader)}


def joined_names(spans: pl.DataFrame, naming: Sessions) -> dict[str, str]:
    """Return the tasks of sessions that several services share, by their other names.

    The spans have the columns of SPAN_TIES_SCHEMA.
    """
    naming_spans = spans.filter(pl.col("session").is_not_null())
    shared = naming_spans.filter(pl.col("service").n_unique().over("session") > 1)
    if shared.is_empty():
        return {}
    links = spans.select("trace_id", other="linked_traces").explode("other")
    links = links.filter(pl.col("other").is_in(spans["trace_id"].unique().implode()))
    group_of = groups(links.iter_rows())
    rows = shared.select("trace_id", "session", "service").unique().iter_rows()
    joined = _joined((group_of.get(t, t), s, naming.name_of(s, service)) for t, s, service in rows)
    return {name: task for name, task in joined.items() if name != task}


def _joined(named: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Join the names that one session has in a group; the first by the alphabet is kept."""
    first: dict[tuple[str, str], str] = {}
    pairs = {(first.setdefault((group, each), name), name) for group, each, name in named}
    return groups(pair for pair in pairs if pair[0] != pair[1])
