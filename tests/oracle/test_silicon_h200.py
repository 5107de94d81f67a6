"""The machine file of the H200 beside what was measured on one (docs/experiments)."""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from parsing import parse_kernel
from silicon import clocks

from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.microbenchmarks import SHORT

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "experiments"
MACHINE = load_machine("h200")
# What `perfect-instruction-supply` covers, and what the file says of reading %clock.
EXCEPTIONS = ("fp32_", "add.", "sub.", "mul.", "fma.", "mov %clock")
# What the clocks of one warp do not see: the path of an SM, and what is behind a store.
BEHIND = ("st.", "prefetch", "discard", "line_", "pass_", "word_", "load_global_interval")


@cache
def measured(card: str = "h200") -> dict[str, dict[str, tuple[float, float, float]]]:
    found: dict[str, dict[str, tuple[float, float, float]]] = json.loads(
        (RESULTS / f"silicon-{card}-instructions.json").read_text(encoding="utf-8")
    )
    return found


@cache
def memory() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(
        (RESULTS / "silicon-h200-memory.json").read_text(encoding="utf-8")
    )
    return found


@cache
def forms() -> ModuleType:
    path = ROOT / "benchmarks" / "silicon" / "instructions.py"
    spec = importlib.util.spec_from_file_location("silicon_instructions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def charged(name: str) -> float | None:
    """What one statement takes of one warp by the machine file; None if it is refused."""
    text = forms().text_of(forms().benchmarks()[name]).replace("    bar.sync 0;\n", "")
    read = clocks(name, parse_kernel(text, f"{name}.ptx"), MACHINE)
    return None if read is None else (read[1] - read[0]) / SHORT


def too_little(names: list[str]) -> dict[str, tuple[float, float]]:
    """What is charged less than on an H200 or on an H100, which has the same SMs."""
    found = {}
    for name in names:
        longest = max(measured(card)[name]["1"][2] for card in ("h200", "h100"))
        own = charged(name)
        if own is not None and own < longest:
            found[name] = (own, longest)
    return found


@pytest.mark.parametrize(
    "names",
    [
        *(
            [one]
            for one in (
                "mul.hi.s64 | chain",
                "mad.lo.s64 | free",
                "min.f64 | chain",
                "ldmatrix.x4 | chain",
                "tanh.approx.f16x2 | free",
                "cvt.rzi.s32.f32 | chain",
                "nanosleep 0 | free",
                "load_shared_latency",
            )
        ),
        pytest.param(list(measured()), marks=pytest.mark.thorough),
    ],
)
def test_no_instruction_is_charged_less_than_it_took(names: list[str]) -> None:
    found = too_little([one for one in names if not one.startswith(BEHIND)])
    assert not {one for one in found if not one.startswith(EXCEPTIONS)}
    # An addition of f32 that waits for none takes 1.17: instructions come late.
    assert all(name == "mov %clock | free" or own == 1 for name, (own, _) in found.items())


def test_the_path_of_an_sm() -> None:
    rules = MACHINE.memory
    assert rules is not None
    for row in memory()["rates"]:
        if row["what"] in ("load", "load_l1", "store"):
            lines = rules.path_cycles_of_lines(row["lines"], are_loaded=row["what"] != "store")
            assert row["one"] <= max(lines, rules.path_request_cycles.value), row


def test_memory_and_dispatch() -> None:
    rules, dispatch = MACHINE.memory, MACHINE.dispatch
    assert rules is not None
    assert dispatch is not None
    assert all(row["longest"] <= MACHINE.memory_latency_cycles for row in memory()["chases"])
    for row in memory()["scattered"]:
        fetched = 1 if row["what"] == "read" else 1 + rules.fetches_of_partial_sectors
        assert row["cycles"] <= rules.charged_cycles_per_1024_sectors * fetched, row
    for row in memory()["dispatch"]:
        if row["gap"] is not None and row["blocks of an SM"] == 1:
            assert row["gap"]["longest"] <= dispatch.delay_cycles.value
    # Greedy dispatch is doubtful, and here is why.
    younger = [(row["younger: refilled"], row["younger: not"]) for row in memory()["dispatch"]]
    assert sum(missed for _, missed in younger) > 1000
