"""Instructions that wait: for a stated time, or for launches before."""

from __future__ import annotations

from pathlib import Path

import pytest
from parsing import parse_file, parse_kernel

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.pipeline import analyse_kernel

pytestmark = pytest.mark.fast

FAULTS = Path(__file__).parents[1] / "data" / "faults"
KERNEL = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k() { .reg .b32 %r<3>; .reg .pred %p<2>; BODY ret; }
"""
TEST = "mov.u32 %r2, %clock; setp.eq.u32 %p1, %r2, 0;"
MACHINE = load_machine(DEFAULT_MACHINE, None)


def bound(body: str, threads: int = 32) -> KernelAnalysis:
    kernel = parse_kernel(KERNEL.replace("BODY", body))
    return analyse_kernel(kernel, Launch((threads, 1, 1)), MACHINE)


@pytest.mark.parametrize("time", [0, 1, 100, 1_000_000])
def test_a_sleep_is_charged_twice_its_time_and_no_lower_bound_uses_it(time: int) -> None:
    """And none takes less than one of 27 ns: what silicon takes to fall asleep and wake up."""
    asleep, awake = bound(f"nanosleep.u32 {time};"), bound("nanosleep.u32 27;")
    most = max(2 * (time - 27) * MACHINE.clock_mhz / 1000, 0)
    longer = asleep.worst.bound.cycles - awake.worst.bound.cycles
    assert most - 1 < longer < most + 1
    assert not asleep.pieces[0].analysis.is_nominal


@pytest.mark.parametrize("time", [0, 100])
def test_the_time_of_a_sleep_may_be_moved_to_its_register_before(time: int) -> None:
    moved = "mov.u32 %r1, {}; mov.u32 %r2, 7; nanosleep.u32 {};"
    found, literal = bound(moved.format(time, "%r1")), bound(moved.format(time, time))
    assert found.worst.bound.cycles >= literal.worst.bound.cycles
    assert found.worst.bound.cycles <= literal.worst.bound.cycles + 30  # waits for the move


@pytest.mark.parametrize(
    "body",
    [
        "nanosleep.u32 %r1;",
        "mov.u32 %r1, 5; mov.u32 %r1, %clock; nanosleep.u32 %r1;",
        "mov.u32 %r2, 5; nanosleep.u32 %r1;",
        "mov.b32 %r1, 0f3F800000; nanosleep.u32 %r1;",
        "mov.u32 %r1, %clock; setp.eq.u32 %p1, %r1, 0; @%p1 mov.u32 %r1, 5; nanosleep.u32 %r1;",
        "mov.u32 %r1, 5; add.u32 %r1, %r1, 5; nanosleep.u32 %r1;",
        "mov.b64 {%r2, %r1}, 4294967296000000; nanosleep.u32 %r1;",  # the upper half: 1 ms
        "mov.b64 {_, %r1}, 4294967296000000; nanosleep.u32 %r1;",
        "setp.eq.u32 %p1, %r2, 0; @%p1 bra L; mov.u32 %r1, 5; L: nanosleep.u32 %r1;",
    ],
)
def test_a_sleep_of_an_unknown_time_is_the_longest_that_there_is(body: str) -> None:
    asleep = bound(body).worst.bound.cycles
    most = 2 * 1_000_000 * MACHINE.clock_mhz / 1000
    assert most <= asleep <= most + 60


@pytest.mark.parametrize(
    ("body", "longest"),
    [
        ("mov.u32 %r1, 5; L: nanosleep.u32 %r1;", 5),
        (f"mov.u32 %r1, 9000; {TEST} @%p1 mov.u32 %r1, 50; nanosleep.u32 %r1;", 9000),
        (f"mov.u32 %r1, 50; {TEST} @%p1 bra L; mov.u32 %r1, 9000; L: nanosleep.u32 %r1;", 9000),
        (f"mov.u32 %r1, 9000; {TEST} @%p1 bra L; mov.u32 %r1, 50; L: nanosleep.u32 %r1;", 9000),
        # the move behind it comes round in the loop
        (
            "mov.u32 %r1, 50; mov.u32 %r2, 0; L: nanosleep.u32 %r1; mov.u32 %r1, 9000;"
            " add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 1; @%p1 bra L;",
            9000,
        ),
    ],
)
def test_the_time_of_a_sleep_is_the_longest_of_its_moves(body: str, longest: int) -> None:
    asleep = bound(body).worst.bound.cycles
    most = 2 * longest * MACHINE.clock_mhz / 1000
    assert most <= asleep <= most + 100


def test_a_wait_for_launches_before_needs_that_there_are_none() -> None:
    (kernel,) = parse_file(FAULTS / "i05_gridep.ptx").kernels
    found = analyse_kernel(kernel, Launch((64, 1, 1)), MACHINE)
    assert "no-other-kernels" in {one.key for one in found.pieces[0].analysis.assumptions}
    told = bound("griddepcontrol.launch_dependents;")
    assert "no-other-kernels" not in {one.key for one in told.pieces[0].analysis.assumptions}
