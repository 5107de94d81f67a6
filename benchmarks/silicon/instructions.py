"""Single instructions on a GPU: how long one takes in a chain, and beside others of its kind.

    python benchmarks/silicon/instructions.py build KIT          # cubins, with ptxas
    python benchmarks/silicon/instructions.py run KIT RAW        # on the GPU, with CuPy
    python benchmarks/silicon/instructions.py summarise RAW JSON # what the page and its test read

Each form is a microbenchmark as ``ptxwcet machine microbenchmarks`` writes them, of 1, 4, 8 and 16
warps that meet at a barrier before each reading of the clock: the difference of a section of 48
statements and one of 24 is what 24 statements take, of all warps together. What ends abnormally
ends ``run``; called again, it goes on behind it.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxwcet.machine.microbenchmarks import SHORT, Microbenchmark, microbenchmarks

WARPS = (1, 4, 8, 16)
ROUNDS = 4
_CELL = (
    "mov.u32 %cell, shared_words;",
    "mad.lo.u32 %cell, %lane, 4, %cell;",
    "st.shared.b32 [%cell], %cell;",
)
_AT_CELL = ("add.s32 {s}, %cell, %z;", "add.s32 %a, %cell, %z;")
_OWN_CELL = ("mul.wide.u32 %own, %lane, 8;",)
_AT_OWN = (
    "add.s64 %wide_a, %memory, %own;",
    "add.s64 %wide_a, %wide_a, %zz;",
    "add.s64 {s}, %own, %zz;",
)


@dataclass(frozen=True)
class Form:
    """A statement: ``{d}`` is what it gives, ``{s}`` the result of the one before in a chain."""

    name: str
    statement: str
    wide: bool = False
    setup: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    chain: bool = True


def _then(statement: str, wide: bool = False) -> str:
    """The statement, and behind it a sum that no compiler joins with it."""
    return f"{statement}\n    add.s{64 if wide else 32} {{d}}, {{d}}, {{p}};"


def _of_half(op: str, operands: str) -> str:
    """A statement of 16 bits, between conversions."""
    return (
        "{{ .reg .b16 %h, %g, %e; mov.b32 {{%h, %e}}, {s}; mov.b32 {{%g, %e}}, {p}; "
        f"{op} %h, {operands}; mov.b32 {{d}}, {{{{%h, %e}}}}; }}}}"
    )


def forms() -> Iterator[Form]:
    """All of them, by op class."""
    f = Form
    for op in ("add", "sub"):
        yield f(f"{op}.s64", f"{op}.s64 {{d}}, {{s}}, {{p}};", True)
    yield f("add.cc", "{{ add.cc.u32 {d}, {s}, {p}; addc.u32 {d}, {d}, {p}; }}")
    for op in ("min", "max"):
        yield f(f"{op}.s64", _then(f"{op}.s64 {{d}}, {{s}}, {{p}};", True), True)
        yield f(f"{op}.u64", _then(f"{op}.u64 {{d}}, {{s}}, {{p}};", True), True)
        yield f(f"{op}.f64", _then(f"{op}.f64 {{d}}, {{s}}, {{p}};", True), True)
        yield f(f"{op}.NaN.f32", _then(f"{op}.NaN.f32 {{d}}, {{s}}, {{p}};"))
    for op in ("mul.lo.s64", "mul.hi.s32", "mul.hi.u32", "mul.hi.s64", "mul.hi.u64"):
        yield f(op, f"{op} {{d}}, {{s}}, {{p}};", op.endswith("64"))
    yield f("mul.wide.s32", "{{ .reg .b64 %w; mul.wide.s32 %w, {s}, {p}; cvt.u32.u64 {d}, %w; }}")
    yield f(
        "mul.wide.u16",
        "{{ .reg .b16 %h, %g; cvt.u16.u32 %h, {s}; cvt.u16.u32 %g, {p}; "
        "mul.wide.u16 {d}, %h, %g; }}",
    )
    for op in ("mad.lo.s64", "mad.hi.s32", "mad.hi.u64"):
        yield f(op, f"{op} {{d}}, {{s}}, {{p}}, {{p}};", op.endswith("64"))
    yield f("mad.lo.cc", "{{ mad.lo.cc.u32 {d}, {s}, {p}, {p}; madc.hi.u32 {d}, {d}, {p}, {p}; }}")
    for op in ("mul24.lo.s32", "mul24.hi.s32", "mul24.lo.u32"):
        yield f(op, f"{op} {{d}}, {{s}}, {{p}};")
    for op in ("mad24.lo.s32", "mad24.hi.u32"):
        yield f(op, f"{op} {{d}}, {{s}}, {{p}}, {{p}};")
    for op in ("div.u32", "rem.s32", "rem.u32"):
        yield f(op, f"{op} {{d}}, %c, {{s}};\n    or.b32 {{d}}, {{d}}, 17;", setup=(_C,))
    for op in ("div.s64", "div.u64", "rem.s64", "rem.u64"):
        statement = f"{op} {{d}}, %wide_c, {{s}};\n    or.b64 {{d}}, {{d}}, 17;"
        yield f(op, statement, True, (_WIDE_C,))
        statement = f"{op} {{d}}, {{s}}, {{p}};\n    or.b64 {{d}}, {{d}}, %wide_c;"
        yield f(f"{op}, large", statement, True, (_WIDE_LARGE,))
    for op in ("dp4a.s32.s32", "dp4a.u32.u32", "dp2a.lo.s32.s32", "dp2a.hi.u32.u32"):
        yield f(op, f"{op} {{d}}, {{s}}, {{p}}, {{p}};")
    for kind in ("f16x2", "bf16x2"):
        yield f(f"fma.rn.{kind}", f"fma.rn.{kind} {{d}}, {{s}}, {{p}}, {{p}};")
        for op in ("add", "mul"):
            yield f(f"{op}.{kind}", f"{op}.{kind} {{d}}, {{s}}, {{p}};")
        for op in ("min", "max", "min.NaN"):
            yield f(f"{op}.{kind}", _then(f"{op}.{kind} {{d}}, {{s}}, {{p}};"))
        for op in ("neg", "abs"):
            yield f(f"{op}.{kind}", _then(f"{op}.{kind} {{d}}, {{s}};"))
    for op in ("add.f16", "mul.f16", "add.bf16"):
        yield f(op, _of_half(op, "%h, %g"))
    yield f("fma.rn.f16", _of_half("fma.rn.f16", "%h, %g, %g"))
    yield f("fma.rn.bf16", _of_half("fma.rn.bf16", "%h, %g, %g"))
    for op in ("ex2.approx.f16", "tanh.approx.f16", "tanh.approx.bf16", "ex2.approx.ftz.bf16"):
        yield f(op, _of_half(op, "%h"))
    for op in ("ex2.approx.f16x2", "tanh.approx.f16x2", "tanh.approx.bf16x2"):
        yield f(op, f"{op} {{d}}, {{s}};")
    for op in ("add.sat", "add.rz", "sub.ftz", "mul.rz", "mul.ftz"):
        yield f(f"{op}.f32", f"{op}.f32 {{d}}, {{s}}, {{p}};")
    for op in ("fma.rn.sat", "fma.rz", "fma.rn.ftz"):
        yield f(f"{op}.f32", f"{op}.f32 {{d}}, {{s}}, {{p}}, {{p}};")
    for op in ("div.rn.ftz", "div.rz", "div.full", "div.approx", "div.approx.ftz"):
        yield f(f"{op}.f32", f"{op}.f32 {{d}}, {{s}}, {{p}};")
        yield f(f"{op}.f32, small", f"{op}.f32 {{d}}, {{s}}, %c;", setup=(_SMALL,))
    yield f("div.rn.f32, small", "div.rn.f32 {d}, {s}, %c;", setup=(_SMALL,))
    for op in ("rcp.rn", "rcp.rz", "rcp.approx", "rcp.approx.ftz", "sqrt.rn", "sqrt.rz"):
        yield from _both_ways(f"{op}.f32")
    for op in ("sqrt.approx", "sqrt.approx.ftz", "rsqrt.approx", "rsqrt.approx.ftz", "sin.approx"):
        yield from _both_ways(f"{op}.f32")
    for op in ("cos.approx", "sin.approx.ftz", "lg2.approx", "lg2.approx.ftz", "ex2.approx"):
        yield from _both_ways(f"{op}.f32")
    for op in ("ex2.approx.ftz", "tanh.approx"):
        yield from _both_ways(f"{op}.f32")
    for op in ("add.rz.f64", "mul.rz.f64"):
        yield f(op, f"{op} {{d}}, {{s}}, {{p}};", True)
    for op in ("rcp.rn.f64", "sqrt.rn.f64", "rcp.approx.ftz.f64", "rsqrt.approx.f64"):
        yield f(op, f"{op} {{d}}, {{s}};", True)
        small = f"{op} {{d}}, {{s}};\n    mul.f64 {{d}}, {{d}}, %wide_c;"
        yield f(f"{op}, small", small, True, (_WIDE_SMALL,))
    yield f("rsqrt.approx.ftz.f64", "rsqrt.approx.ftz.f64 {d}, {s};", True)
    yield f("div.rn.f64, small", "div.rn.f64 {d}, {s}, %wide_c;", True, (_WIDE_SMALL,))
    yield from _moves()
    yield from _compares()
    for op in ("and", "or", "xor"):
        yield f(f"{op}.b64", _then(f"{op}.b64 {{d}}, {{s}}, {{p}};", True), True)
    for op in ("not", "cnot"):
        yield f(f"{op}.b32", _then(f"{op}.b32 {{d}}, {{s}};"))
        yield f(f"{op}.b64", _then(f"{op}.b64 {{d}}, {{s}};", True), True)
    for op in ("shl.b32", "shr.u32", "shr.s32"):
        yield f(op, _then(f"{op} {{d}}, {{s}}, %lane;"))
    for op in ("shl.b64", "shr.u64", "shr.s64"):
        yield f(op, _then(f"{op} {{d}}, {{s}}, %lane;", True), True)
    yield f("shl by a result", "shl.b32 {d}, {p}, {s};")
    yield f("shf.r.clamp.b32", "shf.r.clamp.b32 {d}, {s}, {p}, %lane;")
    yield from _bits()
    yield from _signs()
    for op in ("vadd", "vsub", "vabsdiff", "vmin"):
        yield f(op, f"{op}.s32.s32.s32 {{d}}, {{s}}, {{p}};")
    yield f("vadd2", "vadd2.s32.s32.s32 {d}, {s}, {p}, {p};")
    yield f("vadd4", "vadd4.s32.s32.s32 {d}, {s}, {p}, {p};")
    yield f("vabsdiff4", "vabsdiff4.u32.u32.u32.add {d}, {s}, {p}, {p};")
    yield f("vset4", "vset4.s32.s32.lt {d}, {s}, {p}, {p};")
    yield f("vmad", "vmad.s32.s32.s32 {d}, {s}, {p}, {p};")
    yield from _of_warps()
    yield from _memory()


_C = "add.s32 %c, %z, 0x7ffffff1;"
_WIDE_C = "add.s64 %wide_c, %zz, 0x7ffffffffffffff1;"
_WIDE_LARGE = "add.s64 %wide_c, %zz, 0x7fffffff00000001;"
_SMALL = "add.s32 %c, %z, 0x00000123;"
_WIDE_SMALL = "add.s64 %wide_c, %zz, 0x0000000000012345;"


def _both_ways(op: str) -> Iterator[Form]:
    """Of ordinary numbers and of denormals, which take another way."""
    yield Form(op, f"{op} {{d}}, {{s}};")
    small = f"and.b32 {{d}}, {{s}}, %c;\n    {op} {{d}}, {{d}};"
    yield Form(f"{op}, small", small, setup=("add.s32 %c, %z, 0x007fffff;",))


def _moves() -> Iterator[Form]:
    for to, of in (
        ("rzi.s32", "f32"),
        ("rni.s32", "f32"),
        ("rzi.u32", "f32"),
        ("rn.f32", "s32"),
        ("rn.f32", "u32"),
    ):
        yield Form(f"cvt.{to}.{of}", _then(f"cvt.{to}.{of} {{d}}, {{s}};"))
    for to in ("rzi", "rni", "rmi", "rpi"):
        yield Form(f"cvt.{to}.f32.f32", _then(f"cvt.{to}.f32.f32 {{d}}, {{s}};"))
        yield Form(f"cvt.{to}.f64.f64", _then(f"cvt.{to}.f64.f64 {{d}}, {{s}};", True), True)
        yield Form(f"cvt.{to}.s64.f64", _then(f"cvt.{to}.s64.f64 {{d}}, {{s}};", True), True)
    for to, of in (("rn.f64", "s64"), ("rn.f64", "u64"), ("rzi.u64", "f64")):
        yield Form(f"cvt.{to}.{of}", _then(f"cvt.{to}.{of} {{d}}, {{s}};", True), True)
    for pair in ("rn.f32.f64", "rzi.s32.f64"):
        there = "{{ .reg .b32 %w; cvt." + pair + " %w, {s}; "
        back = "cvt.f64.f32 {d}, %w; }}" if "f32" in pair else "cvt.rn.f64.s32 {d}, %w; }}"
        yield Form(f"cvt.{pair} and back", there + back, True)
    yield Form(
        "cvt.rn.f32.s64 and back",
        "{{ .reg .b32 %w; cvt.rn.f32.s64 %w, {s}; cvt.rzi.s64.f32 {d}, %w; }}",
        True,
    )
    for half in ("f16", "bf16"):
        yield Form(
            f"cvt.rn.{half}.f32 and back",
            "{{ .reg .b16 %h; cvt.rn."
            + half
            + ".f32 %h, {s}; cvt.f32."
            + half
            + " {d}, %h; add.f32 {d}, {d}, {p}; }}",
        )
    yield Form("cvt.rn.f16x2.f32", "cvt.rn.f16x2.f32 {d}, {s}, {p};")
    yield Form(
        "cvt.rn.satfinite.e4m3x2.f32",
        "{{ .reg .b16 %h; cvt.rn.satfinite.e4m3x2.f32 %h, {s}, {p}; cvt.u32.u16 {d}, %h; }}",
    )
    yield Form(
        "cvt.rn.f16x2.e4m3x2",
        "{{ .reg .b16 %h, %g; mov.b32 {{%h, %g}}, {s}; cvt.rn.f16x2.e4m3x2 {d}, %h; }}",
    )
    for kind in ("s8", "u16", "s16"):
        yield Form(
            f"cvt.s32.{kind}",
            _then(
                "{{ .reg .b16 %h; cvt.u16.u32 %h, {s}; cvt."
                + ("u32." if kind[0] == "u" else "s32.")
                + kind
                + " {d}, %h; }}"
            ),
        )
        yield Form(
            f"cvt.sat.{kind}.s32",
            _then(
                "{{ .reg .b16 %h; cvt.sat."
                + kind
                + ".s32 %h, {s}; cvt.s32."
                + ("s16" if kind[0] == "s" else "u16")
                + " {d}, %h; }}"
            ),
        )
    yield Form("cvt.pack.sat.s8", "cvt.pack.sat.s8.s32.b32 {d}, {s}, {p}, {p};")
    yield Form(
        "cvt.s64.s32",
        "{{ .reg .b64 %w; cvt.s64.s32 %w, {s}; shr.u64 %w, %w, 7; cvt.u32.u64 {d}, %w; }}",
    )
    yield Form(
        "selp",
        "{{ .reg .pred %q; setp.lt.s32 %q, {s}, {p}; selp.b32 {d}, {s}, {p}, %q; "
        "add.s32 {d}, {d}, {p}; }}",
    )
    yield Form("slct.s32", "slct.b32.s32 {d}, {p}, {s}, {s};")
    yield Form("slct.f32", "slct.b32.f32 {d}, {s}, {p}, {s};\n    add.s32 {d}, {d}, {p};")
    for register in ("laneid", "smid", "ctaid.x", "ntid.x", "lanemask_lt", "warpid", "clock"):
        yield Form(
            f"mov %{register}",
            "{{ .reg .b32 %w; mov.u32 %w, %" + register + "; add.s32 {d}, {s}, %w; }}",
        )
    yield Form(
        "mov %globaltimer",
        "{{ .reg .b64 %w; mov.u64 %w, %globaltimer; add.s64 {d}, {s}, %w; }}",
        True,
    )
    yield Form(
        "isspacep",
        "{{ .reg .pred %q; isspacep.shared %q, {s}; selp.b64 {d}, {s}, {p}, %q; "
        "add.s64 {d}, {d}, {p}; }}",
        True,
    )
    yield Form("cvta.shared", "cvta.shared.u64 {d}, {s};\n    xor.b64 {d}, {d}, {p};", True)
    yield Form(
        "mov pack",
        "{{ .reg .b32 %u, %v; mov.b64 {{%u, %v}}, {s}; mov.b64 {d}, {{%v, %u}}; "
        "add.s64 {d}, {d}, {p}; }}",
        True,
    )


def _compares() -> Iterator[Form]:
    for kind in ("s32", "u32", "f32", "s64", "u64", "f64"):
        wide = kind.endswith("64")
        size = "64" if wide else "32"
        yield Form(
            f"setp.lt.{kind}",
            "{{ .reg .pred %q; setp.lt."
            + kind
            + " %q, {s}, {p}; selp.b"
            + size
            + " {d}, {s}, {p}, %q; add.s"
            + size
            + " {d}, {d}, {p}; }}",
            wide,
        )
        yield Form(
            f"setp.lt.{kind} and a guard",
            "{{ .reg .pred %q; setp.lt."
            + kind
            + " %q, {s}, {p}; add.s"
            + size
            + " {d}, {s}, {p}; @%q add.s"
            + size
            + " {d}, {d}, {p}; }}",
            wide,
        )
    for op in ("testp.finite", "testp.normal", "testp.subnormal", "testp.notanumber"):
        for kind in ("f32", "f64"):
            wide = kind == "f64"
            size = "64" if wide else "32"
            yield Form(
                f"{op}.{kind}",
                "{{ .reg .pred %q; "
                + op
                + "."
                + kind
                + " %q, {s}; selp.b"
                + size
                + " {d}, {s}, {p}, %q; add.s"
                + size
                + " {d}, {d}, {p}; }}",
                wide,
            )
    yield Form(
        "setp.lt.f16x2",
        "{{ .reg .pred %q, %v; setp.lt.f16x2 %q|%v, {s}, {p}; selp.b32 {d}, {s}, {p}, %q; "
        "add.s32 {d}, {d}, {p}; }}",
    )


def _bits() -> Iterator[Form]:
    for op in ("popc.b32", "clz.b32", "bfind.u32", "bfind.s32", "bfind.shiftamt.u32", "brev.b32"):
        yield Form(op, _then(f"{op} {{d}}, {{s}};"))
    for op in ("popc.b64", "clz.b64", "bfind.u64", "bfind.s64"):
        yield Form(
            op,
            "{{ .reg .b32 %w; " + op + " %w, {s}; cvt.u64.u32 {d}, %w; add.s64 {d}, {d}, {p}; }}",
            True,
        )
    yield Form("brev.b64", _then("brev.b64 {d}, {s};", True), True)
    for kind in ("u32", "s32"):
        yield Form(f"bfe.{kind}", _then(f"bfe.{kind} {{d}}, {{s}}, %lane, 9;"))
        yield Form(f"bfe.{kind}, of registers", _then(f"bfe.{kind} {{d}}, {{s}}, %lane, %c;"))
        yield Form(f"szext.clamp.{kind}", _then(f"szext.clamp.{kind} {{d}}, {{s}}, %lane;"))
    for kind in ("u64", "s64"):
        yield Form(f"bfe.{kind}", _then(f"bfe.{kind} {{d}}, {{s}}, %lane, %c;", True), True)
    yield Form("bfi.b32", _then("bfi.b32 {d}, {s}, {p}, %lane, %c;"))
    yield Form("bfi.b64", _then("bfi.b64 {d}, {s}, {p}, %lane, %c;", True), True)
    yield Form("bmsk.clamp.b32", _then("bmsk.clamp.b32 {d}, {s}, %lane;"))
    yield Form("fns.b32", _then("fns.b32 {d}, {s}, 3, 2;"))
    yield Form("fns.b32, the farthest", _then("fns.b32 {d}, {s}, 0, 31;"))
    for mode in ("", ".f4e", ".rc8", ".ecl", ".rc16"):
        yield Form(f"prmt.b32{mode}", _then("prmt.b32" + mode + " {d}, {s}, {p}, %lane;"))


def _signs() -> Iterator[Form]:
    for op in ("abs.s32", "neg.s32", "abs.f32", "neg.f32", "abs.ftz.f32"):
        yield Form(op, f"{op} {{d}}, {{s}};\n    xor.b32 {{d}}, {{d}}, {{p}};")
    for op in ("abs.s64", "neg.s64", "abs.f64", "neg.f64"):
        yield Form(op, f"{op} {{d}}, {{s}};\n    xor.b64 {{d}}, {{d}}, {{p}};", True)
    yield Form("copysign.f32", _then("copysign.f32 {d}, {s}, {p};"))
    yield Form("copysign.f64", _then("copysign.f64 {d}, {s}, {p};", True), True)
    for op in ("sad.s32", "sad.u32"):
        yield Form(op, f"{op} {{d}}, {{s}}, {{p}}, {{p}};")
    yield Form("sad.u64", "sad.u64 {d}, {s}, {p}, {p};", True)


def _of_warps() -> Iterator[Form]:
    for mode in ("up", "down", "bfly"):
        yield Form(f"shfl.{mode}", f"shfl.sync.{mode}.b32 {{d}}, {{s}}, 1, 0x1f, -1;")
    yield Form("shfl.idx by a result", "shfl.sync.idx.b32 {d}, {p}, {s}, 0x1f, -1;")
    for mode in ("all", "any", "uni"):
        yield Form(
            f"vote.{mode}",
            "{{ .reg .pred %q; setp.lt.s32 %q, {s}, {p}; vote.sync." + mode + ".pred %q, %q, -1; "
            "selp.b32 {d}, {s}, {p}, %q; add.s32 {d}, {d}, {p}; }}",
        )
    yield Form(
        "vote.ballot",
        "{{ .reg .pred %q; setp.lt.s32 %q, {s}, {p}; "
        "vote.sync.ballot.b32 {d}, %q, -1; add.s32 {d}, {d}, {p}; }}",
    )
    yield Form("match.any.b32", "match.any.sync.b32 {d}, {s}, -1;\n    add.s32 {d}, {d}, {p};")
    yield Form(
        "match.any, all differ", "add.s32 {d}, {s}, %lane;\n    match.any.sync.b32 {d}, {d}, -1;"
    )
    yield Form(
        "match.any.b64, all differ",
        "{{ .reg .b64 %w; .reg .b32 %u; cvt.u64.u32 %w, %lane; "
        "add.s64 %w, {s}, %w; match.any.sync.b64 %u, %w, -1; cvt.u64.u32 {d}, %u; }}",
        True,
    )
    yield Form("match.all.b32", "match.all.sync.b32 {d}, {s}, -1;\n    add.s32 {d}, {d}, {p};")
    yield Form("activemask", "{{ .reg .b32 %w; activemask.b32 %w; add.s32 {d}, {s}, %w; }}")
    for op in ("add.s32", "min.u32", "max.s32", "and.b32", "xor.b32"):
        yield Form(f"redux.{op}", _then(f"redux.sync.{op} {{d}}, {{s}}, -1;"))
    yield Form(
        "elect.sync",
        "{{ .reg .pred %q; .reg .b32 %w; elect.sync %w|%q, -1; "
        "selp.b32 {d}, {s}, {p}, %q; add.s32 {d}, {d}, %w; }}",
    )
    yield Form("bar.warp.sync", "bar.warp.sync -1;\n    add.s32 {d}, {s}, {p};", chain=False)
    yield Form("bar.sync 1", "bar.sync 1;\n    add.s32 {d}, {s}, {p};", chain=False)
    yield Form(
        "bar.red.popc",
        "{{ .reg .pred %q; setp.lt.s32 %q, {s}, {p}; "
        "bar.red.popc.u32 {d}, 1, %q; add.s32 {d}, {d}, {p}; }}",
    )
    for shape, kind, a, b in (
        ("m16n8k16", "f32.f16.f16.f32", 4, 2),
        ("m16n8k16", "f32.bf16.bf16.f32", 4, 2),
        ("m16n8k8", "f32.f16.f16.f32", 2, 1),
        ("m16n8k8", "f32.tf32.tf32.f32", 4, 2),
        ("m16n8k4", "f32.tf32.tf32.f32", 2, 1),
    ):
        yield Form(f"mma.{shape}.{kind}", _product(shape, kind, a, b, 4))
    yield Form("mma.m16n8k16.f16.f16.f16.f16", _product("m16n8k16", "f16.f16.f16.f16", 4, 2, 2))
    yield Form("mma.m16n8k32.s32.s8.s8.s32", _product("m16n8k32", "s32.s8.s8.s32", 4, 2, 4))
    yield Form("mma.m8n8k16.s32.s8.s8.s32", _product("m8n8k16", "s32.s8.s8.s32", 1, 1, 2))
    yield Form("mma.m16n8k256.b1", _product("m16n8k256", "s32.b1.b1.s32", 4, 2, 4, ".xor.popc"))
    yield Form("mma.m16n8k32.f32.e4m3.e4m3.f32", _product("m16n8k32", "f32.e4m3.e4m3.f32", 4, 2, 4))
    yield Form(
        "mma.m8n8k4.f64",
        "{{ .reg .f64 %u, %v, %o; mov.b64 %u, {s}; mov.b64 %v, {p}; mov.b64 %o, {p}; "
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{%u, %v}}, {{%o}}, {{%o}}, {{%u, %v}}; "
        "mov.b64 {d}, %u; }}",
        True,
    )
    yield Form(
        "mma.m8n8k4.f64, factor",
        "{{ .reg .f64 %u, %v, %o, %n; mov.b64 %u, {p}; mov.b64 %v, {p}; mov.b64 %o, {p}; "
        "mov.b64 %n, {s}; "
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{%u, %v}}, {{%n}}, {{%o}}, {{%u, %v}}; "
        "mov.b64 {d}, %u; }}",
        True,
    )
    yield Form(
        "mma.m16n8k16.f32, factor", _product("m16n8k16", "f32.f16.f16.f32", 4, 2, 4, factor="{s}")
    )
    yield Form("movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16 {d}, {s};")


def _product(
    shape: str, kind: str, a: int, b: int, c: int, extra: str = "", factor: str = "{p}"
) -> str:
    total = ", ".join(f"%u{one}" for one in range(c))
    start = "" if factor == "{s}" else " ".join(f"mov.b32 %u{one}, {{s}};" for one in range(c))
    if factor == "{s}":
        start = " ".join(f"mov.b32 %u{one}, {{p}};" for one in range(c))
    factors = ", ".join([factor] * a), ", ".join(["{p}"] * b)
    return (
        f"{{{{ .reg .b32 %u<{c}>; {start} mma.sync.aligned.{shape}.row.col.{kind}{extra} "
        f"{{{{{total}}}}}, {{{{{factors[0]}}}}}, {{{{{factors[1]}}}}}, {{{{{total}}}}}; "
        "mov.b32 {d}, %u0; }}"
    )


def _memory() -> Iterator[Form]:
    for size in ("u8", "b16", "b64", "v4.b32"):
        own = {"v4.b32": "{{{d}, %kept, %kept, %kept}}"}.get(size, "{d}")
        if size in ("u8", "b16"):
            there = f"ld.volatile.shared.{size} %h, [{{s}}]; cvt.u32.u16 {{d}}, %h;"
            text = (
                "{{ .reg .b16 %h; " + there + " add.s32 {d}, {d}, %cell; and.b32 {d}, {d}, 4092; "
            )
            yield Form(f"ld.shared.{size}", text + "}}", False, _CELL, _AT_CELL)
        elif size == "v4.b32":
            text = f"ld.volatile.shared.v4.b32 {own}, [{{s}}];\n    and.b32 {{d}}, {{d}}, 4080;"
            yield Form(
                f"ld.shared.{size}", text, False, (*_CELL, "and.b32 %cell, %cell, 4080;"), _AT_CELL
            )
    yield Form(
        "ld.shared, generic",
        "{{ .reg .b32 %w; ld.volatile.b32 %w, [%wide_a]; "
        "cvt.u64.u32 {d}, %w; add.s64 {d}, {d}, {s}; add.s64 %wide_a, {d}, 0; }}",
        True,
        (
            "mov.u32 %cell, shared_words;",
            "cvt.u64.u32 %own, %cell;",
            "cvta.shared.u64 %own, %own;",
            "mov.u32 %c, 0;",
            "st.shared.b32 [%cell], %c;",
            "bar.sync 0;",
        ),
        ("add.s64 %wide_a, %own, %zz;", "add.s64 {s}, %own, %zz;"),
    )
    yield Form(
        "st.shared",
        "st.volatile.shared.b32 [%a], {s};\n    add.s32 {d}, {s}, {p};",
        False,
        _CELL,
        _AT_CELL,
        False,
    )
    yield Form(
        "st.shared and ld.shared",
        "st.volatile.shared.b32 [%a], {s};\n    ld.volatile.shared.b32 {d}, [%a];",
        False,
        _CELL,
        _AT_CELL,
    )
    for op in ("add.u32", "min.s32", "max.u32", "inc.u32", "and.b32", "or.b32", "add.f32"):
        yield Form(
            f"atom.shared.{op}", f"atom.shared.{op} {{d}}, [%a], {{s}};", False, _CELL, _AT_CELL
        )
        yield Form(
            f"atom.shared.{op}, one word",
            f"atom.shared.{op} {{d}}, [%a], {{s}};",
            False,
            _WORD,
            _AT_CELL,
        )
        yield Form(
            f"red.shared.{op}, one word",
            f"red.shared.{op} [%a], {{s}};\n    add.s32 {{d}}, {{s}}, {{p}};",
            False,
            _WORD,
            _AT_CELL,
            False,
        )
    yield Form(
        "atom.shared.cas.b32", "atom.shared.cas.b32 {d}, [%a], {s}, {p};", False, _CELL, _AT_CELL
    )
    yield Form(
        "atom.shared.cas.b32, one word",
        "atom.shared.cas.b32 {d}, [%a], {s}, {p};",
        False,
        _WORD,
        _AT_CELL,
    )
    wide = ("mov.u32 %cell, shared_words;", "mad.lo.u32 %cell, %lane, 8, %cell;")
    at = ("add.s32 %a, %cell, %z;", "add.s64 {s}, %zz, 1;")
    for op in ("add.u64", "exch.b64", "min.s64", "add.f64"):
        yield Form(f"atom.shared.{op}", f"atom.shared.{op} {{d}}, [%a], {{s}};", True, wide, at)
    yield Form("atom.shared.cas.b64", "atom.shared.cas.b64 {d}, [%a], {s}, {p};", True, wide, at)
    for where, setup in (
        ("", _OWN_CELL),
        (", one word", ("mov.u64 %own, 0;",)),
        (", lines", ("mul.wide.u32 %own, %lane, 128;",)),
    ):
        for op in ("add.u64", "exch.b64", "min.s64", "add.f64"):
            yield Form(
                f"atom.global.{op}{where}",
                f"atom.global.{op} {{d}}, [%wide_a], {{s}};",
                True,
                setup,
                _AT_OWN,
            )
            if op != "exch.b64":
                yield Form(
                    f"red.global.{op}{where}",
                    f"red.global.{op} [%wide_a], {{s}};\n    add.s64 {{d}}, {{s}}, {{p}};",
                    True,
                    setup,
                    _AT_OWN,
                    False,
                )
        yield Form(
            f"atom.global.cas.b64{where}",
            "atom.global.cas.b64 {d}, [%wide_a], {s}, {p};",
            True,
            setup,
            _AT_OWN,
        )
        yield Form(
            f"atom.global.add.u32{where}",
            "{{ .reg .b32 %w; cvt.u32.u64 %w, {s}; "
            "atom.global.add.u32 %w, [%wide_a], %w; cvt.u64.u32 {d}, %w; }}",
            True,
            setup,
            _AT_OWN,
        )
        yield Form(
            f"st.global{where}",
            "st.volatile.global.b64 [%wide_a], {s};\n    add.s64 {d}, {s}, {p};",
            True,
            setup,
            _AT_OWN,
            False,
        )
        yield Form(
            f"st.global and ld.global{where}",
            "st.volatile.global.b64 [%wide_a], {s};\n    ld.volatile.global.b64 {d}, [%wide_a];",
            True,
            setup,
            _AT_OWN,
        )
        yield Form(
            f"ld.global.ca{where}",
            "ld.global.ca.b64 {d}, [%wide_a];\n    add.s64 %wide_a, %wide_a, {d};",
            True,
            setup,
            _AT_OWN,
        )
        yield Form(
            f"ld.global.cg{where}",
            "ld.global.cg.b64 {d}, [%wide_a];\n    add.s64 %wide_a, %wide_a, {d};",
            True,
            setup,
            _AT_OWN,
        )
        yield Form(
            f"ld, generic{where}",
            "ld.b64 {d}, [%wide_a];\n    add.s64 %wide_a, %wide_a, {d};",
            True,
            setup,
            _AT_OWN,
        )
    for op in (
        "membar.cta",
        "membar.gl",
        "membar.sys",
        "fence.acq_rel.gpu",
        "fence.sc.gpu",
        "fence.proxy.async.shared::cta",
    ):
        yield Form(op, f"{op};\n    add.s64 {{d}}, {{s}}, {{p}};", True, chain=False)
        yield Form(
            f"{op}, behind a store",
            "st.volatile.global.b64 [%wide_a], {s};\n    "
            f"{op};\n    add.s64 {{d}}, {{s}}, {{p}};",
            True,
            _OWN_CELL,
            _AT_OWN,
            False,
        )
    for op in ("prefetch.global.L1", "prefetch.global.L2", "discard.global.L2"):
        size = ", 128" if op.startswith("discard") else ""
        yield Form(
            op,
            f"{op} [%wide_a]{size};\n    add.s64 {{d}}, {{s}}, {{p}};",
            True,
            ("mov.u64 %own, 0;",),
            _AT_OWN,
            False,
        )
    yield Form(
        "cp.async.16, waited for",
        "cp.async.cg.shared.global [%cell], [%wide_a], 16;\n"
        "    cp.async.wait_all;\n    ld.volatile.shared.b64 {d}, [%cell];\n"
        "    add.s64 %wide_a, %wide_a, {d};",
        True,
        (
            "mul.wide.u32 %own, %lane, 16;",
            "mov.u32 %cell, shared_words;",
            "mad.lo.u32 %cell, %lane, 16, %cell;",
        ),
        _AT_OWN,
    )
    yield Form(
        "cp.async.4",
        "cp.async.ca.shared.global [%cell], [%wide_a], 4;\n    add.s64 {d}, {s}, {p};",
        True,
        (
            "mul.wide.u32 %own, %lane, 4;",
            "mov.u32 %cell, shared_words;",
            "mad.lo.u32 %cell, %lane, 4, %cell;",
        ),
        _AT_OWN,
        False,
    )
    for count in ("x1", "x2", "x4"):
        own = {"x1": "{{{d}}}", "x2": "{{{d}, %kept}}", "x4": "{{{d}, %kept, %kept, %kept}}"}[count]
        yield Form(
            f"ldmatrix.{count}",
            f"ldmatrix.sync.aligned.m8n8.{count}.shared.b16 {own}, "
            "[{s}];\n    and.b32 {d}, {d}, 4080;",
            False,
            (
                "mov.u32 %cell, shared_words;",
                "mad.lo.u32 %cell, %lane, 16, %cell;",
                "mov.u32 %c, 0;",
                "st.shared.b32 [%cell], %c;",
            ),
            _AT_CELL,
        )
    yield Form(
        "stmatrix.x4",
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%a], "
        "{{{s}, {s}, {s}, {s}}};\n    add.s32 {d}, {s}, {p};",
        False,
        ("mov.u32 %cell, shared_words;", "mad.lo.u32 %cell, %lane, 16, %cell;"),
        _AT_CELL,
        False,
    )
    yield Form("nanosleep 0", "nanosleep.u32 0;\n    add.s32 {d}, {s}, {p};", chain=False)
    yield Form("nanosleep 100", "nanosleep.u32 100;\n    add.s32 {d}, {s}, {p};", chain=False)


_WORD = ("mov.u32 %cell, shared_words;",)


def benchmarks() -> dict[str, Microbenchmark]:
    """The microbenchmarks that come with the tool, and one or two of each form."""
    found = dict(microbenchmarks())
    for form in forms():
        common = {"setup": form.setup, "start": form.start, "wide": form.wide, "op": _SOME}
        text = (form.statement,)
        if form.chain:
            found[f"{form.name} | chain"] = Microbenchmark(
                form.name, form.name, text, is_chain=True, **common
            )
        found[f"{form.name} | free"] = Microbenchmark(form.name, form.name, text, **common)
    return found


_SOME = next(iter(microbenchmarks().values())).op


def text_of(benchmark: Microbenchmark) -> str:
    """Its kernel for several warps, which wait for each other before they read the clock."""
    text = benchmark.text().replace(".version 6.4", ".version 8.6")
    text = text.replace(".target sm_75", ".target sm_90")
    text = text.replace(
        "mov.u32 %lane, %tid.x;\n    setp.eq.u32 %first, %lane, 0;",
        "mov.u32 %lane, %tid.x;\n    setp.eq.u32 %first, %lane, 0;\n    and.b32 %lane, %lane, 31;",
    )
    assert "and.b32 %lane, %lane, 31" in text
    return re.sub(r"(    mov\.u64 %t\d, %clock64;)", r"    bar.sync 0;\n\1", text)


def build(kit: Path) -> None:
    """Cubins of all forms, numbered, and ``names.json``; forms that ptxas refuses are printed."""
    kit.mkdir(parents=True, exist_ok=True)

    def one(number: int, name: str, benchmark: Microbenchmark) -> str | None:
        path = kit / f"{number:04}.ptx"
        path.write_text(text_of(benchmark), encoding="utf-8")
        out = path.with_suffix(".cubin")
        command = ["ptxas", "-arch=sm_90", "-O3", str(path), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name}: {done.stderr}")
        return None if done.returncode else out.name

    with ThreadPoolExecutor(2) as pool:
        rows = {n: pool.submit(one, k, n, b) for k, (n, b) in enumerate(benchmarks().items())}
    names = {name: file for name, row in rows.items() if (file := row.result())}
    (kit / "names.json").write_text(json.dumps(names, indent=1), encoding="utf-8")


def run(kit: Path, raw: Path) -> None:
    """A line of JSON for each form: by warps, what each launch wrote, short and long of a round."""
    cupy: Any = importlib.import_module("cupy")
    begun = raw.with_suffix(".begun")
    done = int(begun.read_text()) + 1 if begun.exists() else 0
    memory = cupy.zeros(_BUFFER_BYTES, dtype=cupy.uint8)
    times = cupy.zeros(2 * ROUNDS + 1, dtype=cupy.uint64)
    with raw.open("a", encoding="utf-8") as out:
        names = json.loads((kit / "names.json").read_text(encoding="utf-8"))
        for number, (name, file) in enumerate(names.items()):
            if number < done:
                continue
            begun.write_text(str(number))
            kernel = cupy.RawModule(path=str(kit / file)).get_function("microbenchmark")
            row: dict[str, object] = {"name": name}
            for warps in WARPS:
                if 32 * warps * kernel.num_regs > _REGISTERS:
                    continue
                launches = []
                for _ in range(_LAUNCHES):
                    memory.fill(
                        0
                    )  # the part that is loaded first is driven from the L2 by the rest
                    kernel((1,), (32 * warps,), (times, memory))
                    launches.append(times.get()[: 2 * ROUNDS].tolist())
                row[str(warps)] = launches
            print(json.dumps(row), file=out, flush=True)


_BUFFER_BYTES, _REGISTERS, _LAUNCHES = 256 << 20, 65536, 4


def summarise(raw: Path, out: Path) -> None:
    """Form -> warps -> least, middle, longest cycles of a statement, without each first round."""
    found: dict[str, dict[str, list[float]]] = {}
    for line in raw.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for warps, launches in row.items():
            if warps == "name":
                continue
            cycles = sorted(
                (one[2 * k + 1] - one[2 * k]) / SHORT for one in launches for k in range(1, ROUNDS)
            )
            three = (cycles[0], cycles[len(cycles) // 2], cycles[-1])
            found.setdefault(row["name"], {})[warps] = [round(one, 2) for one in three]
    rows = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
    out.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def main() -> int:
    """Builds, runs or summarises."""
    what, *paths = sys.argv[1:]
    actions: dict[str, Callable[..., None]] = {"build": build, "run": run, "summarise": summarise}
    actions[what](*map(Path, paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
