"""What the parser says about bad input: place, code and remedy of each error, several per file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from parsing import parse_file, parse_kernel, parse_text
from refusals import refusals_of

from ptxwcet.ir.kernel import Immediate
from ptxwcet.ptx.problems import MOST_PROBLEMS
from ptxwcet.ptx.reading import read_source
from ptxwcet.ptx.statements import unclosed_comment
from ptxwcet.support.diagnostics import Diagnostic

pytestmark = pytest.mark.fast

HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"
DECLARATIONS = ".reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<20>;\n"


def errors(text: str) -> tuple[Diagnostic, ...]:
    return refusals_of(parse_text, text, "bad.ptx")


def in_body(statements: str) -> str:
    """The statements begin on line 7."""
    return f"{HEADER}.visible .entry k(.param .u64 P0)\n{{\n{DECLARATIONS}{statements}\nret;\n}}\n"


def place(diagnostic: Diagnostic) -> tuple[int, int]:
    assert diagnostic.span is not None
    return diagnostic.span.line, diagnostic.span.column


@pytest.mark.parametrize(
    ("statements", "code", "where", "words"),
    [
        ("add.s32 %r1, %r2, %r3\nret;", "PW102", (7, 21), "missing ';'"),
        ("add.s32 %r1, %r2, %r3 }", "PW102", (7, 21), "missing ';'"),
        ("add.s32 %r1, %r2 %r3;", "PW101", (7, 18), "missing ',' before '%r3'"),
        ("add.s32 %r1, %r2, ;", "PW101", (7, 19), "unexpected ';'"),
        (";", "PW101", (7, 1), "unexpected ';'"),
        ("add.s32 %r1, %r2, 09;", "PW107", (7, 19), "'09'"),
        ("mov.b32 %r1, 1u;", "PW107", (7, 14), "'1u'"),
        ("mov.f32 %f1, 0f12;", "PW107", (7, 14), "'0f12'"),
        ("mov.b32 %r1, 0x1FFFFFFFFFFFFFFFF;", "PW107", (7, 1), "64 bits"),
        ("mov.b32 %r1, 1/0;", "PW107", (7, 1), "division by zero"),
        ("ld.global.b32 %r1, [%rd1-4];", "PW101", (7, 25), "'-'"),
        ("add.s32 %q1, %r2, 1;", "PW104", (7, 9), "'%q1'"),
        ("@%q1 ret;", "PW104", (7, 2), "'%q1'"),
        ("@%r1 ret;", "PW108", (7, 2), "not a predicate"),
        ("add.s32 %r1, %r2;", "PW108", (7, 1), "takes 3 operands, 2 given"),
        ("add.s32 5, %r2, %r3;", "PW108", (7, 9), "cannot be written to '5'"),
        ("add.s32 %r1, %tid.x, 1;", "PW108", (7, 14), "special register"),
        ("mov.u32 %tid.x, %r1;", "PW108", (7, 9), "cannot be written"),
        ("ld.global.b32 %r1, [64];", "PW108", (7, 21), "only local memory"),
        ("add.s32 %r1, _, 1;", "PW108", (7, 14), "'_'"),
        ("add.s33 %r1, %r2, 1;", "PW113", (7, 1), "'.s33'"),
        ("bra NOWHERE;", "PW106", (7, 1), "'NOWHERE'"),
        ("bra 5;", "PW106", (7, 5), "label"),
        ("brx.idx %r1, T;", "PW106", (7, 14), "'T'"),
        ("call f;", "PW104", (7, 6), "'f'"),
        ("L: L: ret;", "PW105", (7, 4), "'L'"),
        (".reg .b32 x; .reg .b32 x;", "PW105", (7, 24), "'x'"),
        (".reg .b32 %r5;", "PW105", (7, 11), "'%r5'"),
        (".reg .b32 %x3; .reg .b32 %x<4>;", "PW105", (7, 26), "'%x<4>'"),
        (".shared .b32 s = 1;", "PW118", (7, 14), "initialised"),
        (".shared .b8 s[];", "PW118", (7, 13), "no size"),
        (".frob 5;", "PW103", (7, 1), "'.frob'"),
        (".REG .b32 x;", "PW103", (7, 1), "'.REG'"),
        (".entry x() { }", "PW101", (7, 1), "'.entry'"),
        ("mov.b32 %r1, 'a';", "PW101", (7, 14), "'''"),
        ("T: .calltargets g;", "PW104", (7, 1), "'g'"),
    ],
)
def test_one_error(statements: str, code: str, where: tuple[int, int], words: str) -> None:
    first = errors(in_body(statements))[0]
    assert (first.code, place(first)) == (code, where), first.render()
    assert words in first.message


REGISTERS = ".reg .u32 %u<9>; .reg .u64 %d<9>; .reg .f32 %f<9>; .reg .pred %p<9>; "


@pytest.mark.parametrize(
    ("statement", "code", "column", "words"),
    [
        ("add.u32 %u1, %d1, %u2;", "PW108", 13, "a .u64 register does not hold a .u32 value"),
        ("setp.eq.s32 %u1, %u2, %u3;", "PW108", 12, "operand 1: a .u32 register"),
        ("shfl.sync.idx.b32 %u1, %u2, 1, 31;", "PW108", 31, "takes 5 operands, 4 given"),
        ("ld.global.v2.u32 {%u1, %u2, %u3}, [%d1];", "PW108", 18, "a vector of 2"),
        ("bar.sync 17;", "PW108", 9, "17 is out of range: 0 to 15"),
        ("bar.sync 1, 33;", "PW108", 12, "33 threads are not whole warps"),
        ("cvt.u32.f32 %u1, %f1;", "PW113", 0, "no .rni or .rzi or .rmi or .rpi"),
        ("cvt.rn.f32.s32 %f1, %f2;", "PW108", 20, "a .f32 register does not hold a .s32"),
        ("mul.wide.u64 %d1, %d2, %d3;", "PW113", 0, ".lo or .hi is to follow the opcode"),
        ("st.const.u32 [%d1], %u1;", "PW113", 0, "modifier .const"),
        ("mov.u32 %u1, !%u2;", "PW108", 13, "'!' is not permitted here"),
        ("add.u32.u32 %u1, %u2, %u3;", "PW113", 0, "type .u32.u32"),
        ("add.f32 %f1, %f2, 1e999;", "PW107", 0, "does not fit a double"),
        ("selp.b32 %u1, %u2, %u3, %u4;", "PW108", 24, "does not hold a .pred value"),
        ("ld.global.u64 %u1, [%d1];", "PW108", 14, "a .u32 register does not hold a .u64"),
        ("fma.f32 %f1, %f2, %f3, %f4;", "PW113", 0, "no .rn or .rz or .rm or .rp"),
        ("atom.global.add.u32 %u1, [%f1], 1;", "PW108", 26, "cannot be a .f32 register"),
    ],
)
def test_what_ptxas_refuses_names_the_operand(
    statement: str, code: str, column: int, words: str
) -> None:
    head = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n"
    (error,) = errors(f"{head}{REGISTERS}\n{statement}\nret;\n}}\n")
    assert (error.code, place(error)) == (code, (6, column + 1)), error.render()
    assert words in error.message


def test_a_width_is_judged_anew_for_other_registers_of_a_known_shape() -> None:
    head = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n"
    good = "@%p1 add.u32 %u1, %u2, %u3;\n"
    wrong = good.replace("%u3", "%d3") + good.replace("@%p1", "@%u1")
    (width, guard) = errors(f"{head}{REGISTERS}\n{good}{wrong}ret;\n}}\n")
    assert (place(width)[0], place(guard)[0]) == (7, 8)


def test_a_vector_is_no_address() -> None:
    head = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n"
    (error,) = errors(f"{head}.reg .v4 .b32 v; .reg .b32 r;\nld.b32 r, [v];\nret;\n}}\n")
    assert error.message == "'v' is a vector: it is no address"


def test_errors_show_line_caret_and_remedy() -> None:
    (error,) = errors(in_body("\tadd.s32 %r1, %r2 %r3;"))
    assert error.render().splitlines() == [
        "bad.ptx:7:19: error[PW101]: missing ',' before '%r3'",
        "    7 |         add.s32 %r1, %r2 %r3;",
        "      |                          ^~~",
        "  help: separate operands with ','",
    ]


def test_all_errors_of_a_file_are_reported_in_order() -> None:
    text = in_body("add.s32 %r1, %r2\nfoo;\nbra NOPE;\nmov.b32 %q1, %q2;\nmov.b32 %r1, 08;")
    text += ".visible .entry k() { mul.lo.s32 %r1; }\n"
    found = [(error.code, place(error)[0]) for error in errors(text)]
    first = [("PW102", 7), ("PW106", 9), ("PW104", 10), ("PW107", 11)]
    assert found == [*first, ("PW105", 14), ("PW108", 14)]


def test_an_undeclared_name_is_reported_once() -> None:
    (error,) = errors(in_body("mov.b32 %q, 1;\n" * 50))
    assert error.code == "PW104"


def test_errors_are_capped() -> None:
    found = errors(in_body("".join(f"mov.b32 %q{n}, 1;\n" for n in range(1000))))
    assert len(found) == MOST_PROBLEMS


def test_a_broken_head_does_not_make_its_callers_wrong() -> None:
    text = HEADER + ".func f ( { ret; }\n.entry k() { call f; ret; }\n"
    assert [error.code for error in errors(text)] == ["PW101"]


def test_a_name_inside_a_block_is_unknown_outside() -> None:
    (error,) = errors(in_body("bra L; { L: ret; }"))
    assert error.code == "PW106"
    assert error.help == "a label inside a block cannot be reached from outside it"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("hello, world\n", "PW109", "not a PTX file"),
        ("{" * 100_000, "PW109", "not a PTX file"),
        ("int main() { return 0; }\n", "PW109", "not a PTX file"),
        (".target sm_90\n.entry k() { ret; }\n", "PW109", "no .version"),
        (".target sm_90\n.version 8.8\n", "PW109", "first directive"),
        (".version 8.8;\n.target sm_90\n", "PW109", "no .target"),
        (".version 8.8\n.target\n", "PW101", "incomplete"),
        (".version 8.8\n.target sm_99\n", "PW110", "'sm_99'"),
        (".version 8.8\n.target gfx90a\n", "PW110", "'gfx90a'"),
        (HEADER + ".target sm_90\n", "PW101", "'.target'"),
        (HEADER + "foo\n", "PW101", "'foo'"),
        (HEADER + "}\n", "PW101", "'}'"),
        (HEADER + ";\n", "PW101", "';'"),
        (HEADER + "{" * 100_000, "PW101", "'{'"),
        (HEADER + ".entry k()\n" + "{" * 100_000, "PW117", "nested"),
        (HEADER + ".entry k() {\nret;\n", "PW111", "opened on line 4"),
        (HEADER + ".entry k() {\nret;\n/* a comment", "PW101", "without end"),
        (HEADER + ".entry k(.param .u32 x)\n.maxntid 16 16\n{ ret; }\n", "PW101", "','"),
        (HEADER + ".entry k()\n.maxntid 16;\n{ ret; }\n", "PW101", "';'"),
        (HEADER + ".entry k();\n", "PW104", "not defined"),
        (HEADER + ".entry k() { ret; }\n.entry k() { ret; }\n", "PW105", "'k'"),
        (HEADER + ".entry k(.param .u32 a, .param .u32 a) { ret; }\n", "PW105", "'a'"),
        (HEADER + ".entry k(.reg .u32 a) { ret; }\n", "PW118", ".param"),
        (HEADER + ".global .b32 x;\n.global .b32 x;\n", "PW105", "'x'"),
        (HEADER + ".global .b32 x[99999999999999999999];\n", "PW107", "64 bits"),
        (HEADER + ".global .samplerref s;\n", "PW118", "texmode_independent"),
        (HEADER + ".const[3] .b32 x;\n", "PW118", "constant banks"),
        (HEADER + ".local .b32 x;\n", "PW118", "function"),
        (HEADER + '.file 1 "a\\"b.cu"\n', "PW101", "outside a function"),
    ],
)
def test_files_that_are_no_ptx(text: str, code: str, words: str) -> None:
    first, *others = errors(text)
    assert first.code == code, first.render()
    assert words in first.message
    assert first.span is not None
    assert len(others) <= 1


def test_old_constant_banks_are_taken_where_ptx_had_them() -> None:
    module = parse_text(".version 1.4\n.target sm_13\n.const[3] .b32 x;\n")
    assert [variable.name for variable in module.variables] == ["x"]


@pytest.mark.parametrize("cut", range(40, 420, 7))
def test_a_truncated_file_is_an_error_never_a_traceback(cut: int) -> None:
    whole = in_body("L: @%p1 bra L;\nld.global.v2.f32 {%f1, %f2}, [%rd1+16];\n{ .reg .b32 t; }")
    text = whole[:cut]
    if cut < len(whole) - 2 and ".entry" in text:
        assert errors(text)


@pytest.mark.parametrize(("mark", "value"), [("-", -1), ("~", ~1), ("+", 1)])
def test_deep_nesting_inside_a_statement_is_no_recursion(mark: str, value: int) -> None:
    text = in_body(f"mov.b32 %r1, {mark * 25_001}(1);")
    kernel = parse_kernel(text)
    assert kernel.instructions[0].operands[1] == Immediate(value, str(value))


@pytest.mark.parametrize(
    "text",
    [
        HEADER + ".section .x {" * 10_000,
        HEADER + ".entry k(" * 10_000,
        HEADER + ".global .b8 x[] = " + "{" * 100_000,
        in_body("mov.b32 %r1, " + "(" * 100_000),
        in_body("mov.b32 " + "%r1, " * 100_000),
        in_body("/*" * 100_000),
        in_body('"' * 100_000),
        in_body("}" * 100_000),
        in_body("x" * 100_000),
        in_body("@" * 100_000),
        "\n" * 100_000,
        "\0" * 100_000,
    ],
    ids=lambda text: f"{text[-30:]!r}",
)
def test_long_nonsense_gets_few_errors(text: str) -> None:
    assert len(errors(text)) <= 2


# --- files ----------------------------------------------------------------------------------------


def refusal(path: Path) -> Diagnostic:
    (diagnostic,) = refusals_of(read_source, path)
    assert diagnostic.code == "PW112"
    return diagnostic


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x7fELF\x02\x01\x01\0\0", "ELF"),
        (b"PK\x03\x04\0\0\0", "binary"),
        (".version 8.8\n".encode("utf-16"), "UTF-16"),
        (b".version 8.8\n.target sm_90 // \xe9\n", "line 2"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_bytes(data)
    assert words in refusal(path).message


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert "cannot read" in refusal(tmp_path / "none.ptx").message
    assert "folder" in refusal(tmp_path).message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "secret.ptx"
    path.write_text(HEADER)
    path.chmod(0)
    assert "cannot read" in refusal(path).message


def test_windows_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_bytes(
        b"\xef\xbb\xbf" + in_body("add.s32 %r1, %r2, 1;").replace("\n", "\r\n").encode()
    )
    (kernel,) = parse_file(path).kernels
    assert kernel.instructions[0].span.line == 7


@pytest.mark.parametrize("text", ["/* ", '/* x */ /* // " */ /* y'])
def test_a_comment_without_end(text: str) -> None:
    """It is found before anything else looks for its end, once from every place."""
    source = f"{in_body('ret;')}\n{text}" + "/* " * 40_000
    diagnostics = errors(source)
    assert [one.code for one in diagnostics] == ["PW101"]
    assert "a comment without end" in diagnostics[0].message


def test_no_comment_without_end_is_seen_where_there_is_none() -> None:
    text = '/* a */ // /* b\n"/*" /**/ /***/ /* * / */'
    assert unclosed_comment(text) == -1
    assert unclosed_comment(text + "/*/") == len(text)
