"""Counts that are called exact are, where addresses go round; and no lane counts twice."""

from __future__ import annotations

import numpy as np
import pytest
from parsing import parse_kernel, places_of

from ptxwcet.flow.launch import Launch
from ptxwcet.flow.shapes.pattern import Pattern, normal
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.memory.analysis import AnalysedAccess
from ptxwcet.memory.counting import blocks_of, passes_of
from ptxwcet.timing.launch_costs import kernel_accesses

pytestmark = pytest.mark.fast

HEAD = (
    ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p, .param .u32 n) {\n"
    ".reg .pred %p<3>; .reg .b32 %r<19>; .reg .b64 %d<9>;\nmov.u32 %r0, %tid.x;\n"
    "ld.param.u32 %r9, [n]; ld.param.u64 %d0, [p];\n"
)


def access_of(text: str) -> AnalysedAccess:
    kernel = parse_kernel(HEAD + text + "\nret;\n}\n")
    found = kernel_accesses(kernel, Launch((32, 1, 1)))
    (load,) = places_of(kernel, OpClass.LOAD_GLOBAL)
    return next(one for one in found.accesses if one.index == load)


def test_neighbours_across_the_middle_of_a_word_share_a_sector() -> None:
    """Odd lanes lie on both sides of u + 2^31, where offsets change their signs."""
    access = access_of(
        "mul.lo.u32 %r1, %r0, 2147483647; add.u32 %r2, %r9, %r1; cvt.u64.u32 %d2, %r2; "
        "ld.global.u8 %r3, [%d2];"
    )
    places = [[(t * 0x7FFFFFFF + u) % 2**32 // 32 for t in range(32)] for u in range(32)]
    assert access.most.sectors == max(len(set(one)) for one in places)


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("size", [32, 128])
def test_counts_are_those_of_all_places(width: int, size: int) -> None:
    """Against addresses modulo 2^width one by one, lanes anywhere near its ends and middle."""
    chance = np.random.default_rng(width + size)
    there = np.ones(32, dtype=np.bool_)
    half = 1 << width - 1
    for _ in range(60):
        middles = chance.choice(np.array([0, half - 1, -half, half - 64], dtype=np.int64), 32)
        offsets = middles // 4 * 4 + 4 * chance.integers(-9, 9, 32)
        align = int(chance.integers(2, 6))
        pattern = normal(Pattern(offsets.astype(np.int64), align), width)
        count = blocks_of(pattern, there, size, 4)
        spans = range(0, size, 1 << align) if size > 1 << align else [0]
        true = {len({(int(o) + u) % (1 << width) // size for o in offsets}) for u in spans}
        assert (count.most, count.exact) == (max(true), len(true) == 1)
        assert passes_of(pattern, there, 4).most <= 32


@pytest.mark.parametrize("factor", [16, 24, 48, 64])
def test_lanes_need_no_more_sectors_than_there_are_lanes(factor: int) -> None:
    """Of four aligned bytes each, wherever an index of 32 bits goes round."""
    access = access_of(
        f"mul.lo.u32 %r1, %r0, {factor}; add.u32 %r1, %r1, %r9; cvt.u64.u32 %d1, %r1;"
        "shl.b64 %d1, %d1, 3; add.u64 %d3, %d0, %d1; add.u64 %d3, %d3, 4; ld.global.u32 %r3, [%d3];"
    )
    assert access.value is not None
    assert access.most.sectors <= 32
