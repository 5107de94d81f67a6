"""Words and predicates of kernels whose warps are walked apart."""

from __future__ import annotations

import re
from random import Random

HEAD = """.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .pred %p<PREDICATES>; .reg .b32 %r<WORDS>; .reg .b32 %t, %warp, %cta, %lane;
.reg .f32 %f<4>; .reg .b64 %base, %next, %own, %mine;
ld.param.u64 %base, [data];
mov.b64 %next, %base;
mov.u32 %t, %tid.x;
mov.u32 %cta, %ctaid.x;
shr.u32 %warp, %t, 5;
and.b32 %lane, %t, 31;
mad.wide.u32 %own, %t, 2048, %base;
mad.wide.u32 %mine, %warp, 2048, %base;
mov.f32 %f1, 0f3F800001;
mov.f32 %f2, 0f3F800003;
"""


class Words:
    """A kernel's lines so far, and what its loops and loads have left to be compared."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"apart {seed}")
        self.lines: list[str] = []
        self.predicates = self.words = self.labels = 0
        self.left = self.random.choice((1, 2, 2, 3, 5))  # statements
        self.loops_left = 3
        self.counters: list[str] = []  # of the loops around
        self.breaks: list[str] = []  # behind the loops around
        self.shared: list[str] = []  # words that all threads of the block have loaded alike

    # --- words and predicates ---------------------------------------------------------------------

    def emit(self, text: str) -> None:
        """Instructions and labels, one a line in the kernel."""
        self.lines += re.sub(r"(?<=[;:]) ", "\n", text).splitlines()

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def word(self) -> str:
        self.words += 1
        return f"%r{self.words}"

    def predicate(self) -> str:
        self.predicates += 1
        return f"%p{self.predicates}"

    def load(self, base: str) -> str:
        """A few bits of a word that nobody writes."""
        word = self.word()
        mask = self.random.choice((1, 1, 3, 3, 7, 255))
        self.emit(f"ld.global.nc.u32 {word}, [{base}+{4 * self.random.randrange(8)}];")
        self.emit(f"and.b32 {word}, {word}, {mask};")
        return word

    def compare(self, word: str, most: int = 4) -> str:
        p, chooser = self.predicate(), self.random
        test = chooser.choice(("eq", "ne", "lt", "ge"))
        self.emit(f"setp.{test}.u32 {p}, {word}, {chooser.randrange(1, most)};")
        return p

    def known(self) -> str:
        """A predicate on the warp, the block and iterations, which a walk apart decides."""
        chooser = self.random
        kinds = ("iteration", "own", "turn") if self.counters else ()
        kind = chooser.choice(("warp", "warp", "block", *kinds))
        if kind == "warp":
            return self.compare("%warp", 3)
        if kind == "block":
            return self.compare("%cta", 9)
        i = chooser.choice(self.counters)
        if kind == "iteration":
            return self.compare(i, 3)
        p = self.predicate()
        if kind == "own":
            self.emit(f"setp.{chooser.choice(('eq', 'ne', 'lt', 'gt'))}.u32 {p}, {i}, %warp;")
            return p
        word = self.word()
        self.emit(f"xor.b32 {word}, {i}, %warp; and.b32 {word}, {word}, 1;")
        self.emit(f"setp.eq.u32 {p}, {word}, 1;")
        return p

    def alike(self, *, waits: bool = True) -> str:
        """A predicate on what the whole block has loaded, or finds at a barrier."""
        chooser = self.random
        kind = chooser.random()
        if waits and kind < 0.1:
            p, lanes = self.predicate(), self.of_lanes()
            self.emit(f"bar.red.{chooser.choice(('or', 'and'))}.pred {p}, 0, {lanes};")
            return p
        if kind < 0.55:
            return self.compare(chooser.choice([*self.shared, *2 * self.shared[-1:]]))
        word = self.load(chooser.choice(("%base", "%next", "%next")))
        self.shared.append(word)
        return self.compare(word)

    def mixed(self) -> str:
        """A predicate that some warps know and others load."""
        word, other, source = self.load("%base"), self.label(), self.word()
        chosen = self.random.choice([*self.counters, "%warp"])
        self.emit(f"and.b32 {source}, {chosen}, 1; @{self.known()} bra {other};")
        self.emit(f"mov.u32 {word}, {source}; {other}:")
        return self.compare(word, 3)

    def of_lanes(self) -> str:
        """A predicate that parts the lanes of a warp, known or not, or is of each warp's data."""
        kind = self.random.random()
        if kind < 0.3:
            p = self.predicate()
            self.emit(f"setp.lt.u32 {p}, %t, {self.random.choice((5, 16, 32, 40, 64, 80))};")
            return p
        return self.compare(self.load("%own" if kind < 0.6 else "%mine"))
