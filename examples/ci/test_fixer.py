"""The tests of the agent: that it gets there, and that it does not go round in circles."""

from __future__ import annotations

import pytest
from fixer import is_forgetful, mend


@pytest.mark.looptrace
def test_the_agent_does_not_loop() -> None:
    """Whether or not it succeeds."""
    mend(forgets=is_forgetful())
