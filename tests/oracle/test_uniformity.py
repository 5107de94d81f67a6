"""Who takes a branch alike: examples, and executions of random kernels that must agree with it."""

from __future__ import annotations

import numpy as np
import pytest
from executions import distinct_steps, execute_first
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing import parse_kernel
from test_paths_on_data import WORDS, DataWriter
from thoroughness import drawn

from ptxwcet.emulator.launch import (
    EmulatedLaunch,
)
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.shapes.uniformity import BranchAgreements
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ptx.parser import parse_module

pytestmark = pytest.mark.fast

HEAD = """.version 8.2
.target sm_90
.address_size 64
.shared .align 4 .b32 word[64];
.const .align 4 .b32 table[64];
.visible .entry k(.param .u64 data, .param .u32 n)
{
.reg .b32 %r<20>; .reg .b64 %d<9>; .reg .pred %p<9>; .reg .f32 %f<4>;
ld.param.u64 %d1, [data]; ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
mad.lo.s32 %r5, %r3, %r4, %r2;
mul.wide.s32 %d2, %r5, 4; add.s64 %d2, %d1, %d2;
"""
TAIL = "@%p1 bra L; add.u32 %r19, %r19, 1; L: membar.cta; ret;\n}\n"


def agreement(
    body: str, block: tuple[int, int, int] = (128, 1, 1), *, race_free: bool = False
) -> Agreement:
    """Of the branch on ``%p1`` at the end."""
    kernel = parse_kernel(HEAD + body + TAIL)
    flow = ControlFlow.of(kernel)
    cfg = flow.cfg
    found = BranchAgreements(flow, Launch(block))
    (guarded,) = [
        block.id
        for block in cfg.blocks
        if block.end > block.start
        and (guard := kernel.instructions[block.end - 1].guard) is not None
        and guard.register == "%p1"
    ]
    return found.without_races(guarded) if race_free else found[guarded]


