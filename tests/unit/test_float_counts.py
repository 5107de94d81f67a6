"""Loops counted by numbers that are converted from floating point (data/flow/float_counts.cu)."""

from __future__ import annotations

import pytest
from places import ROOT

from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.report import BoundedKernel
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast

FILE = ROOT / "tests" / "data" / "flow" / "float_counts.ptx"


@pytest.mark.parametrize(
    ("kernel", "parameters", "expected"),
    [
        ("f1", ("s=8.1",), [24 // 4]),  # s * 3 + 0.5, four at a time, and no rest
        ("f2", (), [4, 3]),  # of a loaded number: fminf(fmaxf(t, 0), 16)
        ("f3", ("sigma=1.5",), [3, 2]),  # -r..r with r = ceilf(3 * sigma)
        ("f4", (), [4, 3]),  # fminf(t, 16), which 16 is of NaN
        ("f5", ("w=40", "b=3"), [3, 1]),  # w / (float)b
        ("f7", ("d=4.5",), [2, 3]),  # d + d, which is 9, or less if d were a product that is fused
        ("f8", ("n=1..100",), [2, 3]),  # sqrtf((float)n) of a range
        ("f9", ("s=2.5",), [2]),  # to the nearest even
    ],
)
def test_counts(kernel: str, parameters: tuple[str, ...], expected: list[int]) -> None:
    request = Request(str(FILE), (kernel,), "32", None, parameters)
    (found,) = build_report(bound_file(request)).kernels
    assert isinstance(found, BoundedKernel)
    assert [loop.iterations for loop in found.loops] == expected


def test_approximate_results_are_not_taken() -> None:
    """``log2f`` is ``lg2.approx`` and more."""
    (found,) = build_report(
        bound_file(Request(str(FILE), ("f12",), "32", None, ("n=100",)))
    ).kernels
    assert not isinstance(found, BoundedKernel)
