"""Bounds that some data exceed, and inputs that ended in an internal error: refused or right.

A Fenwick tree's ``i += i & -i`` wraps around to 0 and stays there where its limit lies beyond the
last power of two; an index of a block times 2**32 passes 2**63; a sum of numbers of 64 bits is no
number of 64 bits.
"""

import pytest
from parsing import parse_kernel
from places import DATA
from random_variants import bounds_of_kernel

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.opened.opening import RefusedKernel
from ptxwcet.opened.request import Request


@pytest.mark.parametrize(
    ("file", "block"),
    [
        ("unsound/fenwick.ptx", "32"),
        ("unsound/int64_overflow.ptx", "32"),
        ("unsound/ctaid64.ptx", "32"),
        ("crashes/border_check.ptx", "32"),
        ("crashes/wide_mask_loop.ptx", "32"),
        ("crashes/numba_dot.ptx", "16x16"),
    ],
)
@pytest.mark.parametrize("grid", [None, "7"])
def test_the_loop_is_asked_for(file: str, block: str, grid: str | None) -> None:
    rows = bound_file(Request(str(DATA / file), block=block, grid=grid)).kernels
    assert rows
    for row in rows:
        assert isinstance(row, RefusedKernel)
        assert row.diagnostics[0].code == "PW203"


@pytest.mark.parametrize(
    ("kernel", "limit", "most"),
    [
        ("fenwick", 1000, 10),
        ("fenwick", 2**30 - 1, 30),
        ("fenwick", 2**30, None),
        ("fenwick", 2**31 - 1, None),
        ("fenwick_u", 1000, 10),
        ("fenwick_u", 2**31 - 1, 31),
        ("fenwick_u", 2**31, None),
        ("fenwick_ne", 1024, 10),
        ("fenwick_ne", 1000, None),
    ],
)
def test_a_known_limit_bounds_a_fenwick_tree(kernel: str, limit: int, most: int | None) -> None:
    """By hand: from 1 the number doubles; it is below 2**k for k iterations.

    From 2**30 on a signed one wraps around to -2**31, which is below the limit, and then to 0.
    """
    request = Request(
        str(DATA / "unsound" / "fenwick.ptx"),
        kernels=(kernel,),
        block="1",
        parameters=(f"n={limit}",),
    )
    (row,) = bound_file(request).kernels
    if most is None:
        assert isinstance(row, RefusedKernel)
        assert row.diagnostics[0].code in ("PW203", "PW204", "PW205")
    else:
        assert not isinstance(row, RefusedKernel)
        (entry,) = loop_entries(row.pieces[0].paths.warps[0].nodes)
        assert entry.iterations.base == most


HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 q)
{
.reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<4>; .reg .b64 %q;
ld.param.u64 %q, [q];
"""
TREES = {16: "%h", 32: "%r", 64: "%d"}


@pytest.mark.every(2)
@pytest.mark.parametrize("bits", TREES)
@pytest.mark.parametrize("test", ["setp.le.s", "setp.lt.s", "setp.le.u", "setp.lt.u", "setp.ne.s"])
@pytest.mark.parametrize("lowest", ["neg", "not"])
def test_no_fenwick_tree_has_a_bound_from_its_type(bits: int, test: str, lowest: str) -> None:
    n = TREES[bits]
    negated = (
        f"neg.s{bits} {n}3, {n}1;"
        if lowest == "neg"
        else f"not.b{bits} {n}3, {n}1; add.s{bits} {n}3, {n}3, 1;"
    )
    text = f"""{HEAD}ld.global.u{bits} {n}2, [%q]; mov.u{bits} {n}1, 1;
L: {negated} and.b{bits} {n}3, {n}1, {n}3; add.s{bits} {n}1, {n}1, {n}3;
{test}{bits} %p1, {n}1, {n}2; @%p1 bra L;
ret; }}"""
    assert _bounds(text) is None


@pytest.mark.parametrize("bits", TREES)
def test_a_limit_of_a_known_range_bounds_a_fenwick_tree(bits: int) -> None:
    """The limit is a byte: 1, 2, 4, ... 128 and out."""
    n = TREES[bits]
    text = f"""{HEAD}ld.global.u8 {n}2, [%q]; mov.u{bits} {n}1, 1;
L: neg.s{bits} {n}3, {n}1; and.b{bits} {n}3, {n}1, {n}3; add.s{bits} {n}1, {n}1, {n}3;
setp.le.s{bits} %p1, {n}1, {n}2; @%p1 bra L;
ret; }}"""
    found = _bounds(text)
    assert found is not None
    assert found["L"] == 8


def _bounds(text: str) -> dict[str, int] | None:
    kernel = parse_kernel(text)
    return bounds_of_kernel(kernel)
