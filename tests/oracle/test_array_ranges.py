"""Stated ranges of the integers in arrays, held against executions on data within them."""

from __future__ import annotations

import pytest
from containment_runs import contained
from isa_interpreter import OUTSIDE, Input, execute
from isa_memory import PROFILES
from parsing import parse_kernel
from path_attack import attack, machine

from ptxwcet.flow.launch import ArrayRange, Launch
from ptxwcet.ir.kernel import Kernel

BODY = """.version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
{{
.reg .b64 %d<12>;
.reg .b32 %r<9>;
.reg .b16 %h<9>;
.reg .pred %p<9>;
ld.param.u64 %d1, [a];
ld.param.u64 %d2, [b];
mov.u32 %r1, %tid.x;
mad.wide.u32 %d3, %r1, 8, %d1;
ld.global.{load} {to}, [%d3];
{widened}
mov.u32 %r3, 0;
L:
add.s32 %r3, %r3, 1;
setp.{test} %p1, %r3, %r2;
@%p1 bra L;
ret;
}}
"""


def kernel_of(load: str, to: str, widened: str, test: str) -> Kernel:
    text = BODY.format(load=load, to=to, widened=widened, test=test)
    return parse_kernel(text)


CASES = {
    "words": (("u32", "%r2", "", "lt.s32"), ("s32", -5, 40)),
    "unsigned": (("b32", "%r2", "", "lt.u32"), ("u32", 3, 40)),
    "bytes": (("s8", "%r2", "", "lt.s32"), ("s8", -100, 100)),
    "bytes read as others": (("u8", "%r2", "", "lt.s32"), ("s8", 3, 100)),
    "halves": (("u16", "%h1", "cvt.s32.s16 %r2, %h1;", "lt.s32"), ("s16", -7, 60)),
    "long": (("u64", "%d4", "cvt.u32.u64 %r2, %d4;", "lt.u32"), ("u64", 1, 50)),
    "vectors": (("v2.u32", "{%r4, %r5}", "add.s32 %r2, %r4, %r5;", "lt.s32"), ("s32", 0, 30)),
}


@pytest.mark.parametrize("name", CASES)
def test_runs_within_the_ranges_are_among_the_walks(name: str) -> None:
    form, ends = CASES[name]
    kernel = kernel_of(*form)
    launch = Launch((5, 1, 1), (2, 1, 1), arrays={"a": ArrayRange(*ends)})
    found = contained(kernel, launch, seed=3, executions=2 * len(PROFILES), steps=300)
    assert found.code is None
    assert not found.wrong
    assert found.checked > 0
    attacked = attack(kernel, launch, machine(), seed=5, executions=len(PROFILES), steps=300)
    assert not attacked.violations
    # the ends are reached: one less would be a false bound
    low, high = ends[1:]
    narrow = Launch((5, 1, 1), (2, 1, 1), arrays={"a": ArrayRange(ends[0], low, high - 1)})
    paths = attack(kernel, narrow, machine(), seed=5, executions=1, steps=300)
    assert paths.cycles is not None
    assert attacked.cycles is not None
    assert paths.cycles < attacked.cycles


@pytest.mark.parametrize(
    ("load", "kind", "low", "high"),
    [
        ("u64", "u64", 0, 2**64 - 1),
        ("s64", "s64", -(2**63), 2**63 - 1),
        ("b64", "s64", -(2**63), 5),
        ("u64", "u64", 2**63 - 3, 2**64 - 1),
    ],
)
def test_ranges_as_wide_as_the_type(load: str, kind: str, low: int, high: int) -> None:
    """They say nothing or little, and break nothing: the low bits decide here."""
    kernel = kernel_of(load, "%d4", "cvt.u32.u64 %r2, %d4; and.b32 %r2, %r2, 31;", "lt.u32")
    launch = Launch((5, 1, 1), (2, 1, 1), arrays={"a": ArrayRange(kind, low, high)})
    found = contained(kernel, launch, seed=3, executions=len(PROFILES), steps=300)
    assert found.code is None
    assert not found.wrong


def test_a_run_that_writes_another_number_is_not_spoken_of() -> None:
    text = BODY.format(
        load="u32",
        to="%r4",
        widened="st.global.u32 [%d3], 99;\nld.global.u32 %r2, [%d3];",
        test="lt.u32",
    )
    kernel = parse_kernel(text)
    given = Input((1, 1, 1), seed=1, arrays={"a": ArrayRange("u32", 0, 5)}, steps=300)
    assert (OUTSIDE, 0) in execute(kernel, given).findings


OTHERS = {
    "shared": "st.shared.u32 [%r4], 999; ld.shared.u32 %r2, [%r4];",
    "local": "st.local.u32 [%r4], 999; ld.local.u32 %r2, [%r4];",
    "made of words": (
        "ld.param.u32 %r5, [b]; ld.param.u32 %r6, [b+4]; cvt.u64.u32 %d5, %r5; "
        "mul.wide.u32 %d6, %r6, 65536; mul.lo.s64 %d7, %d6, 65536; mul.lo.s64 %d8, %d5, 1; "
        "add.s64 %d9, %d7, %d8; add.s64 %d10, %d9, %d4; st.global.u32 [%d10], 999; "
        "ld.global.u32 %r2, [%d10];"
    ),
}


@pytest.mark.parametrize("load", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("offset", ["sub.s64 %d4, %d3, %d1;", "and.b64 %d4, %d3, 60;"])
def test_what_is_no_more_the_pointer(load: str, offset: str) -> None:
    """A distance that is made of the pointer, added to the address of something else."""
    widened = f"{offset} cvt.u32.u64 %r4, %d4; {load}"
    kernel = kernel_of("u32", "%r7", widened, "lt.s32")
    launch = Launch((5, 1, 1), (2, 1, 1), arrays={"a": ArrayRange("s32", 0, 9)})
    found = attack(kernel, launch, machine(), seed=5, executions=len(PROFILES), steps=2000)
    assert not found.violations
