"""[J] Fig. 4: three warps under LRR, two shorter phases, a longer schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from warp_nodes import timed as i

from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import FunctionalUnit
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.warp.program import (
    BlockWorkload,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

pytestmark = pytest.mark.fast


def block(first_of_0: TimedInstruction, second_of_1: TimedInstruction) -> BlockWorkload:
    paths = (
        (first_of_0, i("A", 4, 0, "y", "x")),
        (i("A", 4, 2, "x"), second_of_1),
        (i("A", 4, 1, "x"), i("A", 4, 5, "y")),
    )
    classes = tuple(WarpClass(WarpProgram(path), (w,)) for w, path in enumerate(paths))
    return BlockWorkload(classes, Scoreboard.RAW)


STATED = block(i("A", 4, 0, "x"), i("B", 4, 3, "y", "x"))
SHORTER = block(i("A", 3, 0, "x"), i("B", 4, 2, "y", "x"))


def test_two_shorter_phases_make_the_schedule_longer() -> None:
    """Warp 0 is ready a cycle earlier, goes before warp 2 at unit A, and warp 2 ends the block."""
    lengths = []
    for workload in (STATED, SHORTER):
        cycles = Simulator(workload, SmConfiguration()).cycles(Policy.LRR)
        assert cycles == reference_run(workload, SmConfiguration(), Policy.LRR).cycles
        lengths.append(cycles)
    assert lengths == [21, 24]


def test_the_safe_bound_covers_both() -> None:
    units = (FunctionalUnit("A", 1), FunctionalUnit("B", 1))
    machine = replace(load_machine(), units=units)
    assert bound_safe(analyse_block(STATED, machine)).cycles >= 24
