"""What the tests of servers share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.reliability.watching import Watch, Watched, watched


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Return a function that serves with webhooks of these formats, until the test ends."""
    with ExitStack() as ends:

        def start(*forms: str, more: str = "") -> Watched:
            return ends.enter_context(watched(tmp_path, monkeypatch, *forms, more=more))

        yield start
