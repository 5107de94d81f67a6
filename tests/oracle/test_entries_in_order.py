"""A loop with barriers that data end, entered several times: warps count its entries alike.

Wrong was: the n-th time that a warp begins some iterations is the n-th time of every other warp.
Here a limit is known to each warp at all entries but one, the first of warp 0 and the last of
warp 1: there it may execute three iterations, and elsewhere one.
"""

from __future__ import annotations

from parsing import parse_kernel
from refusals import refusal_of
from test_barrier_order import KERNEL, LONG, analyse_and_hold

TEXT = (
    KERNEL.split("setp.lt.u32")[0].replace("%r<9>", "%r<23>").replace("%p<5>", "%p<15>")
    + "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800000; shr.u32 %r7, %r3, 5;"
    + "ld.global.nc.u32 %r6, [%rd1]; mov.u32 %r4, 0; WHO"
    # the limit is 1: a value is known behind a loop that was executed one by one, and not behind
    # one of which a closed form was found
    + "OUT: mov.u32 %r15, 0xA5A51000; setp.ne.u32 %p9, %r8, %r4; mov.u32 %r17, 0;"
    + "mov.u32 %r18, 0xB2E9; I: @!%p9 bra N; and.b32 %r19, %r18, 1; setp.eq.u32 %p11, %r19, 0;"
    + "@%p11 bra N; add.f32 %f1, %f1, %f2; N: shr.u32 %r18, %r18, 1; shr.u32 %r15, %r15, 1;"
    + "add.u32 %r17, %r17, 1; setp.lt.u32 %p2, %r17, 12; @%p2 bra I;"
    + "and.b32 %r15, %r15, 3; mov.u32 %r20, 0;"
    + "H: setp.eq.u32 %p1, %r6, 12345; @%p1 bra X; setp.ge.u32 %p1, %r20, 3; @%p1 bra X;"
    + "setp.ge.u32 %p1, %r20, %r15; @%p1 bra X; bar.sync 0; setp.eq.u32 %p1, %r20, 2; @%p1 bra B;"
    + "add.f32 %f1, %f1, %f2; setp.ne.u32 %p1, %r20, 0; @%p1 bra B;"
    + "setp.ne.u32 %p12, %r4, %r21; @%p12 bra B;"
    + LONG.format(0, 0).replace("30", "90")  # warp 0 at entry 1, warp 1 at entry 3
    + "B: bar.sync 0; add.u32 %r20, %r20, 1; bra H;"
    + "X: setp.ne.u32 %p13, %r4, 1; @%p13 bra X1; add.f32 %f1, %f1, %f2;"
    + "X1: setp.ne.u32 %p13, %r4, 3; @%p13 bra X2; add.f32 %f1, %f1, %f2;"
    + "X2: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 5; @%p2 bra OUT;"
    + "st.global.f32 [%rd3], %f1; ret; }"
)
OWN = "shl.b32 %r8, %r7, 2; shl.b32 %r21, %r7, 1; add.u32 %r21, %r21, 1;"
ALIKE = "mov.u32 %r8, 0; shl.b32 %r21, %r7, 1; add.u32 %r21, %r21, 1;"


def test_limits_that_are_known_at_other_entries() -> None:
    kernel = parse_kernel(TEXT.replace("WHO", OWN))
    assert refusal_of(analyse_and_hold, kernel).code == "PW502"


def test_limits_that_are_known_at_the_same_entries() -> None:
    kernel = parse_kernel(TEXT.replace("WHO", ALIKE))
    analyse_and_hold(kernel)
