"""Small kernels that try to make lanes part at a branch that is said to be taken alike.

Each is executed with two warps on random words; what the analysis says of the branch at the end
must hold for what the lanes did. Where the emulator has no such form, or its answer is one of many
that the hardware may give, the example says what the analysis may claim at most.
"""

from __future__ import annotations

import numpy as np
import pytest
from executions import distinct_steps, execute_first
from test_uniformity import BLOCK, HEAD, NONE, TAIL, TEST, WARP, agreement

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.shapes.pattern import Agreement

LANES = "mov.u32 %r16, %laneid; setp.lt.u32 %p2, %r16, 7;"
SUM = "mov.u32 %r7, -9; add.cc.u32 %r8, %r2, %r7; addc.u32 %r6, 0, 0;"


def executed_agreement(body: str, words: np.ndarray) -> Agreement:
    """Who took the branch on ``%p1`` at the end alike in one execution."""
    launch = EmulatedLaunch((64, 1, 1), (1, 1, 1), (words, 5))
    execution = execute_first(HEAD + body + TAIL, launch, record_paths=True)
    kernel = execution.kernel
    branch = next(
        block.id
        for block in build_cfg(kernel).blocks
        if any(one.names[:1] == ("%p1",) for one in kernel.instructions[block.start : block.end])
        and kernel.instructions[block.end - 1].guard is not None
        and kernel.instructions[block.end - 1].names[0] == "%p1"
    )
    ways = [
        {(step.taken != 0, step.taken in (0, step.mask))
         for step in distinct_steps(row.body) if step.block == branch}
        for row in execution.paths
    ]  # fmt: skip
    if not all(whole for warp in ways for _, whole in warp):
        return NONE
    return BLOCK if ways[0] == ways[1] else WARP


