"""What holds for all tests."""

import ast
import gc
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

import tests.seeds  # noqa: F401 - before the workers begin, which agree on the day
from looptrace import _core
from tests.paths import ROOT

DIALECTS = "src/looptrace/analyzer/fields/dialects.toml"

# A loaded machine is slow now and then; speed is measured in benchmarks, not here.
settings.register_profile("looptrace", deadline=None)
settings.load_profile("looptrace")
# What is collected stays until the end; searches for garbage in it took a quarter of that time.
gc.disable()

# By folder, file or test, because a mark at every test would be forgotten at the next one.
# Thorough is what takes more than some tenth of a second of one core a test, or as much by the
# dozen, as whole commands and live engines do. Nightly ones build the package, which compiles the
# core once more, or start a cluster. Seeded ones are found by what they call.
MARKS = {
    # What starts servers, runs thousands of seeds, kills processes by the dozen, reads the labelled
    # runs, or takes more than three seconds of a core.
    "slow": (
        "tests/analyzer/detect/test_rule_plugins.py",
        "tests/analyzer/engine/test_any_settings.py",
        "tests/analyzer/engine/test_arrivals.py::test_files_arrive_backwards",
        "tests/analyzer/engine/test_arrivals.py::test_files_arrive_in_any_order",
        "tests/analyzer/engine/test_arrivals.py::test_files_arrive_in_the_order_of_ends",
        "tests/analyzer/engine/test_live.py::test_nothing_is_planted_in_the_rules",
        "tests/analyzer/engine/test_live.py::test_planted_faults_are_caught",
        "tests/analyzer/engine/test_outages.py::test_a_server_logs_an_outage_once",
        "tests/analyzer/engine/test_outages.py::test_batch_and_live_agree_on_outages",
        "tests/analyzer/gates/test_near_notes.py::test_words_find_more_of_the_right_notes",
        "tests/analyzer/gates/test_state_machine.py::test_a_restart_tells_nothing_twice",
        "tests/analyzer/settings/test_mistakes.py::test_any_tables_are_read_or_refused",
        "tests/analyzer/settings/test_mistakes.py::test_damaged_files_are_read_or_refused",
        "tests/analyzer/settings/test_settings.py::test_any_settings_read_back",
        "tests/cli/services/test_mcp.py",
        "tests/cli/services/test_watch.py::test_a_server_is_watched_and_a_key_resolves",
        "tests/cli/services/test_watch.py::test_lines_where_there_is_no_terminal",
        "tests/cli/test_budgets.py::test_a_burst_over_three_processes_is_stopped_live_and_found_in_batch",
        "tests/cli/test_budgets.py::test_a_server_knows_after_a_kill_what_was_spent",
        "tests/cli/test_budgets.py::test_the_page_shows_money_and_takes_an_amount",
        "tests/cli/test_ci.py::test_many_loops_fit_where_people_read",
        "tests/cli/test_judge.py::test_a_server_puts_gates_to_the_judge",
        "tests/cli/test_ray.py",
        "tests/collector/erasure/test_asked.py::test_a_server_forgets_and_goes_on",
        "tests/collector/erasure/test_forgetting.py::test_a_killed_erasure_goes_on",
        "tests/collector/erasure/test_forgetting.py::test_what_a_server_has_not_stored_yet_goes_too",
        "tests/collector/page/test_browser.py",
        "tests/collector/page/test_decision_pages.py",
        "tests/collector/page/test_operations.py",
        "tests/collector/page/test_other_servers.py",
        "tests/collector/page/test_task_pages.py::test_hostile_payloads_are_shown_as_text",
        "tests/collector/page/test_worklist.py",
        "tests/collector/sdk/test_forward.py::test_an_agent_that_fails_closed_says_that_it_waits",
        "tests/collector/sdk/test_forward.py::test_exporters_of_others_log_as_they_do",
        "tests/collector/sdk/test_processor.py::test_forks_and_ends",
        "tests/collector/sdk/test_unfelt.py::test_the_agents_output_is_the_same",
        "tests/collector/server/test_promises.py::test_a_server_withdraws_and_says_so_everywhere",
        "tests/collector/server/test_services_of_tokens.py",
        "tests/collector/store/objects",
        "tests/collector/store/test_adding.py::test_a_day_of_many_files_has_the_rows_of_one",
        "tests/collector/store/test_adding.py::test_a_kill_while_files_are_merged_shows_no_row_twice",
        "tests/collector/store/test_adding.py::test_what_a_server_adds_over_days_is_what_an_ingest_would_have_made",
        "tests/collector/store/test_audit.py::test_a_server_notes_what_it_began_with",
        "tests/collector/store/test_damage.py",
        "tests/collector/store/test_gates_in_any_order.py",
        "tests/collector/store/test_killed_gates.py::test_a_killed_ingest_tells_nothing_twice",
        "tests/collector/store/test_killed_gates.py::test_sigkill_at_fifty_moments_leaves_no_decision_in_parts",
        "tests/collector/store/test_killed_gates.py::test_the_kills_find_a_pivot_that_is_written_before_its_decision",
        "tests/collector/store/test_killed_writers.py",
        "tests/collector/store/test_large_ingest.py",
        "tests/collector/store/test_log_records.py::test_any_order_gives_the_same_store",
        "tests/collector/store/test_migration.py::test_a_migration_that_is_killed_goes_on_with_the_next_ingest",
        "tests/collector/store/test_read_only.py",
        "tests/collector/store/test_retention.py::test_a_server_announces_and_deletes_and_says_which",
        "tests/collector/store/test_retention.py::test_services_have_times_of_their_own",
        "tests/collector/store/test_upgrade.py",
        "tests/collector/test_store_analysis.py::test_dask_finds_what_one_process_finds",
        "tests/queries/test_typed_sql.py::test_a_query_that_takes_too_much_memory_is_stopped",
        "tests/reliability",
        "tests/rules/test_likely_failure.py::test_it_looks_back_no_further_than_it_says",
        "tests/test_api.py::test_an_installed_wheel_is_typed",
        "tests/test_benchmarks.py::test_plain_loop_agrees_where_loops_are_crowded",
        "tests/test_collector.py",
        "tests/test_deploy.py::test_prometheus_reads_a_server_with_its_token",
        "tests/test_layout.py::test_wheel_holds_every_file",
        "tests/test_npm_package.py",
        "tests/test_pages.py",
        "tests/test_pipelines.py::test_the_action_installs_itself",
        "tests/test_pipelines.py::test_the_sample_fails_on_the_loop_and_passes_without",
        "tests/test_quality.py::test_no_healthy_trace_is_flagged",
        "tests/test_quality.py::test_no_rule_is_worse_than_recorded",
        "tests/test_quality.py::test_no_run_spends_more_than_the_defaults_allow",
        "tests/test_typescript.py",
        "tests/testing/test_pytest_plugin.py",
    ),
    "nightly": (
        "tests/cli/test_ray.py",
        "tests/test_api.py::test_an_installed_wheel_is_typed",
        "tests/test_layout.py::test_wheel_holds_every_file",
        "tests/test_pages.py::test_the_tutorial_does_what_it_shows",
        "tests/test_pipelines.py::test_the_action_installs_itself",
    ),
    "thorough": (
        "tests/analyzer/detect/test_budget_ties.py",
        "tests/analyzer/detect/test_budgets.py",
        "tests/analyzer/detect/test_overrides.py::test_a_rule_is_off_where_an_override_says_so",
        "tests/analyzer/detect/test_overrides.py::test_an_iterative_phase_is_flagged_when_it_stops_getting_better",
        "tests/analyzer/detect/test_overrides.py::test_each_selector_chooses_its_turns",
        "tests/analyzer/detect/test_overrides.py::test_one_loop_stays_one_finding_when_what_holds_changes",
        "tests/analyzer/detect/test_persons.py",
        "tests/analyzer/detect/test_shared_budgets.py",
        "tests/analyzer/engine",
        "tests/analyzer/fingerprint/test_failed_runs.py",
        "tests/analyzer/fingerprint/test_failure_places.py",
        "tests/analyzer/fingerprint/test_masks.py::test_long_results_take_linear_time",
        "tests/analyzer/fingerprint/test_signatures.py",
        "tests/analyzer/fingerprint/test_similarity.py::test_a_loop_that_lasts_is_told_live_as_in_batch",
        "tests/analyzer/fingerprint/test_similarity.py::test_figures_names_and_code_tell_requests_apart",
        "tests/analyzer/fingerprint/test_similarity.py::test_hostile_texts_are_compared_word_by_word",
        "tests/analyzer/fingerprint/test_similarity.py::test_live_is_batch",
        "tests/analyzer/fingerprint/test_similarity.py::test_live_is_batch_with_sentences",
        "tests/analyzer/fingerprint/test_similarity.py::test_the_default_threshold_holds_for_pairs_that_were_held_out",
        "tests/analyzer/fingerprint/test_similarity.py::test_the_extra_is_asked_for_where_it_is_missing",
        "tests/analyzer/fingerprint/test_stack_traces.py",
        "tests/analyzer/fingerprint/test_waits.py",
        "tests/analyzer/gates/test_near_notes.py::test_the_nearest_words_come_first",
        "tests/analyzer/normalize/test_odd_values.py::test_no_value_stops_the_analysis",
        "tests/analyzer/normalize/test_trace_buffer.py",
        "tests/analyzer/normalize/test_turn_builder.py::test_deep_chain_of_parents",
        "tests/analyzer/normalize/test_turn_builder.py::test_order_of_spans_says_nothing",
        "tests/analyzer/normalize/test_turn_builder.py::test_parallel_calls_may_end_in_any_order",
        "tests/analyzer/report/test_escalation.py::test_json_of_a_hostile_trace_is_json",
        "tests/analyzer/report/test_escalation.py::test_no_trace_breaks_out_of_the_markdown",
        "tests/analyzer/report/test_json.py::test_json_report_is_utf8_and_loses_nothing",
        "tests/analyzer/schema/test_columns.py::test_only_columns_that_say_so_have_nulls",
        "tests/analyzer/schema/test_compaction.py::test_few_rows_take_little_memory",
        "tests/analyzer/settings/test_given.py",
        "tests/analyzer/settings/test_schema.py::test_schema_accepts_any_settings",
        "tests/analyzer/settings/test_schema.py::test_schema_describes_what_can_be_set",
        "tests/analyzer/test_llm_judge.py::test_no_text_is_too_much",
        "tests/analyzer/tuning/test_calibrate.py",
        "tests/analyzer/tuning/test_drift.py",
        "tests/analyzer/tuning/test_explain.py",
        "tests/analyzer/tuning/test_failure_model.py",
        "tests/analyzer/tuning/test_limits.py",
        "tests/cli",
        "tests/collector/coding_agents/test_genai_events.py",
        "tests/collector/coding_agents/test_hook_settings.py",
        "tests/collector/erasure",
        "tests/collector/files/test_reader.py::test_cut_off_request_is_read_up_to_the_cut",
        "tests/collector/files/test_reader.py::test_decompression_bomb_is_one_line",
        "tests/collector/files/test_reader.py::test_long_line_is_read_or_reported",
        "tests/collector/files/test_reader.py::test_no_bytes_raise",
        "tests/collector/files/test_reader.py::test_real_traces_are_read_whole",
        "tests/collector/importers/test_apis.py",
        "tests/collector/importers/test_documents.py",
        "tests/collector/importers/test_exports.py",
        "tests/collector/importers/test_printed.py",
        "tests/collector/judge/test_chat_completions.py::test_nonsense_and_failures_are_no_opinion",
        "tests/collector/judge/test_chat_completions.py::test_slow_answers_are_cut_off",
        "tests/collector/judge/test_chat_completions.py::test_the_key_is_never_shown",
        "tests/collector/otlp/test_json_documents.py::test_any_objects_are_cut_apart",
        "tests/collector/otlp/test_json_request.py::test_any_values_come_through",
        "tests/collector/page",
        "tests/collector/sdk",
        "tests/collector/server",
        "tests/collector/server/shards/test_spending.py",
        "tests/collector/store",
        "tests/collector/test_left_alone.py",
        "tests/collector/test_store_analysis.py",
        "tests/collector/test_trace_store.py",
        "tests/collector/webhooks",
        "tests/middleware",
        "tests/queries",
        "tests/rules/test_cases.py",
        "tests/rules/test_contract.py::test_examples_are_what_their_page_calls_them",
        "tests/rules/test_external_failure.py",
        "tests/rules/test_likely_failure.py",
        "tests/rules/test_needs.py",
        "tests/rules/test_progress.py",
        "tests/rules/test_rounds.py",
        "tests/rules/test_shapes.py",
        "tests/rules/test_vocabulary.py",
        "tests/test_api.py::test_public_names_are_listed",
        "tests/test_benchmarks.py",
        "tests/test_dialects.py",
        "tests/test_examples.py",
        "tests/test_extras.py",
        "tests/test_framework_traps.py",
        "tests/test_frameworks.py",
        "tests/test_healthy.py",
        "tests/test_layout.py::test_a_type_name_has_one_module",
        "tests/test_pipelines.py",
        "tests/test_promises.py",
        "tests/test_quality.py",
        "tests/test_recordings.py",
        "tests/test_requirements.py",
        "tests/test_runbook.py::test_sentences_that_are_named_exist",
        "tests/test_schema_page.py::test_only_columns_that_say_so_are_null",
        "tests/test_tidy.py::test_fragments_become_a_release",
        "tests/test_tidy.py::test_functions_are_short",
        "tests/test_tidy.py::test_generated_pages_are_fresh",
        "tests/test_typed_json.py::test_types_are_decoded_in_one_place",
    ),
}