NONE, WARP, BLOCK = Agreement.NONE, Agreement.WARP, Agreement.BLOCK
TEST = "setp.gt.s32 %p1, {}, 3;"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (TEST.format("%r1"), BLOCK),
        (TEST.format("%r3"), BLOCK),
        (TEST.format("%r2"), NONE),
        ("shr.u32 %r6, %r2, 5;" + TEST.format("%r6"), WARP),
        ("shr.u32 %r6, %r2, 4;" + TEST.format("%r6"), WARP),  # 0 or 1, and an even number
        ("shr.u32 %r6, %r2, 4; add.s32 %r6, %r6, 1;" + TEST.format("%r6"), NONE),
        ("shr.s32 %r6, %r5, 31; shr.u32 %r7, %r6, 27; add.s32 %r8, %r5, %r7;"
         "shr.s32 %r9, %r8, 5;" + TEST.format("%r9"), NONE),
        ("shr.s32 %r6, %r5, 31; setp.lt.s32 %p1, %r6, 0;", WARP),
        ("shr.s32 %r6, %r5, 31;" + TEST.format("%r6"), BLOCK),  # -1 or 0
        ("and.b32 %r6, %r2, 96;" + TEST.format("%r6"), WARP),
        ("and.b32 %r6, %r2, 31; setp.eq.s32 %p1, %r6, 0;", NONE),
        ("and.b32 %r6, %r2, 31; sub.s32 %r7, %r2, %r6;" + TEST.format("%r7"), WARP),
        ("mul.lo.s32 %r6, %r2, 4; shr.u32 %r7, %r6, 7;" + TEST.format("%r7"), WARP),
        ("mul.lo.s32 %r6, %r2, 5; shr.u32 %r7, %r6, 7;" + TEST.format("%r7"), NONE),
        ("mul.wide.u32 %d3, %r2, 4; shr.u64 %d4, %d3, 7; cvt.u32.u64 %r6, %d4;"
         + TEST.format("%r6"), WARP),
        # quotients by 0 are what the machine makes of what it reads
        ("div.u32 %r6, %r1, %r3;" + TEST.format("%r6"), BLOCK),
        ("rem.s32 %r6, %r3, %r1;" + TEST.format("%r6"), BLOCK),
        ("div.u32 %r6, %r2, %r1;" + TEST.format("%r6"), NONE),
        # warps as a whole are below a multiple of 32
        ("setp.lt.s32 %p1, %r2, 64;", WARP),
        ("setp.ge.u32 %p1, %r2, 64;", WARP),
        ("setp.gt.s32 %p1, %r2, 64;", NONE),
        ("shl.b32 %r6, %r3, 5; setp.lt.s32 %p1, %r2, %r6;", WARP),
        ("setp.lt.s32 %p1, %r2, %r3;", NONE),
        ("ld.global.u32 %r6, [%d1];" + TEST.format("%r6"), WARP),
        ("ld.global.nc.u32 %r6, [%d1];" + TEST.format("%r6"), BLOCK),
        ("ld.global.nc.u32 %r6, [%d2];" + TEST.format("%r6"), NONE),
        ("ld.const.u32 %r6, [table+8];" + TEST.format("%r6"), BLOCK),
        ("ld.volatile.shared.u32 %r6, [word];" + TEST.format("%r6"), NONE),
        ("atom.global.add.u32 %r6, [%d1], 1;" + TEST.format("%r6"), NONE),
        ("setp.gt.s32 %p2, %r2, 9; vote.sync.any.pred %p1, %p2, 0xffffffff;", WARP),
        ("setp.gt.s32 %p2, %r2, 9; bar.red.or.pred %p1, 0, %p2;", BLOCK),
        ("setp.gt.s32 %p2, %r2, 9; bar.red.or.pred %p1, 0, 64, %p2;", NONE),
        ("shfl.sync.idx.b32 %r6|%p3, %r2, 0, 31, -1;" + TEST.format("%r6"), WARP),
        ("shfl.sync.idx.b32 %r6|%p1, %r2, 0, 31, -1;", WARP),
        ("shfl.sync.idx.b32 %r6, %r2, 0, 31, -1;" + TEST.format("%r6"), WARP),
        ("mov.b32 %r7, -1; shfl.sync.idx.b32 %r6, %r2, %r1, 31, %r7;" + TEST.format("%r6"), WARP),
        # a lane that is no member reads or is read, or takes no part on this side or since it left
        ("shfl.sync.idx.b32 %r6, %r2, 5, 31, 15;" + TEST.format("%r6"), NONE),
        ("shfl.sync.idx.b32 %r6, %r2, 3, 31, 15;" + TEST.format("%r6"), NONE),
        ("shfl.sync.idx.b32 %r6, %r2, %r1, 31, 15;" + TEST.format("%r6"), NONE),
        ("shfl.sync.idx.b32 %r6, %r2, 0, 31, %r1;" + TEST.format("%r6"), NONE),
        ("setp.lt.s32 %p2, %r2, 7; @%p2 ret; shfl.sync.idx.b32 %r6, %r2, 0, 31, -1;"
         + TEST.format("%r6"), NONE),
        ("setp.lt.s32 %p2, %r1, 7; @%p2 ret; shfl.sync.idx.b32 %r6, %r2, 0, 31, -1;"
         + TEST.format("%r6"), WARP),
        ("setp.lt.s32 %p2, %r2, 7; @%p2 shfl.sync.idx.b32 %r6, %r2, 0, 31, -1;"
         + TEST.format("%r6"), NONE),
        # groups of lanes vote apart
        ("setp.gt.s32 %p2, %r2, 9; setp.lt.u32 %p3, %r2, 16; selp.b32 %r7, 65535, -65536, %p3;"
         "vote.sync.any.pred %p1, %p2, %r7;", NONE),
        # nobody knows whom data name; a mask of those who are here names who reads it
        ("setp.gt.s32 %p2, %r2, 9; vote.sync.any.pred %p1, %p2, %r1;", NONE),
        ("match.all.sync.b32 %r6|%p1, %r2, %r1;", NONE),
        ("redux.sync.add.s32 %r6, %r2, %r1;" + TEST.format("%r6"), NONE),
        ("setp.gt.s32 %p2, %r2, 9; activemask.b32 %r7; vote.sync.any.pred %p1, %p2, %r7;", WARP),
        ("setp.gt.s32 %p2, %r2, 9; activemask.b32 %r7; and.b32 %r7, %r7, 1;"
         "vote.sync.any.pred %p1, %p2, %r7;", NONE),
        ("setp.gt.s32 %p2, %r2, 9; activemask.b32 %r7; @%p2 bra M;"
         "vote.sync.any.pred %p1, %p2, %r7; M:", NONE),
        ("ld.u32 %r6, [%d1];" + TEST.format("%r6"), WARP),
        # extended as a number that is not negative: the strides do not cancel out
        ("mul.wide.u32 %d3, %r2, -1; cvt.u64.u32 %d4, %r2; add.s64 %d5, %d3, %d4;"
         "shr.u64 %d6, %d5, 32; cvt.u32.u64 %r6, %d6;" + TEST.format("%r6"), NONE),
        ("shfl.sync.idx.b32 %r6, %r2, 0, 0x181f, -1;" + TEST.format("%r6"), NONE),
        ("shfl.sync.bfly.b32 %r6, %r2, 1, 31, -1;" + TEST.format("%r6"), NONE),
        # the sides of a branch write the same register
        ("setp.lt.s32 %p2, %r2, 7; mov.u32 %r6, 1; @%p2 bra M; mov.u32 %r6, 9; M:"
         + TEST.format("%r6"), NONE),
        ("setp.lt.s32 %p2, %r1, 7; mov.u32 %r6, 1; @%p2 bra M; mov.u32 %r6, 9; M:"
         + TEST.format("%r6"), BLOCK),
        ("ld.global.u32 %r7, [%d1]; setp.lt.s32 %p2, %r7, 7; mov.u32 %r6, 1; @%p2 bra M;"
         "mov.u32 %r6, 9; M:" + TEST.format("%r6"), WARP),
        # a guarded write
        ("setp.lt.s32 %p2, %r2, 7; mov.u32 %r6, 1; @%p2 mov.u32 %r6, 9;"
         + TEST.format("%r6"), NONE),
        # lanes leave a loop in different iterations: its counter is not alike behind it
        ("mov.u32 %r6, 0; N: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, %r2; @%p2 bra N;"
         + TEST.format("%r6"), NONE),
        ("mov.u32 %r6, 0; N: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, %r1; @%p2 bra N;"
         + TEST.format("%r6"), BLOCK),
    ],
)  # fmt: skip
def test_examples(body: str, expected: Agreement) -> None:
    assert agreement(body) is expected


