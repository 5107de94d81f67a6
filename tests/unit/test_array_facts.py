"""Ranges of the integers in arrays: from the facts file to the loads that read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from parsing import parse_kernel, parse_text, places_of
from refusals import refusal_of, refusals_of

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.facts.fewer import fewer_facts
from ptxwcet.flow.facts.parameters import resolve_arrays
from ptxwcet.flow.facts.stated import FactSource, ParameterFact
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import NO_PLACED_FACTS, ArrayRange, Launch
from ptxwcet.flow.paths.call_variables import with_variable_registers
from ptxwcet.flow.values.arrays import arrays_read, loads_of_arrays
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.memory.analysis import accesses_kept
from ptxwcet.opened.opening import file_digest
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

HEAD = """.version 8.3
.target sm_80
.address_size 64
.visible .entry k({parameters})
{{
.reg .b64 %d<12>;
.reg .b32 %r<12>;
.reg .b16 %h<4>;
.reg .pred %p<4>;
ld.param.u64 %d1, [a];
ld.param.u64 %d2, [b];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
"""
PLAIN = ".param .u64 a, .param .u64 b, .param .u32 n"
MARKED = ".param .u64 .ptr a, .param .u64 .ptr b, .param .u32 n, .param .u64 m"
RANGE = ArrayRange("s32", 0, 9)


def kernel_of(body: str, parameters: str = PLAIN) -> Kernel:
    text = HEAD.format(parameters=parameters) + body + "\nret;\n}\n"
    return parse_kernel(text)


def known(body: str, parameters: str = PLAIN, **arrays: ArrayRange) -> dict[str, ArrayRange]:
    """The ranges of loads by the register that they write."""
    kernel = kernel_of(body, parameters)
    launch = Launch((32, 1, 1), arrays=arrays or {"a": RANGE})
    found = loads_of_arrays(kernel, launch)
    return {kernel.instructions[index].writes[0]: row for index, row in found.items()}


INDEXED = "mul.wide.u32 %d3, %r2, 4;\nadd.s64 %d4, %d1, %d3;\n"


@pytest.mark.parametrize(
    "body",
    [
        "ld.global.u32 %r3, [%d1];",
        "ld.global.nc.s32 %r3, [%d1+8];",
        INDEXED + "ld.global.b32 %r3, [%d4+4];",
        "cvta.to.global.u64 %d3, %d1;\nld.global.u32 %r3, [%d3];",
        "mad.wide.s32 %d3, %r2, 4, %d1;\nld.u32 %r3, [%d3];",
        # a gather: the index is loaded, a number as wide as a pointer, and scaled
        "ld.global.u64 %d5, [%d2];\nshl.b64 %d3, %d5, 2;\nadd.s64 %d4, %d1, %d3;\n"
        "ld.global.u32 %r3, [%d4];",
        # the pointer goes round a loop
        "mov.u64 %d3, %d1;\nL:\nld.global.u32 %r3, [%d3];\nadd.s64 %d3, %d3, 4;\n"
        "setp.lt.u32 %p1, %r3, 5;\n@%p1 bra L;",
    ],
)
def test_loads_through_the_pointer(body: str) -> None:
    assert known(body) == {"%r3": RANGE}


@pytest.mark.parametrize(
    "body",
    [
        "ld.global.u32 %r3, [%d2];",
        "ld.global.u16 %h1, [%d1];",  # part of an integer of the array
        "ld.global.u64 %d3, [%d1];",
        "ld.global.f32 %f1, [%d1];",
        "ld.global.u64 %d3, [%d1];\nld.global.u32 %r3, [%d3];",  # an array of pointers
        "add.s64 %d3, %d1, %d2;\nld.global.u32 %r3, [%d3];",  # b may be the pointer
        "setp.lt.u32 %p1, %r2, 5;\nselp.b64 %d3, %d1, %d2, %p1;\nld.global.u32 %r3, [%d3];",
        "mov.u64 %d3, %d1;\n@%p1 mov.u64 %d3, %d2;\nld.global.u32 %r3, [%d3];",
        "sub.s64 %d3, %d2, %d1;\nadd.s64 %d3, %d3, %d1;\nld.global.u32 %r3, [%d3];",
        "ld.global.v2.u32 {%r4, %r5}, [%d2];\nmov.b64 %d3, {%r4, %r5};\n"
        "setp.lt.u32 %p1, %r2, 5;\nselp.b64 %d3, %d1, %d3, %p1;\nld.global.u32 %r3, [%d3];",
        "atom.global.add.u32 %r3, [%d1], 1;",
        # the address of another space is a number
        "and.b64 %d3, %d1, 12;\ncvt.u32.u64 %r4, %d3;\nld.shared.u32 %r3, [%r4];",
        "cvt.u32.u64 %r4, %d1;\nld.local.u32 %r3, [%r4];",
        # what the pointer leads to is not behind these
        "neg.s64 %d3, %d1;\nld.global.u32 %r3, [%d3];",
        "add.s64 %d3, %d1, %d1;\nld.global.u32 %r3, [%d3];",
        "cvt.u32.u64 %r4, %d1;\ncvt.u64.u32 %d4, %r4;\nld.global.u32 %r3, [%d4];",
        "ld.param.v2.u64 {%d3, %d4}, [a];\nld.global.u32 %r3, [%d4];",
        # the pointer, and a flag times its distance to another one
        "sub.s64 %d3, %d2, %d1;\ncvt.u64.u32 %d4, %r2;\nmad.lo.s64 %d5, %d3, %d4, %d1;\n"
        "ld.global.u32 %r3, [%d5];",
        "sub.s64 %d3, %d2, %d1;\nshr.s64 %d4, %d3, 2;\nmul.wide.u32 %d5, %r2, 4;\n"
        "mul.lo.s64 %d6, %d4, %d5;\nadd.s64 %d7, %d1, %d6;\nld.global.u32 %r3, [%d7];",
        # the distance as a difference of numbers that are made of both pointers
        "shr.u64 %d3, %d1, 2;\nshr.u64 %d4, %d2, 2;\nsub.s64 %d5, %d4, %d3;\n"
        "shl.b64 %d6, %d5, 2;\nadd.s64 %d7, %d1, %d6;\nld.global.u32 %r3, [%d7];",
        "cvt.u64.u32 %d3, %r2;\nmul.lo.s64 %d4, %d1, %d3;\nmul.lo.s64 %d5, %d2, %d3;\n"
        "add.s64 %d6, %d1, %d5;\nsub.s64 %d7, %d6, %d4;\nld.global.u32 %r3, [%d7];",
        "mad.lo.s64 %d3, %d1, -1, 0;\nshl.b64 %d4, %d2, 0;\nadd.s64 %d5, %d3, %d4;\n"
        "add.s64 %d7, %d1, %d5;\nld.global.u32 %r3, [%d7];",
        # a number is added to a pointer that is put together of two words
        *(
            "ld.global.u32 %r4, [%d2];\nld.global.u32 %r5, [%d2+4];\ncvt.u64.u32 %d5, %r4;\n"
            f"mad.wide.u32 %d6, %r5, -2147483648, %d5;\n{offset}\nadd.s64 %d3, %d6, %d7;\n"
            "ld.global.u32 %r3, [%d3];"
            for offset in (
                "add.s64 %d4, %d1, 16;\nsub.s64 %d7, %d4, %d1;",
                "and.b64 %d7, %d1, 12;",
            )
        ),
    ],
)
def test_loads_of_others(body: str) -> None:
    body = body.replace("%f1", "%r3") if ".f32" in body else body
    assert [one.code for one in refusals_of(known, body)] == ["PW251"]


LOOP = """mov.u64 %d3, %d1;
mov.u64 %d5, %d2;
mov.u64 %d6, %d2;
mov.u32 %r5, 0;
OUTER:
add.s64 %d4, %d3, 4;
INNER:
ld.global.u32 %r3, [%d4];
{inner}
add.u32 %r6, %r3, %r3;
{outer}
add.u32 %r5, %r5, 1;
setp.lt.u32 %p2, %r5, 5;
@%p2 bra OUTER;
ld.global.u32 %r4, [%d1];
"""
"""The load of %r3 is before the instructions that give its pointer for the next iteration."""
SAME = "mov.u64 %d3, %d1;"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (("", "mov.u64 %d3, %d2;"), ("", SAME)),
        (("", "@%p1 mov.u64 %d3, %d2;"), ("", "@%p1 mov.u64 %d3, %d1;")),
        (("", "selp.b64 %d3, %d3, %d2, %p1;"), ("", "selp.b64 %d3, %d3, %d1, %p1;")),
        (("", "add.s64 %d3, %d5, 8;"), ("", "add.s64 %d3, %d3, 8;")),
        # two and three registers whose pointers go round
        (
            ("", "mov.u64 %d7, %d3; mov.u64 %d3, %d5; mov.u64 %d5, %d7;"),
            ("", "mov.u64 %d7, %d3; mov.u64 %d3, %d7; mov.u64 %d5, %d7;"),
        ),
        (
            ("", "mov.u64 %d3, %d7; mov.u64 %d7, %d8; mov.u64 %d8, %d6;"),
            ("", "mov.u64 %d3, %d7; mov.u64 %d7, %d8; mov.u64 %d8, %d1;"),
        ),
        # the outer loop changes what the inner one reads, and the other way round
        (
            ("add.s64 %d4, %d4, 4; setp.lt.u32 %p3, %r3, 3; @%p3 bra INNER;", "mov.u64 %d3, %d2;"),
            ("add.s64 %d4, %d4, 4; setp.lt.u32 %p3, %r3, 3; @%p3 bra INNER;", SAME),
        ),
        (
            ("mov.u64 %d3, %d5; setp.lt.u32 %p3, %r3, 3; @%p3 bra INNER;", ""),
            (f"{SAME} setp.lt.u32 %p3, %r3, 3; @%p3 bra INNER;", ""),
        ),
        # a pointer that is loaded, and a number that may be made of any pointer
        (("", "ld.global.u64 %d3, [%d2];"), ("", SAME)),
        (("", "shr.u64 %d7, %d2, 4; shl.b64 %d3, %d7, 4;"), ("", SAME)),
        (("", "sub.s64 %d7, %d2, %d1; add.s64 %d3, %d3, %d7;"), ("", "add.s64 %d3, %d3, %d9;")),
        # blocks whose order in the text is not that of the flow
        (
            (
                "",
                "bra B; A: mov.u64 %d3, %d7; bra ON; B: mov.u64 %d7, %d2; bra A; ON:",
            ),
            (
                "",
                "bra B; A: mov.u64 %d3, %d7; bra ON; B: mov.u64 %d7, %d1; bra A; ON:",
            ),
        ),
    ],
)
def test_a_pointer_that_becomes_another_one_in_a_loop(
    other: tuple[str, str], same: tuple[str, str]
) -> None:
    """Neither the range of an array nor its size is used for a load that may be of another one."""
    sized = Launch((32, 1, 1), sizes={"a": 4000})
    for (inner, outer), expected in ((other, ["%r4"]), (same, ["%r3", "%r4"])):
        body = LOOP.format(inner=inner, outer=outer)
        assert sorted(known(body)) == expected
        kernel = kernel_of(body)
        kept = accesses_kept(kernel, sized)
        assert sorted(kernel.instructions[index].writes[0] for index in kept) == expected


@pytest.mark.parametrize(("pointer", "is_bounded"), [("%d2", False), ("%d1", True)])
def test_no_bound_where_a_pointer_becomes_another_one_in_a_loop(
    tmp_path: Path, pointer: str, is_bounded: bool
) -> None:
    counted = "mov.u32 %r7, 0; L: add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, %r3; @%p1 bra L;"
    body = LOOP.format(inner=counted, outer=f"mov.u64 %d3, {pointer};")
    file, facts = tmp_path / "k.ptx", tmp_path / "facts.toml"
    file.write_text(HEAD.format(parameters=PLAIN) + body + "\nret;\n}\n")
    facts.write_text(f'ptx = "sha256:{file_digest(str(file))}"\n[arrays]\na = "u32 0..4"\n')
    answer = bound_file(Request(str(file), block="32", facts_file=str(facts)))
    assert bool(answer.answered) == is_bounded


def test_two_arrays() -> None:
    body = "setp.lt.u32 %p1, %r2, 5;\nselp.b64 %d3, %d1, %d2, %p1;\nld.global.u32 %r3, [%d3];"
    two = ArrayRange("s32", -4, 3)
    assert known(body, a=RANGE, b=two) == {"%r3": ArrayRange("s32", -4, 9)}
    # of other types it is not known how to read what both may hold
    assert known(body, a=RANGE, b=ArrayRange("u32", 0, 3)) == {}


@pytest.mark.parametrize("parameters", [MARKED, PLAIN + ", .param .u64 m"])
def test_any_parameter_of_64_bits_may_be_a_pointer(parameters: str) -> None:
    """An address passed as an integer has no mark; scaled, it is an index."""
    for way in ("add.s64 %d3, %d1, %d5;", "selp.b64 %d3, %d1, %d5, %p1;"):
        body = f"ld.param.u64 %d5, [m];\n{way}\nld.global.u32 %r3, [%d3];"
        with pytest.raises(PtxwcetError):
            known(body, parameters)
    body = "ld.param.u64 %d5, [m];\nshl.b64 %d6, %d5, 2;\nadd.s64 %d3, %d1, %d6;\n"
    assert known(body + "ld.global.u32 %r3, [%d3];", parameters) == {"%r3": RANGE}


@pytest.mark.parametrize(
    "way",
    [
        "selp.b64 %d3, %d1, %d6, %p1;",
        "mov.u64 %d3, %d1;\n@%p1 mov.u64 %d3, %d6;",
        "max.u64 %d3, %d1, %d6;",
    ],
)
def test_a_number_beside_a_pointer_may_be_made_of_another_one(way: str) -> None:
    body = f"shr.u64 %d5, %d2, 4;\nshl.b64 %d6, %d5, 4;\n{way}\nadd.s64 %d7, %d3, 4;\n"
    body += "ld.global.u32 %r3, [%d7];\nld.global.u32 %r4, [%d1];"
    assert known(body) == {"%r4": RANGE}


def test_a_pointer_in_an_aggregate_is_another_one() -> None:
    body = (
        "ld.param.u64 %d5, [s];\nsetp.lt.u32 %p1, %r2, 5;\nselp.b64 %d3, %d1, %d5, %p1;\n"
        "ld.global.u32 %r3, [%d3];\nld.global.u32 %r4, [%d1];"
    )
    assert known(body, MARKED + ", .param .align 8 .b8 s[16]") == {"%r4": RANGE}


CALLED = """.version 8.3
.target sm_80
.address_size 64
.func (.param .u32 out) f(.param .u64 p, .param .u32 i)
{
.reg .b64 %d<4>;
.reg .b32 %r<4>;
ld.param.u64 %d1, [p];
ld.param.u32 %r1, [i];
mad.wide.u32 %d2, %r1, 4, %d1;
ld.global.u32 %r2, [%d2];
st.param.b32 [out], %r2;
ret;
}
.visible .entry k(.param .u64 a, .param .u64 b)
{
.reg .b64 %d<4>;
.reg .b32 %r<4>;
ld.param.u64 %d1, [a];
ld.param.u64 %d2, [b];
mov.u32 %r1, %tid.x;
{
.param .b64 x;
.param .b32 y;
.param .b32 z;
st.param.b64 [x], %d1;
st.param.b32 [y], %r1;
call.uni (z), f, (x, y);
ld.param.b32 %r2, [z];
}
{
.param .b64 x;
.param .b32 y;
.param .b32 z;
st.param.b64 [x], %d2;
st.param.b32 [y], %r2;
call.uni (z), f, (x, y);
ld.param.b32 %r3, [z];
}
st.global.u32 [%d2], %r3;
ret;
}
"""


def test_pointers_are_followed_into_functions() -> None:
    module = parse_text(CALLED)
    whole = inline_calls(next(one for one in module.kernels if one.name == "k"), module)
    followed = with_variable_registers(whole)
    found = loads_of_arrays(followed, Launch((32, 1, 1), arrays={"a": RANGE}))
    loads = places_of(followed, OpClass.LOAD_GLOBAL)
    assert list(found) == loads[:1]
    assert arrays_read(followed, loads) == {"a": "s32", "b": "s32"}


IN_A_LOOP = """.version 8.3
.target sm_80
.address_size 64
.func (.param .u64 out) f(.param .u64 p, .param .u64 q)
{{
.reg .b64 %d<4>;
ld.param.u64 %d1, [p];
ld.param.u64 %d2, [q];
st.param.b64 [out], {result};
ret;
}}
.visible .entry k(.param .u64 a, .param .u64 b)
{{
.reg .b64 %d<6>;
.reg .b32 %r<4>;
.reg .pred %p<2>;
ld.param.u64 %d1, [a];
ld.param.u64 %d2, [b];
mov.u32 %r1, 0;
L:
add.s64 %d3, %d1, 4;
ld.global.u32 %r2, [%d3];
{{
.param .b64 x;
.param .b64 y;
.param .b64 z;
st.param.b64 [x], %d1;
st.param.b64 [y], %d2;
call.uni (z), f, (x, y);
ld.param.b64 %d1, [z];
}}
add.u32 %r1, %r1, 1;
setp.lt.u32 %p1, %r1, 5;
@%p1 bra L;
ret;
}}
"""


@pytest.mark.parametrize(("result", "arrays"), [("%d2", ["a", "b"]), ("%d1", ["a"])])
def test_a_function_gives_the_pointer_of_the_next_iteration(result: str, arrays: list[str]) -> None:
    module = parse_text(IN_A_LOOP.format(result=result))
    whole = inline_calls(next(one for one in module.kernels if one.name == "k"), module)
    followed = with_variable_registers(whole)
    loads = places_of(followed, OpClass.LOAD_GLOBAL)

    def ranges(names: list[str]) -> list[int]:
        stated = dict.fromkeys(names, ArrayRange("u32", 0, 4))
        return list(loads_of_arrays(followed, Launch((32, 1, 1), arrays=stated)))

    assert ranges(arrays) == loads
    if arrays != ["a"]:
        assert refusal_of(ranges, ["a"]).code == "PW251"


def stated(text: str, name: str = "a") -> ArrayRange:
    fact = ParameterFact(name, text, FactSource("facts.toml:3"))
    return resolve_arrays(kernel_of(""), (fact,), None)["a"]


def test_texts() -> None:
    assert stated("s32 -5..7") == ArrayRange("s32", -5, 7, "facts.toml:3")
    assert stated("u64 0 .. 18446744073709551615", "0").high == 2**64 - 1
    assert str(stated("u8 3..3")) == "u8 3..3"


@pytest.mark.parametrize(
    ("text", "name", "code"),
    [
        ("0..7", "a", "PW214"),
        ("b32 0..7", "a", "PW214"),
        ("f32 0..7", "a", "PW214"),
        ("s32 7..0", "a", "PW214"),
        ("u8 0..256", "a", "PW214"),
        ("u32 -1..7", "a", "PW214"),
        ("s32 5", "a", "PW214"),
        ("s32 0..5", "n", "PW214"),
        ("s32 0..5", "x", "PW213"),
    ],
)
def test_texts_that_are_refused(text: str, name: str, code: str) -> None:
    assert refusal_of(stated, text, name).code == code


def test_two_statements() -> None:
    facts = tuple(
        ParameterFact("a", text, FactSource(f"facts.toml:{line}"))
        for line, text in enumerate(("s32 0..5", "s32 0..5", "s32 0..6"), 3)
    )
    assert len(resolve_arrays(kernel_of(""), facts[:2], None)) == 1
    assert refusal_of(resolve_arrays, kernel_of(""), facts, None).code == "PW215"


ROWS = (
    INDEXED
    + """ld.global.u32 %r3, [%d4];
ld.global.u32 %r4, [%d4+4];
setp.ge.s32 %p1, %r3, %r4;
@%p1 bra OUT;
L:
add.s32 %r3, %r3, 1;
setp.lt.s32 %p1, %r3, %r4;
@%p1 bra L;
OUT:
"""
)


def test_a_facts_file_bounds_the_loop(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(HEAD.format(parameters=PLAIN) + ROWS + "\nret;\n}\n")
    facts = tmp_path / "facts.toml"
    request = Request(str(file), block="32", facts_file=str(facts))

    def cycles(*lines: str) -> int | None:
        facts.write_text(f'ptx = "sha256:{file_digest(str(file))}"\n' + "\n".join(lines))
        result = bound_file(request)
        if not result.answered:
            return None
        bound = result.answered[0].worst.bound
        keys = {one.key for one in bound.claim.assumptions}
        assert ("array-contents" in keys) == bool(lines)
        return bound.cycles

    small, large = cycles("[arrays]", 'a = "s32 0..9"'), cycles("[arrays.k]", 'a = "s32 0..99"')
    assert small is not None
    assert large is not None
    assert small < large
    # two facts at most help
    both = cycles("[arrays]", 'a = "s32 0..99"', "[[loop]]", 'at = "L"', "bound = 9")
    assert both is not None
    assert both <= large


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ('arrays = "s32 0..9"', "PW243"),
        ("[arrays]\na = 5", "PW243"),
        ('[arrays]\na = "?"', "PW245"),
        ('[arrays.other]\na = "s32 0..9"', "PW208"),
        ('[arrays]\nb = "s32 0..9"', "PW251"),
        ('[arrays]\na = "s64 0..9"', "PW251"),
        ('[arrays]\nn = "s32 0..9"', "PW214"),
    ],
)
def test_facts_files_that_are_refused(tmp_path: Path, lines: str, code: str) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(HEAD.format(parameters=PLAIN) + ROWS + "\nret;\n}\n")
    facts = tmp_path / "facts.toml"
    facts.write_text(f'ptx = "sha256:{file_digest(str(file))}"\n{lines}\n')
    try:
        answer = bound_file(Request(str(file), block="32", facts_file=str(facts)))
        codes = [one.code for row in answer.refused for one in row.diagnostics]
    except PtxwcetError as error:
        codes = [one.code for one in error.diagnostics]
    assert codes == [code]


def test_ranges_are_left_out_where_fewer_facts_bound_lower() -> None:
    launch = Launch((32, 1, 1), arrays={"a": RANGE, "b": RANGE})
    found = [sorted(one.stated[0].arrays) for one in fewer_facts(launch, NO_PLACED_FACTS, ())]
    assert found == [["b"], ["a"], []]
    assert replace(launch, arrays={}).arrays == {}
