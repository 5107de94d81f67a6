"""A policy is a row; a number that none has is never taken for another one."""

from __future__ import annotations

import numpy as np
import pytest

from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.grid import GridOptions, GridShape, GridWorkload, TracedVisit
from ptxwcet.simulator.grid_engine import simulate_grid
from ptxwcet.simulator.policies import SCRIPTED, Policy
from ptxwcet.warp.program import (
    BlockWorkload,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

pytestmark = pytest.mark.fast

ONE = TimedInstruction("A", 1, 1)


def test_a_number_without_a_row_is_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    block = BlockWorkload((WarpClass(WarpProgram((ONE,)), (0,)),), Scoreboard.RAW)
    programs = ((TracedVisit(0, (ONE,)),),)
    grid = GridWorkload(programs, np.zeros((1, 1), np.int64), 1, Scoreboard.RAW)
    simulator, shape = Simulator(block, SmConfiguration()), GridShape(1, 1, SmConfiguration())
    assert simulator.cycles(Policy.LRR) == 2
    assert simulate_grid(grid, shape, GridOptions(Policy.LRR)).cycles == 2
    assert [policy.code for policy in Policy] == list(range(SCRIPTED))

    monkeypatch.setattr(Policy, "code", property(lambda _: SCRIPTED + 1))
    with pytest.raises(ValueError, match="no such"):
        simulator.cycles(Policy.LRR)
    with pytest.raises(ValueError, match="no such"):
        simulate_grid(grid, shape, GridOptions(Policy.LRR))
