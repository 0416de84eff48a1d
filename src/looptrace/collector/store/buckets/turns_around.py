"""The turns of the task of a finding, whatever its name is by now."""

from pathlib import Path

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.collector.store.reader import read_turns_of, rows_of

_SPAN = ["trace_id", "span_id"]


def read_turns_around(store_dir: Path, finding: Finding) -> pl.DataFrame | None:
    """Return the turns of a finding's task; None until all turns of the finding are stored.

    The task may have got its name after the finding was made; these turns have that of the finding.
    """
    spans = pl.DataFrame([(t.trace_id, t.span_id) for t in finding.turns], _SPAN, orient="row")
    traces = spans["trace_id"].unique()
    near = rows_of(store_dir, "turns", "trace_id", traces, columns=["task", *_SPAN])
    names = near.join(spans, on=_SPAN, how="semi")["task"].unique().sort().to_list()
    task = finding.task if finding.task in names else next(iter(names), "")
    if spans.join(near.filter(task=task), on=_SPAN, how="anti").height:
        return None
    return read_turns_of(store_dir, task).with_columns(task=pl.lit(finding.task))
