"""Addresses that lanes of a warp do not share, though each lane computes them alike: 32 sectors.

Lanes that have parted at a branch or left a loop bring numbers of their own to where they meet, and
so do guards, choices by lane, atomics and words that others may change meanwhile.
"""

import pytest

from ptxwcet.flow.launch import Launch
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.launch_costs import kernel_accesses

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{{
.reg .b64 %rd<19>;
.reg .b32 %r<19>;
.reg .pred %p<9>;
ld.param.u64 %rd1, [p];
ld.param.u32 %r9, [n];
cvta.to.global.u64 %rd2, %rd1;
mov.u32 %r1, %tid.x;
{body}
mul.wide.u32 %rd3, %r3, 4;
add.s64 %rd4, %rd2, %rd3;
ld.global.u32 %r4, [%rd4];
{after}
st.global.u32 [%rd2], %r1;
ret;
}}
"""
LOOP = "add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, %r9; @%p2 bra O;"


def sectors(body: str, after: str = "") -> int:
    """Those of the last load."""
    text = KERNEL.format(body=body, after=after)
    (kernel,) = parse_module(SourceFile("k.ptx", text)).kernels
    found = kernel_accesses(kernel, Launch((64, 1, 1)))
    return found.accesses[-2].most.sectors


@pytest.mark.parametrize(
    "body",
    [
        # two sides of a branch
        "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra A; ld.global.u32 %r3, [%rd2]; "
        "bra M; A: ld.global.u32 %r3, [%rd2+4]; M:",
        # the end of a loop that lanes leave one after the other
        "mov.u32 %r3, 0; L: add.u32 %r3, %r3, 100; setp.lt.u32 %p1, %r3, %r1; @%p1 bra L;",
        # a guard
        "mov.u32 %r3, 0; setp.lt.u32 %p1, %r1, 7; @%p1 ld.global.u32 %r3, [%rd2];",
        # a choice by lane
        "ld.global.u32 %r5, [%rd2]; ld.global.u32 %r6, [%rd2+4]; setp.lt.u32 %p1, %r1, 7; "
        "selp.b32 %r3, %r5, %r6, %p1;",
        "ld.volatile.global.u32 %r3, [%rd2];",
        "atom.global.add.u32 %r3, [%rd2], 1;",
        "mov.u32 %r3, %clock;",
    ],
)
def test_each_lane_somewhere_else(body: str) -> None:
    assert sectors(body) == 32


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r5, 0; mov.u32 %r3, 0; O: and.b32 %r2, %r1, 3; I: add.u32 %r3, %r3, 64; "
        "sub.u32 %r2, %r2, 1; setp.gt.s32 %p1, %r2, 0; @%p1 bra I;",
        "mov.u32 %r3, 0; mov.u32 %r5, 0; O: setp.lt.u32 %p3, %r1, %r5; @%p3 bra S; "
        "ld.global.u32 %r6, [%rd2]; mov.u32 %r3, %r6; S:",
    ],
)
def test_in_a_loop_in_which_lanes_part(body: str) -> None:
    assert sectors(body, LOOP) == 32


def test_the_same_number_in_all_lanes_is_one_address() -> None:
    assert sectors("ld.global.u32 %r3, [%rd2];") == 1
