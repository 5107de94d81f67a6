"""What an H200 made of instructions where the text of PTX had been read in another way.

The numbers were read from the GPU (driver 580.159, ptxas 13.0, -O0 and -O3 alike): see
docs/experiments/silicon-semantics.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from answers import only_answer, only_refusal
from single_instruction import evaluate
from warp_matrices import product

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
    # of two that are no numbers
    ("add.rn.f64 %r0, %a, %b;", "u8u8>u8", (0xFFF8 << 48, 0x7FF0000000000001), 0x7FF8 << 48 | 1),
    ("mul.rz.f64 %r0, %a, %b;", "u8u8>u8", (0x7FF0000000000001, 0x7FF8 << 48), 0x7FF8 << 48),
    ("fma.rn.f64 %r0, %a, %b, %c;", "u8u8u8>u8", (0, 0xFFF8123456789ABC, 0x7FF8 << 48),
     0xFFF8123456789ABC),
    ("min.f64 %r0, %a, %b;", "u8u8>u8", (0x7FF8 << 48, 0x7FF0000000000001), 0x7FF8 << 48 | 1),
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


PRODUCTS = [
    ("m16n8k16", "f32.f16.f16.f32",
     "2a3d bdf2 3c73 3b7d 505a 4a2d aa4a 28ec 408d b175 3db5 4904 d183 bc6b 4657 b843",
     "5454 b27c ac12 20b4 3afe 487f 3d07 4d99 c49c af9a b9aa 385f c8e3 546a d517 4dba",
     0x421d2000, 0x40686480),
    ("m16n8k8", "f32.bf16.bf16.f32",
     "3e17 3cba c021 3b5d 40e8 ba93 c058 4242",
     "c1e4 be09 be5d bfbc bbdd c268 40e7 3f14",
     0xbc340000, 0x3c58f600),
    ("m16n8k8", "f32.tf32.tf32.f32",
     "bf0da000 c092e000 be54e000 3d30c000 40188000 bc2ec000 427b6000 3ce78000",
     "bf978000 c0f0e000 bfb94000 3c776000 4099a000 bf530000 bffbe000 40c98000",
     0x4293cf5e, 0xc0280868),
    ("m16n8k32", "f32.e4m3.e4m3.f32",
     "f3 11 68 b9 d0 13 2b 92 31 b9 d2 90 20 33 28 20 "
     "50 b3 90 33 eb 13 00 4b 73 da e1 48 d2 99 ba 39",
     "68 2b b0 9a a0 3b 32 80 5a 4b da f2 09 7b 5a e0 "
     "c0 8a d0 0b 39 a3 eb e8 53 b8 f8 11 9b 42 d8 61",
     0x437d2000, 0x433228c0),
    ("m16n8k32", "f16.e4m3.e5m2.f16",
     "aa 2a 3b 29 a8 ab 2c bd 3a b8 2c bc 2a af aa 2d "
     "ae 3e bd b8 29 bb 39 af 38 3a 3e ac ab ae af ba",
     "ae a9 ae ac 2f ab ba bd 3e 28 bf 3b 3f 29 2e 2d "
     "38 3c 2a 3e 3d ba 2a 38 be 3a bd a9 aa bb bd 29",
     0xbd29, 0x2d90),
]  # fmt: skip
"""A row of A and a column of B, C and D: where sums in double precision are furthest away."""


@pytest.mark.parametrize(("shape", "types", "row", "column", "start", "result"), PRODUCTS)
def test_products_of_matrices_have_the_bits_of_silicon(
    shape: str, types: str, row: str, column: str, start: int, result: int
) -> None:
    m, n, k = (int(size) for size in re.findall(r"\d+", shape))
    left, right = ([int(word, 16) for word in text.split()] for text in (row, column))
    assert len(left) == len(right) == k
    a, b = np.zeros((m, k), object), np.zeros((k, n), object)
    a[0], b[:, 0] = left, right
    name = f"mma.sync.aligned.{shape}.row.col.{types}"
    found = product(
        name, (m, n, k), tuple(types.split(".")), (a, b, np.full((m, n), start, object))
    )
    assert hex(found[0, 0]) == hex(result)


def _without_findings(text: str, columns: list, results: list[str]) -> object:
    found, _ = evaluate(text, columns, results, findings=True)
    return found


COUNTED = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .b16 %h<3>;
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
        (
            "mov.u16 %h1, 511; sub.cc.u32 %r4, %r1, %r1; madc.hi.u16 %h2, %h1, %h1, 0;"
            "cvt.u32.u16 %r2, %h2;",
            65535,
        ),  # ptxas forgets the upper half of the product
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
