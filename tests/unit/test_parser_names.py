"""Scopes, labels, branch tables, source lines, heads and variables as the parser lowers them."""

from __future__ import annotations

import pytest
from parsing import parse_text

from ptxwcet.ir.kernel import (
    Address,
    Immediate,
    Kernel,
    Module,
    Register,
    Selected,
    SourceLocation,
    Space,
    SpecialRegister,
    SymbolRef,
    Vector,
)
from ptxwcet.ir.op_classes import ControlEffect

pytestmark = pytest.mark.fast

HEADER = ".version 8.8\n.target sm_90a, texmode_unified\n.address_size 64\n"
DECLARATIONS = ".reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<20>;\n"


def module(text: str) -> Module:
    return parse_text(HEADER + text)


def kernel(statements: str, module_text: str = "") -> Kernel:
    body = f"{module_text}\n.visible .entry k(.param .u64 P0)\n{{\n{DECLARATIONS}{statements}\n}}\n"
    return module(body).kernels[0]


# --- scopes ---------------------------------------------------------------------------------------


def test_an_inner_register_shadows_the_outer_one() -> None:
    found = kernel("mov.b32 %r1, 1; { .reg .b32 %r1; mov.b32 %r1, %r2; } mov.b32 %r1, 3;")
    assert [i.writes for i in found.instructions] == [("%r1",), ("%r1@1",), ("%r1",)]
    assert found.instructions[1].reads == ("%r2",)
    assert found.registers["%r1@1"] == "b32"


def test_a_register_used_and_then_redeclared_in_one_block() -> None:
    text = "{ mov.b32 %r1, 1; .reg .b32 %r1; mov.b32 %r1, 2; .reg .f32 %f<4>; mov.f32 %f3, %f4; }"
    found = kernel(text)
    assert [i.writes for i in found.instructions] == [("%r1",), ("%r1@1",), ("%f3@1",)]
    assert found.instructions[2].reads == ("%f4",)


def test_sibling_blocks_have_names_of_their_own() -> None:
    found = kernel(
        "{ .reg .b32 t; mov.b32 t, 1; } { .reg .b64 t; mov.b64 t, 1; { mov.b64 t, 2; } }"
    )
    assert [i.writes for i in found.instructions] == [("t@1",), ("t@2",), ("t@2",)]
    assert (found.registers["t@1"], found.registers["t@2"]) == ("b32", "b64")


def test_leading_zeros_name_the_same_register() -> None:
    (first, second) = kernel("mov.b32 %r01, 1; mov.b32 %r1, 2;").instructions
    assert first.writes == second.writes == ("%r1",)


def test_big_ranges_need_no_memory() -> None:
    found = kernel(".reg .b32 %big<200000000>; mov.b32 %big199999999, 1;")
    assert found.instructions[0].writes == ("%big199999999",)
    assert len(found.registers) < 100


def test_same_label_in_two_blocks() -> None:
    found = kernel("L: { L: @%p1 bra L; } { L: @%p1 bra L; } bra L; ret;")
    assert dict(found.labels) == {"L": 0, "L@1": 0, "L@2": 1}
    assert [i.targets for i in found.instructions] == [("L@1",), ("L@2",), ("L",), ()]


def test_branches_out_of_blocks_forward_and_back() -> None:
    found = kernel("A: { { @%p1 bra B; bra A; } B: ret; } B: ret; END:")
    assert [i.targets for i in found.instructions] == [("B@1",), ("A",), (), ()]
    assert dict(found.labels) == {"A": 0, "B@1": 2, "B": 3, "END": 4}


def test_labels_named_like_opcodes_and_members_of_a_register_range() -> None:
    found = kernel(".reg .pred bra; add: @bra bra add; %r1: bra %r1; ret: ret;")
    assert [i.targets for i in found.instructions] == [("add",), ("%r1",), ()]
    assert found.instructions[0].guard is not None


def test_branch_tables() -> None:
    text = "T: .branchtargets L0, L<2>, E; { brx.idx %r1, T; } L0: L1: ret; E: ret;"
    found = kernel(text)
    assert dict(found.branch_tables) == {"T": ("L0", "L0", "L1", "E")}
    branch = found.instructions[0]
    assert branch.control is ControlEffect.INDIRECT_BRANCH
    assert branch.targets == ("L0", "L0", "L1", "E")
    assert branch.reads == ("%r1",)


def test_calls() -> None:
    text = ".func (.reg .b32 o) f (.reg .b32 a) { mov.b32 o, a; ret; }"
    found = kernel(
        "P: .callprototype (.reg .b32 _) _ (.reg .b32 _); call (%r1), f, (%r2); call (%r1), %rd1, "
        "(7), P; ret;",
        text,
    )
    direct, indirect = found.instructions[:2]
    assert (direct.callee, direct.reads, direct.writes) == ("f", ("%r2",), ("%r1",))
    assert (indirect.callee, indirect.reads, indirect.writes) == (None, ("%rd1",), ("%r1",))


