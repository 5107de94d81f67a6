"""Loops that only ask an mbarrier are waits; those that do anything else are none."""

from __future__ import annotations

import pytest

from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.graph.polling import failing_round
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile

pytestmark = pytest.mark.fast

KERNEL = """
.version 8.6
.target sm_90
.address_size 64
.shared .align 8 .b64 full;
.visible .entry k(.param .u64 out)
{{
  .reg .pred %p<5>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<3>;
  mov.u32 %r1, full;
  mov.u32 %r2, 0;
  mov.u32 %r7, 0;
{body}
  ld.param.u64 %rd1, [out];
  st.global.u32 [%rd1], %r7;
  ret;
}}
"""
ASK = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;"


def found(body: str) -> list[bool] | None:
    """Whether each branch of the round is taken; None for what is no wait."""
    (kernel,) = parse_module(SourceFile("k.ptx", KERNEL.format(body=body))).kernels
    waits = [
        n for n, one in enumerate(kernel.instructions) if one.op_class is OpClass.MBARRIER_WAIT
    ]
    again = failing_round(kernel, build_cfg(kernel), waits[0])
    return None if again is None else [taken for _, taken in again]


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        (f"L: {ASK} @!%p1 bra L;", [True]),
        (f"L: {ASK} @%p1 bra D; bra L; D:", [False, True]),
        (f"L: {ASK} @%p1 bra D; bra.uni L; D: add.s32 %r7, %r7, 1;", [False, True]),
        (
            f"L: {ASK} selp.b32 %r3, 1, 0, %p1; setp.eq.s32 %p2, %r3, 0; @%p2 bra L;",
            [False, False, True],
        ),
        (f"L: {ASK} not.pred %p3, %p1; @%p3 bra L;", [False, True]),
        (f"bra E; L: mov.u32 %r3, 5; E: {ASK} @!%p1 bra L;", [True, False]),
        (f"L: {ASK} @%p1 bra D; E: bra L; D:", [False, True]),
    ],
)
def test_what_only_asks_is_a_wait(body: str, taken: list[bool]) -> None:
    assert found(body) == taken


@pytest.mark.parametrize(
    "body",
    [
        f"{ASK}",
        f"{ASK} @!%p1 bra D; add.s32 %r7, %r7, 1; D:",
        f"L: {ASK} add.s32 %r7, %r7, 1; @!%p1 bra L;",
        f"L: {ASK} @%p1 bra D; mov.u32 %r7, 1; bra L; D:",
        f"L: {ASK} @!%p1 add.s32 %r7, %r7, 1; @!%p1 bra L;",
        f"L: {ASK} xor.b32 %r2, %r2, 1; @!%p1 bra L;",
        f"L: {ASK} add.s32 %r1, %r1, 8; @!%p1 bra L;",
        f"L: {ASK} st.shared.u32 [%r1+8], %r2; @!%p1 bra L;",
        f"L: {ASK} nanosleep.u32 20; @!%p1 bra L;",
        f"L: {ASK} bar.sync 0; @!%p1 bra L;",
        f"L: {ASK} setp.eq.s32 %p2, %r7, 3; @%p2 bra D; @!%p1 bra L; D:",
        f"L: {ASK} ld.shared.u32 %r3, [%r1+8]; setp.eq.s32 %p2, %r3, 0; @%p2 bra L;",
        f"setp.eq.s32 %p4, %r2, 0; L: @%p4 {ASK} @!%p1 bra L;",
        f"L: {ASK} @!%p1 bra M; bra D; M: mbarrier.arrive.shared::cta.b64 _, [%r1]; bra L; D:",
        f"L: {ASK} @%p1 bra L;",
        f"L: mov.u32 %r3, %clock; {ASK} @!%p1 bra L; add.s32 %r7, %r7, %r3;",
    ],
)
def test_what_does_anything_else_is_none(body: str) -> None:
    assert found(body) is None


def test_a_register_that_is_written_again_before_it_is_read_may_change() -> None:
    body = f"L: {ASK} selp.b32 %r7, 1, 0, %p1; setp.eq.s32 %p2, %r7, 0; @%p2 bra L; "
    assert found(body) is not None  # behind the loop it is what the last answer made it
    kept = body.replace("L:", "L: mov.u32 %r4, %r7;")
    assert found(kept) is not None
    assert found(f"{kept} add.s32 %r7, %r7, %r4;") is None  # the answer of the round before


def test_two_waits_are_two_loops() -> None:
    """The first round ends at its own wait, not at another one."""
    assert found(f"L: {ASK} @!%p1 bra L; M: {ASK} @!%p1 bra M;") == [True]
    assert found(f"L: {ASK} @%p1 bra D; {ASK} @!%p1 bra L; D:") is None
