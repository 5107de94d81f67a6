"""Barriers behind a branch at which lanes may have gone to the kernel's last block.

A barrier waits for the threads that have not exited. They may have executed the last block at once,
or when the others come to the barrier, or, where a barrier counts warps, wait for the others there.
"""

from __future__ import annotations

import pytest
from isa_interpreter import execute
from parsing import parse_kernel
from path_attack import Checker, inputs, machine

from ptxwcet.flow.launch import Launch
from ptxwcet.pipeline import analyse_kernel

pytestmark = pytest.mark.fast

KERNEL = """
.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [data];
mov.u32 %r3, %tid.x;
mad.wide.u32 %rd3, %r3, 4, %rd1;
ld.global.nc.u32 %r1, [%rd1];
setp.gt.s32 %p1, %r1, 5;
mov.u32 %r6, 0;
OUTER: mov.u32 %r5, 0;
BODY
add.u32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, 3; @%p4 bra OUTER;
st.global.u32 [%rd3], %r3;
END: ret;
}
"""
LEAVES = "ld.global.u32 %r2, [%rd3]; setp.gt.s32 %p2, %r2, 5; @%p2 bra END;"
OVER = "@!%p2 bra ON; ret; ON:"
AGAIN = "add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 5; @%p3 bra INNER;"

BODIES = {
    "behind the inner loop": f"INNER: {LEAVES} {AGAIN} bar.sync 0;",
    "behind the loop, left on a side": f"INNER: @%p1 bra M; {LEAVES} M: {AGAIN} bar.sync 0;",
    "where sides meet in the loop": f"INNER: @%p1 bra M; {LEAVES} M: bar.sync 0; {AGAIN}",
    "behind a loop on one side": f"@%p1 bra M; INNER: {LEAVES} {AGAIN} M: bar.sync 0;",
    "known lanes": "setp.gt.u32 %p2, %r3, 4; @%p2 bra END; bar.sync 0;",
    "a branch over a return": f"{LEAVES.replace('@%p2 bra END;', OVER)} bar.sync 0;",
    "known lanes, a return": "setp.gt.u32 %p2, %r3, 4; @%p2 ret; bar.sync 0;",
    "known lanes fall": "setp.lt.u32 %p2, %r3, 4; @%p2 bra ON; ret; ON: bar.sync 0;",
    "in a loop": f"INNER: setp.gt.u32 %p2, %r3, %r6; @%p2 bra END; bar.sync 0; {AGAIN}",
    "before the branch": f"bar.sync 0; INNER: {AGAIN} @%p1 bra END;",
    "a branch that all lanes take alike": f"INNER: @%p1 bra END; {AGAIN} bar.sync 0;",
    "no barrier": f"INNER: {LEAVES} {AGAIN}",
}


@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize("body", BODIES.values(), ids=[*BODIES])
def test_lanes_that_go_to_the_end_pass_no_barrier(body: str, threads: int) -> None:
    kernel = parse_kernel(KERNEL.replace("BODY", body))
    launch = Launch((threads, 1, 1))
    checker = Checker(analyse_kernel(kernel, launch, machine()))
    for given in inputs(launch, 1, 12, 2000):
        run = execute(kernel, given)
        assert run.is_whole
        assert checker.check(run, given) is None
        assert checker.check_time(run, given) is None
