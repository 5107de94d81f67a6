"""Random kernels whose addresses are counted: nests of loops in which registers begin anew, are
added to, and are moved to one another at any place, also before they have been added to again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.launch import Dim3

WORDS = 1 << 20
_MIDDLE = WORDS * 2  # bytes

_TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data, .param .u32 width)
{{
.reg .pred %p<{count}>;
.reg .b32 %r<{count}>;
.reg .b64 %d<{count}>;
ld.param.u64 %d2, [data];
cvta.to.global.u64 %d3, %d2;
add.s64 %d1, %d3, {middle};
ld.param.u32 %r1, [width];
mov.u32 %r2, %tid.x;
mov.u32 %r3, %tid.y;
mov.u32 %r4, %ctaid.x;
mov.u32 %r5, %ntid.x;
mad.lo.s32 %r6, %r4, %r5, %r2;
mad.lo.s32 %r7, %r3, %r1, %r6;
{begin}
{body}
ret;
}}
"""


@dataclass(frozen=True)
class CountingKernel:
    """A kernel and a launch of it."""

    seed: int
    text: str
    block: Dim3
    grid: Dim3
    width: int

    def launch(self) -> EmulatedLaunch:
        data = np.zeros(WORDS, dtype=np.uint32)
        return EmulatedLaunch(self.block, self.grid, (data, self.width))


