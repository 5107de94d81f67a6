"""Random PTX: printing keeps the program, and splitting by shape agrees with the whole grammar."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lark import UnexpectedInput
from parsing import parse_text
from ptx_printer import print_module
from structures import structure
from thoroughness import drawn

from ptxwcet.ir.verifier import verify_kernel
from ptxwcet.ptx.grammar import grammar, parse_rule
from ptxwcet.ptx.literals import LITERAL
from ptxwcet.support.diagnostics import PtxwcetError

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.global .b32 sym[16];
.shared .b32 sh[16];
.func (.reg .b32 rv) f (.reg .b32 a) { add.s32 rv, a, 1; ret; }
.visible .entry k(.param .u64 P0, .param .align 8 .b8 P1[24])
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .v4 .b32 v;
"""

SYNTAX_CODES = {"PW101", "PW102", "PW103", "PW107"}


# --- programs -------------------------------------------------------------------------------------

integers = st.sampled_from(["0", "7", "-4", "0x1F", "017", "0b11", "3U", "1+2*3", "(1<<4)-1", "~0"])
words = st.sampled_from([f"%r{n}" for n in range(9)] + ["%r03", "v.x", "v.b", "t"])
sources = words | integers
predicates = st.sampled_from(["%p0", "%p1", "!%p2", "! %p3"])
spaces = st.sampled_from([" ", "  ", "\t", "\n", " /* c */ ", " // c\n", "\r\n"])


@st.composite
def instructions(draw: st.DrawFn) -> str:
    target, first, second = draw(words), draw(sources), draw(sources)
    label = draw(st.sampled_from(["L0", "L1", "L2"]))
    offset = draw(st.sampled_from(["", "+4", "+-8", "+4*2", " + 0x10"]))
    text = draw(
        st.sampled_from(
            [
                f"add.s32 {target}, {first}, {second};",
                f"mad.lo.s32 {target},{first},{second}, {first};",
                f"setp.lt.s32 %p1|%p2, {first}, {second};",
                "setp.ne.b32 %p0|_, %r1, 0;",
                f"ld.global.v2.b32 {{{target}, _}}, [%rd1{offset}];",
                f"ld.shared::cta .b32 {target}, [sh{offset}];",
                f"st.global.b32 [%rd2{offset}], {first};",
                "mov.f32 %f1, 0f3F800000;",
                "mov.f64 %rd1, -1.5e3;",
                "mov.u32 %r1, %tid.x;",
                "mov.b64 {%r1, %r2}, %rd3;",
                f"ld.global.b32 {target}, sym[%rd1{offset}];",
                f"call.uni ({target}), f, ({first});",
                f"bra {label};",
                "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;",
                "vadd.s32.s32.s32 %r1.b0, %r2.h1, %r3, %r4;",
                "bar.sync 0;",
                "ret;",
                "unheard.of %r1, [%rd1, {%r2, %r3}], !%p1;",
            ]
        )
    )
    guard = draw(st.none() | predicates)
    return text if guard is None else f"@{guard} {text}"


def blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, max_size=4).map(
        lambda parts: "{ .reg .b32 t, %r1; " + " ".join(parts) + " L2: }"
    )


statements = st.recursive(
    instructions()
    | st.sampled_from(
        [".loc 1 2 3", ".loc 1 9 9, function_name f, inlined_at 1 2 3", '.pragma "x";']
    ),
    blocks,
    max_leaves=12,
)


@st.composite
def programs(draw: st.DrawFn) -> str:
    body = draw(st.lists(statements, max_size=12))
    parts = ["L0:", ".reg .b32 t; .param .b32 q;", *body, "L1: L2:"]
    gaps = [draw(spaces) for _ in parts]
    text = "".join(part + gap for part, gap in zip(parts, gaps, strict=True))
    return f'{HEAD}{text}}}\n.file 1 "a.cu"\n'


