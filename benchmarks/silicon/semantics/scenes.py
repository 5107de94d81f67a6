"""Kernels written for what single statements do not show: memory, lanes, barriers, matrices.

Each thread has a row of ``out`` and a row of ``in``; what a scene saves is put into the row of out
in slots of eight bytes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from kit import Kit, argument, assembled
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "oracle"))

import matrix_statements
import statements

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

ROW = 256
"""Bytes of a thread in ``in`` and ``out``."""
HEAD = """.version 8.8
.target sm_90a
.address_size 64
.const .align 8 .b8 bytes[64] = {1, 2, 3, 250, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0x80,
255};
.const .align 8 .u64 longs[4] = {0x0123456789abcdef, 0xffffffffffffffff, 7, 0x8000000000000001};
.const .align 4 .f32 singles[4] = {1.5, -0.0, 0f7FC00001, 0f00000001};
.global .align 16 .u32 words[16] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25};
.extern .shared .align 16 .b32 dynamic[];
.func (.reg .b32 %x) twice(.reg .b32 %a)
{ add.u32 %x, %a, %a; ret; }
.func (.param .b64 result) both(.param .b32 a, .param .align 4 .b8 pair[8])
{ .reg .b32 %a, %b, %c; .reg .b64 %d;
ld.param.u32 %a, [a]; ld.param.u32 %b, [pair]; ld.param.u32 %c, [pair+4];
mad.wide.u32 %d, %a, %b, 5; cvt.u64.u32 %d, %c; st.param.b64 [result], %d; ret; }
"""


@dataclass(frozen=True)
class Scene:
    """A body with what it saves, and a launch."""

    name: str
    body: str
    saves: tuple[str, ...]
    block: tuple[int, int, int] = (64, 1, 1)
    grid: tuple[int, int, int] = (1, 1, 1)
    data: str = "int"
    declared: str = ""
    dynamic: int = 0
    registers: int = 40


_BYTES = {"bytes": (0, 0xFB), "few bytes": (0x28, 0x97), "tiny bytes": (0, 0x8F)}
"""Bytes from a number on with some bits of any number: finite ones of eight bits, pairs of f16."""
_SIZES = {"h": 2, "r": 4, "d": 8, "f": 4, "g": 8, "p": 1}


def text_of(scene: Scene, name: str) -> str:
    """A kernel of a scene."""
    lines = [
        f".visible .entry {name}(.param .u64 in, .param .u64 out)",
        "{",
        *(
            f".reg .{kind} %{letter}<{scene.registers}>;"
            for letter, kind in (
                ("p", "pred"),
                ("h", "b16"),
                ("r", "b32"),
                ("d", "b64"),
                ("f", "f32"),
                ("g", "f64"),
            )
        ),
        ".reg .b32 %t, %g_, %w, %x, %y; .reg .b64 %in, %out, %own;",
        scene.declared,
        "mov.u32 %x, %tid.z; mov.u32 %y, %ntid.y; mul.lo.u32 %t, %x, %y;",
        "mov.u32 %x, %tid.y; add.u32 %t, %t, %x; mov.u32 %y, %ntid.x; mul.lo.u32 %t, %t, %y;",
        "mov.u32 %x, %tid.x; add.u32 %t, %t, %x;",
        "mov.u32 %x, %ctaid.z; mov.u32 %y, %nctaid.y; mul.lo.u32 %w, %x, %y;",
        "mov.u32 %x, %ctaid.y; add.u32 %w, %w, %x; mov.u32 %y, %nctaid.x; mul.lo.u32 %w, %w, %y;",
        "mov.u32 %x, %ctaid.x; add.u32 %w, %w, %x;",
        f"mad.lo.u32 %g_, %w, {np.prod(scene.block)}, %t;",
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out];",
        f"mad.wide.u32 %own, %g_, {ROW}, %out; mad.wide.u32 %in, %g_, {ROW}, %in;",
        scene.body,
    ]
    for slot, one in enumerate(scene.saves):
        letter = one.lstrip("%")[0]
        if letter == "p":
            lines.append(f"selp.u32 %w, 1, 0, {one}; st.global.u32 [%own+{8 * slot}], %w;")
        else:
            lines.append(f"st.global.b{8 * _SIZES[letter]} [%own+{8 * slot}], {one};")
    return "\n".join([*lines, "DONE:", "ret;", "}", ""])


def data_of(scene: Scene) -> NDArray[np.uint8]:
    """Rows of words at the edges of a domain, of the width that it is about."""
    threads = int(np.prod(scene.block) * np.prod(scene.grid))
    draw = statements.drawing(scene.name)
    if scene.data == "none":
        return np.zeros(ROW, np.uint8)
    if scene.data in _BYTES:
        least, mask = _BYTES[scene.data]
        draw_bytes = draw.integers(0, 256, threads * ROW).astype(np.uint8)
        return least + (draw_bytes & np.uint8(mask))
    if scene.data == "f16 tiny":
        halves = draw.integers(0, 1 << 16, threads * ROW // 2).astype(np.uint16)
        return (halves & np.uint16(0x8FFF)).view(np.uint8)
    if scene.data == "bf16 tiny":
        halves = draw.integers(0, 1 << 16, threads * ROW // 2).astype(np.uint16)
        large = halves & np.uint16(0x80FF) | np.uint16(0x3F00)
        tiny = halves & np.uint16(0x81FF)
        return np.where(draw.random(len(halves)) < 0.5, tiny, large).view(np.uint8)
    if scene.data == "small":
        return draw.integers(0, 256, threads * ROW).astype(np.uint8) & np.uint8(3)
    if scene.data in ("f16 normal", "bf16 normal", "f32 normal", "f64 normal"):
        values = draw.normal(0, 1, threads * ROW // 2) * 2.0 ** draw.integers(
            -6, 7, threads * ROW // 2
        )
        return _encoded(values, scene.data.split()[0])[: threads * ROW]
    if scene.data in ("f16 small", "bf16 small", "f32 small", "f64 small", "e4m3 small"):
        values = draw.integers(-8, 9, threads * ROW).astype(np.float64)
        return _encoded(values, scene.data.split()[0])[: threads * ROW]
    bits = {"f64": 64, "f16": 16, "bf16": 16, "long": 64}.get(scene.data, 32)
    domain = scene.data if scene.data in statements.DOMAINS else "int"
    edges = np.array(statements.specials(domain, bits), np.uint64)
    count = threads * ROW * 8 // bits
    words = draw.choice(edges, count)
    words = np.where(draw.random(count) < 0.3, draw.integers(0, 1 << 63, count, np.uint64), words)
    return words.astype(f"u{bits // 8}").view(np.uint8)


def _encoded(values: NDArray[np.float64], kind: str) -> NDArray[np.uint8]:
    if kind == "f64":
        return values.view(np.uint8)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint8)
    singles = values.astype(np.float32)
    if kind == "bf16":
        return (singles.view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.uint8)
    return singles.view(np.uint8)


# --- what registers say ---------------------------------------------------------------------------

_SPECIAL = (
    "%laneid", "%warpid", "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z",
    "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%lanemask_eq",
    "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge", "%dynamic_smem_size",
    "%cluster_ctaid.x", "%cluster_nctaid.x", "%cluster_ctarank", "%cluster_nctarank",
    "%clusterid.x", "%nclusterid.x", "%clusterid.y", "%nclusterid.z", "%nwarpid",
)  # fmt: skip


def _specials() -> Iterator[Scene]:
    body = "\n".join(f"mov.u32 %r{n}, {name};" for n, name in enumerate(_SPECIAL))
    saves = tuple(f"%r{n}" for n in range(len(_SPECIAL)))
    body += "\nmov.pred %p1, %is_explicit_cluster;\nactivemask.b32 %r39;\n"
    body += "vote.sync.ballot.b32 %r38, 1, %r39;"
    shapes = (
        (32, 1, 1), (33, 3, 1), (8, 4, 1), (3, 5, 1), (2, 2, 9), (1024, 1, 1), (7, 11, 13),
        (16, 16, 1), (1, 1, 64), (96, 1, 1), (1, 1, 1), (1, 33, 2), (31, 1, 2), (5, 1, 64),
    )  # fmt: skip
    for block in shapes:
        for grid in ((1, 1, 1), (3, 2, 2)):
            name = f"registers {block} {grid}"
            yield Scene(name, body, (*saves, "%p1", "%r38"), block, grid, "none", dynamic=48)
    for block, grid in (((64, 1, 1), (2600, 1, 1)), ((128, 2, 1), (600, 1, 1))):
        yield Scene(f"registers {block} {grid}", body, (*saves, "%p1"), block, grid, "none")


# --- memory ---------------------------------------------------------------------------------------

_ACCESS = """
ld.global.v2.u8 {{%h1, %h2}}, [%in]; ld.global.v4.s8 {{%r1, %r2, %r3, %r4}}, [%in+4];
ld.global.v2.s16 {{%d1, %d8}}, [%in+8]; ld.global.v4.u16 {{%h3, %h4, %h5, %h6}}, [%in+16];
ld.global.v2.b32 {{%r6, %r7}}, [%in+24]; ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%in+32];
ld.global.v2.u64 {{%d2, %d3}}, [%in+48]; ld.global.v2.f64 {{%g1, %g2}}, [%in+64];
ld.global.s32 %d4, [%in+84]; ld.global.u8 %d5, [%in+3]; ld.global.s8 %d6, [%in+3];
ld.global.nc.s16 %r8, [%in+90]; ld.global.cs.b64 %d7, [%in+96]; ld.volatile.global.u32 %r9, [%in];
ld.global.ca.v4.u32 {{%r10, %r11, %r12, %r13}}, [%in+112]; ldu.global.u32 %r14, [%in+8];
ld.global.lu.u16 %r15, [%in+2]; ld.relaxed.gpu.global.s32 %r16, [%in+20];
ld.global.L2::128B.u32 %r17, [%in+24]; ld.s16 %r18, [%in+26];
prefetch.global.L1 [%in]; prefetch.global.L2 [%in+64]; prefetchu.L1 [%in]; nanosleep.u32 100;
st.global.v2.u8 [%own+160], {{%r1, %r2}}; st.global.v4.b16 [%own+168], {{%h1, %h2, %h3, %h4}};
st.global.v4.u32 [%own+176], {{%r6, %r7, %r8, %r9}}; st.global.v2.b64 [%own+192], {{%d1, %d2}};
st.global.u8 [%own+161], %d3; st.global.s16 [%own+210], %r6; st.wt.global.u32 [%own+212], %r7;
membar.gl; fence.acq_rel.sys; st.volatile.global.u16 [%own+216], %r12; st.u8 [%own+220], %r12;
""".replace("{{", "{").replace("}}", "}")


def _memory() -> Iterator[Scene]:
    saves = ("%h1", "%h2", "%r1", "%r2", "%r3", "%r4", "%d8", "%d1", "%d4", "%d5", "%d6", "%r8",
             "%r15", "%r16", "%r18", "%f2", "%g2", "%r17", "%r14")  # fmt: skip
    for data in ("int", "long", "f32"):
        yield Scene(f"vectors {data}", _ACCESS, saves, data=data)
    yield Scene(
        "local arrays",
        """
        mov.u32 %r1, 0;
        FILL: mul.lo.u32 %r2, %r1, 4; mov.u32 %r4, box; add.u32 %r4, %r4, %r2;
        mad.lo.u32 %r3, %t, 77, %r1; st.local.u32 [%r4], %r3;
        add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 16; @%p1 bra FILL;
        ld.global.u32 %r5, [%in]; and.b32 %r5, %r5, 15; mul.lo.u32 %r6, %r5, 4;
        mov.u32 %r7, box; add.u32 %r7, %r7, %r6; ld.local.u32 %r8, [%r7];
        ld.local.v2.u32 {%r9, %r10}, [box+8]; ld.local.u8 %r11, [box+5]; ld.local.s16 %r12, [box+6];
        mov.u64 %d1, box; cvta.local.u64 %d2, %d1; ld.u32 %r13, [%d2+12]; st.u16 [%d2+14], %r5;
        ld.local.u32 %r14, [box+12]; cvta.to.local.u64 %d3, %d2; sub.u64 %d3, %d3, %d1;
        isspacep.local %p2, %d2; isspacep.global %p3, %d2; isspacep.shared %p4, %d2;
        isspacep.const %p5, %d2; isspacep.local %p6, %own; isspacep.global %p7, %own;
        """,
        ("%r8", "%r9", "%r10", "%r11", "%r12", "%r13", "%r14", "%d3", "%p2", "%p3", "%p4", "%p5",
         "%p6", "%p7"),
        declared=".local .align 16 .b32 box[16];",
    )  # fmt: skip
    yield Scene(
        "shared",
        """
        ld.global.u64 %d1, [%in]; mul.lo.u32 %r1, %t, 8; mov.u32 %r2, one; add.u32 %r3, %r1, %r2;
        st.shared.u64 [%r3], %d1; mov.u32 %r4, dynamic; mad.lo.u32 %r5, %t, 4, %r4;
        st.shared.u32 [%r5], %t; bar.sync 0;
        xor.b32 %r6, %t, 21; mad.lo.u32 %r7, %r6, 8, %r2; ld.shared.v2.u32 {%r8, %r9}, [%r7];
        ld.shared.s8 %r10, [%r7+3]; ld.shared.u16 %r11, [%r7+6];
        mad.lo.u32 %r12, %r6, 4, %r4; ld.shared.u32 %r13, [%r12];
        mov.u64 %d2, one; cvta.shared.u64 %d3, %d2; cvt.u64.u32 %d4, %r6; shl.b64 %d4, %d4, 3;
        add.u64 %d5, %d3, %d4; ld.u64 %d6, [%d5]; isspacep.shared %p1, %d5;
        isspacep.local %p2, %d5; isspacep.global %p3, %d5; isspacep.shared::cta %p4, %d5;
        cvta.to.shared.u64 %d7, %d5; sub.u64 %d7, %d7, %d2; sub.u32 %r14, %r4, %r2;
        ld.shared::cta.u32 %r15, [one+16]; mov.u32 %r16, one; and.b32 %r16, %r16, 15;
        ld.volatile.shared.u8 %r17, [one+17];
        """,
        ("%r8", "%r9", "%r10", "%r11", "%r13", "%d6", "%p1", "%p2", "%p3", "%p4", "%d7", "%r15",
         "%r16", "%r17"),
        declared=".shared .align 16 .b64 one[64];",
        dynamic=256,
    )  # fmt: skip
    yield Scene(
        "constants",
        """
        and.b32 %r1, %t, 31; mov.u32 %r2, bytes; add.u32 %r3, %r1, %r2;
        ld.const.u8 %r4, [%r3]; ld.const.s8 %r5, [%r3]; ld.const.u8 %r6, [bytes+3];
        and.b32 %r7, %t, 3; mul.lo.u32 %r8, %r7, 8; mov.u32 %r9, longs; add.u32 %r9, %r9, %r8;
        ld.const.u64 %d1, [%r9]; ld.const.s32 %d2, [%r9+4]; mov.u64 %d3, longs;
        cvta.const.u64 %d4, %d3; ld.u64 %d5, [%d4+24]; isspacep.const %p1, %d4;
        isspacep.global %p2, %d4; ld.const.f32 %f1, [singles+8]; ld.const.f32 %f2, [singles+4];
        ld.const.v2.f32 {%f3, %f4}, [singles+8]; ld.const.b32 %r10, singles[3];
        mul.lo.u32 %r11, %r7, 4; mov.u64 %d6, words; cvt.u64.u32 %d7, %r11; add.u64 %d8, %d6, %d7;
        ld.global.u32 %r12, [%d8]; ld.global.u32 %r13, [words+20];
        ld.global.v4.u32 {%r16, %r17, %r18, %r19}, [words+32];
        """,
        ("%r4", "%r5", "%r6", "%d1", "%d2", "%d5", "%p1", "%p2", "%f1", "%f2", "%f3", "%f4",
         "%r10", "%r12", "%r13", "%r17", "%r19"),
    )  # fmt: skip


def _atomics() -> Iterator[Scene]:
    integer = [
        (name, kind)
        for name, kinds in (
            ("add", ("u32", "s32", "u64")), ("min", ("u32", "s32", "u64", "s64")),
            ("max", ("u32", "s32", "u64", "s64")), ("and", ("b32", "b64")), ("or", ("b32", "b64")),
            ("xor", ("b32", "b64")), ("exch", ("b32", "b64")), ("inc", ("u32",)), ("dec", ("u32",)),
            ("cas", ("b32", "b64", "b16")),
        )
        for kind in kinds
    ]  # fmt: skip
    floats = [("add", one) for one in ("f32", "f64", "noftz.f16", "noftz.f16x2", "noftz.bf16",
                                        "noftz.bf16x2")]  # fmt: skip
    for name, kind in (*integer, *floats):
        last = kind.split(".")[-1]
        bits = 32 if last.endswith("x2") else int("".join(c for c in last if c.isdigit()))
        letter = {16: "h", 32: "r", 64: "d"}[bits]
        data = {"f32": "f32", "f64": "f64", "f16": "f16", "f16x2": "f16", "bf16": "bf16",
                "bf16x2": "bf16"}.get(last, "long" if bits == 64 else "int")  # fmt: skip
        given = f"%{letter}1, %{letter}2" if name == "cas" else f"%{letter}1"
        lines = ["mov.u32 %r30, room; mad.lo.u32 %r30, %t, 8, %r30; mov.u64 %d30, %own;"]
        saves = []
        for turn in range(5):  # of each space, and then through generic addresses
            at = 24 * turn
            lines.append(f"ld.global.b{bits} %{letter}1, [%in+{at + 8}];")
            if name == "cas":
                lines.append(f"ld.global.b{bits} %{letter}2, [%in+{at + 16}];")
                lines.append(f"ld.global.b{bits} %{letter}3, [%in+{at + (0 if turn % 2 else 8)}];")
            else:
                lines.append(f"ld.global.b{bits} %{letter}3, [%in+{at}];")
            for space, address in (("global", "[%own+248]"), ("shared", "[%r30]")):
                result = f"%{letter}{10 + 2 * turn + (space == 'shared')}"
                lines.append(f"st.{space}.b{bits} {address}, %{letter}3;")
                form = (
                    f"atom.{space}.{name}.{kind}"
                    if space == "global" or turn
                    else f"atom.acq_rel.cta.{space}.{name}.{kind}"
                )
                lines.append(f"{form} {result}, {address}, {given};")
                lines.append(f"ld.{space}.b{bits} %{letter}4, {address};")
                slot = 40 + 16 * turn + 8 * (space == "shared")
                lines.append(f"st.global.b{bits} [%own+{slot + 80}], %{letter}4;")
                saves.append(result)
        yield Scene(
            f"atom.{name}.{kind}", "\n".join(lines), tuple(saves), (96, 1, 1), data=data,
            declared=".shared .align 8 .b64 room[96];",
        )  # fmt: skip
    for name, kind in (*integer[:-3], *floats[:2]):
        if name == "exch":
            continue
        bits = int("".join(c for c in kind if c.isdigit()))
        letter, data = ("r", "int") if bits == 32 else ("d", "long")
        if kind[0] == "f":
            data = f"{kind} small"
        limit = "mov.b32 %r1, 37;" if name in ("inc", "dec") else ""  # else the order matters
        yield Scene(
            f"red.{name}.{kind} at one place",
            f"""
            mov.u64 %d30, room; mov.u32 %r30, room; setp.eq.u32 %p1, %t, 0;
            @%p1 st.shared.b64 [%r30], 0; @%p1 st.shared.b64 [%r30+8], 0; bar.sync 0;
            ld.global.b{bits} %{letter}1, [%in]; {limit}
            red.shared.{name}.{kind} [%r30], %{letter}1;
            cvta.shared.u64 %d31, %d30; red.{name}.{kind} [%d31+8], %{letter}1; bar.sync 0;
            ld.shared.b{bits} %{letter}2, [%r30]; ld.shared.b{bits} %{letter}3, [%r30+8];
            """,
            (f"%{letter}2", f"%{letter}3"), (96, 1, 1), data=data,
            declared=".shared .align 8 .b64 room[2];",
        )  # fmt: skip


# --- lanes, barriers, control ---------------------------------------------------------------------


def _lanes() -> Iterator[Scene]:
    yield Scene(
        "lanes of some",
        """
        ld.global.u32 %r1, [%in]; ld.global.u32 %r2, [%in+4]; and.b32 %r3, %r1, 3;
        and.b32 %r20, %t, 31; setp.lt.u32 %p1, %r20, 13; setp.lt.s32 %p2, %r1, %r2;
        @%p1 bra LOW;
        vote.sync.ballot.b32 %r4, %p2, 0xffffe000; vote.sync.any.pred %p3, %p2, 0xffffe000;
        match.any.sync.b32 %r5, %r3, 0xffffe000; match.all.sync.b32 %r6|%p4, %r3, 0xffffe000;
        redux.sync.add.s32 %r7, %r1, 0xffffe000; redux.sync.max.s32 %r8, %r1, 0xffffe000;
        redux.sync.min.u32 %r9, %r1, 0xffffe000; redux.sync.and.b32 %r10, %r1, 0xffffe000;
        shfl.sync.idx.b32 %r11|%p5, %r1, 17, 31, 0xffffe000; elect.sync %r12|%p6, 0xffffe000;
        bra MET;
        LOW:
        vote.sync.ballot.b32 %r4, %p2, 0x1fff; vote.sync.all.pred %p3, %p2, 0x1fff;
        match.any.sync.b32 %r5, %r3, 0x1fff; match.all.sync.b32 %r6|%p4, 5, 0x1fff;
        redux.sync.add.s32 %r7, %r1, 0x1fff; redux.sync.max.s32 %r8, %r1, 0x1fff;
        redux.sync.xor.b32 %r9, %r1, 0x1fff; redux.sync.or.b32 %r10, %r1, 0x1fff;
        shfl.sync.bfly.b32 %r11|%p5, %r1, 0, 31, 0x1fff; elect.sync %r12|%p6, 0x1fff;
        MET:
        bar.warp.sync -1;
        """,
        ("%r4", "%p3", "%r5", "%r6", "%p4", "%r7", "%r8", "%r9", "%r10", "%r11", "%p5", "%r12",
         "%p6"),
        (128, 1, 1),
    )  # fmt: skip
    yield Scene(
        "a warp that is not full",
        """
        activemask.b32 %r1; vote.sync.ballot.b32 %r2, 1, %r1; ld.global.u32 %r3, [%in];
        redux.sync.add.u32 %r4, %r3, %r1; shfl.sync.up.b32 %r5|%p1, %r3, 1, 0, %r1;
        match.any.sync.b32 %r6, %r3, %r1; popc.b32 %r7, %r1; elect.sync %r8|%p2, %r1;
        vote.sync.uni.pred %p3, 1, %r1; bar.red.popc.u32 %r9, 0, %p2;
        """,
        ("%r2", "%r4", "%r5", "%p1", "%r6", "%r7", "%r8", "%p2", "%p3", "%r9"),
        (7, 3, 2),
    )  # fmt: skip
    for block in ((64, 1, 1), (33, 3, 1), (1024, 1, 1)):
        yield Scene(
            f"barriers {block}",
            """
            ld.global.u32 %r1, [%in]; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1;
            bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1; bar.red.popc.u32 %r3, 0, %p1;
            bar.red.popc.u32 %r4, 3, !%p1; setp.lt.u32 %p4, %t, 2000; bar.red.and.pred %p5, 0, %p4;
            barrier.sync 2; bar.red.or.pred %p6, 0, !%p4;
            """,
            ("%p2", "%p3", "%r3", "%r4", "%p5", "%p6"),
            block,
        )
    yield Scene(
        "barriers of some warps",
        """
        mov.u32 %r1, box; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], 5;
        setp.ge.u32 %p1, %t, 64; @%p1 bra LATE;
        mul.lo.u32 %r3, %t, 3; st.shared.u32 [%r2], %r3; bar.arrive 1, 96; bar.sync 2, 64;
        xor.b32 %r4, %t, 33; mad.lo.u32 %r5, %r4, 4, %r1; ld.shared.u32 %r6, [%r5]; bra MET;
        LATE: bar.sync 1, 96; sub.u32 %r4, %t, 64; mad.lo.u32 %r5, %r4, 4, %r1;
        ld.shared.u32 %r6, [%r5];
        MET:
        """,
        ("%r6",), (96, 1, 1), declared=".shared .align 4 .b32 box[96];",
    )  # fmt: skip
    yield Scene(
        "loops that lanes leave",
        """
        ld.global.u32 %r1, [%in]; and.b32 %r1, %r1, 31; mov.u32 %r2, 0; mov.u32 %r3, 0;
        AGAIN: add.u32 %r2, %r2, 1; xor.b32 %r3, %r3, %r2; shl.b32 %r3, %r3, 1;
        setp.eq.u32 %p1, %r2, 9; @%p1 bra OUT; setp.lt.u32 %p2, %r2, %r1; @%p2 bra AGAIN;
        add.u32 %r3, %r3, 1000;
        OUT: and.b32 %r4, %t, 3;
        way: .branchtargets A, B, C, A;
        brx.idx %r4, way;
        A: add.u32 %r3, %r3, 7; bra MET;
        B: mul.lo.u32 %r3, %r3, 3;
        C: not.b32 %r3, %r3;
        MET:
        call.uni (%r5), twice, (%r3);
        { .param .b32 a; .param .align 4 .b8 pair[8]; .param .b64 result;
        st.param.b32 [a], %r3; st.param.b32 [pair], %r2; st.param.b32 [pair+4], %r5;
        call (result), both, (a, pair); ld.param.b64 %d1, [result]; }
        """,
        ("%r2", "%r3", "%r5", "%d1"), (128, 1, 1),
    )  # fmt: skip
    yield Scene(
        "asynchronous copies",
        """
        mov.u32 %r1, box; mad.lo.u32 %r2, %t, 16, %r1; and.b32 %r3, %t, 15;
        cp.async.ca.shared.global [%r2], [%in], 16, %r3; cp.async.commit_group;
        mov.u32 %r4, more; mad.lo.u32 %r5, %t, 4, %r4;
        cp.async.ca.shared.global [%r5], [%in+20], 4; cp.async.commit_group;
        cp.async.wait_group 1; cp.async.wait_all; bar.sync 0;
        xor.b32 %r6, %t, 5; mad.lo.u32 %r7, %r6, 16, %r1; ld.shared.v2.u64 {%d1, %d2}, [%r7];
        mad.lo.u32 %r8, %r6, 4, %r4; ld.shared.u32 %r9, [%r8];
        """,
        ("%d1", "%d2", "%r9"),
        declared=".shared .align 16 .b8 box[1024]; .shared .align 4 .b32 more[64];",
    )
    yield Scene(
        "mbarriers",
        """
        mov.u32 %r1, bell; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [%r1], 64;
        @%p1 mbarrier.init.shared.b64 [%r1+8], 3; bar.sync 0;
        mov.u32 %r2, box; mad.lo.u32 %r3, %t, 4, %r2; st.shared.u32 [%r3], %t;
        mbarrier.arrive.shared.b64 %d1, [%r1];
        WAIT: mbarrier.try_wait.shared.b64 %p2, [%r1], %d1; @!%p2 bra WAIT;
        xor.b32 %r4, %t, 35; mad.lo.u32 %r5, %r4, 4, %r2; ld.shared.u32 %r6, [%r5];
        mbarrier.test_wait.parity.shared.b64 %p3, [%r1], 0;
        mbarrier.test_wait.parity.shared.b64 %p4, [%r1], 1; bar.sync 0;
        setp.eq.u32 %p5, %t, 40; @!%p5 bra MET;
        mbarrier.arrive.shared.b64 %d2, [%r1+8]; mbarrier.pending_count.b64 %r7, %d2;
        mbarrier.arrive.shared.b64 %d3, [%r1+8]; mbarrier.pending_count.b64 %r8, %d3;
        mbarrier.test_wait.shared.b64 %p6, [%r1+8], %d2;
        mbarrier.arrive.shared.b64 %d4, [%r1+8]; mbarrier.pending_count.b64 %r9, %d4;
        mbarrier.test_wait.shared.b64 %p7, [%r1+8], %d2;
        mbarrier.arrive.shared.b64 %d5, [%r1+8], 2; mbarrier.pending_count.b64 %r10, %d5;
        st.global.u32 [%own+128], %r7; st.global.u32 [%own+136], %r8; st.global.u32 [%own+144], %r9;
        st.global.u32 [%own+152], %r10; selp.u32 %r11, 1, 0, %p6; selp.u32 %r12, 1, 0, %p7;
        st.global.u32 [%own+160], %r11; st.global.u32 [%own+168], %r12;
        MET:
        """,
        ("%r6", "%p3", "%p4"),
        declared=".shared .align 8 .b64 bell[2]; .shared .align 4 .b32 box[64];",
    )
    yield Scene(
        "bulk copies",
        """
        mov.u32 %r1, bell; mov.u32 %r2, box; setp.eq.u32 %p1, %t, 0; sub.u64 %d9, %own, 0;
        @%p1 mbarrier.init.shared.b64 [%r1], 1; fence.proxy.async; bar.sync 0; @!%p1 bra WAIT;
        mbarrier.arrive.expect_tx.shared.b64 %d1, [%r1], 1024;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%in], 1024, [%r1];
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra WAIT;
        mad.lo.u32 %r3, %t, 16, %r2; ld.shared.v2.u64 {%d2, %d3}, [%r3];
        """,
        ("%d2", "%d3"),
        declared=".shared .align 8 .b64 bell; .shared .align 128 .b8 box[1024];",
    )
    for letter, count in (("f", 4),):
        yield Scene(
            "double words of lanes",
            f"""
            ld.global.v{count}.f32 {{%{letter}1, %{letter}2, %{letter}3, %{letter}4}}, [%in];
            mov.b64 %d1, {{%{letter}1, %{letter}2}}; mov.b64 {{%r1, %r2}}, %d1;
            mov.b32 %r3, %{letter}3; mov.b32 {{%h1, %h2}}, %r3; mov.b32 %r4, {{%h2, %h1}};
            mov.b64 {{%h3, %h4, %h5, %h6}}, %d1; mov.b64 %d2, {{%h6, %h5, %h4, %h3}};
            setp.gt.f32 %p1, %{letter}1, %{letter}2; @%p1 mov.b32 %r3, 7;
            selp.f32 %{letter}5, %{letter}1, 0f3F800000, %p1;
            """,
            ("%d1", "%r1", "%r2", "%r3", "%r4", "%d2", "%f5"),
            data="f32",
        )


# --- matrices -------------------------------------------------------------------------------------

_MATRICES = (
    *product(("m16n8k8", "m16n8k16"), ("f16.f16.f16.f16", "f32.f16.f16.f32", "f32.bf16.bf16.f32")),
    *product(("m16n8k4", "m16n8k8"), ("f32.tf32.tf32.f32",)),
    *product(("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"), ("f64.f64.f64.f64",)),
    *product(
        ("m8n8k16", "m16n8k16", "m16n8k32"), ("s32.s8.s8.s32", "s32.u8.s8.s32", "s32.u8.u8.s32")
    ),
    *product(("m8n8k32", "m16n8k32", "m16n8k64"), ("s32.s4.s4.s32", "s32.u4.s4.s32")),
    ("m16n8k32", "f32.e4m3.e4m3.f32"), ("m16n8k32", "f32.e5m2.e4m3.f32"),
    ("m16n8k32", "f16.e4m3.e5m2.f16"), ("m16n8k32", "f32.e5m2.e5m2.f32"),
)  # fmt: skip


def _fill(kind: str, count: int, first: int, at: int) -> str:
    """Loads the registers of a fragment from the row of the lane."""
    letter, bits = ("d", 64) if kind == "f64" else ("f", 32) if kind == "f32" else ("r", 32)
    if kind == "f64":
        letter = "g"
    return "".join(
        f"ld.global.b{bits} %{letter}{first + n}, [%in+{(at + n * bits // 8) % ROW}];"
        for n in range(count)
    )


def _matrices() -> Iterator[Scene]:
    for shape, types in _MATRICES:
        kinds = types.split(".")
        m, n, k = matrix_statements.sizes(shape)
        counts = [
            matrix_statements.registers(kind, size)
            for kind, size in zip(kinds, (m * n, m * k, k * n, m * n), strict=True)
        ]
        for words in ("", ".satfinite") if kinds[0] == "s32" else ("",):
            text = matrix_statements.mma(shape, "row.col", types, words)
            text = text.replace("%d", "%g")
            letter = {"f64": "g", "f32": "f"}.get(kinds[0], "r")
            saves = tuple(f"%{letter}{n}" for n in range(counts[0]))
            source = kinds[1]
            datas: Sequence[str] = ("int",)
            if source in ("f16", "bf16", "f64"):
                datas = (f"{source} small", f"{source} normal", source)
            elif source == "tf32":
                datas = ("f32 small", "f32 normal", "f32")
            elif source in ("e4m3", "e5m2"):
                datas = tuple(_BYTES)
            if source in ("f16", "bf16"):
                datas = (*datas, f"{source} tiny")
            for data in datas:
                at = 0
                body = ""
                for kind, count, first in zip(kinds[1:], counts[1:], (20, 40, 60), strict=True):
                    if kind == "f32" and source in ("f16", "bf16", "e4m3", "e5m2"):
                        narrow = source if "f16" in source else "f16"
                        for number in range(count):  # C is of another format than A and B
                            body += f"ld.global.b16 %h1, [%in+{at + 2 * number}];"
                            body += f"cvt.f32.{narrow} %f{first + number}, %h1;"
                    else:
                        body += _fill(kind, count, first, at)
                    at += 4 * count + (4 * count if kind == "f64" else 0)
                yield Scene(
                    f"mma.{shape}.{types}{words} of {data}", body + text, saves, (128, 1, 1),
                    data=data, registers=80,
                )  # fmt: skip
    yield from _tiles()
    for trans, count in product(("", ".trans"), (1, 2, 4)):
        targets = ", ".join(f"%r{n}" for n in range(10, 10 + count))
        yield Scene(
            f"ldmatrix{trans} x{count}",
            f"""
            mov.u32 %r1, box; mad.lo.u32 %r2, %t, 16, %r1;
            ld.global.v4.u32 {{%r3, %r4, %r5, %r6}}, [%in];
            st.shared.v4.u32 [%r2], {{%r3, %r4, %r5, %r6}}; bar.warp.sync -1;
            ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{targets}}}, [%r2];
            movmatrix.sync.aligned.m8n8.trans.b16 %r20, %r10; bar.warp.sync -1;
            stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r2], {{{targets}}};
            bar.warp.sync -1; ld.shared.v4.u32 {{%r3, %r4, %r5, %r6}}, [%r2];
            """,
            (*targets.split(", "), "%r20", "%r3", "%r4", "%r5", "%r6"), (32, 1, 1),
            declared=".shared .align 16 .b8 box[512];",
        )  # fmt: skip


_TILES = (
    *product(("m16n16k16", "m32n8k16", "m8n32k16"), ("f32.f16", "f16.f16", "f32.bf16", "s32.s8")),
    ("m16n16k8", "f32.tf32"), ("m8n8k4", "f64.f64"),
)  # fmt: skip


def _tiles() -> Iterator[Scene]:
    """A product of ``wmma`` for each warp: what lies where in registers is not seen."""
    for (shape, types), layouts in product(_TILES, ("row.col", "col.row")):
        to, kind = types.split(".")
        m, n, k = matrix_statements.sizes(shape)
        letter = {"f64": "g", "f32": "f"}.get(kind, "r")
        into = {"f64": "g", "f32": "f"}.get(to, "r")
        counts = {
            "f16": (8, 8), "tf32": (4, 4), "f64": (1, 1),
            "bf16": (m * k // 64, k * n // 64), "s8": (m * k // 128, k * n // 128),
        }[kind]  # fmt: skip
        sums = {"f32": 8, "f16": 4, "s32": 8, "f64": 2}[to]

        def names(letter: str, first: int, count: int) -> str:
            return "{" + ", ".join(f"%{letter}{first + n}" for n in range(count)) + "}"

        a, b = names(letter, 20, counts[0]), names(letter, 30, counts[1])
        c, d = names(into, 40, sums), names(into, 50, sums)
        left, right = layouts.split(".")
        strides = (k if left == "row" else m, n if right == "row" else k)
        size = {"f16": 2, "bf16": 2, "s8": 1, "tf32": 4, "f64": 8}[kind]
        start = "".join(
            f"mov.b{64 if to == 'f64' else 32} %{into}{40 + one}, 0;" for one in range(sums)
        )
        product_of = f"{to}.{to}" if kind == "f16" else f"{to}.{kind}.{kind}.{to}"
        yield Scene(
            f"wmma.{shape}.{layouts}.{types}",
            f"""
            and.b32 %r1, %t, 31; mul.wide.u32 %d1, %r1, {ROW}; sub.u64 %d2, %in, %d1;
            sub.u64 %d3, %own, %d1; {start}
            wmma.load.a.sync.aligned.{left}.{shape}.global.{kind} {a}, [%d2], {strides[0]};
            wmma.load.b.sync.aligned.{right}.{shape}.global.{kind} {b}, [%d2+{m * k * size}],
            {strides[1]};
            wmma.mma.sync.aligned.{layouts}.{shape}.{product_of} {d}, {a}, {b}, {c};
            wmma.mma.sync.aligned.{layouts}.{shape}.{product_of} {c}, {a}, {b}, {d};
            wmma.store.d.sync.aligned.row.{shape}.global.{to} [%d3], {d}, {n};
            wmma.store.d.sync.aligned.col.{shape}.global.{to} [%d3+4096], {c}, {m};
            """,
            (), (128, 1, 1), data={"s8": "int", "tf32": "f32 normal"}.get(kind, f"{kind} normal"),
            registers=80,
        )  # fmt: skip


def all_scenes() -> list[Scene]:
    """All of them."""
    found = [*_specials(), *_memory(), *_atomics(), *_lanes(), *_matrices()]
    assert len({one.name for one in found}) == len(found)
    return found


def emulated(scene: Scene) -> bytes:
    """What the emulator leaves in ``out``. Raises PtxwcetError for what is not executed."""
    threads = int(np.prod(scene.block) * np.prod(scene.grid))
    module = parse_module(SourceFile("k.ptx", HEAD + text_of(scene, "k")))
    buffers = (data_of(scene), np.zeros(threads * ROW, np.uint8))
    launch = EmulatedLaunch(scene.block, scene.grid, buffers, dynamic_shared=scene.dynamic)
    options = EmulatorOptions(checks=frozenset())
    done = execute(module.kernels[0], module, launch, options=options)
    assert not done.findings, (scene.name, [one.message for one in done.findings][:3])
    left = done.buffers[1]
    assert left is not None
    return left.tobytes()


def add(kit: Kit) -> None:
    """Executes each scene here, and adds it; says what is not executed."""
    cases, texts = list[dict[str, Any]](), list[str]()
    for number, scene in enumerate(all_scenes()):
        name = f"c{number}"
        text = text_of(scene, name)
        try:
            assembled(HEAD + text, ("O0",))
        except subprocess.CalledProcessError as error:
            print("ptxas:", scene.name, error.stderr.decode()[:300])
            continue
        try:
            left = emulated(scene)
        except PtxwcetError as error:
            print("here:", scene.name, error.diagnostics[0].message)
            continue
        most = 64 if not scene.name.startswith("registers") else 6
        texts.append(text)
        cases.append(
            {
                "name": scene.name,
                "kernel": name,
                "grid": scene.grid,
                "block": scene.block,
                "shared": scene.dynamic,
                "arguments": [argument(data_of(scene), kit), kit.checked(left, 1024, most=most)],
            }
        )
    kit.module("scenes", "scenes", assembled(HEAD + "".join(texts)), cases)
    print(len(cases), "scenes")
