"""Warps that end where others wait: on machines whose returns take longer than their barriers.

Wrong was: a warp that ends takes no longer than one that goes on, which ends with the same
instructions. The others wait for its end, and end later themselves.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from isa_interpreter import execute
from parsing import parse_kernel
from path_attack import Checker, inputs, machine

from ptxwcet.flow.launch import Launch
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.model import OpTiming
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.support.diagnostics import PtxwcetError

KERNEL = """
.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %rd<3>;
ld.param.u64 %rd1, [data];
mov.u32 %r3, %tid.x;
shr.u32 %r4, %r3, 5;
mad.wide.u32 %rd2, %r4, 4, %rd1;
ld.global.u32 %r1, [%rd2];
and.b32 %r1, %r1, 1;
setp.eq.u32 %p1, %r1, 0;
@%p1 bra END;
bar.sync 0;
END: ret;
}
"""


@pytest.mark.parametrize(("initiation", "latency"), [(1, 4), (1, 300), (100, 4), (40, 40)])
def test_warps_wait_for_those_that_end(initiation: int, latency: int) -> None:
    row = machine().timings[OpClass.RETURN]
    assert isinstance(row, OpTiming)
    slow = replace(row, initiation_cycles=initiation, latency_cycles=latency)
    on = replace(machine(), timings={**machine().timings, OpClass.RETURN: slow})
    kernel = parse_kernel(KERNEL)
    launch = Launch((96, 1, 1))
    checker = Checker(analyse_kernel(kernel, launch, on))
    for given in inputs(launch, 1, 20, 200):
        run = execute(kernel, given)
        assert checker.check_time(run, given) is None


@pytest.mark.parametrize("guard", ["setp.ge.u32 %p1, %r4, 2;", ""], ids=["decided", "by data"])
def test_who_has_ended_is_missed_where_warps_are_counted(guard: str) -> None:
    """``bar.sync 0`` waits for whoever is there; ``bar.sync 0, 96`` for three warps, for ever."""
    ends = KERNEL.replace("@%p1 bra", f"{guard}\n@%p1 bra")
    analyse_kernel(parse_kernel(ends), Launch((96, 1, 1)), machine())
    counts = parse_kernel(ends.replace("bar.sync 0;", "bar.sync 0, 96;"))
    with pytest.raises(PtxwcetError, match="ended") as refused:
        analyse_kernel(counts, Launch((96, 1, 1)), machine())
    assert [one.code for one in refused.value.diagnostics] == ["PW504"]
    everybody = KERNEL.replace("@%p1 bra END;", "").replace("bar.sync 0;", "bar.sync 0, 96;")
    analyse_kernel(parse_kernel(everybody), Launch((96, 1, 1)), machine())
