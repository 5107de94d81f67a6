"""What holds for every test, and which tests are the fast ones: ``pytest -m fast -n 2``."""

from __future__ import annotations

import os
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder, name = Path(item.fspath).parent.name, Path(item.fspath).name
        if (folder in _FOLDERS and name not in _SLOW) or (folder == "oracle" and name in _ORACLES):
            item.add_marker(pytest.mark.fast)
