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


def outside(text: str, statement: str = "") -> str:
    return body(statement).replace(".visible", f"{text}\n.visible")


EIGHT = "{" + ", ".join(f"%r{n}" for n in range(8)) + "}"
EIGHT_FLOATS = EIGHT.replace("r", "f")
PRODUCT = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"


@pytest.mark.parametrize(
    "text",
    [
        body("{ .reg .b16 h; mov.b32 %r1, {_, h}; }"),
        body("{ .reg .b16 h; mov.b32 %f1, {h, _}; }"),
        body("{ .reg .b8 c; mov.b32 %r1, {_, c, _, c}; }"),
        body("ld.global.v2.u32 {_, %r1}, [%d1];"),
        body(f"{PRODUCT} {EIGHT_FLOATS}, {EIGHT}, {EIGHT}, {EIGHT};"),
        body("{ .param .f16x2 q[2]; }"),
        body("P: .callprototype _ (.param .u16x2 x);"),
        outside(".attribute(.managed) .global .u32 x;"),
        outside(".visible .attribute(.managed) .align 8 .global .u32 x[4] = {1, 2};"),
        outside(".align 8 .global .attribute(.unified(1,2)) .u32 x;"),
        outside(".extern .func f(.param .u16x2 x);"),
        outside(".func f(.param .u16 x) { ret; }"),
        outside(".func f(.reg .pred x) { ret; } .func g(.param .v2 .u16 x[2]) { ret; }"),
        outside(".global .u8 y = 5; .global .align 8 .b8 z[2] = {1, 2};"),
        outside(".global .u32 y; .global .u64 z = generic(y)+4;"),
        outside(".global .u32 y; .global .u8 z[2] = {0xff(y), 0xff00(generic(y))};"),
        outside(".func f() { ret; } .global .u64 z[2] = {f, 0};"),
        outside(".func f() { ret; } .func a(); .alias a, f;", "call a;"),
    ],
)
def test_ptxas_takes_the_text(text: str) -> None:
    (kernel,) = parse_text(text).kernels
    assert kernel.instructions


@pytest.mark.parametrize(
    "text",
    [
        body("{ .reg .b16 h; mov.b32 %r1, {_, _}; }"),
        body("mov.b64 %d1, {_, %r1};"),
        body("mov.b64 {_, _}, %d1;"),
        body("ld.global.v2.u32 {_, _}, [%d1];"),
        body("st.global.v4.f32 [%d1], [{%f1, %f2, %f3, %f1}];"),
        body("ld.global.v2.u32 [{%r1, %r2}], [%d1];"),
        body(f"{PRODUCT} {EIGHT_FLOATS}, {EIGHT_FLOATS}, {EIGHT}, {EIGHT};"),
        body(f"{PRODUCT} {EIGHT_FLOATS}, {EIGHT}, {EIGHT_FLOATS}, {EIGHT};"),
        body(
            "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%f1, %f2},"
            " {%r1}, {%f0, %f1, %f2, %f3};"
        ),
        body(
            "{ .reg .s32 i<4>; wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {i0, i1, i2, i3},"
            " [%d1]; }"
        ),
        body("{ .param .b32 q; @%p1 st.param.b32 [q], %r1; }"),
        body("{ .param .b32 q; @!%p1 ld.param.b32 %r1, [q+0]; }"),
        body("{ .param .v2 .u16 q; }"),
        body(".tex .u32 t;"),
        body(".global .texref t;"),
        body(".reg .b32 %z<1000000000>;"),
        body(".reg .v2 .b32 z<2147483647>;"),
        outside(".shared .texref t;"),
        outside(".global .texref t;", "mov.b64 %d1, t;"),
        outside(".global .u64 z = nosuch;"),
        outside(".global .u64 z = z;"),
        outside(".global .u64 z[2] = {0, k};"),
        outside(".global .u64 z = generic(nosuch)+4;"),
        outside(".global .u32 y; .global .b64 z = y;"),
        outside(".shared .u32 y; .global .u64 z = y;"),
        outside(".shared .attribute(.managed) .u32 x;"),
        outside(".global .attribute(.unified(1)) .u32 x;"),
        outside(".func f(.param .u16x2 x) { ret; }"),
        outside(".func f(.param .u16 x) { ret; }", "{ .param .u16 q; call f, (q); }"),
        outside(".extern .func (.param .s8 x) f();", "{ .param .s8 q; call (q), f; }"),
        outside(".func f(.param .v4 .f32 x) { ret; }"),
        outside(".entry e(.param .f16x2 x) { ret; }"),
        outside(".entry e(.param .texref t) { .reg .b64 d; ld.param.u64 d, [t]; ret; }"),
        outside(".func f() { ret; } .func a(); .func b(); .alias a, f; .alias b, a;"),
        outside(".func f() { ret; } .func a(); .func b(); .alias b, a; .alias a, f;"),
        outside(".func f() { ret; } .func a(); .alias a, a;"),
        outside(".func a(); .alias a, nosuch;"),
        outside(".weak .func f() { ret; } .func a(); .alias a, f;"),
        outside(".func f() { ret; } .func a(.reg .b32 x); .alias a, f;"),
    ],
)
def test_ptxas_refuses_the_text(text: str) -> None:
    with pytest.raises(PtxwcetError) as caught:
        parse_text(text)
    assert all(one.code != "PW901" for one in caught.value.diagnostics)


