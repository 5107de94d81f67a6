"""What ptxas takes though the manual has it not: taken here as well, and of unknown value."""

from __future__ import annotations

from pathlib import Path

import pytest
from parsing import parse_text

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.func (.reg .b32 rv) f(.reg .b32 a) { mov.b32 rv, a; ret; }
.visible .entry k(.param .u64 p)
{
.reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .b128 %q<4>; .reg .pred %p<4>;
ld.param.u64 %d1, [p];
"""
TAKEN = (
    "add.u32 %r1, f, 4;",
    "fma.rn.f32 %r1, f, %r2, %r3;",
    "selp.b32 %r1, f, %r2, %p1;",
    "mul.wide.u32 %d2, f, 3;",
    "lop3.b32 %r1, f, %r2, %r3, 0x1;",
    "st.global.b32 [%d1], f;",
    "add.bf16 %h1, {%h2, %h3}, %h1;",
    "add.bf16 {%h1, %h2}, %h2, %h3;",
    "add.bf16x2 %r1, {%r2, %r2}, %r3;",
    "atom.and.b32 %r1, [%d1], %r2, %r3;",
    "atom.exch.b128 %q1, [%d1], %q2, %q3;",
)
REFUSED = (
    "shl.b32 %r1, %r2, f;",
    "cvt.u64.u32 %d1, f;",
    "min.bf16x2 %r1, f, %r2;",
    "add.u32 %r1, L, 4;",
    "add.f16 %h1, {%h2, %h3}, %h1;",
    "add.bf16x2 %r1, {%h2, %h2}, %r3;",
    "atom.add.u32 %r1, [%d1], %r2, %r3;",
    "atom.exch.b64 %d1, [%d1], %d2, %d3;",
)


@pytest.mark.parametrize("statement", TAKEN)
def test_what_ptxas_takes_is_bounded(statement: str, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(f"{HEAD}{statement}\nret;\n}}\n", encoding="utf-8")
    answer = bound_file(Request(str(path), block="32", unknown_at_worst=True))
    assert [row.diagnostics for row in answer.refused] == []


@pytest.mark.parametrize("statement", REFUSED)
def test_what_ptxas_refuses_is_refused(statement: str) -> None:
    with pytest.raises(PtxwcetError):
        parse_text(f"{HEAD}L: {statement}\nret;\n}}\n")


@pytest.mark.parametrize("least", ["f", "%r4"])
def test_a_number_that_is_a_function_bounds_no_loop(least: str, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    body = (
        "and.b32 %r4, f, 15;\nmov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1;\n"
        f"setp.lt.u32 %p1, %r1, {least};\n@%p1 bra L;\n"
    )
    path.write_text(f"{HEAD}{body}ret;\n}}\n", encoding="utf-8")
    answer = bound_file(Request(str(path), block="32"))
    codes = [row.diagnostics[0].code for row in answer.refused]
    if least == "f":
        assert codes == ["PW203"]
    else:  # four bits of it: at most 15
        assert codes == ["PW203"] or answer.answered[0].worst.bound.cycles > 15
