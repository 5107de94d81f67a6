"""Budgets of the main job: cycles and times, what a bound says of them, and what fails."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import SAMPLES
from programs import run_program

from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.opened.budgets import NotABudget, parse_budget

pytestmark = pytest.mark.fast

KERNEL = (SAMPLES / "vector_add.ptx", "--block", "256", "--param", "n=1000")  # 662 cycles, 930 MHz
DOUBTFUL = ("--machine", "ampere-realistic")


def verdict(*options: str) -> tuple[int, dict[str, Any]]:
    ended = run_program(*KERNEL, *options, "--format", "json")
    data = json.loads(ended.out)
    jsonschema.Draft202012Validator(schema_of("report")).validate(data)
    return ended.code, data["kernels"][0]["budget"]


@pytest.mark.parametrize(
    ("text", "cycles", "within"),
    [
        ("662", 662, True),
        ("661", 661, False),
        ("662 cycles", 662, True),
        ("0.7118us", 661, False),  # 661.97 cycles
        ("0.711828us", 662, True),  # 662.00004
        ("0.000712ms", 662, True),
    ],
)
def test_cycles_and_times(text: str, cycles: int, within: bool) -> None:
    code, budget = verdict("--budget", text)
    assert code == (0 if within else 1)
    assert budget == {
        "budget": text if text[-1] == "s" else f"{text} cycles",
        "cycles": cycles,
        "of": "block",
        "verdict": "within" if within else "over",
        "guarantee": "safe-bound",
    }


def test_an_estimate_passes_only_where_that_is_asked_for() -> None:
    code, budget = verdict("--budget", "2ms", *DOUBTFUL)
    assert (code, budget["verdict"], budget["guarantee"]) == (1, "estimated-within", "estimate")
    ended = run_program(*KERNEL, "--budget", "2ms", *DOUBTFUL, "--require", "estimate")
    assert ended.code == 0
    assert "BUDGET     estimated-within: 902 of 2,820,000 cycles for a block" in ended.out
    assert run_program(*KERNEL, *DOUBTFUL).code == 0  # without a budget nothing is to be proved


def test_a_launch_without_a_bound() -> None:
    code, budget = verdict("--budget", "kernel:700")
    assert (code, budget["verdict"], budget["guarantee"]) == (1, "no-bound", None)


def test_no_budget_no_verdict() -> None:
    assert verdict() == (0, None)


NO_BUDGETS = ("", "0", "0.0us", "-1", "nan", "inf", "1e3", "1.5", "2 h", "1us2", "٣", "9" * 40)


@pytest.mark.parametrize("text", NO_BUDGETS)
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(NotABudget):
        parse_budget(text)
    assert run_program(*KERNEL, f"--budget={text}").code == 2


@given(st.integers(1, 10**6), st.integers(1, 5000), st.integers(0, 10**9))
def test_no_cycle_too_many(thousandths: int, clock: int, cycles: int) -> None:
    """A bound is within a time exactly if its own time is no longer."""
    time = Fraction(thousandths, 1000)
    budget = parse_budget(f"{thousandths // 1000}.{thousandths % 1000:03}us")
    assert (cycles <= budget.cycles(clock)) == (Fraction(cycles, clock) <= time)
