"""Conditions of branches as text: what people read in a template."""

from __future__ import annotations

import pytest
from parsing import parse_kernel

from ptxwcet.flow.values.condition_text import ConditionReader

pytestmark = pytest.mark.fast

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n, .param .align 4 .b8 s[8])
{
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>; .reg .f32 %f<9>;
ld.param.u32 %r1, [n]; ld.param.u64 %d1, [p];
"""


def read(body: str, *, holds: bool = True) -> tuple[str, tuple[str, ...]]:
    text = f"{HEAD}{body}\n@%p1 bra L;\nL: ret;\n}}\n"
    kernel = parse_kernel(text)
    guard = kernel.instructions[-2].guard
    assert guard is not None
    return ConditionReader(kernel, {"n": "count", "p": "data"}).condition(guard, holds=holds)


CASES = [
    ("setp.lt.u32 %p1, %r1, 7;", "count < 7", "count >= 7"),
    ("mov.u32 %r2, %tid.x; setp.ge.s32 %p1, %r2, %r1;", "tid.x >= count", "tid.x < count"),
    ("setp.hs.u32 %p1, %r1, -1;", "count >= 4294967295", "count < 4294967295"),
    ("setp.ge.s32 %p1, %r1, -1;", "count >= -1", "count < -1"),
    ("setp.ne.s32 %p2, %r1, 0; not.pred %p1, %p2;", "count == 0", "count != 0"),
    (
        "mad.lo.s32 %r2, %r1, 3, 4; setp.eq.s32 %p1, %r2, %r1;",
        "(count * 3 + 4) == count",
        "(count * 3 + 4) != count",
    ),
    (
        "ld.global.u32 %r2, [%d1+4]; setp.gt.s32 %p1, %r2, 0;",
        "loaded(PTX line 8) > 0",
        "loaded(PTX line 8) <= 0",
    ),
    (
        "ld.global.f32 %f1, [%d1]; setp.lt.f32 %p1, %f1, 0f40800000;",
        "loaded(PTX line 8) < 4.0",
        "!(loaded(PTX line 8) < 4.0)",
    ),
    (
        "ld.global.f32 %f1, [%d1]; setp.neu.f32 %p1, %f1, %f1;",
        "loaded(PTX line 8) != loaded(PTX line 8) or NaN",
        "!(loaded(PTX line 8) != loaded(PTX line 8) or NaN)",
    ),
    (
        "setp.lt.u32 %p2, %r1, 7; setp.eq.and.u32 %p1, %r1, 3, !%p2;",
        "(count == 3) && (count >= 7)",
        "!((count == 3) && (count >= 7))",
    ),
    (
        "setp.lt.u32 %p2, %r1, 7; setp.gt.u32 %p3, %r1, 2; or.pred %p1, %p2, %p3;",
        "(count < 7) || (count > 2)",
        "!((count < 7) || (count > 2))",
    ),
    ("ld.param.u32 %r2, [s+4]; setp.eq.u32 %p1, %r2, 0;", "loaded(PTX line 8) == 0", None),
    (
        "ld.global.v2.u32 {%r2, %r3}, [%d1]; setp.eq.u32 %p1, %r2, 0;",
        "loaded(PTX line 8) == 0",
        None,
    ),
    ("setp.lt.u32 %p1|%p2, %r1, 7;", "setp(PTX line 8)", None),
    ("setp.lt.u32 %p2|%p1, %r1, 7;", "setp(PTX line 8)", None),
    ("atom.global.add.u32 %r2, [%d1], 1; setp.eq.u32 %p1, %r2, 0;", "atom(PTX line 8) == 0", None),
    (
        "min.u32 %r2, %r1, 9; shr.u32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, 0;",
        "(min(count, 9) >> 1) == 0",
        None,
    ),
    # not what the operators of C compute
    ("mul.hi.u32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 0;", "mul.hi(count, 3) == 0", None),
    ("mad.hi.u32 %r2, %r1, 3, 4; setp.eq.u32 %p1, %r2, 0;", "mad.hi(count, 3, 4) == 0", None),
    ("add.sat.s32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 0;", "add.sat(count, 3) == 0", None),
    ("add.u32 %r2, %r1, -3; setp.eq.s32 %p1, %r2, -1;", "(count + -3) == -1", None),
    ("max.u32 %r2, %r1, -3; setp.eq.s32 %p1, %r2, 0;", "max(count, 4294967293) == 0", None),
    ("add.u16x2 %r2, %r1, %r1; setp.eq.s32 %p1, %r2, 0;", "add.u16x2(count, count) == 0", None),
    ("cvt.s32.u32 %r2, %r1; setp.eq.s32 %p1, %r2, 0;", "count == 0", None),
    ("cvt.u64.u32 %d2, %r1; setp.eq.u64 %p1, %d2, 0;", "count == 0", None),
    ("cvt.u32.u64 %r2, %d1; setp.eq.u32 %p1, %r2, 0;", "u32(data) == 0", None),
    ("mul.wide.u32 %d2, %r1, 4; setp.eq.u64 %p1, %d2, 0;", "(count * 4) == 0", None),
]


@pytest.mark.parametrize(("body", "text", "opposite"), CASES)
def test_conditions(body: str, text: str, opposite: str | None) -> None:
    assert read(body) == (text, ())
    if opposite is not None:
        assert read(body, holds=False) == (opposite, ())


def test_a_register_that_several_instructions_write_keeps_its_name() -> None:
    body = "mov.u32 %r2, 3; add.s32 %r2, %r2, 5; setp.lt.u32 %p1, %r2, %r1;"
    assert read(body) == ("%r2 < count", ("%r2 = 3, or %r2 + 5",))


def test_a_guarded_write_is_not_followed() -> None:
    body = "setp.eq.u32 %p2, %r1, 1; @%p2 mov.u32 %r2, 3; setp.lt.u32 %p1, %r2, %r1;"
    assert read(body)[0] == "%r2 < count"


def test_long_expressions_are_cut() -> None:
    sums = "".join(f"mad.lo.s32 %r{i + 1}, %r{i}, %r{i}, 123456789;" for i in range(1, 7))
    text, _ = read(f"{sums}setp.lt.u32 %p1, %r7, 0;")
    assert text.endswith("< 0")
    assert len(text) < 200


def test_a_condition_that_is_never_written() -> None:
    assert read("") == ("%p1", ())
    assert read("", holds=False) == ("!%p1", ())
