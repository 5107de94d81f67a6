"""Lanes that return beside lanes that wait at a barrier: the machine may run either side first.

Wrong was: a barrier below a branch on data is fine if the lanes of its other side end there. They
have ended if that side came first. If it comes last, what it executes belongs to the section behind
the barrier; so of two warps of which one is early and one late, each takes long in another section.
Where it executes a return alone, that is counted before each barrier and at the end.
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
    "work and a return beside a barrier": (
        "@%p2 bra WAIT; st.global.u32 [%rd2], %r2; ret; WAIT: bar.sync 0; ret;"
    ),
    "a return that is always taken": (
        "@%p2 bra WAIT; and.b32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, 3; @%p4 ret; WAIT: bar.sync 0;"
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


@pytest.mark.parametrize("body", TOGETHER.values(), ids=TOGETHER)
def test_what_has_ended_before(body: str) -> None:
    kernel = parse_module(SourceFile("k.ptx", KERNEL.replace("BODY", body))).kernels[0]
    checker = Checker(analyse_kernel(kernel, LAUNCH, machine()))
    for given in inputs(LAUNCH, 1, 20, 500):
        run = execute(kernel, given)
        assert not run.findings
        assert checker.check(run, given) is None
        assert checker.check_time(run, given) is None
        assert checker.check_time(run, given) is None