# What gives a test a share of its seeds.
SHARING = {"in_turn", "killed_stores", "seed_count", "seeds", "turn_of"}

# Thorough ones that count for coverage, because they alone go through what they test.
COUNTED = {
    "tests/analyzer/detect/test_budgets.py",
    "tests/analyzer/fingerprint/test_masks.py::test_long_results_take_linear_time",
    "tests/analyzer/fingerprint/test_waits.py",
    "tests/analyzer/gates/test_near_notes.py::test_the_nearest_words_come_first",
    "tests/analyzer/schema/test_compaction.py::test_few_rows_take_little_memory",
    "tests/analyzer/settings/test_schema.py::test_schema_describes_what_can_be_set",
    "tests/analyzer/tuning/test_drift.py",
    "tests/analyzer/tuning/test_explain.py",
    "tests/analyzer/tuning/test_failure_model.py",
    "tests/analyzer/tuning/test_limits.py",
    "tests/cli/test_incidents.py",
    "tests/cli/test_unanswered.py",
    "tests/collector/coding_agents/test_hook_settings.py",
    "tests/collector/erasure",
    "tests/collector/importers/test_exports.py",
    "tests/collector/otlp/test_json_request.py::test_any_values_come_through",
    "tests/collector/page/test_incident_pages.py",
    "tests/collector/server/test_inhibition.py",
    "tests/collector/store/test_incidents.py",
    "tests/collector/store/test_silences.py",
    "tests/collector/test_store_analysis.py",
    "tests/rules/test_needs.py",
    "tests/test_dialects.py",
    "tests/test_schema_page.py::test_only_columns_that_say_so_are_null",
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without a test that is asked for, because importing them takes seconds."""
    expression, path = config.option.markexpr, str(collection_path.relative_to(ROOT))
    left_out = [mark for mark in MARKS if f"not {mark}" in expression]
    if any(path in MARKS[mark] for mark in left_out):
        return True
    if collection_path.is_file() and expression.startswith("slow"):
        has_one = any(place.startswith(f"{path}::") for place in MARKS["slow"])
        is_one = not _places_of(collection_path).isdisjoint(MARKS["slow"])
        return None if has_one or is_one else True
    return None


@cache
def _places_of(path: Path) -> frozenset[str]:
    """Return a file and the folders around it, as `MARKS` names them."""
    return frozenset(map(str, (path.relative_to(ROOT), *path.relative_to(ROOT).parents)))


@cache
def _seeded_in(path: Path) -> frozenset[str]:
    """Return the tests of a file that go through a share of their seeds, by their calls."""
    text = path.read_text(encoding="utf-8")
    if not any(f"{name}(" in text for name in SHARING):
        return frozenset()
    return frozenset(
        test.name
        for test in ast.parse(text).body
        if isinstance(test, ast.FunctionDef)
        and any(isinstance(node, ast.Name) and node.id in SHARING for node in ast.walk(test))
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its folder, its file, or its own name.

    Coverage is that of the quick tests, because it slows the others down.
    """
    for item in items:
        name = getattr(item, "originalname", item.name)
        if name in _seeded_in(item.path):
            item.add_marker(pytest.mark.seeded)
        places = {f"{item.path.relative_to(ROOT)}::{name}", *_places_of(item.path)}
        for mark, marked in MARKS.items():
            if not places.isdisjoint(marked):
                item.add_marker(getattr(pytest.mark, mark))
                if mark == "thorough" and places.isdisjoint(COUNTED):
                    item.add_marker(pytest.mark.no_cover)


def pytest_collection_finish() -> None:
    """Search for garbage again, which only tests make."""
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that the compiled core is older than its sources: tests that pass prove nothing then."""
    if _is_older(Path(_core.__file__)):
        terminalreporter.write_line(
            "The compiled core is older than its sources: run `make .venv/installed-dev` first."
        )


def _is_older(core: Path) -> bool:
    roots = map(ROOT.joinpath, ("Cargo.toml", "core/src", "core/data", DIALECTS))
    files = (file for root in roots for file in (root, *root.rglob("*")))
    return any(file.stat().st_mtime > core.stat().st_mtime for file in files)