@pytest.mark.parametrize(
    ("lane", "threads", "expected"),
    [("31", 34, NONE), ("1", 34, WARP), ("%r1", 34, NONE), ("33", 2, WARP), ("2", 2, NONE)],
)
def test_a_lane_that_a_warp_lacks_is_read_by_nobody_alike(
    lane: str, threads: int, expected: Agreement
) -> None:
    body = f"shfl.sync.idx.b32 %r6, %r2, {lane}, 31, -1;" + TEST.format("%r6")
    assert agreement(body, (threads, 1, 1)) is expected


@pytest.mark.parametrize(("threads", "expected"), [(8, WARP), (9, NONE), (40, NONE)])
def test_a_mask_names_the_lanes_of_every_warp(threads: int, expected: Agreement) -> None:
    body = "setp.gt.s32 %p2, %r2, 9; vote.sync.any.pred %p1, %p2, 255;"
    assert agreement(body, (threads, 1, 1)) is expected
    body = "shfl.sync.idx.b32 %r6, %r2, 0, 31, 255;" + TEST.format("%r6")
    assert agreement(body, (threads, 1, 1)) is expected


def test_inside_a_loop_that_lanes_leave_one_by_one_its_counter_is_alike() -> None:
    body = (
        "mov.u32 %r6, 0; N: add.u32 %r6, %r6, 1; setp.gt.u32 %p1, %r6, 4; @%p1 bra M;"
        "membar.cta; M: setp.lt.u32 %p2, %r6, %r2; @%p2 bra N; mov.u32 %r6, 0;"
    )
    kernel = parse_kernel(HEAD + body + "ret;\n}\n")
    flow = ControlFlow.of(kernel)
    cfg = flow.cfg
    found = BranchAgreements(flow, Launch((128, 1, 1)))
    assert [found[b.id] for b in cfg.blocks if len(cfg.successors[b.id]) > 1] == [BLOCK, NONE]


def test_a_generic_address_may_be_a_thread_s_own_memory() -> None:
    body = (
        ".local .align 4 .b32 mine; mov.u64 %d3, mine; cvta.local.u64 %d4, %d3;"
        "ld.u32 %r6, [%d4];" + TEST.format("%r6")
    )
    assert agreement(body) is NONE


def test_without_data_races_warps_find_the_same_word() -> None:
    body = "ld.shared.u32 %r6, [word];" + TEST.format("%r6")
    assert agreement(body) is WARP
    assert agreement(body, race_free=True) is BLOCK


@pytest.mark.parametrize(
    ("block", "expected"),
    [((32, 8, 1), WARP), ((16, 8, 1), NONE), ((128, 1, 1), BLOCK), ((64, 2, 1), WARP)],
)
def test_rows_of_the_block(block: tuple[int, int, int], expected: Agreement) -> None:
    assert agreement("mov.u32 %r6, %tid.y;" + TEST.format("%r6"), block) is expected


# --- random kernels -------------------------------------------------------------------------------


def contradictions(kernel: Kernel, launch: EmulatedLaunch, found: BranchAgreements) -> list[int]:
    """Blocks whose branch some lanes of a warp took and others not, though they agree on it."""
    module = parse_module(kernel.span.source)
    execution = execute_first(module, launch, record_paths=True)
    return [
        step.block
        for row in execution.paths
        for step in distinct_steps(row.body)
        if found[step.block] >= WARP and step.taken not in (0, step.mask)
    ]


@settings(max_examples=drawn(60), deadline=None)
@given(seed=st.integers(0, 10**9), n=st.integers(-1, 6), threads=st.sampled_from([32, 48, 64]))
def test_random_kernels_take_branches_as_claimed(seed: int, n: int, threads: int) -> None:
    kernel = parse_kernel(DataWriter(seed).text())
    flow = ControlFlow.of(kernel)
    found = BranchAgreements(flow, Launch((threads, 1, 1)))
    words = np.random.default_rng(seed).integers(0, 100, WORDS).astype("u4")
    launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), (n, words))
    assert not contradictions(kernel, launch, found)