@settings(max_examples=drawn(60), deadline=None)
@given(programs())
def test_printing_keeps_the_program(text: str) -> None:
    one = parse_text(text)
    for kernel in one.kernels + one.functions:
        assert verify_kernel(kernel) == ()
    printed = print_module(one)
    two = parse_text(printed)
    assert structure(two) == structure(one)
    assert print_module(two) == printed


@settings(max_examples=drawn(40), deadline=None)
@given(programs())
def test_spans_are_the_statements(text: str) -> None:
    (kernel,) = parse_text(text).kernels
    for instruction in kernel.instructions:
        spelled = instruction.span.text
        assert spelled.endswith(";")
        assert spelled[0] == "@" if instruction.guard else spelled[0].isalpha()
        words = re.sub(r"/\*.*?\*/|//[^\n]*", " ", spelled)
        assert "".join(instruction.mnemonic.split(".")[0]) in words


# --- the whole grammar as an oracle ---------------------------------------------------------------

TOKEN = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|[%$@.]?[\w$]+(?:::\w+)*|\s+|.', re.DOTALL)


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A program with one token deleted, doubled, exchanged with another or replaced."""
    tokens = TOKEN.findall(draw(programs()))
    places = [n for n, token in enumerate(tokens) if not token.isspace()]
    place = draw(st.sampled_from(places))
    match draw(st.sampled_from(["delete", "double", "swap", "replace"])):
        case "delete":
            del tokens[place]
        case "double":
            tokens.insert(place, tokens[place] + " ")
        case "swap":
            other = draw(st.sampled_from(places))
            tokens[place], tokens[other] = tokens[other], tokens[place]
        case _:
            tokens[place] = draw(
                st.sampled_from([*";,{}[]()@!|:+-.%", "_", "1", "09", ".b8", "x", "call"])
            )
    return "".join(tokens)


def whole_grammar_takes(text: str) -> bool:
    try:
        parse_rule(text, "module")
    except UnexpectedInput:
        return False
    return True


@settings(max_examples=drawn(120), deadline=None)
@given(mutants())
@example(HEAD + "add.s32 %r1, %r2 %r3; }\n")
@example(HEAD + "L0: @%p1 L1: bra L0; }\n")
@example(HEAD + "ld.global.b32 %r1, [%rd1-4]; }\n")
def test_splitting_by_shape_agrees_with_the_whole_grammar(text: str) -> None:
    try:
        parse_text(text)
        codes = set()
    except PtxwcetError as error:
        codes = {diagnostic.code for diagnostic in error.diagnostics}
    if whole_grammar_takes(text):
        assert not codes & SYNTAX_CODES
    else:
        assert codes


# --- literals -------------------------------------------------------------------------------------


@settings(max_examples=drawn(120), deadline=None)
@given(st.from_regex(r"[0-9.xXbBfFdDeEU+a-f]{1,20}", fullmatch=True))
@pytest.mark.filterwarnings("ignore")
def test_the_literal_regex_agrees_with_the_grammar(text: str) -> None:
    matched = LITERAL.fullmatch(text)
    try:
        tree = parse_rule(f"{text}", "operands")
        kinds = [token.type for token in tree.scan_values(lambda _: True)]
        rules = [str(subtree.data) for subtree in tree.iter_subtrees()]
    except UnexpectedInput:
        kinds, rules = [], []
    is_one = len(kinds) == 1 and kinds[0] in ("INT", "FLOAT", "HEXFLOAT", "HEXDOUBLE")
    is_one = is_one and set(rules) <= {"operands"}
    assert (matched is not None) == is_one
    assert matched is None or matched.lastgroup == kinds[0]


def test_the_grammar_has_the_terminals_that_the_regexes_copy() -> None:
    patterns = {terminal.name: terminal.pattern.value for terminal in grammar().terminals}
    assert patterns["NAME"] == "[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+"
    assert patterns["SINK"] == "_"
