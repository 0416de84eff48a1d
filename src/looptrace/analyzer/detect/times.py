"""How long turns took, for the rules that read it; no other rule pays for it."""

from __future__ import annotations

import numpy as np
import polars as pl

from looptrace.analyzer.text.asked_persons import asks_person
from looptrace.rules.turns import Codes, TurnTimes


def times_of(task: Codes, start_ns: Codes, end_ns: Codes, names: pl.Series) -> TurnTimes:
    """Return how long turns took, in the order of their tasks."""
    before_ns = np.zeros_like(end_ns)
    same = task[1:] == task[:-1]
    before_ns[1:][same] = end_ns[:-1][same]
    known = names.cast(pl.String).fill_null("")
    every = known.unique()
    asking = every.filter(pl.Series([asks_person(name) for name in every], dtype=pl.Boolean))
    # No name has the code of what is unknown.
    code = known.rank("dense").cast(pl.Int64).to_numpy() * (known != "").to_numpy()
    return TurnTimes(
        took_ns=end_ns - start_ns,
        quiet_ns=end_ns - np.maximum(start_ns, before_ns),
        name=code,
        asks_person=known.is_in(asking.implode()).to_numpy(),
    )
