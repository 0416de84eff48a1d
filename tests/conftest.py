"""What holds for all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.paths import ROOT

# A loaded machine is slow now and then; speed is measured in benchmarks, not here.
settings.register_profile("looptrace", deadline=None)
settings.load_profile("looptrace")

# By folder, file or test, because a mark at every test would be forgotten at the next one.
# Thorough is what takes more than half a second of one core a test, as whole commands and live
# engines do.
MARKS = {
    # What starts servers, runs thousands of seeds, kills processes by the dozen, or reads the
    # labelled runs.
    "slow": (
        "tests/analyzer/engine/test_any_settings.py",
        "tests/analyzer/engine/test_arrivals.py::test_files_arrive_in_the_order_of_ends",
        "tests/analyzer/engine/test_live.py::test_nothing_is_planted_in_the_rules",
        "tests/analyzer/engine/test_live.py::test_planted_faults_are_caught",
        "tests/analyzer/engine/test_outages.py::test_batch_and_live_agree_on_outages",
        "tests/analyzer/gates/test_state_machine.py::test_a_restart_tells_nothing_twice",
        "tests/analyzer/settings/test_settings.py::test_any_settings_read_back",
        "tests/analyzer/settings/test_settings.py::test_any_tables_are_read_or_refused",
        "tests/analyzer/settings/test_settings.py::test_damaged_files_are_read_or_refused",
        "tests/collector/store/test_gates.py::test_a_killed_ingest_tells_nothing_twice",
        "tests/collector/store/test_gates.py::test_sigkill_at_fifty_moments_leaves_no_decision_in_parts",
        "tests/collector/store/test_gates.py::test_the_kills_find_a_pivot_that_is_written_before_its_decision",
        "tests/collector/store/test_migration.py::test_a_migration_that_is_killed_goes_on_with_the_next_ingest",
        "tests/collector/store/test_writer.py::test_a_kill_at_any_write_loses_nothing_and_is_repaired",
        "tests/collector/store/test_writer.py::test_sigkill_at_many_moments_and_readers_meanwhile",
        "tests/reliability",
        "tests/rules/test_likely_loop.py::test_it_looks_back_no_further_than_it_says",
        "tests/test_quality.py::test_no_healthy_trace_is_flagged",
        "tests/test_quality.py::test_no_rule_is_worse_than_recorded",
    ),
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
        name = getattr(item, "originalname", item.name)
        places = (f"{path}::{name}", *map(str, (path, *path.parents)))
        for mark in dict.fromkeys(_MARK_OF[place] for place in places if place in _MARK_OF):
            item.add_marker(getattr(pytest.mark, mark))
