"""Loops that are entered only where the test of their exit holds: the bound that follows from that.

A binary search on ``low < high`` cannot wrap around, a number above 0 has no sign to lose. Where
nothing guards the entry one more iteration is possible, which is executed here in Python.
"""

from __future__ import annotations

import pytest
from answers import only_answer
from parsing import parse_text
from places import ROOT
from random_variants import bounds_of_kernel

from ptxwcet.flow.walk.path import Visit, loop_entries
from ptxwcet.opened.request import Request

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 q)
{
.reg .b32 %r<9>; .reg .pred %p<5>; .reg .b64 %q;
ld.param.u64 %q, [q];
ld.global.u32 %r1, [%q]; ld.global.u32 %r2, [%q];
"""
SEARCH = """
L: sub.s32 %r3, %r2, %r1; shr.u32 %r3, %r3, 1; add.s32 %r3, %r3, %r1;
ld.global.u32 %r4, [%q]; setp.le.u32 %p1, %r4, 7; add.s32 %r5, %r3, 1;
selp.b32 %r1, %r5, %r1, %p1; selp.b32 %r2, %r2, %r3, %p1;
setp.gt.u32 %p2, %r2, %r1; @%p2 bra L;
O: ret; }
"""
LOSING = """
L: add.s32 %r3, %r1, -1; and.b32 %r1, %r3, %r1;
setp.ne.s32 %p2, %r1, 0; @%p2 bra L;
O: ret; }
"""
GUARDS = {
    "none": "",
    "below": "setp.ge.u32 %p3, %r1, %r2; @%p3 bra O;",
    "from 0": "mov.u32 %r1, 0; setp.eq.s32 %p3, %r2, 0; @%p3 bra O;",
    "above 0": "setp.lt.s32 %p3, %r1, 1; @%p3 bra O;",
}
WORD = 1 << 32


def search(low: int, high: int) -> int:
    """Iterations of the search; each takes the lower half, the first the upper one if it wraps."""
    passes = 0
    while passes == 0 or low < high:
        middle = (((high - low) % WORD >> 1) + low) % WORD
        if passes == 0 and low == high:
            low = (middle + 1) % WORD
        else:
            high = middle
        passes += 1
    return passes


def losing(number: int) -> int:
    """Iterations in which a number loses its lowest bit."""
    passes = 0
    while passes == 0 or number != 0:
        number &= number - 1
        passes += 1
    return passes


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("guard", "loop", "worst", "bound"),
    [
        ("below", SEARCH, search(0, WORD - 1), 32),
        ("from 0", SEARCH, search(0, WORD - 1), 32),
        ("none", SEARCH, search(WORD - 1, WORD - 1), None),
        ("above 0", LOSING, losing((1 << 31) - 1), 31),
        ("none", LOSING, losing(WORD - 1), 32),
    ],
)
def test_an_entry_that_is_guarded_counts(
    guard: str, loop: str, worst: int, bound: int | None
) -> None:
    found = _iterations(HEAD + GUARDS[guard] + loop)
    assert found == bound
    assert found is None or found >= worst


def test_without_a_guard_the_search_takes_one_iteration_more() -> None:
    """By hand: it wraps around to the whole range, which takes 32 more."""
    assert search(0, WORD - 1) == 32
    assert search(WORD - 1, WORD - 1) == 33


SUITE = ROOT / "benchmarks" / "kernels" / "suite" / "algorithms.ptx"


@pytest.mark.parametrize(("kernel", "most"), [("upper_bound_unsigned", 32), ("fenwick_sum", 31)])
def test_kernels_of_the_suite_are_bounded_without_parameters(kernel: str, most: int) -> None:
    """``low < high`` halves fewer than 2**32; a number from 1 to 2**31 - 1 has 31 bits to lose."""
    assert _iterations(SUITE.read_text(encoding="utf-8"), kernel) == most


def _iterations(text: str, kernel: str = "k") -> int | None:
    module = parse_text(text)
    (one,) = [found for found in module.kernels if found.name == kernel]
    found = bounds_of_kernel(one)
    return None if found is None else max(found.values())


@pytest.mark.parametrize(("length", "most"), [(1000, 10), (255, 8)])
def test_a_length_that_is_halved_takes_no_more_iterations_than_the_number_does(
    length: int, most: int
) -> None:
    """Below 2**k there are k halvings down to 0; ranges of what is left shrink more slowly.

    That is said of the launch with its grid: without it the way past the loop is open as well.
    """
    name = "lower_bound_length"
    request = Request(
        str(SUITE),
        kernels=(name,),
        block="64",
        grid="4",
        parameters=(f"{name}_param_1={length}", f"{name}_param_4=1000"),
        unknown_at_worst=True,
    )
    row = only_answer(request)
    for warp in row.pieces[0].paths.warps:
        (entry,) = loop_entries(warp.nodes)
        assert entry.iterations.base == most
        assert isinstance(warp.nodes[0], Visit)
