"""A choice at the first block of a loop that is decided at some visits, and does not end the loop.

Wrong was: what the first block of a loop decides is the loop's end, which is numbered entry by
entry. Here a loop begins with a choice whose visits are decided in one order for the one warp, in
another order for the other: a value that is halved is known behind a loop that was executed one by
one, and not behind one of which a closed form was found.
"""

from __future__ import annotations

import pytest
from parsing import parse_kernel
from refusals import refusal_of
from test_barrier_order import KERNEL, LONG, analyse_and_hold

pytestmark = pytest.mark.fast

TEXT = (
    KERNEL.split("setp.lt.u32")[0].replace("%r<9>", "%r<20>").replace("%p<5>", "%p<15>")
    + "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800000; shr.u32 %r7, %r3, 5;"
    + "ld.global.nc.u32 %r15, [%rd1]; setp.eq.u32 %p10, %r7, 0; sub.u32 %r8, 2, %r7;"
    + "mov.u32 %r4, 0; FIRST and.b32 %r14, %r15, 1; setp.eq.u32 %p1, %r14, 0; @%p1 bra M;"
    + "bar.sync 0; M: setp.ne.u32 %p13, %r4, %r8; @%p13 bra P;"
    + LONG.format(0, 0)  # warp 1 in iteration 1, warp 0 in iteration 2, behind its barrier
    + "P: mov.u32 %r15, 0xA5A5A5A0; setp.eq.u32 %p1, %r4, 0; @%p1 bra O;"
    + "mov.u32 %r15, 0xA5A5B5A0; O: setp.eq.u32 %p9, %r4, WHO; mov.u32 %r17, 0;"
    + "mov.u32 %r18, 0xB2E9; I: @!%p9 bra N; and.b32 %r19, %r18, 1; setp.eq.u32 %p11, %r19, 0;"
    + "@%p11 bra N; add.f32 %f1, %f1, %f2; N: shr.u32 %r18, %r18, 1; shr.u32 %r15, %r15, 1;"
    + "add.u32 %r17, %r17, 1; setp.lt.u32 %p2, %r17, 12; @%p2 bra I;"
    + "add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 3; @%p2 bra H;"
    + "LAST E: st.global.f32 [%rd3], %f1; ret; }"
)
PLACES = {
    "first block of the loop": "H:",
    "another block": "H: setp.eq.u32 %p14, %r4, 77; @%p14 bra P;",
}


@pytest.mark.parametrize("first", PLACES.values(), ids=PLACES)
def test_visits_that_are_decided_in_another_order(first: str) -> None:
    text = TEXT.replace("FIRST", first)
    apart = text.replace("WHO", "%r7").replace("LAST", "@!%p10 bra E; bar.sync 0;")
    kernel = parse_kernel(apart)
    assert refusal_of(analyse_and_hold, kernel).code == "PW502"
    kernel = parse_kernel(text.replace("WHO", "1").replace("LAST", ""))
    analyse_and_hold(kernel)
