"""Tables cross to the core as they are, whatever forms Arrow has for their values."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from looptrace._core import Table
from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints, policy_of
from looptrace.analyzer.testing.notation import turns_in

TURNS = turns_in('search(a)->hits search(a)->!"broken" say("Done.")')


def test_any_form_of_texts_is_read() -> None:
    """Enumerations, categories, columns without values and parts of tables are read in place."""
    wanted = add_fingerprints(TURNS)
    parts = pl.concat([TURNS.head(1), TURNS.tail(-1)], rechunk=False)
    assert_frame_equal(add_fingerprints(parts), wanted)
    assert_frame_equal(add_fingerprints(TURNS.tail(2)), wanted.tail(2))
    others = TURNS.with_columns(
        pl.col("name").cast(pl.Categorical), location=pl.lit(None, pl.String)
    )
    made = pl.DataFrame(policy_of(NOTHING).fingerprinted(others))
    assert_frame_equal(made, wanted.select(made.columns))
    assert add_fingerprints(TURNS.clear()).height == 0


def test_a_wrong_column_is_named() -> None:
    """The error says which column is missing or has values of another type."""
    policy = policy_of(NOTHING)
    with pytest.raises(ValueError, match=r"no column error$"):
        policy.fingerprinted(TURNS.drop("error"))
    for name, other, wanted in (
        ("result", pl.lit(1), "Int32, not texts"),
        ("failed", pl.lit("no"), "Utf8View, not flags"),
        ("tests_total", pl.lit(1.5), "Float64, not whole numbers"),
        ("coverage", pl.lit(value=True), "Boolean, not numbers"),
    ):
        with pytest.raises(TypeError, match=f"the column {name} holds {wanted}$"):
            policy.fingerprinted(TURNS.with_columns(other.alias(name)))
    with pytest.raises(AttributeError):
        policy.fingerprinted("no table")  # type: ignore[arg-type]


def test_a_stream_is_taken_once() -> None:
    """A stream that was taken is refused, and the table can give another one."""

    class Once:
        stream = TURNS.__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return self.stream

    once, policy = Once(), policy_of(NOTHING)
    made = policy.fingerprinted(once)
    assert isinstance(made, Table)
    assert len(made) == TURNS.height == pl.DataFrame(made).height == pl.DataFrame(made).height
    with pytest.raises(RuntimeError, match="released"):
        policy.fingerprinted(once)