# --- operands -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4", Immediate(4, "4")),
        ("-4", Immediate(-4, "-4")),
        ("- 4", Immediate(-4, "-4")),
        ("0x1F", Immediate(31, "0x1F")),
        ("0X1fU", Immediate(31, "0X1fU")),
        ("017", Immediate(15, "017")),
        ("0b101", Immediate(5, "0b101")),
        ("(1+2)*3", Immediate(9, "9")),
        ("(1<<4|3)>2?5:~6", Immediate(5, "5")),
        ("(1<<4|3)<2?5:~6", Immediate(-7, "-7")),
        ("-7/2", Immediate(-3, "-3")),
        ("-7%4", Immediate(1, "1")),
        ("-1>>1", Immediate(-1, "-1")),
        ("(.u64)-1>>63", Immediate(1, "1")),
        ("0U-1", Immediate(-1, "-1")),
        ("!5+!0", Immediate(1, "1")),
        ("WARP_SZ*2", Immediate(64, "64")),
        ("1.5", Immediate(1.5, "1.5")),
        ("-.5e1", Immediate(-5.0, "-.5e1")),
        ("0f3F800000", Immediate(1.0, "0f3F800000")),
        ("0d3FF8000000000000", Immediate(1.5, "0d3FF8000000000000")),
        ("%tid.x", SpecialRegister("%tid.x")),
        ("%clock64", SpecialRegister("%clock64")),
        ("sym+8", SymbolRef("sym", 8)),
        ("{%r1, %r2}", Vector((Register("%r1"), Register("%r2")))),
    ],
)
def test_source_operands(text: str, expected: object) -> None:
    move = "mov.b32 %r1" if text.startswith(("0f", "%tid")) else "mov.b64 %rd1"
    found = kernel(f"{move}, {text};", ".global .b32 sym[4];")
    assert found.instructions[0].operands[1] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[%rd1]", Address(Register("%rd1"))),
        ("[ %rd1 + 4 ]", Address(Register("%rd1"), 4)),
        ("[%rd1+-4]", Address(Register("%rd1"), -4)),
        ("[%rd1+4*2]", Address(Register("%rd1"), 8)),
        ("[sym+0x10]", Address(SymbolRef("sym"), 16)),
    ],
)
def test_addresses(text: str, expected: object) -> None:
    found = kernel(f"ld.global.b32 %r1, {text};", ".global .b32 sym[8];")
    assert found.instructions[0].operands[1] == expected
    assert found.instructions[0].space is Space.GLOBAL


def test_statements_of_one_shape_keep_their_own_literals() -> None:
    found = kernel(
        "\n".join(f"add.s32 %r1, %r2, {n}*2+{n}; add.s32 %r1, %r2, {n};" for n in range(9))
    )
    values = [i.operands[2] for i in found.instructions]
    expected = [Immediate(v, str(v)) for n in range(9) for v in (3 * n, n)]
    assert values == expected
    assert found.instructions[1].form is found.instructions[3].form


def test_vector_registers_are_their_members() -> None:
    found = kernel(".reg .v4 .f32 v; ld.global.v4.f32 v, [%rd1]; add.f32 v.g, v.x, v.a;")
    load, add = found.instructions
    assert load.writes == ("v.x", "v.y", "v.z", "v.w")
    assert (add.reads, add.writes) == (("v.x", "v.w"), ("v.y",))


def test_video_selectors() -> None:
    (vadd,) = kernel("vadd.s32.u32.s32.sat %r1, %r2.b0, %r3.h1;").instructions
    assert vadd.operands[1] == Selected(Register("%r2"), "b0")


@pytest.mark.parametrize(
    "spelling",
    [
        "ld.global.u32 %r1,[%rd1];",
        "ld.global\n.u32 %r1,[%rd1];",
        "ld.global /* c */ .u32 %r1, // d\n[%rd1] ;",
        "ld .global\t.u32\n%r1\n,\n[\n%rd1\n]\n;",
    ],
)
def test_white_space_and_comments_do_not_matter(spelling: str) -> None:
    (load,) = kernel(spelling).instructions
    assert load.mnemonic == "ld.global.u32"
    assert (load.reads, load.writes) == (("%rd1",), ("%r1",))


@pytest.mark.parametrize("guard", ["@%p1", "@ %p1", "@\n%p1\n", "@!%p1", "@ ! %p1", "@/**/!%p1"])
def test_guards(guard: str) -> None:
    (mov,) = kernel(f"{guard} mov.b32 %r1, %r2;").instructions
    assert mov.guard is not None
    assert (mov.guard.register, mov.guard.negated) == ("%p1", "!" in guard)
    assert mov.reads == ("%p1", "%r2")


