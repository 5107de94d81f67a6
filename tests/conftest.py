"""What holds for every test, and which tests run when.

``pytest`` leaves out what is marked ``thorough``; of a test marked ``every(n)`` that is all but
each n-th case: together they are dear, and neighbouring cases mostly find the same. ``pytest -m
"thorough or not thorough"`` runs all. Files marked ``fast`` find most mistakes in a minute:
``pytest -m "fast and not thorough" -n 2``.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
import thoroughness
from hypothesis import settings

from ptxwcet.cli import progress

# The IR verifier runs after lowering and after each pass, in processes that tests start as well.
os.environ["PTXWCET_VERIFY"] = "1"
# Hundreds of processes are started: each would compile the package anew where nothing is kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
settings.register_profile("busy machine", deadline=None)  # no test depends on wall time
settings.load_profile("busy machine")
FAST = "pytestmark = pytest.mark.fast"


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests read on standard error does not depend on how long a command takes."""
    monkeypatch.setattr(progress, "FIRST_SECONDS", 3600.0)


def pytest_configure(config: pytest.Config) -> None:
    """A shell may have Ctrl-C ignored in what it starts behind; tests send it to processes."""
    if "thorough" in config.option.markexpr.replace("not thorough", ""):
        thoroughness.draw_all()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files without fast tests are not even read where only these are asked for."""
    is_test = collection_path.name.startswith("test_")
    if not (is_test and config.option.markexpr.startswith("fast")):
        return None
    return None if FAST in collection_path.read_text(encoding="utf-8") else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: Counter[tuple[Path, str]] = Counter()
    for item in items:
        every = item.get_closest_marker("every")
        if every is None:
            continue
        test = item.path, item.name.partition("[")[0]
        if cases[test] % every.args[0]:
            item.add_marker(pytest.mark.thorough)
        cases[test] += 1
