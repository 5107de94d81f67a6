"""A bound that is printed is never below what it is, and can be said back as a budget."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from programs import run_program

import ptxwcet
from ptxwcet.opened.budgets import parse_budget
from ptxwcet.support.rounding import microseconds_of, percent_of, seconds_of, time_text
from ptxwcet.sweeps.results.sweep_text import seconds_text

pytestmark = pytest.mark.fast

CYCLES = st.integers(1, 10**18) | st.integers(1, 10**5)
CLOCKS = st.integers(1, 100_000)


@given(CYCLES, CLOCKS)
@example(10_281_916_295_110_702, 1)
def test_a_printed_time_is_a_budget_that_is_kept(cycles: int, clock: int) -> None:
    time = microseconds_of(cycles, clock)
    assert Fraction(str(time)) >= Fraction(cycles, clock)
    for text in (time_text(time), seconds_text(seconds_of(cycles, clock))):
        assert parse_budget(text).cycles(clock) >= cycles, text
    slack = Fraction(str(time)) - Fraction(cycles, clock)
    assert slack < Fraction(1, 1000) + Fraction(cycles, clock) / 2**50


@given(st.integers(0, 10**9), st.integers(1, 10**9), st.sampled_from((1, 2)))
def test_a_percentage_is_at_most_what_is_printed(part: int, whole: int, digits: int) -> None:
    assert Fraction(str(percent_of(part, whole, digits))) >= Fraction(100 * part, whole)


@pytest.mark.parametrize("machine", ["orin-ecrts2025-16sm", "titan-v"])
def test_the_times_of_a_report_are_kept(machine: str) -> None:
    kernel = str(Path(__file__).parents[2] / "samples" / "transpose_tiled.ptx")
    said = [kernel, "--block", "32x8", "--grid", "40x40", "--machine", machine]
    said += ["--param", "width=1280", "--param", "height=1280", "--require", "estimate"]
    text = run_program("bound", *said).out
    times = re.findall(r"cycles for (all|any).*?\(([\d.,]+ (?:us|ms))\)", text)
    assert len(times) == 2
    for whose, time in times:
        of = {"all": "kernel", "any": "block"}[whose]
        ended = run_program("bound", *said, "--budget", f"{of}:{time}")
        assert ended.code == 0, ended.err
    found = ptxwcet.bound(
        kernel,
        block=(32, 8),
        grid=(40, 40),
        machine=machine,
        params={"width": 1280, "height": 1280},
    )
    shown = re.findall(r"\(([\d.,]+ µs)\)", found._repr_html_())
    cycles = [found.launch_cycles or 0, found.cycles]
    clock = found.machine.clock_mhz
    kept = [parse_budget(time).cycles(clock) for time in shown]
    assert len(kept) == 2
    assert all(a >= b for a, b in zip(sorted(kept), sorted(cycles), strict=True))
