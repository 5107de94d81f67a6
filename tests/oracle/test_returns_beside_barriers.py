"""Lanes that return beside lanes that wait at a barrier: the machine may run either side first.

Wrong was: a barrier below a branch on data is fine if the lanes of its other side end there. They
have ended if that side came first. If it comes last, what it executes belongs to the section behind
the barrier; so of two warps of which one is early and one late, each takes long in another section.
Where it executes a return alone, or work without branches before it, that is counted before each
barrier and at the end.
"""

from __future__ import annotations

import pytest
from isa_interpreter import execute
from path_attack import Checker, inputs, machine

from ptxwcet.flow.launch import Launch
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

KERNEL = """
.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [data];
mov.u32 %r1, %tid.x;
mad.wide.u32 %rd2, %r1, 64, %rd1;
ld.global.nc.u32 %r2, [%rd2];
setp.ge.u32 %p2, %r2, 0x80000000;
BODY
}
"""
PARTED = {
    "work that branches": (
        "@%p2 bra GONE; bar.sync 0; ret; GONE: setp.eq.u32 %p3, %r1, 3;"
        " @%p3 st.global.u32 [%rd2], %r2; @%p3 bra END; st.global.u32 [%rd2], %r1; END: ret;"
    ),
    "a return that is always taken": (
        "@%p2 bra WAIT; and.b32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, 3; @%p4 ret; WAIT: bar.sync 0;"
    ),
}
WORK = "st.global.u32 [%rd2], %r2; add.u32 %r3, %r2, 1; st.global.u32 [%rd2+4], %r3;"
WORKING = {
    "work and a return beside a barrier": (
        "@%p2 bra WAIT; st.global.u32 [%rd2], %r2; ret; WAIT: bar.sync 0; ret;"
    ),
    "a way over other blocks": (
        f"@%p2 bra GONE; bar.sync 0; {WORK} bar.sync 0; bra END; GONE: {WORK} bra MORE;"
        f" MORE: {WORK} bra END; END: ret;"
    ),
    "known lanes": (
        f"setp.lt.u32 %p3, %r1, 40; @%p3 bra ON; {WORK} ret; ON: bar.sync 0; {WORK} ret;"
    ),
    "two works": (
        "@%p2 bra GONE; ld.global.nc.u32 %r4, [%rd2+32]; setp.gt.s32 %p3, %r4, 7; @%p3 bra LEFT;"
        f" bar.sync 0; {WORK} bar.sync 0; ret; GONE: {WORK} ret; LEFT: {WORK} {WORK} ret;"
    ),
    "others wait in a loop": (
        "@%p2 bra GONE; mov.u32 %r5, 0; L: bar.sync 0; add.u32 %r5, %r5, 1;"
        f" setp.lt.u32 %p3, %r5, 5; @%p3 bra L; ret; GONE: {WORK} ret;"
    ),
}
TOGETHER = {
    "a return beside a barrier": "@%p2 bra WAIT; ret; WAIT: bar.sync 0; ret;",
    "the barrier on the other side": "@%p2 bra GONE; bar.sync 0; ret; GONE: ret;",
    "a guarded return": "@%p2 ret; bar.sync 0; ret;",
    "a return of the whole block": (
        "ld.param.u64 %rd3, [data]; setp.eq.s64 %p3, %rd3, 77; @%p3 bra WAIT; ret;"
        "WAIT: bar.sync 0; ret;"
    ),
}
LAUNCH = Launch((70, 1, 1), (9, 1, 1))


@pytest.mark.parametrize("body", PARTED.values(), ids=PARTED)
def test_what_lanes_execute_that_have_not_returned_yet(body: str) -> None:
    kernel = parse_module(SourceFile("k.ptx", KERNEL.replace("BODY", body))).kernels[0]
    found = set()
    for given in inputs(LAUNCH, 1, 20, 500):
        run = execute(kernel, given)
        found |= {text for text, _ in run.findings}
    assert "lanes apart at a barrier" in found
    with pytest.raises(PtxwcetError) as caught:
        analyse_kernel(kernel, LAUNCH, machine())
    assert {one.code for one in caught.value.diagnostics} == {"PW222"}


@pytest.mark.parametrize("body", [*TOGETHER.values(), *WORKING.values()])
def test_what_has_ended_before(body: str) -> None:
    kernel = parse_module(SourceFile("k.ptx", KERNEL.replace("BODY", body))).kernels[0]
    checker = Checker(analyse_kernel(kernel, LAUNCH, machine()))
    for given in inputs(LAUNCH, 1, 20, 500):
        run = execute(kernel, given)
        assert not run.findings
        assert checker.check(run, given) is None
        assert checker.check_time(run, given) is None


REFUSED = {
    # compilers let lanes wait there for one another, which those at the barrier never do
    "others come to the same work": f"@%p2 bra GONE; bar.sync 0; GONE: {WORK} ret;",
    # were no part of what is executed before the end: bounds did not count them
    "work ends with a guarded return": f"@%p2 bra GONE; bar.sync 0; ret; GONE: {WORK} @%p3 ret;",
    "a branch to the next instruction": (
        f"@%p2 bra GONE; bar.sync 0; ret; GONE: {WORK} @%p3 bra NEXT; NEXT: ret;"
    ),
    "known lanes, and a guarded return": (
        f"setp.lt.u32 %p4, %r1, 40; @!%p4 bra GONE; bar.sync 0; ret; GONE: {WORK} @%p3 ret;"
    ),
    # lanes that are named wait at the barrier
    "work that waits for the warp": (
        f"@%p2 bra GONE; bar.sync 0; ret; GONE: {WORK} bar.warp.sync -1; ret;"
    ),
    "work that asks the warp": (
        f"@%p2 bra GONE; bar.sync 0; ret; GONE: shfl.sync.idx.b32 %r3, %r2, 0, 31, -1; {WORK} ret;"
    ),
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_such_work_is_refused(body: str) -> None:
    kernel = parse_module(SourceFile("k.ptx", KERNEL.replace("BODY", body))).kernels[0]
    with pytest.raises(PtxwcetError) as caught:
        analyse_kernel(kernel, LAUNCH, machine())
    assert {one.code for one in caught.value.diagnostics} == {"PW222"}


def test_work_may_be_done_before_a_barrier_and_behind_it() -> None:
    """One warp does it at once, another one when the others have come through."""
    work = "sqrt.rn.f32 %f1, %f1;" * 40
    text = KERNEL.replace(".reg .pred", ".reg .f32 %f<2>; .reg .pred")

    def bound(body: str, threads: int) -> int:
        kernel = parse_module(SourceFile("k.ptx", text.replace("BODY", body))).kernels[0]
        return analyse_kernel(
            kernel, Launch((threads, 1, 1), (9, 1, 1)), machine()
        ).worst.bound.cycles

    wait = "bar.sync 0; st.global.u32 [%rd2], %r2; ret;"
    alone = bound(f"{work} ret;", 32) - bound("ret;", 32)
    parted = bound(f"@%p2 bra WAIT; {work} ret; WAIT: {wait}", 64) - bound(wait, 64)
    assert parted >= 2 * alone
