"""Sectors that stores do not fill: counted by serving lanes, and where lanes may be missing."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from parsing import parse_text
from transaction_oracle import LANES, SECTOR, partial_sectors

from ptxwcet.flow.launch import Launch
from ptxwcet.flow.shapes.domain import LaneDomain
from ptxwcet.flow.shapes.pattern import KNOWN, Pattern, normal, uniform
from ptxwcet.ir.terms import Op, evaluate, source, term
from ptxwcet.memory.counting import partial_of
from ptxwcet.timing.launch_costs import kernel_accesses


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
def test_the_most_that_any_base_leaves(width: int) -> None:
    """Of random lanes, some of which do not exist, from every base that the alignment allows."""
    rng = random.Random(f"partial {width}")
    found = set()
    for _ in range(60):
        stride = rng.choice((0, 1, 1, 1, 2, 3, 8))
        lanes = [stride * lane + rng.choice((0, 0, 0, 1)) for lane in range(LANES)]
        existing = rng.choice((32, 32, 31, 24, 7))
        offsets = np.array([width * place for place in lanes], dtype=np.int64)
        align = rng.choice((KNOWN, 0, 2, 3, 4, 5, 8))
        there = np.arange(LANES) < existing
        counted = partial_of(normal(Pattern(offsets, align), 64), there, width).most
        step = max(1 << min(align, 5), width)
        bases = (0,) if align == KNOWN else range(0, SECTOR, step)
        served = (
            partial_sectors(
                "global", width, {n: base + int(offsets[n]) for n in range(LANES) if there[n]}
            )
            for base in bases
        )
        assert counted == max(served)
        found.add(counted)
    assert len(found) > 1 or width == SECTOR


@pytest.mark.parametrize("op", [Op.EQ, Op.ULT, Op.SLT])
def test_numbers_in_ranges_are_compared(op: Op) -> None:
    """Of all pairs of small ranges: what is decided is so for all numbers in them."""
    ends = range(-2, 4)
    ranges = [(low, high) for low, high in product(ends, ends) if low <= high]
    compared, decided = term(op, 1, (source(0, 32), source(1, 32))), 0
    for one, two in product(ranges, ranges):
        values = [(normal(uniform(0, span), 32),) for span in (one, two)]
        found = LaneDomain(LANES).value(compared, values)
        assert found is not None
        numbers = {pattern.constant for pattern in found}
        pairs = product(range(one[0], one[1] + 1), range(two[0], two[1] + 1))
        true = {evaluate(compared, [a % 2**32, b % 2**32]) for a, b in pairs}
        assert None in numbers or true <= {number % 2 for number in numbers if number is not None}
        decided += None not in numbers
    assert decided >= 50


TEXT = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) {
  .reg .b64 %rd<6>; .reg .b32 %r<9>; .reg .pred %p<5>; .reg .f32 %f<3>;
  .local .align 4 .b8 own[64];
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.s32 %r4, %r3, 64, %r2;
  mul.wide.s32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; mov.u32 %r5, 0;
  setp.lt.s32 %p1, %r2, 16; setp.lt.s32 %p2, %r1, 7; setp.lt.s32 %p3, %r4, %r1;
  BODY
  ret;
}
"""
STORE = "st.global.f32 [%rd3], %f1;"


@pytest.mark.parametrize(
    ("body", "partial"),
    [
        (STORE, 0),
        ("st.global.v4.f32 [%rd1], {%f1, %f1, %f1, %f1};", 1),
        ("st.global.u16 [%rd3], %r2;", 4),
        (f"@%p1 {STORE}", 4),
        (f"@!%p1 {STORE}", 4),
        (f"@%p2 {STORE}", 0),  # all lanes or none
        (f"@%p3 {STORE}", 0),  # all lanes of 4 blocks of 64, of n = 256
        (f"@%p1 bra A; {STORE} A:", 4),
        (f"@%p2 bra A; {STORE} A:", 0),
        (f"@!%p3 bra A; {STORE} A:", 0),
        (f"@%p1 bra A; add.s32 %r5, %r5, 1; A: {STORE}", 0),  # all have met again
        (f"@%p1 ret; {STORE}", 4),
        (f"@%p1 bra B; {STORE} ret; B: {STORE}", 4),
        (f"A: {STORE} add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, %r2; @%p1 bra A;", 4),
        (f"A: {STORE} add.s32 %r5, %r5, 1; setp.lt.s32 %p4, %r5, 9; @%p4 bra A;", 0),
        (f"A: add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, %r2; @%p1 bra A; {STORE}", 0),
        ("red.global.add.u32 [%rd3], %r2;", 4),
        ("st.local.f32 [own], %f1;", 0),
        ("st.local.u8 [own], %r2;", 4),
        ("mul.wide.s32 %rd4, %r2, 4; add.s64 %rd5, %rd3, %rd4; st.global.f32 [%rd5], %f1;", 8),
        ("st.f32 [%rd3], %f1;", 32),  # generic: it may be local memory
        ("ld.global.u64 %rd3, [%rd3]; " + STORE, 32),
    ],
)
def test_which_stores_fill_their_sectors(body: str, partial: int) -> None:
    (kernel,) = parse_text(TEXT.replace("BODY", body)).kernels
    launch = Launch((64, 1, 1), (4, 1, 1), {"n": 256})
    accesses = kernel_accesses(kernel, launch).accesses
    assert max(one.most.partial for one in accesses) == partial
    assert all(not one.most.partial for one in accesses if not one.access.changes)


@pytest.mark.parametrize(("threads", "partial"), [(64, 0), (40, 0), (36, 1), (33, 1)])
def test_warps_with_missing_lanes(threads: int, partial: int) -> None:
    """Lanes of 4 bytes fill sectors by eights, also of local memory."""
    for body, count in ((STORE, partial), ("st.local.f32 [own], %f1;", 4 * partial)):
        (kernel,) = parse_text(TEXT.replace("BODY", body)).kernels
        accesses = kernel_accesses(kernel, Launch((threads, 1, 1), (4, 1, 1))).accesses
        assert max(one.most.partial for one in accesses) == count


def test_numbers_that_may_go_round_fill_nothing() -> None:
    """Without a grid, an index of 32 bits may pass its largest number between two lanes."""
    index = "add.s32 %r6, %r4, 3; mul.wide.s32 %rd4, %r6, 4; add.s64 %rd5, %rd1, %rd4;"
    body = f"{index} st.global.f32 [%rd5], %f1;"
    (kernel,) = parse_text(TEXT.replace("BODY", body)).kernels
    (*_, store) = kernel_accesses(kernel, Launch((64, 1, 1))).accesses
    assert store.most.partial == store.most.sectors == 5