# --- places ---------------------------------------------------------------------------------------


def test_spans_cover_guard_to_semicolon() -> None:
    found = kernel("L: @%p1 bra L; add.s32 /* x */ %r1,\n  %r2, 1; ret;")
    assert [i.span.text for i in found.instructions] == [
        "@%p1 bra L;",
        "add.s32 /* x */ %r1,\n  %r2, 1;",
        "ret;",
    ]
    assert [i.span.line for i in found.instructions] == [8, 8, 9]


def test_line_markers_do_not_shift_lines() -> None:
    found = kernel('# 1 "x.cu"\nret;\n#line 7 "y"\nret;')
    assert [i.span.line for i in found.instructions] == [9, 11]


def test_source_lines() -> None:
    text = (
        "ret; .loc 1 3 4 ret;\n.loc 2 9 1, function_name $L__info0, inlined_at 1 3 4\nret;\n"
        ".loc 1 5 6, function_name $L__info0+8, inlined_at 2 9 1\nret; ret;"
    )
    found = kernel(text, '.file 1 "a.cu", 123, 456\n.file 2 "b.h"\n')
    outer = SourceLocation("a.cu", 3, 4)
    inner = SourceLocation("b.h", 9, 1, outer)
    innermost = SourceLocation("a.cu", 5, 6, inner)
    locations = [i.location for i in found.instructions]
    assert locations == [None, outer, inner, innermost, innermost]


def test_files_named_after_the_code() -> None:
    text = '.entry k() { .loc 1 3 4 ret; }\n.file 1 "late.cu"\n// .file 1 "never.cu"\n'
    (found,) = module(text).kernels
    assert found.instructions[0].location == SourceLocation("late.cu", 3, 4)


# --- heads and variables --------------------------------------------------------------------------


def test_header() -> None:
    found = module("")
    assert found.version == (8, 8)
    assert (found.target, found.target_options) == ("sm_90a", ("texmode_unified",))
    assert found.address_size == 64


def test_parameters() -> None:
    text = """.visible .entry k(.param .u64 .ptr .global .align 16 a, .param .f32 b,
        .param .align 8 .b8 c[24], .param .u64 d) .maxntid 16, 8
        .minnctapersm 2 .pragma "nounroll"; { ret; }"""
    (found,) = module(text).kernels
    facts = [
        (p.name, p.type, p.size_bytes, p.alignment, p.index, p.count, p.is_array, p.is_pointer)
        for p in found.parameters
    ]
    assert facts == [
        ("a", "u64", 8, 8, 0, 1, False, True),
        ("b", "f32", 4, 4, 1, 1, False, None),
        ("c", "b8", 24, 8, 2, 24, True, None),
        ("d", "u64", 8, 8, 3, 1, False, None),
    ]
    assert (found.max_threads, found.required_threads) == ((16, 8, 1), None)
    assert found.linkage == "visible"


def test_variables() -> None:
    text = """.global .align 8 .b8 a[4][2] = {{1,2},{3,4}}, b; .const .f64 c[] =
            {1.0, -2.5e3, 0d0000000000000000};
        .extern .shared .align 16 .b8 sm[]; .visible .global .v4 .f32 v;
        .entry k() { .shared .b32 s[4]; { .shared .b64 s; } .local .align 8 .b8 d[40]; ret; }"""
    found = module(text)
    facts = [(v.name, v.space, v.type, v.size_bytes, v.alignment) for v in found.variables]
    assert facts == [
        ("a", "global", "b8", 8, 8),
        ("b", "global", "b8", 1, 8),
        ("c", "const", "f64", 24, 8),
        ("sm", "shared", "b8", 0, 16),
        ("v", "global", "f32", 16, 16),
    ]
    (entry,) = found.kernels
    assert [(v.name, v.size_bytes) for v in entry.variables] == [("s", 16), ("s@1", 8), ("d", 40)]
    assert entry.shared_bytes == 24


def test_ranges_of_variables() -> None:
    text = """.global .b32 g<3>;
        .entry k() { .reg .b64 r; { .shared .b64 s<4>; mov.b64 r, s3; mov.b64 r, g2; ret; } }"""
    found = module(text)
    (entry,) = found.kernels
    assert [(v.name, v.size_bytes) for v in (*found.variables, *entry.variables)] == [
        ("g", 12),
        ("s@1", 32),
    ]
    assert [i.operands[1] for i in entry.instructions[:2]] == [SymbolRef("s3@1"), SymbolRef("g2")]


def test_prototypes_are_no_kernels() -> None:
    text = (
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b)\n.func f { ret; }\n"
    )
    found = module(text)
    assert [function.name for function in found.functions] == ["f"]
    assert found.kernels == ()
    names = [(item.name, item.has_body) for item in found.items if isinstance(item, Kernel)]
    assert names == [("vprintf", False), ("f", True)]