@pytest.mark.parametrize(
    ("version", "target", "statement", "reason"),
    [
        ("7.3", "sm_80", "discard.global.L2 [%d1], 128;", "needs PTX 7.4 or later"),
        ("7.4", "sm_75", "discard.global.L2 [%d1], 128;", "needs sm_80 or higher"),
        ("7.7", "sm_80", "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;", "needs PTX 7.8"),
        ("7.0", "sm_80", "szext.wrap.u32 %r1, %r2, %r3;", "needs PTX 7.6 or later"),
        ("7.0", "sm_80", "bmsk.clamp.b32 %r1, %r2, %r3;", "needs PTX 7.6 or later"),
        ("7.8", "sm_80", "mov.u32 %r1, %clusterid.x;", "needs sm_90 or higher"),
        ("7.0", "sm_80", "ld.global.L2::64B.u32 %r1, [%d1];", "needs PTX 7.4 or later"),
        ("7.0", "sm_75", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
         " {%e1, %e2}, {%e3}, {%e4}, {%e1, %e2};", "needs sm_80 or higher"),
        ("8.2", "sm_80", "{ .reg .b128 q; }", "needs PTX 8.3 or later"),
        ("7.7", "sm_80", "st.shared::cta.u32 [s], %r1;", "needs PTX 7.8 or later"),
        ("8.0", "sm_90", "wgmma.fence.sync.aligned;", "needs sm_90a"),
    ],
)  # fmt: skip
def test_what_is_too_new_for_its_header_is_refused(
    version: str, target: str, statement: str, reason: str
) -> None:
    text = body(statement).replace(".reg .f32", ".reg .f64 %e<9>; .reg .f32")
    newest = text.replace("sm_90", "sm_90a")
    assert parse_text(newest).kernels
    old = text.replace(".version 9.0", f".version {version}").replace("sm_90", target)
    with pytest.raises(PtxwcetError) as caught:
        parse_text(old)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("version", "target", "text"),
    [
        ("7.3", "sm_52", body("alloca.u64 %d1, 8;")),
        ("6.5", "sm_72", body("cvt.pack.sat.u16.s32 %r1, %r2, %r3;")),
        ("4.0", "sm_35", body("red.shared.xor.b64 [s], %d1;")),
        ("7.0", "sm_80", outside(".global .u8 y[2] = {1, 2}; .global .u64 z = 5;")),
        ("6.3", "sm_75", body("vote.ballot.b32 %r1, %p1; shfl.up.b32 %r1, %r2, 1, 31;")),
        ("6.4", "sm_61", body("vote.ballot.b32 %r1, %p1; shfl.up.b32 %r1, %r2, 1, 31;")),
        ("6.0", "sm_60", body("shfl.sync.up.b32 %r1, %r2, 1, 31, -1; bar.warp.sync -1;")),
        ("6.0", "sm_61", body("dp4a.u32.u32 %r1, %r2, %r3, %r4; ld.global.nc.u32 %r1, [%d1];")),
    ],
)
def test_what_its_header_has_is_taken(version: str, target: str, text: str) -> None:
    header = text.replace(".version 9.0", f".version {version}").replace("sm_90", target)
    assert parse_text(header).kernels


@pytest.mark.parametrize(
    ("version", "target", "statement", "reason"),
    [
        ("6.4", "sm_75", "vote.ballot.b32 %r1, %p1;",
         "vote with no .sync ended with PTX 6.3; the file says .version 6.4"),
        ("7.0", "sm_80", "vote.ballot.b32 %r1, %p1;",
         "vote with no .sync ended with sm_75; the file says .target sm_80"),
        ("8.0", "sm_90", "wgmma.fence.sync.aligned;",
         "wgmma.fence needs sm_90a; the file says .target sm_90"),
        ("7.4", "sm_75", "discard.global.L2 [%d1], 128;",
         "discard needs sm_80 or higher; the file says .target sm_75"),
    ],
)  # fmt: skip
def test_the_reason_is_a_whole_sentence(
    version: str, target: str, statement: str, reason: str
) -> None:
    text = body(statement).replace(".version 9.0", f".version {version}")
    with pytest.raises(PtxwcetError) as caught:
        parse_text(text.replace("sm_90", target))
    assert reason in [one.message for one in caught.value.diagnostics]
