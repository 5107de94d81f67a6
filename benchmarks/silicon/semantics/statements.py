"""Single statements of PTX on operands at the edges: kernels of one statement each.

A statement reads ``%p %h %r %d`` (1, 16, 32, 64 bits) with the numbers 1 to 3 and writes others.
Its kernel loads these for each of ``LANES`` threads, executes it, and stores what it wrote. The
first half of the lanes are all pairs of 64 operands at the edges, the others are drawn.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "oracle"))

import instruction_forms

LANES = 8192
BLOCK = 1024
HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
DOMAINS = ("int", "f32", "f64", "f16", "bf16")
"""What registers hold: integers at the edges, or patterns of numbers of a format."""
_SIZES = {"p": 1, "h": 2, "r": 4, "d": 8}
_REGISTER = re.compile(r"%([phrd])(\d)\b")
_OTHERS = re.compile(
    r"\bword\b|\btable\b|window|%[a-z]{2,}|\[|\bcvta|isspacep|mapa|getctarank|istypep|"
    r"^(?:bar|ld|st|bra|call|ret|exit|trap|red\.|atom|mma|wmma|ldmatrix|stmatrix|"
    r"nanosleep|fence|membar|cp\.|mbarrier|tex|su[lsqr]|tcgen|wgmma|movmatrix|clusterlaunch|griddep|"
    r"createpolicy|applypriority|discard|prefetch|setmaxnreg|pmevent|alloca|stack|multimem|brx|v(?!ote))"
)
"""What is no computation of registers from registers."""

# --- operands -------------------------------------------------------------------------------------

_SINGLES = """
00000000 80000000 00000001 80000001 00000002 00400000 807fffff 007fffff 00800000 80800000 00800001
33000000 3effffff 3f000000 bf000000 3f000001 3f7fffff 3f800000 bf800000 3f800001 3fc00000 40200000
c0200000 40600000 3eaaaaab 3dcccccd 42fe0000 42ff0000 43000000 437f0000 437f8000 46fffe00 47000000
477fe000 477fefff 477ff000 477fff00 4affffff 4b000001 4b800000 4b800001 4effffff 4f000000 cf000000
cf000001 4f7fffff 4f800000 5effffff 5f000000 df000000 df000001 5f800000 7e800000 7e800001 7f000000
7f7fffff ff7fffff 7f800000 ff800000 7fc00000 7f800001 ffc12345 7fffffff 43e80000
"""
_DOUBLES = """
0 8000000000000000 1 8000000000000001 000fffffffffffff 800fffffffffffff 0010000000000000
8010000000000000 0010000000000001 3fdfffffffffffff 3fe0000000000000 bfe0000000000000
3ff0000000000000 bff0000000000000 3fefffffffffffff 3ff0000000000001 3ff8000000000000
4004000000000000 c004000000000000 400c000000000000 3fd5555555555555 3fb999999999999a
36a0000000000000 3690000000000001 380fffffffffffff 3810000000000000 380fffffe0000000
47efffffe0000000 47efffffefffffff 47effffff0000000 c7effffff0000000 40effc0000000000
40effdffffffffff 40effe0000000000 3e60000000000000 3f10000000000000 405fe00000000000
406fe00000000000 406ff00000000000 40dfffc000000000 40efffe000000000 40efffe800000000
41dfffffffc00000 41dfffffffe00000 41e0000000000000 c1e0000000000000 c1e0000000200000
c1e00000001fffff 41efffffffe00000 41efffffffefffff 41f0000000000000 432fffffffffffff
4330000000000001 43dfffffffffffff 43e0000000000000 c3e0000000000000 43efffffffffffff
43f0000000000000 7fefffffffffffff 7ff0000000000000 fff0000000000000 7ff8000000000000
7ff0000000000001 fff8123456789abc
"""
_HALVES = """
0000 8000 0001 8001 0002 0200 03ff 83ff 0400 8400 0401 0c00 1400 1401 37ff 3800 b800 3801 3bff 3c00
bc00 3c01 3e00 4100 c100 4300 3555 2e66 4bff 57f0 57f8 5800 5bf8 5bfc 5c00 6800 6801 67ff 6400 63ff
77ff 7800 7801 7bff fbff 7c00 fc00 7e00 7c01 fe34 7fff ffff 0800 8800 3400 4000 c000 4200 4400 4800
b400 3fff 5f00 5740
"""
_BRAINS = """
0000 8000 0001 8001 0002 0040 007f 807f 0080 8080 0081 3300 3eff 3f00 bf00 3f01 3f7f 3f80 bf80 3f81
3fc0 4020 c020 4060 3eab 3dcd 42fe 42ff 4300 437f 4380 46ff 4700 477f 4780 4b00 4b80 4b81 4eff 4f00
cf00 cf01 4f7f 4f80 5eff 5f00 df00 5f80 7e80 7f00 7f7f ff7f 7f80 ff80 7fc0 7f81 ffc1 7fff 0100 8100
4000 c000 4040 2000
"""
_WHOLE = (
    *range(9), 15, 16, 17, 23, 24, 25, 31, 32, 33, 34, 63, 64, 65, 127, 128, 129, 255, 256, 257,
    0x1F1F, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x10000, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x1000000,
    0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, -2, -3, -7, -31, -32, -127, -128, -129, -255,
    -256, -32768, -32769, 0x80FF7F01, 0x3210, 0x7654, 0xFEDC, 0x55555555, 0xAAAAAAAA, 0x0F0F00FF,
    0x181F, 0x1C03, 0x1F000000,
)  # fmt: skip
_LONG = (
    *_WHOLE[:36], 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, (1 << 32) + 1, (1 << 53) - 1,
    1 << 53, (1 << 53) + 1, (1 << 62) + 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1,
    (1 << 64) - 1024, (1 << 63) - 512, -2, -3, -128, -129, -32769, -(1 << 31), -(1 << 31) - 1,
    -(1 << 32), 0x5555555555555555, 0x0123456789ABCDEF, 0xFF00FF0080007F01, (1 << 24) + 1, 10**18,
)  # fmt: skip


def _patterns(text: str) -> list[int]:
    found = [int(word, 16) for word in text.split()]
    assert len(found) == 64, len(found)
    return found


def specials(domain: str, bits: int) -> list[int]:
    """64 patterns of a width at the edges of a domain."""
    if domain in ("f16", "bf16") and bits < 64:
        halves = _patterns(_HALVES if domain == "f16" else _BRAINS)
        if bits == 16:
            return halves
        return [one | halves[(5 * n + 7) % 64] << 16 for n, one in enumerate(halves)]
    if domain == "f32" and bits == 32:
        return _patterns(_SINGLES)
    if domain in ("f64", "f32") and bits == 64:
        return _patterns(_DOUBLES)
    whole = _LONG if bits == 64 else _WHOLE
    assert len(whole) == 64, len(whole)
    return [one & (1 << bits) - 1 for one in whole]


def _columns(domain: str, bits: int) -> list[NDArray[np.uint64]]:
    """Three operands of a width for all lanes."""
    draw = drawing(f"{domain} {bits}")
    edges = np.array(specials(domain, bits), np.uint64)
    half, most = LANES // 2, np.uint64((1 << bits) - 1)
    number = np.arange(half)
    crossed = [edges[number % 64], edges[number // 64], draw.choice(edges, half)]
    columns = []
    for first in crossed:
        words = draw.integers(0, 1 << 64, half, dtype=np.uint64) & most
        moderate = _moderate(draw, domain, bits, half) if domain != "int" else words
        beside = draw.choice(edges, half) + draw.integers(0, 5, half).astype(np.uint64) & most
        small = words >> np.uint64(bits - 8)
        which = draw.integers(0, 4, half)
        rest = np.choose(which, [words, moderate, beside, small if domain == "int" else moderate])
        columns.append(np.concatenate([first, rest]))
    alike = draw.random(LANES)
    later = np.arange(LANES) >= half
    sign = np.uint64(1 << bits - 1)
    columns[1] = np.where(later & (alike < 0.05), columns[0], columns[1])
    flipped = columns[0] ^ sign
    columns[1] = np.where(later & (alike > 0.95), flipped, columns[1])
    columns[2] = np.where(later & (alike > 0.45) & (alike < 0.5), columns[0], columns[2])
    return columns


def _moderate(draw: np.random.Generator, domain: str, bits: int, count: int) -> NDArray[np.uint64]:
    """Numbers of ordinary size, as patterns."""
    values = draw.uniform(-4, 4, count) * 2.0 ** draw.choice([0, 0, 1, 5, 12, 30, -6], count)
    doubles = values.astype(np.float64)
    if bits == 64:
        return doubles.view(np.uint64)
    singles = doubles.astype(np.float32).view(np.uint32)
    if domain == "f32":
        return singles.astype(np.uint64)
    with np.errstate(all="ignore"):
        halves = doubles.astype(np.float16).view(np.uint16).astype(np.uint64)
    if domain == "bf16":
        halves = (singles >> np.uint32(16)).astype(np.uint64)
    return halves if bits == 16 else halves | np.roll(halves, 3) << np.uint64(16)


SEED = 1
"""What data and literals are drawn by, and the first seed of random programs."""


def drawing(text: str) -> np.random.Generator:
    """Numbers that follow from a text and the seed."""
    return np.random.default_rng(int.from_bytes(text.encode(), "little") % (1 << 61) + SEED - 1)


def operands(domain: str) -> bytes:
    """The registers of all lanes: three columns of each size."""
    draw = drawing(domain)
    parts = [draw.integers(0, 2, 3 * LANES).astype(np.uint8).tobytes()]
    for bits in (16, 32, 64):
        parts += [one.astype(f"u{bits // 8}").tobytes() for one in _columns(domain, bits)]
    return b"".join(parts)


_PLACES: dict[str, int] = {}
_at = 0
for _letter, _size in _SIZES.items():
    for _number in (1, 2, 3):
        _PLACES[f"%{_letter}{_number}"] = _at
        _at += _size * LANES


def registers_of(data: bytes, name: str) -> NDArray[np.unsignedinteger]:
    """What a register holds in each lane before the statement."""
    kind = f"u{_SIZES[name[1]]}"
    return np.frombuffer(data, kind, LANES, _PLACES[name])


# --- statements -----------------------------------------------------------------------------------

_TYPED = re.compile(r"\.(f16x2|bf16x2|f16|bf16|f32|f64|e4m3x2|e5m2x2|[subf]\d+x?\d?|pred)\b")


def domain_of(text: str) -> str:
    """What the operands of a statement are to be."""
    name = text.split()[0]
    kinds = _TYPED.findall(name)
    last = kinds[-1] if kinds else "int"
    if name.startswith("slct") and kinds[-1] == "s32":
        return "int"
    last = last.removesuffix("x2")
    return last if last in DOMAINS else "int"


def _name(kind: str, place: int) -> str:
    bits = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32}.get(kind)
    bits = bits or max(16, int(kind[1:]))
    return f"%{ {16: 'h', 32: 'r', 64: 'd'}[bits] }{place}"


_ROUND = ("rn", "rz", "rm", "rp")
_INTEGERS = [f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64)]
_FLOATS = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")


def _arithmetic() -> Iterator[str]:
    for kind in ("f32", "f64"):
        z, a, b, c = (_name(kind, n) for n in range(4))
        flushes, clamps = (("", ".ftz"), ("", ".sat")) if kind == "f32" else (("",), ("",))
        for mode, ftz, sat in product(_ROUND, flushes, clamps):
            for name in ("add", "sub", "mul"):
                yield f"{name}.{mode}{ftz}{sat}.{kind} {z}, {a}, {b};"
            yield f"fma.{mode}{ftz}{sat}.{kind} {z}, {a}, {b}, {c};"
            yield f"mad.{mode}{ftz}{sat}.{kind} {z}, {a}, {b}, {c};"
        for mode, ftz in product(_ROUND, flushes):
            yield f"div.{mode}{ftz}.{kind} {z}, {a}, {b};"
            yield f"rcp.{mode}{ftz}.{kind} {z}, {a};"
            yield f"sqrt.{mode}{ftz}.{kind} {z}, {a};"
        for ftz in flushes:
            yield f"neg{ftz}.{kind} {z}, {a};"
            yield f"abs{ftz}.{kind} {z}, {a};"
            for name in ("min", "max"):
                yield f"{name}{ftz}.{kind} {z}, {a}, {b};"
                if kind == "f32":
                    for more in (".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
                        yield f"{name}{ftz}{more}.{kind} {z}, {a}, {b};"
        yield f"copysign.{kind} {z}, {a}, {b};"
        yield f"add.{kind} {z}, {a}, {b};"
        yield f"mul.{kind} {z}, {a}, {b};"
        for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield f"testp.{what}.{kind} %p0, {a};"
    for kind in ("f16", "f16x2", "bf16", "bf16x2"):
        z, a, b, c = (_name(kind, n) for n in range(4))
        is_half = kind.startswith("f")
        for name in ("add", "sub", "mul"):
            for words in ("", ".rn", ".rn.sat", ".ftz", ".rn.ftz", ".ftz.sat", ".sat"):
                yield f"{name}{words}.{kind} {z}, {a}, {b};"
        for words in ("", ".ftz", ".sat", ".ftz.sat", ".relu", ".ftz.relu", ".oob", ".oob.relu"):
            yield f"fma.rn{words}.{kind} {z}, {a}, {b}, {c};"
        for words in ("", ".ftz") if is_half else ("",):
            yield f"neg{words}.{kind} {z}, {a};"
            yield f"abs{words}.{kind} {z}, {a};"
        for name, words in product(
            ("min", "max"),
            (
                "",
                ".ftz",
                ".NaN",
                ".ftz.NaN",
                ".xorsign.abs",
                ".NaN.xorsign.abs",
                ".ftz.xorsign.abs",
            ),
        ):
            yield f"{name}{words}.{kind} {z}, {a}, {b};"


def _approximations() -> Iterator[str]:
    """What PTX leaves open to the last bits: of operands at the edges."""
    for ftz in ("", ".ftz"):
        for name in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"):
            yield f"{name}.approx{ftz}.f32 %r0, %r1;"
        yield f"div.approx{ftz}.f32 %r0, %r1, %r2;"
        yield f"div.full{ftz}.f32 %r0, %r1, %r2;"
    yield "tanh.approx.f32 %r0, %r1;"
    for kind in ("f16", "f16x2"):
        yield f"ex2.approx.{kind} {_name(kind, 0)}, {_name(kind, 1)};"
    for kind in ("bf16", "bf16x2"):
        yield f"ex2.approx.ftz.{kind} {_name(kind, 0)}, {_name(kind, 1)};"
    for kind in ("f16", "f16x2", "bf16", "bf16x2"):
        yield f"tanh.approx.{kind} {_name(kind, 0)}, {_name(kind, 1)};"
    yield "rcp.approx.ftz.f64 %d0, %d1;"
    yield "rsqrt.approx.ftz.f64 %d0, %d1;"
    yield "rsqrt.approx.f64 %d0, %d1;"


def _comparisons() -> Iterator[str]:
    orders = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu",
              "num", "nan")  # fmt: skip
    for kind in ("f32", "f64", "f16", "bf16"):
        a, b = _name(kind, 1), _name(kind, 2)
        for order in orders:
            for ftz in ("", ".ftz"):
                yield f"setp.{order}{ftz}.{kind} %p0, {a}, {b};"
            yield f"setp.{order}.xor.{kind} %p0|%p4, {a}, {b}, !%p3;"
            yield f"setp.{order}.and.{kind} %p0, {a}, {b}, %p3;"
            for to in ("u32", "s32", "f32", "f16", "bf16", "u16"):
                if (to[-2:] == "16") <= (kind in ("f16", "bf16")):
                    yield f"set.{order}.{to}.{kind} {_name(to, 0)}, {a}, {b};"
            yield f"set.{order}.or.f32.{kind} %r0, {a}, {b}, %p3;"
    for kind, order in product(("f16x2", "bf16x2"), orders):
        yield f"setp.{order}.{kind} %p0|%p4, %r1, %r2;"
        yield f"setp.{order}.or.{kind} %p0|%p4, %r1, %r2, %p3;"
        yield f"set.{order}.{kind}.{kind} %r0, %r1, %r2;"
        yield f"set.{order}.xor.u32.{kind} %r0, %r1, %r2, !%p3;"
    for kind in ("u16", "s16", "u32", "s32", "u64", "s64", "b32"):
        a, b = _name(kind, 1), _name(kind, 2)
        for order in ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"):
            yield f"setp.{order}.xor.{kind} %p0|%p4, {a}, {b}, !%p3;"
            yield f"set.{order}.f32.{kind} %r0, {a}, {b};"
            yield f"set.{order}.and.s32.{kind} %r0, {a}, {b}, !%p3;"
    for kind in ("b16", "u32", "s64", "f32", "f64"):
        z, a, b = (_name(kind, n) for n in range(3))
        for by in ("f32", "ftz.f32", "s32"):
            text = f"slct.{kind}.{by}" if "ftz" not in by else f"slct.ftz.{kind}.f32"
            yield f"{text} {z}, {a}, {b}, %r3;"


def _conversions() -> Iterator[str]:
    singles = ("f16", "bf16", "f32", "f64")
    for to, source in product(singles, singles):
        for mode in ("", ".rn", ".rz", ".rm", ".rp", ".rna", ".rni", ".rzi", ".rmi", ".rpi"):
            for ftz, sat in product(("", ".ftz"), ("", ".sat", ".relu", ".satfinite")):
                operands = f"{_name(to, 0)}, {_name(source, 1)}"
                yield f"cvt{mode}{ftz}{sat}.{to}.{source} {operands};"
                if ftz == "" and sat == ".relu":
                    yield f"cvt{mode}.relu.satfinite.{to}.{source} {operands};"
    for to, source in product(_INTEGERS, singles):
        for mode, ftz, sat in product(("rni", "rzi", "rmi", "rpi"), ("", ".ftz"), ("", ".sat")):
            yield f"cvt.{mode}{ftz}{sat}.{to}.{source} {_name(to, 0)}, {_name(source, 1)};"
    for to, source in product(singles, _INTEGERS):
        for mode, sat in product(_ROUND, ("", ".sat")):
            yield f"cvt.{mode}{sat}.{to}.{source} {_name(to, 0)}, {_name(source, 1)};"
    for to in ("f16x2", "bf16x2"):
        for mode, words in product(("rn", "rz"), ("", ".relu", ".satfinite", ".relu.satfinite")):
            yield f"cvt.{mode}{words}.{to}.f32 %r0, %r1, %r2;"
    for mode, words in product(("rn", "rz", "rna"), ("", ".relu", ".satfinite")):
        yield f"cvt.{mode}{words}.tf32.f32 %r0, %r1;"
    for kind, words in product(("e4m3x2", "e5m2x2"), ("", ".relu")):
        yield f"cvt.rn.satfinite{words}.{kind}.f32 %h0, %r1, %r2;"
        yield f"cvt.rn.satfinite{words}.{kind}.f16x2 %h0, %r1;"
        yield f"cvt.rn{words}.f16x2.{kind} %r0, %h1;"
    for kind in ("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"):
        more = "" if kind.endswith("16") else ".b32"
        last = ", %r3" if more else ""
        yield f"cvt.pack.sat.{kind}.s32{more} %r0, %r1, %r2{last};"


def _bits() -> Iterator[str]:
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield f"prmt{mode}.b32 %r0, %r1, %r2, %r3;"
    for table in (0, 1, 0x25, 0x80, 0x96, 0xCA, 0xE8, 0xFE, 0xFF, 0x78, 0x1B):
        yield f"lop3.b32 %r0, %r1, %r2, %r3, {table};"
        yield f"lop3.and.b32 %r0|%p0, %r1, %r2, %r3, {table}, %p3;"
        yield f"lop3.or.b32 %r0|%p0, %r1, %r2, %r3, {table}, !%p3;"
    for words in ("l.wrap", "l.clamp", "r.wrap", "r.clamp"):
        yield f"shf.{words}.b32 %r0, %r1, %r2, %r3;"
    for a, b in product("us", "us"):
        yield f"dp4a.{a}32.{b}32 %r0, %r1, %r2, %r3;"
        yield f"dp2a.lo.{a}32.{b}32 %r0, %r1, %r2, %r3;"
        yield f"dp2a.hi.{a}32.{b}32 %r0, %r1, %r2, %r3;"
    for kind in ("u32", "s32"):
        for part, sat in (("lo", ""), ("hi", ""), ("hi", ".sat")):
            yield f"mad24.{part}{sat}.{kind} %r0, %r1, %r2, %r3;"
        for words in ("add", "sub"):
            yield f"{words}.sat.{kind} %r0, %r1, %r2;"
        yield f"mad.hi.sat.{kind} %r0, %r1, %r2, %r3;"
    for kind in ("u16x2", "s16x2"):
        for name in ("add", "min", "max", "min.relu", "max.relu"):
            yield f"{name}.{kind} %r0, %r1, %r2;"
    for name in ("min.relu", "max.relu"):
        yield f"{name}.s32 %r0, %r1, %r2;"
    yield "fns.b32 %r0, %r1, %r2, %r3;"
    for table in range(0, 256, 37):
        yield f"lop3.b32 %r0, %r1, %r2, %r2, {table};"


def _lanes() -> Iterator[str]:
    for mode in ("up", "down", "bfly", "idx"):
        yield f"shfl.sync.{mode}.b32 %r0|%p0, %r1, %r2, %r3, -1;"
        yield f"shfl.sync.{mode}.b32 %r0, %r1, %r2, %r3, -1;"
        for amount, clamp in product(
            (0, 1, 5, 16, 31, 33), (0, 31, 0x1F1F, 0x181F, 0x1C03, 0x1800)
        ):
            yield f"shfl.sync.{mode}.b32 %r0|%p0, %r1, {amount}, {clamp}, -1;"
    for mode in ("all", "any", "uni"):
        yield f"vote.sync.{mode}.pred %p0, %p1, -1;"
        yield f"vote.sync.{mode}.pred %p0, !%p1, -1;"
    yield "vote.sync.ballot.b32 %r0, %p1, -1;"
    yield "vote.sync.ballot.b32 %r0, !%p1, -1;"
    for kind, one in (("b32", "%r1"), ("b64", "%d1"), ("b32", "7")):
        yield f"match.any.sync.{kind} %r0, {one}, -1;"
        yield f"match.all.sync.{kind} %r0|%p0, {one}, -1;"
    for name, kind in (
        *product(("add", "min", "max"), ("u32", "s32")),
        *product(("and", "or", "xor"), ("b32",)),
    ):
        yield f"redux.sync.{name}.{kind} %r0, %r1, -1;"
    yield "activemask.b32 %r0;"
    yield "elect.sync %r0|%p0, -1;"


def _sequences() -> Iterator[str]:
    """Carries through several words."""
    for bits, letter in ((32, "r"), (64, "d")):
        a, b, c = (f"%{letter}{n}" for n in (1, 2, 3))
        x, y, z = (f"%{letter}{n}" for n in (4, 5, 6))
        for one, other in product(("add", "sub"), ("addc", "subc")):
            yield (f"{one}.cc.u{bits} {x}, {a}, {b}; {other}.cc.u{bits} {y}, {b}, {c}; "
                   f"{other}.u{bits} {z}, {c}, {a};")  # fmt: skip
            yield (f"{one}.cc.s{bits} {x}, {a}, {b}; {other}.cc.s{bits} {y}, {b}, {b}; "
                   f"{one}c.s{bits} {z}, 0, 0;")  # fmt: skip
        for kind, one, other in product("us", ("lo", "hi"), ("lo", "hi")):
            yield (f"mad.{one}.cc.{kind}{bits} {x}, {a}, {b}, {c}; "
                   f"madc.{other}.cc.{kind}{bits} {y}, {b}, {c}, {a}; "
                   f"madc.{one}.{kind}{bits} {z}, {a}, {b}, {b};")  # fmt: skip
        yield (f"add.cc.u{bits} {x}, {a}, {b}; @%p3 sub.cc.u{bits} {y}, {c}, {a}; "
               f"addc.u{bits} {z}, 0, 0;")  # fmt: skip


def _cleaned(text: str) -> str | None:
    if _OTHERS.search(text) or not text.strip():
        return None
    if any(int(number) > 8 for _, number in _REGISTER.findall(text)):
        return None
    if text.startswith("bfi."):  # a fourth operand, which there is no register for
        return re.sub(r"%r4;$", "%r1;" if ".b32" in text else "%r2;", text)
    if re.match(r"(add|sub|mad)c\.", text) and text.count(";") == 1:  # of a flag that is known
        return f"{'sub' if len(text) % 2 else 'add'}.cc.u32 %r8, %r2, %r3; {text}"
    return text


def _literals(draw: Random, pool: Sequence[str], count: int) -> Iterator[str]:
    """Statements of which one operand is a literal at an edge."""
    while count:
        text = draw.choice(pool)
        name, rest = text.split(None, 1)
        if rest.count(";") > 1 or name.startswith(("shfl", "redux", "vote", "match", "elect")):
            continue
        places = re.findall(r", (%[hrd][123])(?=[,;])", rest)
        if not places or "{" in rest:
            continue
        one = draw.choice(places)
        domain, bits = domain_of(text), 8 * _SIZES[one[1]]
        if domain in ("f16", "bf16"):
            continue
        pattern = draw.choice(specials(domain, bits))
        if domain == "f32" and bits == 32:
            literal = f"0f{pattern:08X}"
        elif domain == "f64" and bits == 64:
            literal = f"0d{pattern:016X}"
        else:
            literal = str(pattern - (pattern >> bits - 1 << bits) * draw.randrange(2))
            if name.startswith(("bfe", "bfi")):
                literal = str(int(literal) & 255)
        yield f"{name} {rest.replace(f', {one}', f', {literal}', 1)}"
        count -= 1


_OUTLIERS = (
    "cos.approx.ftz.f32 %r0, 0fC09CCDB6;", "cos.approx.f32 %r0, 0f409CCDB6;",
    "sin.approx.ftz.f32 %r0, 0fC0527E14;", "tanh.approx.f32 %r0, 0fBF17040F;",
    "tanh.approx.f32 %r0, 0f3F0F87FF;", "tanh.approx.f32 %r0, 0f3F0F8800;",
)  # fmt: skip
"""Where sweeps have found the largest errors, and a function that falls where it ought to grow."""


def all_statements(seed: int, literals: int) -> list[str]:
    """The text of every case, those that no front end takes among them."""
    found = dict.fromkeys(
        one
        for text in (
            *instruction_forms.statements(),
            *_arithmetic(),
            *_approximations(),
            *_comparisons(),
            *_conversions(),
            *_bits(),
            *_lanes(),
            *_sequences(),
        )
        if (one := _cleaned(text)) is not None
    )
    pool = list(found)
    return list(dict.fromkeys([*pool, *_literals(Random(seed), pool, literals), *_OUTLIERS]))


# --- kernels --------------------------------------------------------------------------------------


def written(text: str) -> list[str]:
    """The registers that a statement writes: those that are no sources."""
    names = dict.fromkeys(
        f"%{letter}{n}" for letter, n in _REGISTER.findall(text) if n not in "123"
    )
    return list(names)


def kernel(name: str, text: str) -> str:
    """A kernel of one case; ``out`` has a column for each register that is written."""
    read = dict.fromkeys(f"%{letter}{n}" for letter, n in _REGISTER.findall(text) if n in "123")
    lines = [
        f".visible .entry {name}(.param .u64 in, .param .u64 out)",
        "{",
        ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;",
        ".reg .b32 %t, %w; .reg .b64 %in, %out, %a;",
        f"mov.u32 %t, %ctaid.x; mov.u32 %w, %tid.x; mad.lo.u32 %t, %t, {BLOCK}, %w;",
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out];",
    ]
    for one in read:
        size = _SIZES[one[1]]
        lines.append(f"mad.wide.u32 %a, %t, {size}, %in;")
        if size == 1:
            lines.append(f"ld.global.u8 %w, [%a+{_PLACES[one]}]; setp.ne.u32 {one}, %w, 0;")
        else:
            lines.append(f"ld.global.b{8 * size} {one}, [%a+{_PLACES[one]}];")
    begun = [one for one in written(text) if "@" in text]
    lines += [f"mov.b{8 * _SIZES[one[1]]} {one}, 0;" for one in begun]
    lines.append(text)
    at = 0
    for one in written(text):
        size = _SIZES[one[1]]
        lines.append(f"mad.wide.u32 %a, %t, {size}, %out;")
        if size == 1:
            lines.append(f"selp.u32 %w, 1, 0, {one}; st.global.u8 [%a+{at}], %w;")
        else:
            lines.append(f"st.global.b{8 * size} [%a+{at}], {one};")
        at += size * LANES
    return "\n".join([*lines, "ret;", "}", ""])


def out_bytes(text: str) -> int:
    """The size of what a case leaves."""
    return sum(_SIZES[one[1]] for one in written(text)) * LANES


def columns(text: str, data: bytes) -> dict[str, NDArray[np.unsignedinteger]]:
    """What a case left, by register."""
    at, found = 0, {}
    for one in written(text):
        size = _SIZES[one[1]]
        found[one] = np.frombuffer(data, f"u{size}", LANES, at)
        at += size * LANES
    return found


def module(cases: Iterable[tuple[str, str]]) -> str:
    """The text of a module with a kernel of each (name, statement)."""
    return HEAD + "".join(kernel(name, text) for name, text in cases)


def as_double(pattern: int) -> float:
    """The number of a pattern of 64 bits."""
    number: float = struct.unpack("<d", struct.pack("<Q", pattern))[0]
    return number
