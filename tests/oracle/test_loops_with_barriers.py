"""Barriers in loops: warps that leave at different iterations do not meet the same barriers."""

from __future__ import annotations

import pytest
from answers import only_answer, only_refusal
from places import UNSOUND

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", ["barrier_apart", "barrier_lanes"])
@pytest.mark.parametrize("bounds", [(), ("$L__BB0_1=7",)])
def test_warps_that_may_leave_a_loop_with_a_barrier_apart_are_refused(
    name: str, bounds: tuple[str, ...]
) -> None:
    request = Request(str(UNSOUND / f"{name}.ptx"), block="64", loop_bounds=bounds)
    refused = only_refusal(request)
    assert refused.diagnostics[0].code == "PW222"


def test_a_single_warp_leaves_with_all_its_lanes() -> None:
    """The counter starts at ``tid / 32``: one number in a warp, several in a block."""
    path = str(UNSOUND / "barrier_apart.ptx")
    open_limit = only_answer(Request(path, block="32"))
    given = only_answer(Request(path, block="32", parameters=("n=7",)))
    assert given.worst.bound.cycles <= open_limit.worst.bound.cycles
    assert not bound_file(Request(str(UNSOUND / "barrier_lanes.ptx"), block="32")).answered


def test_knowing_when_warps_leave_bounds_them_apart() -> None:
    """The two warps leave at iterations 2 and 1; simulated under LRR the block takes 48,673."""
    request = Request(str(UNSOUND / "barrier_apart.ptx"), block="64", parameters=("n=2",))
    row = only_answer(request)
    assert row.worst.bound.cycles >= 48_673
