"""Random counts out of floating-point numbers: what the walk says, held to executions.

    python benchmarks/random_floats.py --kernels 2000 --seed 1

Loops whose counts are made of numbers: of parameters, constants, tables, lanes and memory, by
operations of all roundings, conversions, comparisons and moves of bits, in branches and loops. At
every visit of every block the state of the walk must contain what lanes hold, and the paths what
they execute (``tests/oracle/containment_oracle.py``). Sums after products are executed as fused
operations as well, which PTX allows where no rounding is written. Prints what is false; exit code 1
if there is something.
"""

from __future__ import annotations

import argparse
import struct
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from containment_oracle import Oracle, Recorder
from isa_interpreter import execute
from path_attack import Checker, explorations, inputs, machine

from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.pipeline import prepare_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

MOST = 60
"""Blocks that a warp may execute."""
WORDS = 16
"""Words of the table in constant memory."""
_BLOCKS = ((1, 1, 1), (4, 1, 1), (3, 2, 1), (34, 1, 1))
_MODES = ("rn", "rz", "rm", "rp")
_WHOLE = ("rni", "rzi", "rmi", "rpi")
_SMALL = (0.0, -0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 7.0, 8.999999, -1.0, -0.5, -2.5, 0.1, 1 / 3)
_ODD = (1e-40, -1e-40, 1e-45, 2.0**-126, 2.0**24, 2.0**24 + 2, 2.0**31, -(2.0**31), 2.0**32, 3.4e38)
_LAST = (float("inf"), float("-inf"), float("nan"), 1e-310, 1e300, 2.0**63, -(2.0**63), 2.0**64)


@dataclass(frozen=True)
class FloatKernel:
    """A kernel's text, the text of it that is executed as well, and its launch."""

    seed: int
    text: str
    fused: str
    launch: Launch


def bits_of(number: float, width: int) -> int:
    """The bits of a number, of infinity where it is too large."""
    try:
        return int.from_bytes(struct.pack({32: ">f", 64: ">d"}[width], number), "big")
    except OverflowError:
        return bits_of(float("inf") if number > 0 else float("-inf"), width)


