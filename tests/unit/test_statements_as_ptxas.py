"""Files that ptxas takes or refuses because of one token, and what the parser says of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from parsing import parse_text
from places import ROOT

from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

FAULTS = ROOT / "tests" / "data" / "faults"
FILES = [*sorted((FAULTS / "statements").glob("*.ptx")), FAULTS / "mma_scale_in_braces.ptx"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_taken_as_ptxas_takes_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.stem.startswith("MISSED"):
        with pytest.raises(PtxwcetError):
            parse_text(text)
    else:
        assert parse_text(text).kernels


def body(statement: str) -> str:
    return (
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
        ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>;\n"
        f".shared .align 4 .b8 s[16];\n{statement}\nret;\n}}\n"
    )


def test_a_register_plus_a_constant_is_an_addition_before_the_instruction() -> None:
    (kernel,) = parse_text(body("@%p1 st.global.u32 [%d1], %r1+ 4;")).kernels
    first, second, _ = kernel.instructions
    assert first.mnemonic == "add.u32"
    assert first.guard is None
    assert first.writes[0] in second.reads
    assert "%r1" not in second.reads


@pytest.mark.parametrize(
    "statement",
    [
        "or.pred %p1, !%p2, !%p3;",
        "vote.sync.all.pred %p1, 1, 0xffffffff;",
        "neg.f32 %f1|_, %f2;",
        "ld.shared.u32 %r1, [s+4];",
        "add.s32.infinite %r1, %r2, %r3;",
        "mov.b64 %d1, {%r1, %f1};",
    ],
)
def test_ptxas_takes(statement: str) -> None:
    text = body(statement).replace(".reg .f32 %f", ".reg .b32 %f")
    assert parse_text(text if "mov.b64" in statement else body(statement)).kernels


@pytest.mark.parametrize(
    "statement",
    [
        "add.u32 %r1+4, %r2, %r3;",
        "neg.f32 _|%f1, %f2;",
        "ld.global.u32 %r1, [s+4];",
        "st.param.u32 [p], %r1;",
        "ld.global.u32 %r1, [%r2];",
        "mov.b64 %d1, {%r1, %p1};",
        "mov.u64 %d1, %tid.x;",
        "min.f32 %f1, %f2, %f3, %f1;",
        "cp.async.bulk.tensor.2d.global.shared::cluster.mbarrier::complete_tx::bytes "
        "[%r1], [%d1, {%r1, %r2}], [%r3];",
        ".shared .align 3 .b8 z[4];",
        ".local .b8 z[0];",
        "vadd2.s32.s32.s32 %r1, %r2.h0, %r3, %r4;",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, {%f1}];",
    ],
)
def test_ptxas_refuses(statement: str) -> None:
    with pytest.raises(PtxwcetError):
        parse_text(body(statement))


@pytest.mark.parametrize(
    ("heads", "taken"),
    [
        (".func f(.reg .b32 a) { ret; }", True),
        (".func f(.reg .b32 a, .reg .b32 b) { ret; }", False),
        (".func (.reg .b32 r) f(.reg .b32 a) { mov.b32 r, a; ret; }", False),
        (".func f(.reg .b64 a) { ret; }", False),
        (".func f(.reg .b32 a); .func f(.reg .u32 a) { ret; }", False),
    ],
)
def test_calls_and_heads_agree(heads: str, taken: bool) -> None:
    text = body("call f, (%r1);").replace(".visible", f"{heads}\n.visible")
    if taken:
        assert parse_text(text).functions
    else:
        with pytest.raises(PtxwcetError):
            parse_text(text)


@pytest.mark.parametrize(
    ("directives", "taken"),
    [
        (".maxntid 32 .minnctapersm 2", True),
        (".maxntid 0", False),
        (".minnctapersm 9223372036854775808", False),
        (".maxntid 32 .reqntid 32", False),
        (".maxnctapersm 2", False),
    ],
)
def test_performance_directives_have_ranges(directives: str, taken: bool) -> None:
    text = body("").replace("(.param .u64 p) {", f"(.param .u64 p) {directives} {{")
    if taken:
        assert parse_text(text).kernels
    else:
        with pytest.raises(PtxwcetError):
            parse_text(text)
