"""Counts that plain code clamps, and nests that start at the lane's index, are bounded in steps."""

from __future__ import annotations

import pytest
from answers import with_steps
from places import ROOT

from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.report import BoundedKernel
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.flow_graph import MOST_STEPS_TOGETHER, MOST_WALK_STEPS
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast

FAULTS = ROOT / "tests" / "data" / "faults"
CORPUS = ROOT / "tests" / "corpus" / "ptx"


def iterations(request: Request) -> list[int]:
    """The body executions of each loop of a kernel that is bounded, in the order of the report."""
    (kernel,) = build_report(bound_file(request)).kernels
    assert isinstance(kernel, BoundedKernel)
    return [loop.iterations for loop in kernel.loops]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("points_of_voxel", [8, 3]),  # min(c, 32) points, four at a time, and the rest
        ("points_of_voxel_kept", [32]),
        ("rows_between", [3, 5]),  # the rest of min(end, start + 20) - start, then four at a time
    ],
)
def test_clamped_counts(kernel: str, expected: list[int]) -> None:
    path = str(FAULTS / "clamp2.ptx")
    assert iterations(Request(path, (kernel,), "64")) == expected


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [
        ("tri", ("B=2", "H=4", "T=256")),
        ("tri1", ("tri1_param_2=1024",)),
    ],
)
def test_triangular_nests(kernel: str, parameters: tuple[str, ...]) -> None:
    """Lanes that start at their index are counted together once telling them apart takes long."""
    request = Request(str(FAULTS / "triangular.ptx"), (kernel,), "256", "1", parameters)
    code, walking, _ = with_steps(request)
    assert code == "bound"
    assert walking < MOST_STEPS_TOGETHER


@pytest.mark.thorough
def test_a_sort_in_local_memory_is_given_up() -> None:
    """Each iteration adds something unknown to sums: their symbols are counted, and joined."""
    request = Request(str(CORPUS / "numba" / "local_sort_86.ptx"), (), "32")
    code, walking, _ = with_steps(request)
    assert code == "PW206"
    assert walking <= MOST_WALK_STEPS + 100
