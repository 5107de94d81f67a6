"""What holds for every test, and which tests run when.

``pytest`` leaves out what is marked ``thorough``: of costly tests with many cases all but every
third or so. ``pytest -m "thorough or not thorough"`` runs all, ``pytest -m fast -n 2`` the fast
ones.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from ptxwcet.cli import progress

# The IR verifier runs after lowering and after each pass, in processes that tests start as well.
os.environ["PTXWCET_VERIFY"] = "1"

# The fast set: a minute on two cores. All of these folders but the slow files of tests/unit, and
# oracles that find much for a second or two each.
_FOLDERS = ("arch", "papers", "report", "unit")
_SLOW = frozenset(
    f"test_{name}.py"
    for name in (
        *("advice", "bad_input", "command_line", "doctests", "effort", "exit_codes"),
        *("facts_command", "input_sizes", "instrument_text", "isa_coverage", "names_for_people"),
        *("pwcet_claims", "pwcet_command", "pwcet_study", "selftest_command", "smt"),
        *("launch_formulas", "random_grids", "symbolic_command"),
        *("all_doors", "every_option_counts", "python_arguments"),
        *("annotation", "attack_benchmark", "attack_command", "attacks", "check_command"),
        *("answer_keys", "campaign_cells", "campaign_kills", "check_cache", "check_formats"),
        *("sweep_bad_input", "sweep_command"),
        *("containers", "difference", "dossier", "explanation", "extras", "fact_conflicts"),
        *("internal_errors", "library", "makespan_command", "nasty_names", "new_machine"),
        *("readable_names", "report_formats", "report_page", "report_page_browser"),
        *("reproduce", "sequences", "sweep_page_browser", "sweep_parquet", "sweep_report"),
        *("semantic_mutants", "sgemm_variants", "tracing"),
        *("command_table", "tutorials"),
    )
)
_ORACLES = frozenset(
    f"test_{name}.py"
    for name in (
        *("alike_files", "barriers_of_some_lanes", "branch_classes", "decided_at_headers"),
        *("emulator_conversion", "emulator_integer", "emulator_programs", "emulator_races"),
        *("launch_counts", "loops_with_barriers", "paths_through_calls", "reference_simulator"),
        *("suite_algebra", "suite_applications", "suite_patterns"),
        *("uniformity", "variants_endless", "write_port"),
    )
)


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests read on standard error does not depend on how long a command takes."""
    monkeypatch.setattr(progress, "FIRST_SECONDS", 3600.0)


# Of these tests only each so many-th case runs, or none, unless all are asked for: together they
# take a third of the processor time of all tests, and neighbouring cases mostly find the same.
_LATER = 0
_EVERY = {
    "test_certificates_cuda.py": {"test_loops_that_may_not_end_have_no_bound": 2},
    "test_clamped_counts.py": {"test_a_sort_in_local_memory_is_given_up": _LATER},
    "test_true_facts.py": {
        "test_facts_about_a_function_that_is_called_twice": _LATER,
        "test_facts_taken_from_compiled_kernels": 3,
    },
    "test_ways_out_in_order.py": {"test_ways_that_are_taken_together": 2},
    "test_all_doors.py": {"test_all_doors_give_one_number": 4},
    "test_every_option_counts.py": {"test_an_option_counts": 16},
    "test_containment.py": {"test_corpus": 2, "test_random_kernels": 3, "test_suite": 2},
    "test_effort.py": {"test_steps": 3},
    "test_emulator_matrix_forms.py": {"test_combinations_of_modifiers": 2},
    "test_executed_launches.py": {"test_executions_stay_within_the_analysis": 3},
    "test_facts_command.py": {"test_round_trip": 3},
    "test_grid_against_reference.py": {"test_every_policy_on_every_shape": 3},
    "test_hybrid_kernels.py": {"test_executions_stay_within_the_static_bound": 3},
    "test_input_sizes.py": {"test_toml": 3},
    "test_instrument_text.py": {"test_nothing_but_insertions": 3},
    "test_known_paths.py": {"test_known_paths_are_the_executed_ones": 3},
    "test_linked_programs.py": {"test_what_nvlink_refuses_is_refused": 20},
    "test_launch_formulas.py": {"test_the_formula_holds_at_single_values": 2},
    "test_order_of_knowledge.py": {
        "test_a_value_a_range_nothing": 3,
        "test_a_grid_a_larger_grid_none": 3,
    },
    "test_paths_through_variables.py": {"test_many_kernels_are_answered_and_executed": 2},
    "test_pwcet_claims.py": {"test_no_such_mixture_is_probabilistic": 2},
    "test_pwcet_statistics.py": {"test_intervals_of_heavy_tails_hold_the_truth": 2},
    "test_random_grids.py": {"test_a_false_bound_is_seen": 2},
    "test_server_attack.py": {"test_launches": 2, "test_blocks": 2},
    "test_attack_command.py": {"test_a_broken_attack_is_seen": 2},
    "test_sweep_bad_input.py": {
        "test_folders_of_others": 3,
        "test_entries_that_cannot_be_read": 2,
        "test_a_full_disk": 2,
        "test_something_else_answers": 2,
    },
    "test_shape_rules.py": {"test_results_have_the_shape": 3},
    "test_step_cases.py": {
        "test_some_case_has_what_statements_compute_together": 3,
        "test_some_case_has_what_is_executed": 3,
    },
    "test_suite_kernels.py": {
        "test_executions_stay_within_the_bound": 8,
        "test_a_template_asks_what_trying_again_and_again_asks": 6,
    },
    "test_transfer_bruteforce.py": {
        "test_operands_of_which_a_range_is_known": 3,
        "test_affine_operands": 3,
    },
    "test_value_rules.py": {"test_results_are_those_of_the_execution": 3},
    "test_variants_small_words.py": {"test_every_change_with_every_test": 4},
}


def _is_fast(path: Path) -> bool:
    folder, name = path.parent.name, path.name
    return (folder in _FOLDERS and name not in _SLOW) or (folder == "oracle" and name in _ORACLES)


def pytest_configure() -> None:
    """A shell may have Ctrl-C ignored in what it starts behind; tests send it to processes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files without fast tests are not even read where only these are asked for."""
    is_test = collection_path.name.startswith("test_")
    only_fast = config.option.markexpr == "fast"
    return True if only_fast and is_test and not _is_fast(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: Counter[tuple[str, str]] = Counter()
    for item in items:
        name = item.path.name
        test = item.name.partition("[")[0]
        number, every = cases[name, test], _EVERY.get(name, {}).get(test, 1)
        cases[name, test] += 1
        if every == _LATER or number % every:
            item.add_marker(pytest.mark.thorough)
            continue
        if _is_fast(item.path):
            item.add_marker(pytest.mark.fast)
