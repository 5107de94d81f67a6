"""The printer: PTX text that says the same."""

from __future__ import annotations

import pytest
from parsing import parse_text
from ptx_printer import print_module
from structures import structure

pytestmark = pytest.mark.fast

TEXT = """.version 8.8
.target sm_90a, texmode_independent
.address_size 64
.file 1 "a b/{;}.cu", 123, 456
.global .samplerref s={filter_mode=linear, addr_mode_0=wrap};
.global .u32 y;
.global .u64 x[2]={generic(y)+8, 0};
.const .align 4 .b8 t[4]={1, 2, 0xFF, -1};
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.func .attribute(.unified(1, 2)) (.reg .b32 rv) f(.reg .b32 a) .noreturn
{
trap;
}
.visible .entry k(.param .u64 .ptr .global .align 16 P0, .param .align 8 .b8 P1[24])
.maxntid 16, 8
.explicitcluster
.pragma "nounroll";
{
.reg .pred %p<3>;
.reg .b32 %r<20>;
.reg .b64 %rd<2>;
.reg .v4 .f32 v;
.shared .align 4 .b8 sm[64];
proto: .callprototype(.param .b32 _)_(.param .b64 _);
T: .branchtargets L, M<2>;
.loc 1 3 4
ld.param.b32 %r1, [P1+4];
L:
{
.reg .b32 %r1;
@!%p1 add.s32 %r1, %r2, -4;
setp.lt.and.s32 %p1|_, %r1, %r2, !%p2;
}
.loc 1 9 9, function_name $L__info0, inlined_at 1 3 4
ld.shared.v4.f32 v, [%r2+-8];
mov.f32 v.x, 0f3F800000;
vmad.s32.s32.u32 %r1, %r2.b1, -%r3.b2, %r4;
tex.2d.v4.f32.f32 {v.x, v.y, _, v.w}|%p1, [%rd1, {v.x, v.y}], {%r1, %r2};
ld.shared.b32 %r1, sm[%r2+4];
call (%r1), f, (%r2);
M0:
M1:
.pragma "nounroll", "x";
brx.idx %r1, T;
}
.section .debug_str { // {
L0: .b8 1,2
}
"""


def printed(text: str) -> str:
    return print_module(parse_text(text))


def test_a_file_in_the_printers_own_style_is_printed_as_it_stands() -> None:
    assert printed(TEXT) == TEXT


def test_comments_and_spacing_go_structure_stays() -> None:
    noisy = TEXT.replace(", ", " ,\t/* c */ ").replace(";\n", " ; // d\n\n")
    noisy = noisy.replace("inlined_at", "\ninlined_at").replace("{\n.reg", "{// e\r\n.reg")
    one = parse_text(noisy)
    two = parse_text(TEXT)
    assert structure(one) == structure(two)
    assert print_module(one) == print_module(two)


def test_several_declarators_become_several_declarations() -> None:
    text = TEXT.split(".file")[0] + ".visible .global .align 4 .u32 a=1, b[2]={2, 3}, c;\n"
    lines = printed(text).splitlines()[3:]
    assert lines == [
        ".visible .global .align 4 .u32 a=1;",
        ".visible .global .align 4 .u32 b[2]={2, 3};",
        ".visible .global .align 4 .u32 c;",
    ]


def test_structure_sees_a_difference() -> None:
    reference = structure(parse_text(TEXT))
    for old, new in [
        ("%r2, -4;", "%r2, -5;"),
        ("@!%p1", "@%p1"),
        (".loc 1 3 4", ".loc 1 3 5"),
        ("M1:\n", ""),
        (".maxntid 16, 8", ".maxntid 8, 16"),
        ("sm[64]", "sm[65]"),
        ("%r<20>", "%r<21>"),
        ("0xFF", "0xFE"),
        ("M<2>", "M<1>"),
    ]:
        assert old in TEXT
        changed = TEXT.replace(old, new)
        if old == "M1:\n":
            changed = changed.replace("M<2>", "M0")
        assert structure(parse_text(changed)) != reference, old


@pytest.mark.parametrize("line", ["frob.x %r1, [%r2], !%p1;", "add.s32 %r1, %r2, 7;"])
def test_an_unknown_opcode_is_printed_like_any_other(line: str) -> None:
    assert f"\n{line}\nM0:\n" in printed(TEXT.replace("M0:\n", f"{line}\nM0:\n"))
