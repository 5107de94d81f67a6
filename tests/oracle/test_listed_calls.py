"""Calls through a register against executions in which each lane calls any function listed."""

from __future__ import annotations

import pytest
from containment_runs import contained, few_steps
from parsing import parse_text

from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch

HEAD = """.version 8.3
.target sm_80
.address_size 64
.func (.reg .u32 r) few (.reg .u32 a)
{ .reg .pred %p; mov.u32 r, 0; L: add.u32 r, r, 1; setp.lt.u32 %p, r, 3; @%p bra L; ret; }
.func (.reg .u32 r) by_data (.reg .u32 a)
{ .reg .pred %p; setp.lt.u32 %p, a, 9; @%p bra S; mov.u32 r, 2; ret; S: mov.u32 r, 1; }
.func (.reg .u32 r) leaves (.reg .u32 a)
{ .reg .pred %p; setp.lt.u32 %p, a, 4; @%p exit; mov.u32 r, 4; ret; }
.func (.reg .u32 r) inner (.reg .u32 a)
{ .reg .b64 %f; T: .calltargets few, by_data; cvt.u64.u32 %f, a; call (r), %f, (a), T; ret; }
.visible .entry k(.param .u64 data)
{
.reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<4>;
ld.param.u64 %rd1, [data];
mov.u32 %r1, %tid.x;
mad.wide.u32 %rd2, %r1, 4, %rd1;
ld.global.u32 %r3, [%rd2];
ld.global.u32 %r4, [%rd1];
setp.lt.u32 %p1, %r3, 100;
cvt.u64.u32 %rd3, %r3;
cvt.u64.u32 %rd4, %r4;
mov.u32 %r2, 1;
"""
BODIES = {
    "data of lanes": "T: .calltargets few, by_data; call (%r2), %rd3, (%r1), T;",
    "data of all": "T: .calltargets few, by_data; call (%r2), %rd4, (%r1), T; bar.sync 0;",
    "a guard": "T: .calltargets few, by_data; @%p1 call (%r2), %rd3, (%r1), T;",
    "a list in a list": "T: .calltargets inner, few, by_data; call (%r2), %rd3, (%r1), T;",
    "lanes that end": "T: .calltargets leaves, few; call (%r2), %rd3, (%r1), T;",
    "in a loop": "mov.u32 %r5, 0; B: { T: .calltargets few, by_data; call (%r2), %rd3, (%r1), T; }"
    "add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 4; @%p2 bra B;",
    "a bound that is called for": "T: .calltargets few, by_data; call (%r2), %rd3, (%r1), T;"
    "C: sub.u32 %r2, %r2, 1; setp.gt.s32 %p2, %r2, 0; @%p2 bra C;",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
def test_each_executed_path_is_one_that_is_bounded(body: str) -> None:
    module = parse_text(f"{HEAD}{body}\nst.global.u32 [%rd2], %r2; ret; }}\n")
    launch = Launch((40, 1, 1))
    kernel = inline_calls(module.kernels[-1], module)
    found = contained(kernel, launch, seed=1, executions=12, steps=few_steps(launch, 20_000))
    assert (found.code, found.wrong) == (None, "")
    assert found.checked > 0
