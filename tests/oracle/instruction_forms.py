"""Forms of instructions that compute registers from registers, and their execution on any values.

The statements are those of ``integer_probes.txt`` (all integer forms that ptxas takes), and of
comparisons, selections, conversions, moves and floating-point arithmetic written below. Sources are
``%p %h %r %d`` (1, 16, 32, 64 bits) numbered by their place, ``0`` is the destination.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain, product
from pathlib import Path

import numpy as np

from ptxwcet.emulator.memory import Arena
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported
from ptxwcet.emulator.semantics import SEMANTICS
from ptxwcet.ir.instruction_set import ROWS
from ptxwcet.ir.kernel import Instruction, Kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile

HEAD = (
    ".version 9.0\n.target sm_100a\n.address_size 64\n"
    ".const .align 4 .b32 table[4];\n.visible .entry one(.param .u64 first)\n{\n"
    ".shared .align 4 .b32 word[4];\n.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; "
    ".reg .b64 %d<9>;\n"
)
GOLDEN = Path(__file__).parents[1] / "data" / "ptx" / "instructions.tsv"
LETTER = {1: "p", 8: "h", 16: "h", 32: "r", 64: "d"}
WIDTH = {"p": 1, "h": 16, "r": 32, "d": 64}
SYMBOLS = {"window.shared": 1 << 25, "window.local": 1 << 33, "word": 64, "table": 128}


@dataclass(frozen=True)
class Form:
    """One statement, parsed; ``step`` executes it on a frame of many lanes."""

    text: str
    kernel: Kernel
    instruction: Instruction

    def __str__(self) -> str:
        return self.text

    def step(self, lanes: int) -> Step:
        """Raises Unsupported if the emulator has no such form."""
        opcode = self.instruction.opcode
        if opcode is None or opcode.name not in SEMANTICS:
            raise Unsupported(self.text)
        context = Context(self.kernel, dict(SYMBOLS), lanes)
        return SEMANTICS[opcode.name](context, self.instruction)


@cache
def form(text: str) -> Form:
    kernel = parse_module(SourceFile("one.ptx", f"{HEAD}{text}\nret;\n}}\n")).kernels[0]
    return Form(text, kernel, kernel.instructions[0])


def executed(form: Form, step: Step, registers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The registers after the statement; values are bit patterns, one element a lane."""
    lanes = len(next(iter(registers.values())))
    frame = Frame(lanes, Arena(), frozenset(), form.kernel)
    for name, kind in form.kernel.registers.items():
        width = 1 if kind == "pred" else int(kind[1:])
        frame.registers[name] = np.zeros(lanes, bool if width == 1 else f"u{width // 8}")
    frame.registers.update(registers)
    with np.errstate(all="ignore"):
        step(frame)
    return {name: frame.registers[name] for name in form.instruction.writes}


def statements() -> Iterator[str]:
    """The text of every form, one line each.

    Of an opcode that computes and is in none of these, the golden statements.
    """
    listed = Path(__file__).with_name("integer_probes.txt").read_text(encoding="utf-8")
    written = (_comparisons(), _selections(), _conversions(), _moves(), _floats())
    known = set()
    for text in chain(listed.splitlines(), *written):
        known.add(text.split(".")[0])
        yield text
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        name = (text := line.split("\t")[1]).split(".")[0]
        if name in ROWS and name not in known:
            yield text


_NUMBERS = [f"{letter}{bits}" for letter in "us" for bits in (16, 32, 64)]


def _name(kind: str, place: int) -> str:
    digits = "".join(c if c.isdigit() or c == "x" else " " for c in kind).split()[-1]
    bits = np.prod([int(part) for part in digits.split("x")])
    return f"%{LETTER[max(16, int(bits))]}{place}"


def _comparisons() -> Iterator[str]:
    for kind, operator in product(_NUMBERS, ("eq", "ne", "lt", "le", "gt", "ge")):
        a, b = _name(kind, 1), _name(kind, 2)
        yield f"setp.{operator}.{kind} %p0, {a}, {b};"
        yield f"set.{operator}.u32.{kind} %r0, {a}, {b};"
        for joined in ("and", "or", "xor"):
            yield f"setp.{operator}.{joined}.{kind} %p0|%p4, {a}, {b}, %p3;"
    for bits, operator in product((16, 32, 64), ("lo", "ls", "hi", "hs")):
        kind = f"u{bits}"
        yield f"setp.{operator}.{kind} %p0, {_name(kind, 1)}, {_name(kind, 2)};"
    for bits, operator in product((16, 32, 64), ("eq", "ne")):
        kind = f"b{bits}"
        yield f"setp.{operator}.{kind} %p0, {_name(kind, 1)}, {_name(kind, 2)};"
    yield from (
        "setp.eq.s32 %p0|%p4, %r1, %r2;",
        "setp.ne.and.u32 %p0|%p4, %r1, %r2, !%p3;",
        "setp.eq.u32 %p0, %r1, 37;",
        "setp.eq.u64 %p0, %d1, 4294967296;",
    )
    for kind, operator in product(("f32", "f64", "f16", "bf16"), ("eq", "ne", "lt", "nan", "geu")):
        yield f"setp.{operator}.{kind} %p0, {_name(kind, 1)}, {_name(kind, 2)};"
    for kind in ("f16x2", "bf16x2"):
        yield f"setp.eq.{kind} %p0|%p4, %r1, %r2;"
        yield f"set.eq.{kind}.{kind} %r0, %r1, %r2;"
    yield "set.lt.and.f32.s32 %r0, %r1, %r2, %p3;"
    yield "testp.finite.f32 %p0, %r1;"
    yield "testp.number.f64 %p0, %d1;"


