"""What holds for all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.paths import ROOT

# A loaded machine is slow now and then; speed is measured in benchmarks, not here.
settings.register_profile("looptrace", deadline=None)
settings.load_profile("looptrace")

# By folder or file, because a mark at every test would be forgotten at the next one. Thorough is
# what takes more than half a second of one core a test, as whole commands and live engines do.
MARKS = {
    "server": ("tests/reliability",),
    "thorough": (
        "tests/analyzer/engine",
        "tests/analyzer/gates/test_state_machine.py",
        "tests/analyzer/tuning",
        "tests/cli",
        "tests/collector/sdk",
        "tests/collector/server",
        "tests/collector/store",
        "tests/collector/webhooks",
        "tests/rules/test_cases.py",
        "tests/rules/test_rounds.py",
        "tests/test_benchmarks.py",
        "tests/test_claude_code_hook.py",
        "tests/test_examples.py",
        "tests/test_frameworks.py",
        "tests/test_healthy.py",
        "tests/test_promises.py",
        "tests/test_quality.py",
        "tests/test_requirements.py",
        "tests/test_runbook.py",
        "tests/test_tidy.py::test_generated_pages_are_fresh",
        "tests/test_layout.py::test_wheel_holds_every_file",
    ),
}
_MARK_OF = {place: mark for mark, places in MARKS.items() for place in places}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its folder, its file, or its own name."""
    for item in items:
        path = item.path.relative_to(ROOT)
        places = (f"{path}::{item.name}", *map(str, (path, *path.parents)))
        for mark in dict.fromkeys(_MARK_OF[place] for place in places if place in _MARK_OF):
            item.add_marker(getattr(pytest.mark, mark))