class _Writer:
    """Statements over registers of all widths, each as it is written and as it is executed."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.executed: list[str] = []
        self.pool: dict[str, list[str]] = {"h": [], "r": [], "d": [], "f": [], "g": [], "p": []}
        self.count: Counter[str] = Counter()
        self.labels = 0

    def emit(self, line: str, executed: str = "") -> None:
        self.lines.append(line)
        self.executed.append(executed or line)

    def new(self, kind: str) -> str:
        self.count[kind] += 1
        return f"%{kind}{self.count[kind]}"

    def target(self, kind: str) -> str:
        """A new register, or one that has a value."""
        known = self.pool[kind]
        return self.random.choice(known) if known and self.random.random() < 0.2 else self.new(kind)

    def has(self, name: str) -> None:
        known = self.pool[name[1]]
        if name not in known:
            known.append(name)

    def some(self, kind: str) -> str:
        """A register with a value, mostly one of the last."""
        known = self.pool[kind]
        return known[-1] if self.random.random() < 0.4 else self.random.choice(known)

    def number(self) -> float:
        chosen = self.random.choice
        return chosen(chosen((_SMALL, _SMALL, _SMALL, _SMALL, _ODD, _LAST)))

    def literal(self, width: int) -> str:
        found = self.number()
        if self.random.random() < 0.2 and (not found or 1e-30 < abs(found) < 1e30):
            return repr(float(found))
        digits = bits_of(found, width)
        return f"0f{digits:08X}" if width == 32 else f"0d{digits:016X}"

    def operand(self, kind: str) -> str:
        width = 32 if kind == "f" else 64
        return self.literal(width) if self.random.random() < 0.35 else self.some(kind)

    def guarded(self, name: str, text: str, executed: str = "") -> None:
        """A statement that writes a register, now and then in some lanes alone."""
        guard = ""
        if name in self.pool[name[1]] and self.pool["p"] and self.random.random() < 0.4:
            guard = f"@{self.random.choice(('', '!'))}{self.some('p')} "
        self.emit(guard + text, guard + (executed or text))
        self.has(name)

    def one_of(self, *rules: object) -> None:
        rule = self.random.choice(rules)
        assert callable(rule)
        rule()

    # --- statements -------------------------------------------------------------------------------

    def statement(self) -> None:
        self.one_of(
            *(self.arithmetic,) * 5,
            *(self.extreme,) * 4,
            *(self.sign,) * 2,
            *(self.convert,) * 4,
            *(self.to_integer,) * 2,
            *(self.from_integer,) * 2,
            *(self.bits,) * 3,
            self.half,
            self.approximate,
            *(self.choose,) * 2,
            *(self.compare,) * 2,
            self.product_and_sum,
            self.load,
            self.keep,
        )

    def kind(self) -> tuple[str, str]:
        return ("f", "f32") if self.random.random() < 0.75 else ("g", "f64")

    def words(self, kind: str, *, sat: bool = True) -> str:
        """A rounding or none, ``.ftz``, ``.sat``."""
        chosen = self.random
        found = f".{chosen.choice((*_MODES, 'rn', 'rn'))}"
        if kind == "f32":
            found += ".ftz" * (chosen.random() < 0.2) + ".sat" * (sat and chosen.random() < 0.1)
        return found

    def arithmetic(self) -> None:
        letter, kind = self.kind()
        a, b, c = (self.operand(letter) for _ in range(3))
        words, to = self.words(kind), self.target(letter)
        bare = words[3:] if self.random.random() < 0.4 else words
        plain = self.words(kind, sat=False)
        self.guarded(
            to,
            self.random.choice(
                [
                    f"add{bare}.{kind} {to}, {a}, {b};",
                    f"sub{bare}.{kind} {to}, {a}, {b};",
                    f"mul{bare}.{kind} {to}, {a}, {b};",
                    f"fma{words}.{kind} {to}, {a}, {b}, {c};",
                    f"mad{words}.{kind} {to}, {a}, {b}, {c};",
                    f"div{plain}.{kind} {to}, {a}, {b};",
                    f"rcp{plain}.{kind} {to}, {self.some(letter)};",
                    f"sqrt{plain}.{kind} {to}, {self.some(letter)};",
                ]
            ),
        )

    def extreme(self) -> None:
        letter, kind = self.kind()
        chosen, to = self.random, self.target(letter)
        words = ""
        if kind == "f32":
            words = chosen.choice(["", "", "", "", ".ftz", ".NaN", ".xorsign.abs", ".ftz.NaN"])
        name = chosen.choice(["min", "max"])
        self.guarded(to, f"{name}{words}.{kind} {to}, {self.some(letter)}, {self.operand(letter)};")

    def sign(self) -> None:
        letter, kind = self.kind()
        to, a = self.target(letter), self.some(letter)
        ftz = ".ftz" if kind == "f32" and self.random.random() < 0.2 else ""
        name = self.random.choice([f"neg{ftz}", f"abs{ftz}", "copysign"])
        more = f", {self.operand(letter)}" if name == "copysign" else ""
        self.guarded(to, f"{name}.{kind} {to}, {a}{more};")

    def convert(self) -> None:
        """From a floating-point type to one."""
        chosen = self.random
        ftz, sat = ".ftz" * (chosen.random() < 0.25), ".sat" * (chosen.random() < 0.15)
        match chosen.randrange(4):
            case 0:
                to, a = self.target("g"), self.some("f")
                self.guarded(to, f"cvt{ftz}{sat}.f64.f32 {to}, {a};")
            case 1:
                to, a = self.target("f"), self.some("g")
                self.guarded(to, f"cvt.{chosen.choice(_MODES)}{ftz}{sat}.f32.f64 {to}, {a};")
            case 2:
                to, a = self.target("g"), self.some("g")
                self.guarded(to, f"cvt.{chosen.choice(_WHOLE)}{sat}.f64.f64 {to}, {a};")
            case _:
                to, a = self.target("f"), self.some("f")
                way = chosen.choice(["", *(f".{one}" for one in _WHOLE)])
                self.guarded(to, f"cvt{way}{ftz}{sat}.f32.f32 {to}, {a};")

    def to_integer(self) -> None:
        letter, kind = self.kind()
        chosen = self.random
        sign, bits = chosen.choice("su"), chosen.choice((8, 16, 32, 32, 32, 64))
        to = self.target({8: chosen.choice("hr"), 16: chosen.choice("hr"), 32: "r", 64: "d"}[bits])
        ftz = ".ftz" if kind == "f32" and chosen.random() < 0.2 else ""
        sat = ".sat" * (chosen.random() < 0.1)
        way = chosen.choice(_WHOLE)
        self.guarded(to, f"cvt.{way}{ftz}{sat}.{sign}{bits}.{kind} {to}, {self.some(letter)};")

    def from_integer(self) -> None:
        letter, kind = self.kind()
        chosen = self.random
        bits = chosen.choice((8, 16, 32, 32, 64))
        of = self.some({8: chosen.choice("hrd"), 16: "h", 32: chosen.choice("rrd"), 64: "d"}[bits])
        to, mode = self.target(letter), chosen.choice(_MODES)
        sat = ".sat" * (chosen.random() < 0.1)
        if bits <= 32 and chosen.random() < 0.1:
            of = str(chosen.randrange(100))
        self.guarded(to, f"cvt.{mode}{sat}.{kind}.{chosen.choice('su')}{bits} {to}, {of};")

    def bits(self) -> None:
        """Moves between registers of numbers and of integers, and what integers make of bits."""
        chosen = self.random
        match chosen.randrange(9):
            case 0:
                to = self.target("r")
                self.guarded(to, f"mov.b32 {to}, {self.some('f')};")
            case 1:
                to = self.target("f")
                self.guarded(to, f"mov.b32 {to}, {self.some('r')};")
            case 2:
                to = self.target("g")
                self.guarded(to, f"mov.b64 {to}, {self.some('d')};")
            case 3:
                to = self.target("d")
                self.guarded(to, f"mov.b64 {to}, {self.some('g')};")
            case 4:
                low, high = self.new("r"), self.new("f")
                self.emit(f"mov.b64 {{{low}, {high}}}, {self.some(chosen.choice('dg'))};")
                self.has(low)
                self.has(high)
            case 5:
                to = self.target(chosen.choice("dg"))
                self.guarded(to, f"mov.b64 {to}, {{{self.some('r')}, {self.some('f')}}};")
            case 6:
                low, high = self.new("h"), self.new("h")
                self.emit(f"mov.b32 {{{low}, {high}}}, {self.some(chosen.choice('rf'))};")
                self.has(low)
                self.has(high)
            case _:
                to, a = self.target("r"), self.some("r")
                name, most = chosen.choice(
                    [
                        ("add.s32", 4),
                        ("sub.s32", 4),
                        ("and.b32", 15),
                        ("shr.u32", 31),
                        ("min.s32", 9),
                        ("max.s32", 3),
                        ("min.u32", 9),
                        ("xor.b32", 1 << 31),
                    ]
                )
                self.guarded(to, f"{name} {to}, {a}, {chosen.randint(most // 2, most)};")

    def half(self) -> None:
        """Numbers of 16 bits, alone and in pairs."""
        chosen, h, r = self.random, self.target("h"), self.target("r")
        kind = chosen.choice(["f16", "bf16"])
        f = self.target("f")
        texts = [
            (h, f"cvt.rn.{kind}.f32 {h}, {self.some('f')};"),
            (h, f"cvt.rz.f16.f32 {h}, {self.some('f')};"),
            (h, f"cvt.rn.f16.s32 {h}, {self.some('r')};"),
            (f, f"cvt.f32.{kind} {f}, {self.some('h')};"),
            (r, f"cvt.rn.{kind}x2.f32 {r}, {self.some('f')}, {self.some('f')};"),
            (r, f"cvt.rzi.s32.f16 {r}, {self.some('h')};"),
            (h, f"add.rn.f16 {h}, {self.some('h')}, {self.some('h')};"),
            (r, f"fma.rn.f16x2 {r}, {self.some('r')}, {self.some('r')}, {self.some('r')};"),
            (r, f"max.{kind}x2 {r}, {self.some('r')}, {self.some('r')};"),
            (r, f"cvt.rna.tf32.f32 {r}, {self.some('f')};"),
            (f, f"cvt.rna.tf32.f32 {r}, {self.some('f')}; mov.b32 {f}, {r};"),
        ]
        self.guarded(*chosen.choice(texts))

    def approximate(self) -> None:
        to, a, b = self.target("f"), self.some("f"), self.some("f")
        name = self.random.choice(
            [
                "rcp.approx",
                "sqrt.approx",
                "rsqrt.approx",
                "ex2.approx",
                "lg2.approx",
                "sin.approx",
                "tanh.approx",
                "div.approx",
                "div.full",
                "rcp.approx.ftz",
                "sqrt.approx.ftz",
            ]
        )
        more = f", {b}" if name.startswith("div") else ""
        self.guarded(to, f"{name}.f32 {to}, {a}{more};")

    def choose(self) -> None:
        letter, kind = self.kind()
        chosen, to = self.random, self.target(letter)
        a, b = self.some(letter), self.some(letter)
        if self.pool["p"] and chosen.random() < 0.5:
            self.guarded(to, f"selp.{kind} {to}, {a}, {b}, {self.some('p')};")
            return
        by = chosen.choice([f"s32 {to}, {a}, {b}, {self.some('r')}", ""])
        if not by:
            ftz = ".ftz" * (chosen.random() < 0.3)
            self.guarded(to, f"slct{ftz}.{kind}.f32 {to}, {a}, {b}, {self.some('f')};")
        else:
            self.guarded(to, f"slct.{kind}.{by};")

    def compare(self) -> None:
        chosen, to = self.random, self.target("p")
        if chosen.random() < 0.4:
            name = chosen.choice(["lt", "ge", "eq", "ne"])
            self.emit(f"setp.{name}.s32 {to}, {self.some('r')}, {chosen.randrange(-1, 5)};")
        else:
            letter, kind = self.kind()
            names = ["lt", "le", "gt", "ge", "eq", "ne", "ltu", "geu", "equ", "num", "nan"]
            ftz = ".ftz" if kind == "f32" and chosen.random() < 0.2 else ""
            operands = f"{self.some(letter)}, {self.operand(letter)}"
            self.emit(f"setp.{chosen.choice(names)}{ftz}.{kind} {to}, {operands};")
        self.has(to)

    def product_and_sum(self) -> None:
        """A product and a sum that may be fused: that is what is executed as well."""
        letter, kind = self.kind()
        chosen = self.random
        a, b, c = self.some(letter), self.operand(letter), self.operand(letter)
        product, to = self.new(letter), self.new(letter)
        ftz = ".ftz" if kind == "f32" and chosen.random() < 0.3 else ""
        self.emit(f"mul{ftz}.{kind} {product}, {a}, {b};")
        operands = f"{product}, {c}" if chosen.random() < 0.5 else f"{c}, {product}"
        self.emit(f"add{ftz}.{kind} {to}, {operands};", f"fma.rn{ftz}.{kind} {to}, {a}, {b}, {c};")
        self.has(product)
        self.has(to)

    def load(self) -> None:
        chosen = self.random
        f, g = self.target("f"), self.target("g")
        place = 4 * chosen.randrange(WORDS - 1)
        texts = [
            (f, f"ld.global.f32 {f}, [%own+{place}];"),
            (g, f"ld.global.f64 {g}, [%own+{place & ~7}];"),
            (f, f"ld.const.f32 {f}, [table+{place}];"),
            (g, f"ld.const.f64 {g}, [table+{place & ~7}];"),
            (f, f"ld.const.f32 {f}, [%at];"),
            (f, f"ld.param.f32 {f}, [s];"),
            (g, f"ld.param.f64 {g}, [t];"),
            (f, f"ld.param.b32 {f}, [t+4];"),
        ]
        self.guarded(*chosen.choice(texts))

    def keep(self) -> None:
        """Through memory: into a variable of the thread or of the block, and back."""
        chosen = self.random
        f, other = self.some("f"), self.target(chosen.choice("fr"))
        name = chosen.choice(["mine", "ours"])
        space = {"mine": "local", "ours": "shared"}[name]
        self.emit(f"st.{space}.f32 [{name}], {f};")
        self.guarded(other, f"ld.{space}.b32 {other}, [{name}];")

    # --- control ----------------------------------------------------------------------------------

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def several(self, depth: int, most: int) -> None:
        for _ in range(self.random.randint(1, most)):
            chance = self.random.random()
            if depth and chance < 0.06:
                self.branch(depth - 1)
            elif depth and chance < 0.16:
                self.loop(depth - 1)
            else:
                self.statement()

    def branch(self, depth: int) -> None:
        self.compare()
        other, end = self.label(), self.label()
        self.emit(f"@{self.some('p')} bra {other};")
        self.several(depth, 3)
        self.emit(f"bra {end};")
        self.emit(f"{other}:")
        self.several(depth, 3)
        self.emit(f"{end}:")

    def loop(self, depth: int) -> None:
        """So often as a number says, or with a number that counts."""
        chosen = self.random
        again, end = self.label(), self.label()
        p, q = self.new("p"), self.new("p")
        if chosen.random() < 0.2:
            x, step = self.new("f"), chosen.choice((0.1, 0.5, 1.0, 3.0))
            i = self.new("r")
            self.emit(f"mov.f32 {x}, {self.operand('f')}; mov.u32 {i}, 0;")
            self.emit(f"{again}:")
            self.several(depth, 2)
            mode = chosen.choice(["", ".rn", ".rz"])
            self.emit(f"add{mode}.f32 {x}, {x}, {step}; add.s32 {i}, {i}, 1;")
            self.emit(f"setp.lt.f32 {p}, {x}, {self.literal(32)};")
            self.emit(f"setp.lt.and.s32 {p}, {i}, {chosen.randint(1, 5)}, {p};")
            self.emit(f"@{p} bra {again};")
            self.has(x)
            return
        n, i = self.limit(), self.new("r")
        self.emit(f"mov.u32 {i}, 0; setp.ge.s32 {p}, {i}, {n}; @{p} bra {end};")
        self.emit(f"{again}:")
        self.several(depth, 3)
        self.emit(f"add.s32 {i}, {i}, 1; setp.lt.s32 {q}, {i}, {n}; @{q} bra {again};")
        self.emit(f"{end}:")

    def limit(self) -> str:
        """A count that is not changed afterwards: known, converted, or of bits."""
        chosen, n = self.random, self.new("r")
        last = self.some("f")
        if chosen.random() < 0.25:
            self.emit(f"mov.u32 {n}, {chosen.randrange(4)};")
            return n
        if chosen.random() < 0.75:
            low, high = self.new("f"), self.new("f")
            ends = chosen.choice((0.0, -2.0, 1.0, -0.0)), chosen.choice((3.0, 5.5, 2.4999, 7.0))
            first, then = [("max", ends[0]), ("min", ends[1])][:: chosen.choice((1, -1))]
            ftz = chosen.choice(["", ".ftz"])
            self.emit(f"{first[0]}{ftz}.f32 {low}, {last}, 0f{bits_of(first[1], 32):08X};")
            self.emit(f"{then[0]}.f32 {high}, {low}, 0f{bits_of(then[1], 32):08X};")
            last = high
            if chosen.random() < 0.3:
                self.has(low)
                self.has(high)
            if chosen.random() < 0.2:
                last = self.new("f")
                name = chosen.choice(["mul.rn", "add.rp", "sub.rz", "add", "mul", "div.rn"])
                self.emit(f"{name}.f32 {last}, {high}, {chosen.choice(['1.5', '0.75', '-1.0'])};")
        chance = chosen.random()
        if chance < 0.1:
            self.emit(f"mov.b32 {n}, {last}; shr.u32 {n}, {n}, {chosen.randint(21, 28)};")
        elif chance < 0.2:
            g = self.new("g")
            self.emit(f"cvt.f64.f32 {g}, {last}; cvt.{chosen.choice(_WHOLE)}.s32.f64 {n}, {g};")
        else:
            kind = chosen.choice(["s32", "s32", "u32", "s16", "u16", "s8", "u8"])
            self.emit(f"cvt.{chosen.choice(_WHOLE)}.{kind}.f32 {n}, {last};")
        if chosen.random() < 0.2:
            self.emit(f"min.{chosen.choice('su')}32 {n}, {n}, 6;")
        return n

    def decide(self) -> None:
        """Branches on the bits of all registers: of what decides nothing the walk knows nothing."""
        bits, p, label = self.new("r"), self.new("p"), self.label()
        self.emit(f"mov.u32 {bits}, 0;")
        for name in (*self.pool["f"], *self.pool["r"]):
            self.emit(f"mov.b32 %bits, {name}; xor.b32 {bits}, {bits}, %bits;")
        for name in (*self.pool["g"], *self.pool["d"]):
            self.emit(f"mov.b64 {{%bits, %more}}, {name}; xor.b32 {bits}, {bits}, %bits;")
            self.emit(f"xor.b32 {bits}, {bits}, %more;")
        self.emit(f"setp.eq.s32 {p}, {bits}, 0; @{p} bra {label};")
        self.emit(f"{label}:")


def random_kernel(seed: int) -> FloatKernel:
    """A kernel that follows from its seed."""
    random = Random(f"floats {seed}")
    w = _Writer(random)
    block = random.choice(_BLOCKS)
    for text in (
        "ld.param.u64 %base, [data]; mov.u32 %i, %tid.x; mad.wide.u32 %own, %i, 64, %base;",
        "mov.u64 %at, table; mad.wide.u32 %at, %i, 4, %at;",
        "ld.param.f32 %f1, [s]; ld.param.f64 %g1, [t]; ld.param.u32 %r1, [n]; mov.b32 %r2, %i;",
        "ld.global.f32 %f2, [%own]; cvt.rn.f32.u32 %f3, %i; mov.u64 %d1, 3; mov.b16 %h1, 2;",
        "cvt.rn.f32.s32 %f4, %r1; cvt.rn.f64.s32 %g2, %r1; ld.const.f32 %f5, [table];",
        "setp.eq.u32 %p1, %i, 1;",
    ):
        w.emit(text)
    w.count.update({"f": 5, "g": 2, "r": 2, "d": 1, "h": 1, "p": 1})
    for letter in w.count:
        for number in range(1, w.count[letter] + 1):
            w.has(f"%{letter}{number}")
    w.several(2, 9)
    w.loop(1)
    if random.random() < 0.4:
        w.several(1, 4)
        w.loop(0)
    w.decide()
    w.emit("setp.eq.s32 %p1, %i, 9; @%p1 bra END;")
    w.emit("END:")
    kinds = {"f": "f32", "g": "f64", "r": "b32", "d": "b64", "h": "b16", "p": "pred"}
    registers = " ".join(f".reg .{kinds[one]} %{one}<{w.count[one] + 1}>;" for one in kinds)
    head = (
        f".version 8.1\n.target sm_90\n.address_size 64\n.const .align 8 .b32 table[{WORDS}];\n"
        ".visible .entry k(.param .u64 data, .param .f32 s, .param .f64 t, .param .s32 n)\n{\n"
        f"{registers}\n.reg .b64 %base, %own, %at; .reg .b32 %i, %bits, %more;\n"
        ".local .align 4 .b32 mine; .shared .align 4 .b32 ours;\n"
    )
    texts = [head + "\n".join(lines) + "\nret;\n}\n" for lines in (w.lines, w.executed)]
    parameters: dict[str, int | float] = {}
    ranges: dict[str, tuple[int, int]] = {}
    if random.random() < 0.7:
        parameters["s"] = w.number()
    if random.random() < 0.6:
        parameters["t"] = w.number()
    if random.random() < 0.5:
        parameters["n"] = random.choice((0, 1, 3, 5, -1, -3, 12, 2**31 - 1, 2**24 + 1))
    elif random.random() < 0.6:
        low = random.choice((-3, 0, 0, 1, -(2**31), 2**24 - 1))
        ranges["n"] = low, low + random.choice((1, 2, 7, 40, 2**20))
    constants = {}
    if random.random() < 0.6:
        constants["table"] = b"".join(
            bits_of(w.number(), 32).to_bytes(4, "little") for _ in range(WORDS)
        )
    launch = Launch(block, parameters=parameters, ranges=ranges, constants=constants)
    return FloatKernel(seed, *texts, launch)


def kernel_of(text: str) -> Kernel:
    """The kernel of a text."""
    return parse_module(SourceFile("k.ptx", text)).kernels[0]


@dataclass
class Outcome:
    """The code of a refusal, if it is one, how many visits were held to the walk, what is false."""

    code: str = ""
    checked: int = 0
    wrong: str = ""


def held(one: FloatKernel, executions: int) -> Outcome:
    """Analyses a kernel and holds so many executions of each of its texts to what is said."""
    recorder, kernel = Recorder(), kernel_of(one.text)
    try:
        with recorder.installed(), explorations() as explored:
            prepared = prepare_kernel(kernel, one.launch, machine())
    except PtxwcetError as error:
        return Outcome(error.diagnostics[0].code)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rsplit('/', 1)[-1]}:{place.lineno}"
        return Outcome(wrong=f"internal error: {type(error).__name__}: {error} at {where}")
    blocks = {block.start: block.id for block in prepared.cfg.blocks[:-1]}
    oracle, checker = Oracle(recorder.walks, blocks), Checker(prepared, explored)
    kernels: Sequence[Kernel] = [kernel, *([kernel_of(one.fused)] if one.fused != one.text else [])]
    found = Outcome()
    for given in inputs(one.launch, one.seed, executions, MOST):
        given = replace(given, profile="numbers" if given.seed % 3 else given.profile)
        for number, executed in enumerate(kernels):
            oracle.begin()
            run = execute(executed, given, oracle)
            found.checked = oracle.checked
            violation = checker.check(run, given)
            if oracle.missing or violation is not None:
                found.wrong = f"{violation or oracle.missing[0]} ({given}, text {number})"
                return found
    return found


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--executions", type=int, default=4)
    options = parser.parse_args()
    codes: Counter[str] = Counter()
    checked = wrong = 0
    for seed in range(options.seed, options.seed + options.kernels):
        found = held(random_kernel(seed), options.executions)
        codes[found.code or "bounded"] += 1
        checked += found.checked
        if found.wrong:
            wrong += 1
            print(f"{seed}: {found.wrong}", flush=True)
    shown = ", ".join(f"{count} {code}" for code, count in codes.most_common())
    print(f"{options.kernels} kernels ({shown}), {checked} visits compared, {wrong} false")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