def _selections() -> Iterator[str]:
    for kind in ("b16", "s16", "u32", "b32", "f32", "s64", "b64", "f64"):
        yield f"selp.{kind} {_name(kind, 0)}, {_name(kind, 1)}, {_name(kind, 2)}, %p3;"
        yield f"slct.{kind}.s32 {_name(kind, 0)}, {_name(kind, 1)}, {_name(kind, 2)}, %r3;"
    yield "selp.b32 %r0, 96, %r2, !%p3;"
    yield "slct.u32.f32 %r0, %r1, %r2, %r3;"


def _contains(target: str, source: str) -> bool:
    """Whether every number of one type is one of the other: ptxas has no saturation then."""
    return int(target[1:]) > int(source[1:]) and (target[0] == "s" or source[0] == "u")


def _conversions() -> Iterator[str]:
    kinds = [f"{letter}{bits}" for letter in "us" for bits in (8, 16, 32, 64)]
    for target, source in product(kinds, kinds):
        for bits, read in product((16, 32, 64), (16, 32, 64)):
            if bits >= int(target[1:]) and read >= int(source[1:]):
                yield f"cvt.{target}.{source} %{LETTER[bits]}0, %{LETTER[read]}1;"
        if target != source and not _contains(target, source):
            yield f"cvt.sat.{target}.{source} {_name(target, 0)}, {_name(source, 1)};"
    for floating, number in product(("f16", "bf16", "f32", "f64"), kinds):
        if floating == "bf16" and number[1:] == "8":
            continue
        yield f"cvt.rn.{floating}.{number} {_name(floating, 0)}, {_name(number, 1)};"
        yield f"cvt.rzi.{number}.{floating} {_name(number, 0)}, {_name(floating, 1)};"
    yield from (
        "cvt.rn.bf16.f32 %h0, %r1;", "cvt.f32.bf16 %r0, %h1;", "cvt.rn.f16.f32 %h0, %r1;",
        "cvt.f64.f32 %d0, %r1;", "cvt.rn.f32.f64 %r0, %d1;", "cvt.rna.tf32.f32 %r0, %r1;",
        "cvt.rn.f16x2.f32 %r0, %r1, %r2;", "cvt.rn.bf16x2.f32 %r0, %r1, %r2;",
        "cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2;", "cvt.rn.f16x2.e5m2x2 %r0, %h1;",
        "cvt.pack.sat.u16.s32 %r0, %r1, %r2;", "cvt.pack.sat.u8.s32.b32 %r0, %r1, %r2, %r3;",
    )  # fmt: skip


def _moves() -> Iterator[str]:
    for kind in ("b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"):
        yield f"mov.{kind} {_name(kind, 0)}, {_name(kind, 1)};"
    yield from (
        "mov.pred %p0, %p1;", "mov.pred %p0, 2;",
        "mov.u32 %r0, 4096;", "mov.f32 %r0, 0f3F800000;", "mov.s64 %d0, -1;",
        "mov.u32 %r0, word;", "mov.u64 %d0, word+16;",
        "mov.b64 %d0, {%r1, %r2};", "mov.b64 {%r0, %r4}, %d1;", "mov.b32 %r0, {%h1, %h2};",
        "mov.b32 {%h0, %h4}, %r1;", "mov.b64 {%h0, %h4, %h5, %h6}, %d1;",
    )  # fmt: skip
    for space in ("global", "shared", "local", "const"):
        yield f"cvta.{space}.u64 %d0, %d1;"
        yield f"cvta.to.{space}.u64 %d0, %d1;"
        yield f"isspacep.{space} %p0, %d1;"


def _floats() -> Iterator[str]:
    kinds = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64")
    for kind in kinds:
        zero, a, b, c = (_name(kind, place) for place in range(4))
        rn = ".rn" if kind.startswith("f") else ""
        for name in ("add", "sub", "mul"):
            yield f"{name}{rn}.{kind} {zero}, {a}, {b};"
        yield f"fma.rn.{kind} {zero}, {a}, {b}, {c};"
        if kind != "f32x2":
            yield f"neg.{kind} {zero}, {a};"
            yield f"abs.{kind} {zero}, {a};"
            yield f"min.{kind} {zero}, {a}, {b};"
            yield f"max.{kind} {zero}, {a}, {b};"
    yield from (
        "mad.rn.f32 %r0, %r1, %r2, %r3;", "add.sat.f32 %r0, %r1, %r2;",
        "fma.rn.relu.f16x2 %r0, %r1, %r2, %r3;", "min.NaN.f32 %r0, %r1, %r2, %r3;",
        "div.rn.f32 %r0, %r1, %r2;", "div.full.f32 %r0, %r1, %r2;", "div.rn.f64 %d0, %d1, %d2;",
        "rcp.rn.f32 %r0, %r1;", "rcp.approx.ftz.f32 %r0, %r1;", "sqrt.rn.f64 %d0, %d1;",
        "sqrt.approx.f32 %r0, %r1;", "rsqrt.approx.f32 %r0, %r1;", "sin.approx.f32 %r0, %r1;",
        "cos.approx.f32 %r0, %r1;", "lg2.approx.f32 %r0, %r1;", "ex2.approx.f32 %r0, %r1;",
        "tanh.approx.f32 %r0, %r1;", "copysign.f32 %r0, %r1, %r2;", "copysign.f64 %d0, %d1, %d2;",
    )  # fmt: skip
