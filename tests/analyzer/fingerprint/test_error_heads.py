"""An external cause is read from the type, the first and the last line of a failure."""

from __future__ import annotations

import polars as pl
import pytest

from looptrace.analyzer.fingerprint.signatures import add_fingerprints
from looptrace.analyzer.fingerprint.single_turns import LiveFingerprints
from looptrace.analyzer.schema.turns import AT
from looptrace.analyzer.testing.notation import turns_in

QUOTES = "Your edit was refused.\n  self.socket = connect(host)  # line 502\nMend the edit."


@pytest.mark.parametrize(
    ("name", "arguments", "error", "kind"),
    [
        ("run", "main.py", "ConnectionError: no route", "network"),
        ("run", "main.py", "Traceback:\n  File x\nconnection refused", "network"),
        ("run", "main.py", QUOTES, "unknown"),
        ("edit", "net.py", "connection is not defined", "unknown"),
        ("bash", '{"command":"cat net.py"}', "socket, 502", "unknown"),
        ("open", '{"path":"net.py"}', "socket, 502", "unknown"),
        ("fetch", "a", "429 Too Many Requests", "rate_limit"),
        ("run", "main.py", "Claude usage limit reached.", "rate_limit"),
        ("run", "main.py", "You exceeded your current spending limit", "rate_limit"),
        ("run", "main.py", "insufficient_quota: check your plan", "rate_limit"),
        ("run", "main.py", "maximum recursion limit reached", "unknown"),
    ],
)
def test_the_head_of_a_failure_says_whose_it_is(
    name: str, arguments: str, error: str, kind: str
) -> None:
    """All external failures of 826 runs of a coding agent were quoted code; live reads the same."""
    turn = turns_in('run(a)->!"boom"').with_columns(
        name=pl.lit(name), arguments=pl.lit(arguments), error=pl.lit(error)
    )
    (live,) = LiveFingerprints().turns(turn.rows(named=True))

    assert add_fingerprints(turn)["error_kind"].to_list() == [kind]
    assert live[AT["error_kind"]] == kind
