"""Instructions that wait: for a stated time, or for launches before."""

from __future__ import annotations

from pathlib import Path

import pytest
from parsing import parse_file, parse_kernel

from ptxwcet.compose.analysed import KernelAnalysis
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.pipeline import analyse_kernel

FAULTS = Path(__file__).parents[1] / "data" / "faults"
KERNEL = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k() { .reg .b32 %r<3>; BODY ret; }
"""
MACHINE = load_machine(DEFAULT_MACHINE, None)


def bound(body: str, threads: int = 32) -> KernelAnalysis:
    kernel = parse_kernel(KERNEL.replace("BODY", body))
    return analyse_kernel(kernel, Launch((threads, 1, 1)), MACHINE)


@pytest.mark.parametrize("time", [0, 1, 100, 1_000_000])
def test_a_sleep_is_charged_twice_its_time_and_no_lower_bound_uses_it(time: int) -> None:
    asleep, awake = bound(f"nanosleep.u32 {time};"), bound("nanosleep.u32 0;")
    most = 2 * time * MACHINE.clock_mhz / 1000
    longer = asleep.worst.bound.cycles - awake.worst.bound.cycles
    assert most <= longer < most + 1
    assert not asleep.pieces[0].analysis.is_nominal


def test_a_wait_for_launches_before_needs_that_there_are_none() -> None:
    (kernel,) = parse_file(FAULTS / "i05_gridep.ptx").kernels
    found = analyse_kernel(kernel, Launch((64, 1, 1)), MACHINE)
    assert "no-other-kernels" in {one.key for one in found.pieces[0].analysis.assumptions}
    told = bound("griddepcontrol.launch_dependents;")
    assert "no-other-kernels" not in {one.key for one in told.pieces[0].analysis.assumptions}
