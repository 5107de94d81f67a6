"""Jeanmougin, Carle, Rochange (ECRTS 2025): the worked example, Figures 2 and 3, Examples 1-3."""

from __future__ import annotations

import pytest
from issue_trace import trace_issue

from ptxwcet.timing.phases import Phase, PhaseKind, profile_warp
from ptxwcet.warp.program import Scoreboard, TimedInstruction, Unordered

pytestmark = pytest.mark.fast

I0 = TimedInstruction("FU0", 2, 6, writes=("r0",))
I1 = TimedInstruction("FU1", 3, 4, writes=("r1",))
I2 = TimedInstruction("FU1", 3, 4, writes=("r2",))
I3 = TimedInstruction("FU2", 2, 4, reads=("r0",), writes=("r3",))
KERNEL = (I0, I1, I2, I3)  # ret is not issued in the paper


def test_dispatches_of_figure_2() -> None:
    records = trace_issue(KERNEL, Scoreboard.RAW)
    assert [record.dispatch for record in records] == [0, 1, 4, 8]
    assert [record.issue for record in records] == [0, 1, 2, 8]
    # Example 3 prints 7 for reg_state[r2] at cycle 2; it is 9, as its own value at cycle 8 needs.
    assert records[2].ready == 2 + 9


def test_phases_of_figure_3() -> None:
    profile = profile_warp(KERNEL, Scoreboard.RAW)
    assert profile.phases == (
        Phase(PhaseKind.EXECUTION, 0, 7),
        Phase(PhaseKind.IDLE, 7, 1),
        Phase(PhaseKind.EXECUTION, 8, 2),
        Phase(PhaseKind.IDLE, 10, 4),
    )
    assert (profile.execution_cycles, profile.isolated_cycles) == (9, 14)


def test_execution_time_is_not_monotone() -> None:
    """A longer latency can shorten E: two initiations come to overlap. L only grows."""

    def profile(latency: int) -> tuple[int | None, int]:
        body = (
            TimedInstruction("Y", 1, latency, writes=("y",)),
            TimedInstruction("X", 1, 4, writes=("x",)),
            TimedInstruction("A", 3, 0, reads=("y",)),
            TimedInstruction("B", 3, 0, reads=("x",)),
        )
        found = profile_warp(body, Scoreboard.RAW)
        return found.execution_cycles, found.isolated_cycles

    assert profile(0) == (8, 9)
    assert profile(4) == (6, 9)


def test_the_order_of_divergent_sides_matters() -> None:
    """A 100-cycle load on one side, a dependent chain on the other: both orders are covered."""
    load = (TimedInstruction("GMEM", 1, 99, writes=("v",)),)
    chain = tuple(TimedInstruction("INT", 1, 11, ("c",), ("c",)) for _ in range(8))
    first = profile_warp((*load, *chain), Scoreboard.RAW).isolated_cycles
    second = profile_warp((*chain, *load), Scoreboard.RAW).isolated_cycles
    assert first < second
    both = profile_warp((Unordered(load, chain),), Scoreboard.RAW)
    assert both.isolated_cycles == max(first, second)
    assert both.execution_cycles is None