@pytest.mark.parametrize(
    "body",
    [
        SUM + "setp.eq.u32 %p1, %r6, 0;",
        # a carry written on one side of a branch, and under a guard
        LANES + "mov.u32 %r7, -1; add.cc.u32 %r8, %r7, 0; @%p2 bra M; add.cc.u32 %r8, %r7, %r7; M:"
        "addc.u32 %r6, 0, 0; setp.eq.u32 %p1, %r6, 0;",
        LANES + "mov.u32 %r7, -1; add.cc.u32 %r8, %r7, 0; @%p2 add.cc.u32 %r8, %r7, %r7;"
        "addc.u32 %r6, 0, 0; setp.eq.u32 %p1, %r6, 0;",
        "sub.cc.u32 %r8, %r2, 9; subc.u32 %r6, 0, 0; setp.eq.u32 %p1, %r6, 0;",
        "mad.lo.cc.u32 %r8, %r2, -2, 17; madc.hi.u32 %r6, 0, 0, 0; setp.eq.u32 %p1, %r6, 0;",
        # amounts, lengths and places of bits that lanes do not share
        "mov.u32 %r16, %laneid; shl.b32 %r6, 1, %r16; and.b32 %r7, %r6, 255;"
        "setp.eq.s32 %p1, %r7, 0;",
        "mov.u32 %r16, %laneid; add.u32 %r16, %r16, 5; shr.u32 %r6, %r2, %r16;"
        "setp.eq.s32 %p1, %r6, 0;",
        "mov.u32 %r16, %laneid; bfe.u32 %r6, 255, %r16, 1; setp.eq.s32 %p1, %r6, 0;",
        "mov.u32 %r16, %laneid; shf.l.wrap.b32 %r6, 1, 0, %r16; setp.lt.s32 %p1, %r6, 64;",
        # packed numbers and floats do not add up as words do
        "mov.u32 %r7, 65535; add.u16x2 %r6, %r2, %r7; sub.u32 %r8, %r6, %r2;"
        "setp.eq.u32 %p1, %r8, 65535;",
        "cvt.rn.f32.u32 %f1, %r2; setp.gt.f32 %p1, %f1, 0f41100000;",
        # pairs of predicates, selections
        LANES + "setp.gt.and.s32 %p1|%p3, %r1, 3, %p2;",
        LANES + "setp.gt.and.s32 %p3|%p1, %r1, 3, !%p2;",
        LANES + "selp.b32 %r6, 1, 9, %p2;" + TEST.format("%r6"),
        "mov.u32 %r16, %laneid; slct.s32.s32 %r6, 1, 9, %r16; sub.s32 %r7, %r16, 7;"
        "slct.s32.s32 %r6, 1, 9, %r7;" + TEST.format("%r6"),
        LANES + "xor.pred %p1, %p2, 1;",
        LANES + "mov.pred %p1, %p2;",
        # lanes in words packed from special registers
        "mov.b64 %d4, {%r1, %tid.x}; shr.u64 %d4, %d4, 32; cvt.u32.u64 %r6, %d4;"
        + TEST.format("%r6"),
        "mov.b32 %r6, %lanemask_lt;" + TEST.format("%r6"),
        # registers that are never set, or not on every way
        LANES + "@%p2 add.u32 %r6, %r6, 9;" + TEST.format("%r6"),
        LANES + "setp.gt.s32 %p3, %r1, 0; mov.u32 %r7, 1; @%p2 add.u32 %r6, %r6, 9;"
        "@%p3 mov.u32 %r7, %r6;" + TEST.format("%r7"),
        LANES + "@%p2 bra M; mov.u32 %r6, 9; M:" + TEST.format("%r6"),
        # written on a side, copied behind the meeting
        LANES + "mov.u32 %r6, 1; @%p2 bra M; mov.u32 %r6, 9; M: mov.u32 %r7, %r6;"
        + TEST.format("%r7"),
        # the mask of those who are here, and a vote, taken on a side and read behind it
        LANES + "mov.u32 %r6, 1; @%p2 bra M; activemask.b32 %r6; M: shr.u32 %r6, %r6, 20;"
        + TEST.format("%r6"),
        "mov.u32 %r6, %laneid; match.any.sync.b32 %r7, %r6, -1; and.b32 %r7, %r7, 15;"
        + TEST.format("%r7"),
        "atom.shared.add.u32 %r6, [word], 1; and.b32 %r6, %r6, 7;" + TEST.format("%r6"),
        "shfl.sync.up.b32 %r6, %r2, 1, 0, -1;" + TEST.format("%r6"),
        "shfl.sync.idx.b32 %r6|%p1, %r2, %r2, 0x1807, -1;",
        "shfl.sync.idx.b32 %r6, %r2, %r2, 31, -1;" + TEST.format("%r6"),
        # lanes leave a loop at different iterations, by two exits, from an inner loop
        "mov.u32 %r6, 0; N: add.u32 %r6, %r6, 1; setp.gt.u32 %p2, %r6, 9; @%p2 bra M;"
        "setp.lt.u32 %p3, %r6, %r2; @%p3 bra N; M:" + TEST.format("%r6"),
        "mov.u32 %r6, 0; N: mov.u32 %r7, 0; O: add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, %r2;"
        "@%p2 bra O; add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 3; @%p3 bra N;"
        + TEST.format("%r7"),
        # counted on a side inside a loop
        LANES + "mov.u32 %r6, 0; mov.u32 %r7, 0; N: add.u32 %r6, %r6, 1; @%p2 bra M;"
        "add.u32 %r7, %r7, 2; M: setp.lt.u32 %p3, %r6, 4; @%p3 bra N;" + TEST.format("%r7"),
        # from one iteration to the next through another register
        "mov.u32 %r6, 0; mov.u32 %r8, 0; N: mov.u32 %r8, %r6; add.u32 %r6, %r6, 3;"
        "setp.lt.u32 %p2, %r6, %r2; @%p2 bra N;" + TEST.format("%r8"),
        # an index into a table of branches
        "and.b32 %r6, %r2, 1; mov.u32 %r7, 1; ts: .branchtargets Z, Y; brx.idx %r6, ts;"
        "Z: mov.u32 %r7, 9; Y:" + TEST.format("%r7"),
        # what stores and loads bring from lane to lane
        "mul.lo.u32 %r6, %r2, 4; mov.u32 %r7, word; add.u32 %r6, %r6, %r7;"
        "st.shared.u32 [%r6], %r2; ld.shared.u32 %r8, [%r6];" + TEST.format("%r8"),
        ".local .align 4 .b32 mine; st.local.u32 [mine], %r2; ld.local.u32 %r6, [mine];"
        + TEST.format("%r6"),
        "mov.u32 %r6, %tid.x; cvt.u16.u32 %h1, %r6; mul.wide.u16 %r7, %h1, 4; shr.u32 %r7, %r7, 5;"
        + TEST.format("%r7"),
    ],
)  # fmt: skip
def test_lanes_part_where_they_may(body: str) -> None:
    body = ".reg .b16 %h<4>;" + body
    claimed = agreement(body, (64, 1, 1))
    for seed in range(3):
        words = np.random.default_rng(seed).integers(0, 9, 256).astype("u4")
        assert claimed <= executed_agreement(body, words)


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ("ld.relaxed.gpu.global.u32 %r6, [%d1];", NONE),
        ("ld.acquire.cta.global.u32 %r6, [%d1];", NONE),
        ("ld.mmio.relaxed.sys.global.u32 %r6, [%d1];", NONE),
        ("ld.global.cv.u32 %r6, [%d1];", NONE),
        ("ld.global.ca.u32 %r6, [%d1];", WARP),
        ("ld.global.u32 %r6, [%d1];", WARP),
        ("ld.const.u32 %r6, [table+4];", BLOCK),
        ("ld.shared.u32 %r6, [word+4];", WARP),
        ("ldu.global.u32 %r6, [%d1];", WARP),
        ("mov.u32 %r6, %clock;", NONE),
        ("mov.u32 %r6, %smid;", NONE),
        ("mov.u32 %r6, %warpid;", WARP),
        ("mov.u32 %r6, %lanemask_gt;", NONE),
        ("mov.u32 %r6, %nctaid.x;", BLOCK),
        ("atom.global.add.u32 %r6, [%d1], 0;", NONE),
        ("activemask.b32 %r6;", WARP),
        ("redux.sync.add.s32 %r6, %r2, -1;", WARP),
        ("elect.sync %r6|%p3, -1; selp.u32 %r6, 1, 9, %p3;", NONE),
        ("vadd.u32.u32.u32 %r6, %r2, %r1;", NONE),
        ("tex.1d.v4.s32.s32 {%r6,%r7,%r8,%r9}, [%d1, {%r1}];", NONE),
    ],
)
def test_what_is_claimed_at_most(body: str, most: Agreement) -> None:
    assert agreement(body + TEST.format("%r6")) <= most
