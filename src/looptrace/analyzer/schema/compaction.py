"""Tables without the memory of the larger tables that they were taken from."""

from io import BytesIO

import polars as pl


def compacted(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the same rows with texts of their own.

    Polars filters and joins without copying texts, so that a few rows keep all texts of their
    table in memory. Rows that are kept while many more are read need this.
    """
    return pl.DataFrame.deserialize(BytesIO(rows.serialize()))
