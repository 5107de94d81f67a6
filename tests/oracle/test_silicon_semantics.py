"""What an H200 made of instructions where the text of PTX had been read in another way.

The numbers were read from the GPU (driver 580.159, ptxas 13.0, -O0 and -O3 alike): see
docs/experiments/silicon-semantics.md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from answers import only_answer, only_refusal
from single_instruction import evaluate

from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.opened.request import Request

SEEN = [
    # the flag is the carry of a sum, and of a difference that nothing is borrowed
    ("sub.cc.u32 %r1, %a, %b; addc.u32 %r0, %b, %c;", "u4u4u4>u4", (0, 0, 0x80000001), 0x80000002),
    ("add.cc.u32 %r1, %a, %b; subc.u32 %r0, %b, %c;", "u4u4u4>u4", (0, 0, 0x80000001), 0x7FFFFFFE),
    ("sub.cc.u32 %r1, %a, %b; addc.u32 %r0, 0, 0;", "u4u4>u4", (1, 2), 0),
    ("add.cc.u32 %r1, %a, %b; subc.u32 %r0, 0, 0;", "u4u4>u4", (2**32 - 1, 1), 0),
    ("add.cc.u64 %r1, %a, %b; subc.u64 %r0, %b, %c;", "u8u8u8>u8", (1, 0, 1), 2**64 - 2),
    # of fields in 64 bits the place and the length have 32 bits, of others eight
    ("bfe.u64 %r0, %a, %b, %c;", "u8u4u4>u8", (5, 0, 0x10000), 5),
    ("bfe.u64 %r0, %a, %b, 255;", "u8u4>u8", (1, 0x100), 0),
    ("bfe.s64 %r0, %a, %b, %c;", "u8u4u4>u8", (7, 0, 0x1C03), 7),
    ("bfe.s64 %r0, %a, %b, %c;", "u8u4u4>u8", (0x10, 3, 0x1000000), 2),
    ("bfi.b64 %r0, %a, %b, 15, %c;", "u8u8u4>u8", (1, 0x17, 0xFFFDC0), 0x8017),
    ("bfe.u32 %r0, %a, %b, 255;", "u4u4>u4", (1, 0x100), 1),
    ("rem.u16 %r0, %a, %b;", "u2u2>u2", (1, 0), 0xFFFF),
    ("rem.s64 %r0, %a, %b;", "u8u8>u8", (65, 0), 2**64 - 1),
    ("fns.b32 %r0, %a, %b, %c;", "u4u4u4>u4", (0x1F000000, 3, 2**31), 0),
    # what is subnormal in the digits of any exponent is flushed, although it rounds to no such one
    ("mul.ftz.f16 %r0, %a, %b;", "u2u2>u2", (0x3BFF, 0x8400), 0x8000),
    ("fma.rn.ftz.f16 %r0, %a, %b, %c;", "u2u2u2>u2", (0x400, 0x3BFF, 0x8001), 0),
    ("cvt.rp.ftz.f16.f32 %r0, %a;", "u4>u2", (1,), 1),
    ("cvt.rm.ftz.f16.f32 %r0, %a;", "u4>u2", (0x807FFFFF,), 0x8001),
    # no number, read as digits
    ("cvt.rna.tf32.f32 %r0, %a;", "u4>u4", (0x7F800001,), 0x7F800000),
    ("cvt.rna.tf32.f32 %r0, %a;", "u4>u4", (0xFFC12345,), 0xFFC12000),
    ("cvt.rna.satfinite.tf32.f32 %r0, %a;", "u4>u4", (0x7F800001,), 0x7F7FE000),
    ("cvt.rna.satfinite.tf32.f32 %r0, %a;", "u4>u4", (0xFFC12345,), 0xFFC10000),
    ("cvt.rn.tf32.f32 %r0, %a;", "u4>u4", (0xFFC12345,), 0x7FFFE000),
    ("cvt.rn.relu.tf32.f32 %r0, %a;", "u4>u4", (0xFFC12345,), 0x7FFFE000),
    # digits of what is no number that are kept
    ("cvt.f32.bf16 %r0, %a;", "u2>u4", (0xFFC1,), 0xFFC10000),
    ("cvt.rn.f32.f64 %r0, %a;", "u8>u4", (0xFFF8123456789ABC,), 0xFFC091A2),
    ("cvt.rn.f32.f64 %r0, %a;", "u8>u4", (0x7FF0000000000001,), 0x7FC00000),
    ("cvt.rz.f16.f64 %r0, %a;", "u8>u2", (0xFFF8123456789ABC,), 0xFE04),
    ("cvt.rn.bf16.f64 %r0, %a;", "u8>u2", (0xFFF8123456789ABC,), 0xFFC0),
    ("cvt.f64.f16 %r0, %a;", "u2>u8", (0xFE34,), 0xFFF8D00000000000),
    ("cvt.rz.f64.bf16 %r0, %a;", "u2>u8", (0x7F81,), 0x7FF8200000000000),
    ("neg.f16 %r0, %a;", "u2>u2", (0x7E00,), 0x7FFF),
    ("abs.bf16x2 %r0, %a;", "u4>u4", (0x7FC0CB00,), 0x7FFF4B00),
    ("neg.f64 %r0, %a;", "u8>u8", (0xFFF0000000000002,), 0xFFF8000000000002),
    ("abs.f64 %r0, %a;", "u8>u8", (0xFFF8123456789ABC,), 0xFFF8123456789ABC),
    # the upper half alone
    ("rcp.approx.ftz.f64 %r0, %a;", "u8>u8", (0x406FF00000000000,), 0x3F70080400000000),
    ("rcp.approx.ftz.f64 %r0, %a;", "u8>u8", (0x800FFFFFFFFFFFFF,), 0xFFF0000000000000),
    ("rsqrt.approx.ftz.f64 %r0, %a;", "u8>u8", (0xBFE0000000000000,), 0x7FFFFFFF00000000),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kinds", "given", "result"), SEEN)
def test_the_emulator_has_what_silicon_has(
    text: str, kinds: str, given: tuple[int, ...], result: int
) -> None:
    sources, result_kind = kinds.split(">")
    columns = [
        np.array([number], sources[2 * place : 2 * place + 2]) for place, number in enumerate(given)
    ]
    results = [result_kind] * (2 if "%r1" in text else 1)
    found, *_ = np.atleast_2d(_without_findings(text, columns, results))
    assert [f"{int(one):x}" for one in found] == [f"{result:x}"]


def _without_findings(text: str, columns: list, results: list[str]) -> object:
    found, _ = evaluate(text, columns, results, findings=True)
    return found


COUNTED = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %d<4>;
mov.u32 %r1, 0; mov.u32 %r3, 264; mov.u64 %d1, 511;
BODY
L: add.u32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r2; @%p1 bra L;
ret;
}
"""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("sub.cc.u32 %r4, %r1, %r1; addc.u32 %r2, 10, 0;", 11),
        ("add.cc.u32 %r4, %r1, %r1; subc.u32 %r2, 11, 0;", 10),
        ("sub.cc.u32 %r4, %r1, %r1; subc.u32 %r2, 11, 0;", 11),
        # the manual says 255, silicon 511: neither is taken
        ("bfe.u64 %d2, %d1, 0, %r3; cvt.u32.u64 %r2, %d2;", None),
        ("bfe.s64 %d2, %d1, %r3, 9; cvt.u32.u64 %r2, %d2;", None),
        ("mov.u64 %d2, 0; bfi.b64 %d2, %d1, %d2, 0, %r3; cvt.u32.u64 %r2, %d2;", None),
        ("bfe.u64 %d2, %d1, 0, 7; cvt.u32.u64 %r2, %d2;", 127),
        ("bfe.u32 %r2, 511, 0, %r3;", 255),
        ("rem.u32 %r2, %r3, %r1;", None),
        ("addc.u32 %r2, 10, 0;", 11),  # of a flag that nothing has written
    ],
)
def test_loops_are_bounded_as_silicon_runs_them(
    body: str, count: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(COUNTED.replace("BODY", body))
    request = Request(str(path), block="32")
    if count is None:
        (problem,) = only_refusal(request).diagnostics
        assert problem.code == "PW203"
        return
    entries = [
        entry
        for piece in only_answer(request).pieces
        for warp in piece.paths.warps
        for entry in loop_entries(warp.nodes)
    ]
    assert [entry.iterations.base for entry in entries] == [count]