def counting_kernel(seed: int) -> CountingKernel:
    """The kernel of a seed."""
    return _Writer(seed).kernel()


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng, self.seed = random.Random(f"counting {seed}"), seed
        self.lines: list[str] = []
        self.fresh = 20  # registers of each kind from here on
        self.indices = [f"%r{n}" for n in range(10, 13)]
        self.pointers = [f"%d{n}" for n in range(10, 13)]
        self.block = self.rng.choice(((32, 1, 1), (16, 4, 1), (24, 2, 1)))
        self.grid = self.rng.choice(((1, 1, 1), (2, 1, 1), (3, 1, 1)))
        self.width = self.rng.choice((16, 40, 64, 100))

    def kernel(self) -> CountingKernel:
        begin = [f"mov.u32 {one}, {self._start()};" for one in self.indices]
        begin += [f"add.s64 {one}, %d1, {4 * self.rng.randrange(99)};" for one in self.pointers]
        for _ in range(self.rng.randint(1, 5)):
            self._statement(0)
        self._loop(0)
        text = _TEXT.format(
            count=self.fresh, middle=_MIDDLE, begin="\n".join(begin), body="\n".join(self.lines)
        )
        return CountingKernel(self.seed, text, self.block, self.grid, self.width)

    def _start(self) -> str:
        return self.rng.choice(("0", "7", "%r2", "%r3", "%r6", "%r7"))

    def _new(self) -> int:
        self.fresh += 1
        return self.fresh - 1

    def _statement(self, depth: int) -> None:
        kinds = [self._access, self._access, self._add, self._add, self._move, self._anew]
        if depth < 3:
            kinds += [lambda: self._loop(depth), lambda: self._branch(depth)]
            kinds += [lambda: self._loop(depth)] * (depth == 0)
        self.rng.choice(kinds)()

    def _access(self) -> None:
        if self.rng.random() < 0.5:
            number = self._new()
            index = self.rng.choice(self.indices)
            if self.rng.random() < 0.3:
                self.lines.append(f"add.s32 %r{number}, {index}, {self.rng.choice(self.indices)};")
                index = f"%r{number}"
            size = self.rng.choice((4, 4, 8))
            self.lines += [
                f"mul.wide.s32 %d{number}, {index}, {size};",
                f"add.s64 %d{number}, %d{number}, {self.rng.choice(('%d1', *self.pointers))};",
            ]
            pointer = f"%d{number}"
        else:
            pointer = self.rng.choice(self.pointers)
        offset = 4 * self.rng.choice((0, 0, 1, 8, -3))
        word = self._new()
        if self.rng.random() < 0.5:
            self.lines.append(f"ld.global.u32 %r{word}, [{pointer}+{offset}];")
        else:
            self.lines.append(f"st.global.u32 [{pointer}+{offset}], %r2;")

    def _guard(self) -> str:
        if self.rng.random() < 0.8:
            return ""
        number = self._new()
        self.lines.append(f"setp.lt.s32 %p{number}, %r2, {self.rng.choice((5, 16, 40))};")
        return f"@%p{number} "

    def _add(self) -> None:
        guard = self._guard()
        if self.rng.random() < 0.5:
            one, step = self.rng.choice(self.indices), self.rng.choice((1, 1, 2, 8, 32, -1, 33))
            self.lines.append(f"{guard}add.s32 {one}, {one}, {step};")
        else:
            one, step = self.rng.choice(self.pointers), self.rng.choice((4, 32, 128, -4, 512))
            self.lines.append(f"{guard}add.s64 {one}, {one}, {step};")

    def _move(self) -> None:
        """One is made of another, or of itself, at once or some statements later."""
        kind, names = self.rng.choice((("32", self.indices), ("64", self.pointers)))
        source, target = self.rng.choice(names), self.rng.choice(names)
        if self.rng.random() < 0.8:
            target = source
        number = self._new()
        made = f"%{'r' if kind == '32' else 'd'}{number}"
        step = 4 * self.rng.choice((0, 1, 8))
        self.lines.append(f"add.s{kind} {made}, {source}, {step};")
        for _ in range(self.rng.choice((0, 0, 1))):
            self.rng.choice((self._access, self._add))()
        if self.rng.random() < 0.3:
            second = f"%{'r' if kind == '32' else 'd'}{self._new()}"
            self.lines.append(f"add.s{kind} {second}, {made}, 4;")
            made = second
        self.lines.append(f"{self._guard()}mov.b{kind} {target}, {made};")

    def _anew(self) -> None:
        if self.rng.random() < 0.5:
            one = self.rng.choice(self.indices)
            self.lines.append(f"{self._guard()}mov.u32 {one}, {self._start()};")
        else:
            one = self.rng.choice(self.pointers)
            step = 4 * self.rng.randrange(50)
            self.lines.append(f"{self._guard()}add.s64 {one}, %d1, {step};")

    def _loop(self, depth: int) -> None:
        number, label = self._new(), f"L{self._new()}"
        if self.rng.random() < 0.5:
            self._anew()  # just before the loop, as compilers do
        most = str(self.rng.randint(1, 5))
        if self.rng.random() < 0.15:
            lanes = self._new()
            self.lines.append(f"and.b32 %r{lanes}, %r2, 3;")
            self.lines.append(f"add.s32 %r{lanes}, %r{lanes}, 1;")
            most = f"%r{lanes}"
        at_top = self.rng.random() < 0.4
        self.lines += [f"mov.u32 %r{number}, 0;", f"{label}:"]
        if at_top:
            self.lines.append(f"setp.ge.s32 %p{number}, %r{number}, {most};")
            self.lines.append(f"@%p{number} bra E{number};")
        if self.rng.random() < 0.5:
            self._access()
        for _ in range(self.rng.randint(1, 3)):
            self._statement(depth + 1)
        self.lines.append(f"add.s32 %r{number}, %r{number}, 1;")
        if at_top:
            self.lines += [f"bra {label};", f"E{number}:"]
        else:
            self.lines.append(f"setp.lt.s32 %p{number}, %r{number}, {most};")
            self.lines.append(f"@%p{number} bra {label};")

    def _branch(self, depth: int) -> None:
        number = self._new()
        what = self.rng.choice(("%r2", "%r3", "%r4"))
        self.lines.append(f"setp.lt.s32 %p{number}, {what}, {self.rng.choice((1, 2, 9))};")
        self.lines.append(f"@%p{number} bra A{number};")
        for _ in range(self.rng.randint(1, 2)):
            self._statement(depth + 1)
        self.lines.append(f"A{number}:")
