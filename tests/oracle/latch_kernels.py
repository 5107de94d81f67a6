"""Random kernels of loops with several latches: continues, breaks, barriers, lanes that part.

Loops test at the top, at the end or nowhere but by data; a way back or out of a loop may be that of
a loop around. What decides is data of the lane, the warp or the block, a counter, a parameter, the
index of a thread, or a word that is the same for all threads without anybody knowing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

HEAD = """.version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 out, .param .u32 n, .param .u32 z)
{{
.reg .pred %p<{predicates}>; .reg .b32 %r<{registers}>; .reg .b32 %t<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [data];
ld.param.u64 %rd2, [out];
ld.param.u32 %t1, [n];
ld.param.u32 %t2, [z];
mov.u32 %t3, %tid.x;
shr.u32 %t4, %t3, 5;
and.b32 %t5, %t3, %t2;
or.b32 %t6, %t5, %t4;
mov.u32 %t7, 0;
mov.u32 %t8, 0;
"""

WHO = {"lane": "%t3", "warp": "%t4", "block": "%t7", "alike": "%t5", "warp alike": "%t6"}
"""Registers with the index of what data belong to; of the last two nobody knows that (z is 0)."""


@dataclass
class Around:
    """A loop around: its labels and its counter."""

    head: str
    out: str
    counter: str
    again: str


@dataclass
class LatchKernel:
    """A kernel and what is said of its launch."""

    text: str
    block: int
    features: set[str] = field(default_factory=set)


class Writer:
    """Writes one kernel."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.registers = 10
        self.predicates = 1
        self.left = self.random.randint(4, 14)
        self.kinds = self.random.choice(
            (
                ("lane",),
                ("warp",),
                ("block",),
                ("alike",),
                ("warp alike",),
                ("lane", "block"),
                ("block", "warp"),
                ("alike", "warp alike"),
                ("block", "alike", "counter"),
                ("lane", "counter", "own"),
                ("block", "counter", "param"),
                ("warp", "counter", "warp index"),
                ("alike", "counter"),
                ("block", "counter"),
                tuple(WHO),
            )
        )
        self.barriers = self.random.random() < 0.6
        self.limits = self.random.choice(("constant", "data", "any"))
        self.loops: list[Around] = []
        self.features: set[str] = set()

    def label(self) -> str:
        self.count += 1
        return f"L{self.count}"

    def register(self) -> str:
        self.registers += 1
        return f"%r{self.registers - 1}"

    def predicate(self) -> str:
        self.predicates += 1
        return f"%p{self.predicates - 1}"

    def kernel(self) -> LatchKernel:
        rng = self.random
        if rng.random() < 0.15:
            self.item()
        for _ in range(rng.choice((1, 1, 1, 2))):
            self.loop()
            if self.barriers and rng.random() < 0.6:
                self.barrier()
            self.work()
        head = HEAD.format(predicates=self.predicates, registers=self.registers)
        body = "\n".join(self.lines)
        block = rng.choice((1, 3, 32, 34, 64, 64, 64, 64, 66, 96))
        if block > 3 and rng.random() < 0.75:  # few lanes go on
            lanes = rng.choice((1, 2, 3, 3))
            head += f"and.b32 %r0, %t3, 31; setp.ge.u32 %p0, %r0, {lanes}; @%p0 bra END;\n"
        return LatchKernel(f"{head}{body}\nEND:\nret;\n}}\n", block, self.features)

    def barrier(self) -> None:
        self.lines.append("bar.sync 0;")
        self.features.add("barrier in" if self.loops else "barrier behind")

    def work(self) -> None:
        place = 4 * self.random.randint(0, 7)
        for _ in range(self.random.randint(1, 3)):
            self.lines.append(f"st.global.u32 [%rd2+{place}], %t8;")

    def word(self, kind: str) -> str:
        """A word of the array: of who it is, another one in each pass."""
        index, word = self.register(), self.register()
        row = [f"mul.lo.u32 {index}, {WHO[kind]}, 57;"]
        if self.random.random() < 0.85:
            for i, each in enumerate(self.loops):
                row.append(f"mad.lo.u32 {index}, {each.counter}, {5 * i + 1}, {index};")
        row += [
            f"mad.wide.u32 %rd3, {index}, 4, %rd1;",
            f"ld.global.u32 {word}, [%rd3+{1024 * self.random.randint(0, 40)}];",
        ]
        self.lines += row
        return word

    def condition(self) -> str:
        """A guard: a predicate, perhaps negated."""
        rng = self.random
        kind = rng.choice(self.kinds)
        p = self.predicate()
        if kind == "counter" and self.loops:
            test = (
                f"setp.{rng.choice(('lt', 'ge', 'eq'))}.u32 {p}, {rng.choice(self.loops).counter}, "
            )
            self.lines.append(test + f"{rng.randint(1, 3)};")
        elif kind in ("counter", "param"):
            self.lines.append(f"setp.lt.u32 {p}, %t1, {rng.randint(1, 3)};")
        elif kind == "own":
            self.lines.append(f"setp.lt.u32 {p}, %t3, {rng.choice((1, 2, 31, 33))};")
        elif kind == "warp index":
            self.lines.append(f"setp.lt.u32 {p}, %t4, {rng.randint(1, 2)};")
        else:
            word = self.word(kind)
            mask = rng.choice((1, 1, 2, 3, 5, 6))
            self.lines.append(f"and.b32 {word}, {word}, {mask};")
            self.lines.append(f"setp.eq.u32 {p}, {word}, {rng.choice((0, mask, mask & -mask))};")
        return p if rng.random() < 0.7 else f"!{p}"

    def jump(self) -> str:
        """A way back or out."""
        rng = self.random
        around = self.loops[-1] if rng.random() < 0.75 else rng.choice(self.loops)
        kind = rng.random()
        if kind < 0.6:
            if around is not self.loops[-1]:
                self.features.add("continue around")
            self.features.add("continue")
            return around.again
        if kind < 0.93:
            return around.out
        return "END"

    def item(self) -> None:
        """A statement."""
        rng = self.random
        self.left -= 1
        kind = rng.random()
        if self.left > 0 and len(self.loops) < 3 and kind < 0.15:
            self.loop()
        elif self.loops and kind < 0.5:
            guard = self.condition()
            self.lines.append(f"@{guard} bra {self.jump()};")
        elif self.loops and kind < 0.6:
            # work on the way back or out
            over = self.label()
            self.lines.append(f"@{self.condition()} bra {over};")
            self.work()
            self.lines += [f"bra {self.jump()};", f"{over}:"]
        elif self.left > 0 and kind < 0.78:
            over, out = self.label(), self.label()
            self.lines.append(f"@{self.condition()} bra {over};")
            self.items(2)
            if rng.random() < 0.5:
                self.lines += [f"bra {out};", f"{over}:"]
                self.items(2)
                self.lines.append(f"{out}:")
            else:
                self.lines.append(f"{over}:")
        elif self.barriers and kind > 0.88:
            self.barrier()
        else:
            self.work()

    def items(self, most: int) -> None:
        for _ in range(self.random.randint(1, most)):
            self.item()

    def limit(self) -> str:
        rng = self.random
        kind = self.limits
        if kind == "any":
            kind = rng.choice(("constant", "data", "warp", "lane", "param"))
        if kind == "constant":
            return str(rng.randint(1, 5))
        limit = self.register()
        if kind == "data":
            who = [each for each in self.kinds if each in WHO] or ["block"]
            word = self.word(rng.choice(who))
        else:
            word = {"warp": "%t4", "lane": "%t3", "param": "%t1"}[kind]
        self.lines.append(f"and.b32 {limit}, {word}, 3;")
        if rng.random() < 0.6:
            self.lines.append(f"add.u32 {limit}, {limit}, 1;")
        return limit

    def loop(self) -> None:
        rng = self.random
        head, out, counter = self.label(), self.label(), self.register()
        limit = self.limit()
        shape = rng.choice(("top", "top", "end", "end", "data", "step"))
        self.features.add(shape)
        again = head
        if rng.random() < 0.1:  # one latch in the end
            again = self.label()
        self.lines += [f"mov.u32 {counter}, 0;", f"{head}:"]
        p = self.predicate()
        self.loops.append(Around(head, out, counter, again))
        if shape == "top":
            self.lines.append(f"setp.ge.u32 {p}, {counter}, {limit};")
            self.lines.append(f"@{p} bra {out};")
        self.lines.append(f"add.u32 {counter}, {counter}, 1;")
        self.items(4)
        if again != head:
            self.lines.append(f"{again}:")
        if shape == "top":
            self.lines.append(f"bra {head};")
        elif shape == "end":
            self.lines.append(f"setp.lt.u32 {p}, {counter}, {limit};")
            self.lines.append(f"@{p} bra {head};")
        elif shape == "step":  # the last latch leads back, a test before it leads out
            self.lines.append(f"setp.ge.u32 {p}, {counter}, {limit};")
            self.lines.append(f"@{p} bra {out};")
            self.work()
            self.lines.append(f"bra {head};")
        else:
            self.lines.append(f"@{self.condition()} bra {head};")
        self.loops.pop()
        self.lines.append(f"{out}:")


def latch_kernel(seed: int) -> LatchKernel:
    """The kernel of a seed."""
    return Writer(seed).kernel()
