"""Random kernels that access memory: addresses of every kind, in every space and width.

A kernel follows from a seed. What an address is computed from, and how, is drawn; every access is
within its array and aligned, by construction or by a mask, so that every run is complete.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.launch import Dim3

SIZES = {"global": 65_536, "shared": 8_192, "local": 256, "const": 4_096}  # bytes, powers of two
_MOST = 1 << 30
_BLOCKS: Sequence[Dim3] = ((32, 1, 1), (64, 1, 1), (100, 1, 1), (16, 4, 1), (8, 8, 1))
_GRIDS: Sequence[Dim3] = ((1, 1, 1), (3, 1, 1), (5, 1, 1))
_CROSSED: Sequence[Dim3] = (
    *((25, 3, 1), (7, 5, 1), (7, 5, 3), (33, 2, 1), (5, 13, 1), (3, 3, 11)),
    *((31, 1, 1), (48, 2, 1), (32, 1, 1), (16, 4, 1)),
)

_TEXT = """.version 8.6
.target sm_100a
.address_size 64
.const .align {align} .b8 table[4096];
.visible .entry k(.param .u64 data, .param .u64 out, .param .u32 n, .param .u32 m)
{{
.shared .align {align} .b8 tile[8192];
.local .align {align} .b8 own[256];
.reg .pred %p<{count}>;
.reg .b16 %h<{count}>;
.reg .b32 %r<{count}>;
.reg .b64 %d<{count}>;
ld.param.u64 %d1, [data];
ld.param.u64 %d2, [out];
ld.param.u32 %r1, [n];
ld.param.u32 %r2, [m];
mov.u32 %r3, %tid.x;
mov.u32 %r4, %tid.y;
mov.u32 %r5, %ctaid.x;
mov.u32 %r6, %laneid;
mov.u32 %r7, %ntid.x;
mad.lo.u32 %r8, %r5, %r7, %r3;
mul.wide.u32 %d3, %r3, 4;
add.u64 %d3, %d1, %d3;
ld.global.u32 %r9, [%d3];
and.b32 %r9, %r9, 31;
{body}
cp.async.wait_all;
ret;
}}
"""


@dataclass(frozen=True)
class AccessKernel:
    """A kernel and a launch of it. ``parameters`` are the scalars as the command line has them, and
    ``says_grid`` whether that has the grid.
    """

    seed: int
    text: str
    block: Dim3
    grid: Dim3
    parameters: tuple[str, ...]
    n: int
    m: int
    features: frozenset[str] = field(default_factory=frozenset)
    says_grid: bool = True

    def launch(self) -> EmulatedLaunch:
        """The launch with random data."""
        rng = np.random.default_rng(self.seed)
        words = SIZES["global"] // 4
        data = rng.integers(0, 2**32, words, dtype=np.uint64).astype(np.uint32)
        out = np.zeros(words, dtype=np.uint32)
        return EmulatedLaunch(self.block, self.grid, (data, out, self.n, self.m))


def access_kernel(seed: int) -> AccessKernel:
    """The kernel of a seed."""
    return _Writer(random.Random(f"accesses {seed}"), seed).kernel()


def open_access_kernel(seed: int) -> AccessKernel:
    """The kernel of a seed with blocks whose warps cross rows, and of which less is said: a range
    of a parameter or nothing, and not always the grid.
    """
    rng = random.Random(f"open accesses {seed}")
    one = _Writer(rng, seed, _CROSSED, ((1, 1, 1), (3, 1, 1), (5, 1, 1), (2, 2, 1))).kernel()
    ranges = (
        f"n={max(0, one.n - rng.randrange(5))}..{one.n + rng.choice((0, 1, 100))}",
        f"m={rng.randrange(one.m + 1)}..{one.m}",
    )
    said = rng.choice((one.parameters, ranges, one.parameters[:1], ()))
    return replace(one, parameters=said, says_grid=rng.random() < 0.7)


@dataclass(frozen=True)
class _Value:
    """A 32-bit register that holds 0 .. most."""

    name: str
    most: int


class _Writer:
    def __init__(
        self,
        rng: random.Random,
        seed: int,
        blocks: Sequence[Dim3] = _BLOCKS,
        grids: Sequence[Dim3] = _GRIDS,
    ) -> None:
        self.rng, self.seed = rng, seed
        self.lines: list[str] = []
        self.features: set[str] = set()
        self.registers = 10
        self.labels = 0
        self.block, self.grid = rng.choice(blocks), rng.choice(grids)
        self.n, self.m = rng.randrange(1, 40), rng.randrange(1, 9)
        threads = self.block[0] * self.block[1] * self.block[2]
        self.leaves = [
            _Value("%r3", self.block[0] - 1),
            _Value("%r3", self.block[0] - 1),
            _Value("%r4", self.block[1] - 1),
            _Value("%r5", self.grid[0] - 1),
            _Value("%r6", 31),
            _Value("%r8", self.grid[0] * self.block[0] - 1),
            _Value("%r1", self.n),
            _Value("%r2", self.m),
        ]
        self.whole_warps = threads % 32 == 0
        self.guard = ""

    def kernel(self) -> AccessKernel:
        for _ in range(self.rng.randint(2, 6)):
            self.statement(0)
        align = self.rng.choice((16, 64, 256))
        text = _TEXT.format(count=self.registers + 1, body="\n".join(self.lines), align=align)
        said = (f"n={self.n}", f"m={self.m}")
        features = frozenset(self.features)
        return AccessKernel(self.seed, text, self.block, self.grid, said, self.n, self.m, features)

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def new(self) -> int:
        self.registers += 1
        return self.registers

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    # statements

    def statement(self, depth: int) -> None:
        kind = self.rng.random()
        if depth < 2 and kind < 0.15:
            self.loop(depth)
        elif depth < 2 and kind < 0.27:
            self.branch(depth)
        elif depth == 0 and self.whole_warps and kind < 0.33:
            self.matrix()
        elif kind < 0.41:
            self.copy()
        else:
            self.access()

    def loop(self, depth: int) -> None:
        """A counter up to n, m or a literal; sometimes a pointer that moves with it."""
        self.features.add("loop")
        limit, most = self.rng.choice((("%r1", self.n), ("%r2", self.m), ("5", 5)))
        step = self.rng.choice((1, 1, 2, 3))
        counter, begin, predicate = self.new(), self.label(), self.new()
        self.emit(f"mov.u32 %r{counter}, 0;")
        pointer = None
        if self.rng.random() < 0.4:
            pointer = self.new()
            stride = 4 * self.rng.choice((1, 8, 32, 33, 100))
            self.features.add("moving pointer")
            self.emit(f"mul.wide.u32 %d{pointer}, %r6, {4 * self.rng.choice((1, 2, 32))};")
            self.emit(f"add.u64 %d{pointer}, %d{pointer}, %d1;")
        self.emit(f"{begin}:")
        self.leaves.append(_Value(f"%r{counter}", most))
        for _ in range(self.rng.randint(1, 2)):
            self.statement(depth + 1)
        self.leaves.pop()
        if pointer is not None:
            self.emit(f"ld.global.u32 %r{self.new()}, [%d{pointer}];")
            self.emit(f"add.s64 %d{pointer}, %d{pointer}, {stride};")
        self.emit(f"add.u32 %r{counter}, %r{counter}, {step};")
        self.emit(f"setp.lt.u32 %p{predicate}, %r{counter}, {limit};")
        self.emit(f"@%p{predicate} bra {begin};")

    def branch(self, depth: int) -> None:
        self.features.add("branch")
        end, predicate = self.label(), self.predicate()
        self.emit(f"@{predicate} bra {end};")
        for _ in range(self.rng.randint(1, 2)):
            self.statement(depth + 1)
        self.emit(f"{end}:")

    def predicate(self) -> str:
        """Of lanes, of parameters or of data."""
        name = f"%p{self.new()}"
        kind = self.rng.choice(("lt", "ge", "eq", "ne"))
        source = "%r9" if self.rng.random() < 0.2 else self.rng.choice(self.leaves).name
        if source == "%r9":
            self.features.add("predicate of data")
        self.emit(f"setp.{kind}.u32 {name}, {source}, {self.rng.randrange(20)};")
        return self.rng.choice(("", "!")) + name

    def access(self) -> None:
        rng = self.rng
        space = rng.choice(("global", "global", "global", "shared", "shared", "local", "const"))
        kind = rng.choice(("ld", "ld", "st", "atom", "red"))
        if space in ("local", "const") and kind != "ld":
            kind = "ld" if space == "const" else "st"
        guard = f"@{self.predicate()} " if rng.random() < 0.2 else ""
        form, width = self.form(kind)
        address, named = self.address(space, width)
        self.features |= {named, f"{named} {width}", kind}
        name = "" if named == "generic" else f".{named}"
        self.emit(guard + form.format(space=name, at=address))

    def form(self, kind: str) -> tuple[str, int]:
        """A statement with places for space and address, and its bytes a lane."""
        rng, r = self.rng, self.new()
        if kind == "atom":
            return rng.choice(
                (
                    (f"atom{{space}}.add.u32 %r{r}, [{{at}}], 1;", 4),
                    (f"atom{{space}}.exch.b64 %d{r}, [{{at}}], %d1;", 8),
                    (f"atom{{space}}.cas.b16 %h{r}, [{{at}}], %h1, %h2;", 2),
                )
            )
        if kind == "red":
            return rng.choice(
                (("red{space}.add.u32 [{at}], 1;", 4), ("red{space}.max.s64 [{at}], %d1;", 8))
            )
        elements = rng.choice((1, 1, 1, 2, 4))
        bits = rng.choice((8, 16, 32, 32, 32, 64) if elements == 1 else (8, 16, 32, 32))
        if elements == 2 and rng.random() < 0.3:
            bits = 64
        letter = {8: "h", 16: "h", 32: "r", 64: "d"}[bits]
        names = [f"%{letter}{r if kind == 'ld' else 1}" for _ in range(elements)]
        if kind == "ld":
            names = [f"%{letter}{self.new()}" for _ in range(elements)]
        vector = names[0] if elements == 1 else "{{" + ", ".join(names) + "}}"
        suffix = "" if elements == 1 else f".v{elements}"
        if kind == "ld":
            return f"ld{{space}}{suffix}.b{bits} {vector}, [{{at}}];", elements * bits // 8
        return f"st{{space}}{suffix}.b{bits} [{{at}}], {vector};", elements * bits // 8

    def copy(self) -> None:
        rng = self.rng
        width = rng.choice((4, 8, 16))
        to, _ = self.address("shared", width, "shared")
        source, _ = self.address("global", width, "global")
        self.features |= {"cp.async", f"cp.async {width}"}
        self.emit(f"cp.async.ca.shared.global [{to}], [{source}], {width};")

    def matrix(self) -> None:
        count = self.rng.choice((1, 2, 4))
        at, _ = self.address("shared", 16, "shared")
        names = ", ".join(f"%r{self.new()}" for _ in range(count))
        self.features.add("ldmatrix")
        form = f"m8n8.x{count}.shared.b16"
        if count > 1 and self.seed % 2:  # as many rows and registers
            form = f"m16n16.x{count // 2}.trans.shared.b8"
            self.features.add("ldmatrix of bytes")
        self.emit(f"ldmatrix.sync.aligned.{form} {{{names}}}, [{at}];")

    # addresses

    def address(self, space: str, width: int, named: str | None = None) -> tuple[str, str]:
        """The address of an element that is drawn, and the space that the statement names."""
        rng = self.rng
        value, displaced = self.expression(rng.randint(0, 3)), 0
        elements = SIZES[space] // width
        room = elements - 1 - value.most
        if room >= 1 and rng.random() < 0.4:
            displaced = width * rng.randint(1, min(room, 40))
        if room < 0:
            value = self.cut(value, elements)
        generic = named is None and space != "const" and rng.random() < 0.15
        place = self.new()
        base = {"global": rng.choice(("%d1", "%d2")), "shared": "tile", "local": "own"}.get(
            space, "table"
        )
        if space == "global" or generic or rng.random() < 0.5:
            self.scaled(place, value, width)
            if space != "global":
                start = self.new()
                self.emit(f"mov.u64 %d{start}, {base};")
                if generic:
                    self.emit(f"cvta.{space}.u64 %d{start}, %d{start};")
                base = f"%d{start}"
            self.emit(f"add.s64 %d{place}, %d{place}, {base};")
            at = f"%d{place}"
        else:
            start = self.new()
            self.emit(f"mov.u32 %r{start}, {base};")
            self.emit(f"mad.lo.u32 %r{place}, {value.name}, {width}, %r{start};")
            at = f"%r{place}"
        return at + (f"+{displaced}" if displaced else ""), "generic" if generic else space

    def scaled(self, place: int, value: _Value, width: int) -> None:
        """%d of a place: the value times the width, in one of several ways."""
        kind = self.rng.randrange(3)
        if kind == 0:
            self.emit(f"mul.wide.u32 %d{place}, {value.name}, {width};")
        elif kind == 1 and value.most < 2**31:
            self.emit(f"mul.wide.s32 %d{place}, {value.name}, {width};")
        else:
            self.emit(f"cvt.u64.u32 %d{place}, {value.name};")
            self.emit(f"shl.b64 %d{place}, %d{place}, {width.bit_length() - 1};")

    def cut(self, value: _Value, elements: int) -> _Value:
        name = f"%r{self.new()}"
        self.features.add("cut")
        if self.rng.random() < 0.7:
            self.emit(f"and.b32 {name}, {value.name}, {elements - 1};")
        else:
            self.emit(f"rem.u32 {name}, {value.name}, {elements};")
        return _Value(name, elements - 1)

    def expression(self, depth: int) -> _Value:
        rng = self.rng
        if depth == 0:
            if rng.random() < 0.08:
                self.features.add("data")
                return _Value("%r9", 31)
            return rng.choice(self.leaves)
        a = self.expression(depth - 1)
        name = f"%r{self.new()}"
        kind = rng.randrange(12)
        if kind < 3:
            factor = rng.choice((2, 3, 4, 5, 8, 16, 31, 32, 33, 64))
            if a.most * factor > _MOST:
                return a
            self.emit(f"mul.lo.u32 {name}, {a.name}, {factor};")
            return _Value(name, a.most * factor)
        if kind < 6:
            b = self.expression(rng.randint(0, depth - 1))
            if a.most + b.most > _MOST:
                return a
            self.emit(f"add.u32 {name}, {a.name}, {b.name};")
            return _Value(name, a.most + b.most)
        if kind == 6:
            shift = rng.randint(1, 6)
            if a.most << shift > _MOST:
                return a
            self.emit(f"shl.b32 {name}, {a.name}, {shift};")
            return _Value(name, a.most << shift)
        if kind == 7:
            mask = rng.choice((1, 3, 7, 15, 31, 28, 60))
            self.emit(f"and.b32 {name}, {a.name}, {mask};")
            return _Value(name, min(a.most, mask))
        if kind == 8:
            shift = rng.randint(1, 5)
            self.emit(f"shr.u32 {name}, {a.name}, {shift};")
            return _Value(name, a.most >> shift)
        if kind == 9:
            number = rng.choice((1, 2, 5, 16, 31))
            self.emit(f"xor.b32 {name}, {a.name}, {number};")
            return _Value(name, (1 << max(a.most, number).bit_length()) - 1)
        if kind == 10:
            most = a.most + rng.randrange(20)
            self.emit(f"sub.u32 {name}, {most}, {a.name};")
            return _Value(name, most)
        return self.odd(a, name)

    def odd(self, a: _Value, name: str) -> _Value:
        """What rarely stands in an address: narrow or wrapping sums, choices, remainders."""
        rng = self.rng
        kind = rng.randrange(5)
        if kind == 0:
            self.features.add("wrap")
            far = 2**32 - rng.randrange(1, 40)
            self.emit(f"add.u32 {name}, {a.name}, {far};")
            return _Value(name, 2**32 - 1)
        if kind == 1:
            self.features.add("narrow")
            half = self.new()
            self.emit(f"cvt.u16.u32 %h{half}, {a.name};")
            self.emit(f"add.u16 %h{half}, %h{half}, {rng.choice((1, 65_530, 65_535))};")
            self.emit(f"cvt.u32.u16 {name}, %h{half};")
            return _Value(name, 65_535)
        if kind == 2:
            b = rng.choice(self.leaves)
            predicate = self.predicate().lstrip("!")
            self.features.add("choice")
            self.emit(f"selp.b32 {name}, {a.name}, {b.name}, {predicate};")
            return _Value(name, max(a.most, b.most))
        if kind == 3:
            number = rng.choice((3, 5, 7, 12, 32))
            self.emit(f"rem.u32 {name}, {a.name}, {number};")
            return _Value(name, number - 1)
        self.emit(f"min.u32 {name}, {a.name}, {rng.choice((4, 17, 31))};")
        return _Value(name, a.most)
