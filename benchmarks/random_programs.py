"""Random kernels in PTX: statements, branches, ways out and loops inside of each other.

What they are made of is in :mod:`random_statements` and :mod:`random_loops`. A kernel follows from
its seed and kind alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from random_apart import KIND as APART
from random_apart import STEPS, Apart, apart_launch
from random_conditions import DecidedWriter, ExchangeWriter, PartsWriter
from random_loops import Loops
from random_statements import LongWriter, Writer

from ptxwcet.flow.launch import ArrayRange, Launch

KINDS = (
    "plain",
    "predicates",
    "loops",
    "lanes",
    "barriers",
    "nested",
    "switches",
    "reductions",
    "decided",
    "exchanges",
    "parts",
    "aborts",
    "leavers",
    "long",
    APART,
)
"""What a kernel has most of."""


@dataclass(frozen=True)
class RandomKernel:
    """A kernel's text, the launch that it is bounded for, and where it came from."""

    seed: int
    kind: str
    text: str
    launch: Launch
    steps: int


_WEIGHTS: dict[str, dict[str, float]] = {
    "plain": {"compute": 5, "compare": 2, "branch": 2, "loop": 1, "effect": 1, "leave": 0.8},
    "predicates": {
        "compute": 2,
        "compare": 5,
        "branch": 3,
        "loop": 1.2,
        "effect": 0.5,
        "leave": 0.8,
    },
    "loops": {"compute": 3, "compare": 1.5, "branch": 1, "loop": 2.5, "effect": 0.5, "leave": 1.5},
    "lanes": {"compute": 6, "compare": 2, "branch": 2.5, "loop": 0.7, "effect": 2, "leave": 0.6},
    "barriers": {
        "compute": 3,
        "compare": 1,
        "branch": 1,
        "loop": 2,
        "barrier": 2,
        "effect": 1,
        "leave": 0.3,
    },
    "nested": {"compute": 2, "compare": 1.5, "branch": 1, "loop": 4, "effect": 0.3, "leave": 0.8},
    "switches": {
        "compute": 2,
        "compare": 1,
        "branch": 0.7,
        "loop": 2.5,
        "switch": 3,
        "effect": 0.5,
        "leave": 0.8,
    },
    "reductions": {
        "compute": 2,
        "compare": 1.5,
        "branch": 0.8,
        "loop": 2.5,
        "reduce": 4,
        "effect": 0.5,
        "leave": 0.2,
    },
    "decided": {"compute": 1, "compare": 6, "branch": 4, "loop": 0.7, "effect": 1, "leave": 0.8},
    "exchanges": {"compute": 6, "compare": 2, "branch": 3, "loop": 0.8, "effect": 1, "leave": 0.8},
    "aborts": {
        "compute": 3,
        "compare": 1.5,
        "branch": 1.5,
        "loop": 2,
        "switch": 0.5,
        "barrier": 0.7,
        "abort": 3,
        "effect": 0.5,
        "leave": 0.4,
    },
    "leavers": {
        "compute": 3,
        "compare": 1.5,
        "branch": 0.7,
        "loop": 1.5,
        "barrier": 2,
        "effect": 0.7,
        "reduce": 0.7,
        "leave": 2.5,
    },
    "parts": {"compute": 5, "compare": 1.5, "branch": 1, "loop": 2, "effect": 0.5, "leave": 0.6},
    "long": {"compute": 3, "compare": 1, "branch": 1, "loop": 3, "effect": 0.3, "leave": 0.6},
}
_WRITERS: dict[str, type[Writer]] = {
    "decided": DecidedWriter,
    "exchanges": ExchangeWriter,
    "parts": PartsWriter,
    "long": LongWriter,
}
_ABORTS = ("trap;", "call.uni __assertfail, (a);", "call stop, (a);")
_FUNCTIONS = """.extern .func __assertfail(.param .b32 a);
.extern .func stop(.param .b32 a) .noreturn;
.func checks(.reg .b32 %a)
{ .reg .pred %q; setp.lt.u32 %q, %a, 40; @%q ret; trap; }
.visible .func other(.reg .b32 %a);
.alias other, checks;
"""
_MANY_WARPS = ("barriers", "reductions", "leavers")
_BLOCKS = (
    (1, 1, 1),
    (5, 1, 1),
    (32, 1, 1),
    (34, 1, 1),
    (33, 3, 1),
    (8, 4, 1),
    (3, 5, 1),
    (2, 2, 9),
)
"""Of warps that are not full, and in which rows end."""


class Program:
    """One random kernel as it is written."""

    def __init__(self, seed: int, kind: str) -> None:
        self.random = Random(f"{kind} {seed}")
        self.kind = kind
        self.seed = seed
        self.writer = _WRITERS.get(kind, Writer)(self.random)
        self.loops = Loops(self.writer)
        self.weights = _WEIGHTS[kind]
        self.left = self.random.choice((6, 10, 14, 18))  # statements
        self.loops_left = 3
        self.breaks: list[str] = []  # where the ways out of the loops around lead
        self.sides = 0  # of branches around

    def kernel(self) -> RandomKernel:
        """The kernel and a launch of it."""
        w = self.writer
        for bits in (32, 32, 64, 16):
            w.pool[bits].append(w.leaf(bits))
        if self.kind in _MANY_WARPS:  # loops that differ from warp to warp
            warp = w.new(32)
            w.emit(f"mov.u32 {warp}, %tid.x;")
            w.emit(f"shr.u32 {warp}, {warp}, 5;")
            w.pool[32].append(warp)
        for _ in range(2):
            w.compare()
        while self.left > 0:
            self.statement(0)
        w.emit(f"st.global.u32 [%own], {w.some(32)};")
        launch, steps = self.launch()
        return RandomKernel(self.seed, self.kind, self._text(), launch, steps)

    def launch(self) -> tuple[Launch, int]:
        """A small block; parameters with values, ranges or nothing."""
        chooser = self.random
        threads = chooser.choice((1, 1, 2, 4, 4, 8, 32, 33))
        if self.kind in _MANY_WARPS:
            threads = chooser.choice((33, 34, 64))
        block = (threads, 1, 1)
        if self.kind == "exchanges":
            block = chooser.choice(_BLOCKS)
            threads = block[0] * block[1] * block[2]
        values: dict[str, int | float] = {}
        ranges: dict[str, tuple[int, int]] = {}
        for name, bits in (("n", 32), ("nn", 64)):
            kind = chooser.random()
            if kind < 0.25:
                values[name] = int(self.writer.constant(bits)) % (1 << bits)
            elif kind < 0.45:
                low = chooser.choice((0, 0, 1, 5))
                ranges[name] = (low, low + chooser.choice((1, 3, 10, 100)))
        grid = chooser.choice((None, None, (1, 1, 1), (3, 1, 1), (70, 1, 1)))
        steps = {1: 250, 2: 250, 4: 200, 8: 150}.get(threads, 90)
        return Launch(block, grid, values, ranges, arrays=self.arrays()), steps

    def arrays(self) -> dict[str, ArrayRange]:
        """Of one kernel in six, the range of the integers of some size that it loads."""
        chooser = Random(f"arrays {self.kind} {self.seed}")
        sizes = re.findall(r"ld\.global\.[usb](8|16|32|64) ", "\n".join(self.writer.lines))
        if not sizes or chooser.random() > 1 / 6:
            return {}
        sign, low = chooser.choice((("u", 0), ("u", 1), ("u", 5), ("s", 0), ("s", -3), ("s", -40)))
        high = low + chooser.choice((1, 3, 10, 50, 100))
        return {"data": ArrayRange(f"{sign}{chooser.choice(sizes)}", low, high)}

    def statement(self, depth: int) -> None:
        """One statement, which may hold others."""
        chooser = self.random
        self.left -= 1
        kind = chooser.choices(list(self.weights), list(self.weights.values()))[0]
        w = self.writer
        if kind == "loop" and self.loops_left > 0 and depth < 3:
            self.loops_left -= 1
            self.loop(depth)
        elif kind == "branch" and depth < 4:
            self.branch(depth)
        elif kind == "compare":
            w.compare()
        elif kind == "effect":
            w.effect()
        elif kind == "leave":
            place = chooser.choice(("DONE", *3 * self.breaks))
            if self.kind == "leavers":
                self.leave()
                return
            w.emit(f"@{chooser.choice(('', '!'))}{w.predicate()} bra {place};")
        elif kind == "barrier":
            w.emit("bar.sync 0;")
        elif kind == "switch" and depth < 4:
            self.switch(depth)
        elif kind == "abort":
            self.abort()
        elif kind == "reduce" and (not self.sides or chooser.random() < 0.2):
            self.reduce(depth)
        else:
            w.compute()

    def leave(self) -> None:
        """Lanes end, in one of the ways to write it, or after some work."""
        w, chooser = self.writer, self.random
        p = w.predicate()
        if chooser.random() < 0.5:  # some lanes, whatever the data
            p = w.new(1)
            limit = chooser.choice(("1", "5", "31", "32", "33", w.some(32)))
            w.emit(f"setp.{chooser.choice(('ge', 'ge', 'eq'))}.u32 {p}, %t, {limit};")
        sense, on = chooser.choice(("", "!")), w.label()
        form = chooser.choice(("bra DONE", "bra DONE", "bra DONE", "ret", "exit", "over", "work"))
        if form not in ("over", "work"):
            w.emit(f"@{sense}{p} {form};")
            return
        w.emit(f"@{sense}{p} bra {on};")
        for _ in range(chooser.randrange(1, 4) if form == "work" else 0):
            chooser.choice((w.compute, w.effect))()
        w.emit(f"{chooser.choice(('ret', 'bra DONE'))};")
        w.emit(f"{on}:")

    def loop(self, depth: int) -> None:
        """A loop; behind it, before the place where its breaks lead, may stand what only lanes
        execute that end it by its own test.
        """
        w, chooser = self.writer, self.random
        behind = w.label()
        told = w.new(32) if chooser.random() < 0.3 else None  # how the loop was left
        if told is not None:
            w.emit(f"mov.u32 {told}, {chooser.randrange(30)};")

        def body() -> None:
            if told is not None:
                word, p = w.new(32), w.new(1)
                w.load(word, 32)
                w.emit(f"setp.eq.u32 {p}, {word}, {chooser.choice((0, 1, 7))};")
                w.emit(f"@{p} bra {chooser.choice((behind, *self.breaks))};")
            self.block(depth + 1)

        self.breaks.append(behind)
        self.loops.write(body)
        self.breaks.pop()
        if told is not None or chooser.random() < 0.3:
            w.emit(f"mov.u32 {told or w.target(32)}, {chooser.randrange(4)};")
            self.block(depth + 1)
        w.emit(f"{behind}:")
        if told is not None:
            self.counted(told)

    def counted(self, limit: str) -> None:
        """A loop up to a number that the way here decides, or a branch on it."""
        w, chooser = self.writer, self.random
        p, i, label = w.new(1), w.new(32), w.label()
        if chooser.random() < 0.6:
            w.emit(f"mov.u32 {i}, 0;")
            w.emit(f"{label}:")
            w.emit(f"add.u32 {i}, {i}, 1;")
            w.emit(f"setp.lt.u32 {p}, {i}, {limit};")
            w.emit(f"@{p} bra {label};")
            return
        w.emit(
            f"setp.{chooser.choice(('eq', 'ne', 'gt'))}.u32 {p}, {limit}, {chooser.randrange(4)};"
        )
        w.emit(f"@{p} bra {label};")
        self.block(3)
        w.emit(f"{label}:")

    def block(self, depth: int) -> None:
        """The statements of a side or a body."""
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            if self.left > 0:
                self.statement(depth)

    def branch(self, depth: int) -> None:
        """One side or two; a predicate written on both is often read later."""
        w, chooser = self.writer, self.random
        p = w.predicate()
        sense = chooser.choice(("", "!"))
        other, end = w.label(), w.label()
        shared = chooser.choice(w.predicates) if chooser.random() < 0.5 else None
        w.emit(f"@{sense}{p} bra {other};")
        self.sides += 1
        self.block(depth + 1)
        self.settle(shared)
        if chooser.random() < 0.6 or shared is not None:
            w.emit(f"bra{chooser.choice(('', '.uni'))} {end};")
            w.emit(f"{other}:")
            self.block(depth + 1)
            self.settle(shared)
            w.emit(f"{end}:")
        else:
            w.emit(f"{other}:")
        self.sides -= 1
        if shared is not None and chooser.random() < 0.4 and self.loops_left > 0:
            self.guarded_loop(shared)

    def switch(self, depth: int) -> None:
        """An indexed branch: cases that fall through, leave the loop around, are shared."""
        w, chooser = self.writer, self.random
        count = chooser.choice((2, 2, 4, 4, 8))
        cases, end = [w.label() for _ in range(chooser.randint(1, min(count, 4)))], w.label()
        targets = [*cases, end, *self.breaks[-1:]]
        table = [cases[i] if i < len(cases) else chooser.choice(targets) for i in range(count)]
        chooser.shuffle(table)
        index, name = w.new(32), w.label()
        form = chooser.choice(("and.b32 {}, {}, {};", "rem.u32 {}, {}, {};", "min.u32 {}, {}, {};"))
        most = count if form.startswith("rem") else count - 1
        w.emit(form.format(index, w.some(32), most))
        w.emit(f"{name}: .branchtargets {', '.join(table)};")
        w.emit(f"{w.guard()}brx.idx {index}, {name};")
        self.sides += 1
        for case in cases:
            w.emit(f"{case}:")
            self.block(depth + 1)
            if chooser.random() < 0.6:
                w.emit(f"bra {chooser.choice((end, end, end, *self.breaks))};")
        self.sides -= 1
        w.emit(f"{end}:")

    def abort(self) -> None:
        """An assertion, in one of the ways to write it; most hold for most data."""
        w, chooser = self.writer, self.random
        if chooser.random() < 0.2:
            w.emit(f"{w.guard()}call {chooser.choice(('checks', 'other'))}, ({w.some(32)});")
            return
        p = w.predicate() if chooser.random() < 0.15 else w.new(1)
        if p not in w.predicates:
            limit = chooser.choice((0, 1, 7, 40, 40, 1000, 1000, 2**31 - 1))
            form = f"setp.{chooser.choice(('gt', 'gt', 'ge'))}.{chooser.choice('us')}32"
            w.emit(f"{form} {p}, {w.some(32)}, {limit};")
        form = chooser.choice(("far", "far", "here", "passed"))
        if form == "far":
            w.emit(f"@{p} bra FAIL;")
        elif form == "here":
            on = w.label()
            w.emit(f"@!{p} bra {on};")
            w.compute()
            w.emit(f"{chooser.choice(_ABORTS)}")
            w.emit(f"{on}:")
        else:
            w.emit(f"@{p} {chooser.choice(_ABORTS)}")

    def reduce(self, depth: int) -> None:
        """A reduction over the block, or a loop that goes on while any or all threads want it."""
        w, chooser = self.writer, self.random
        if chooser.random() < 0.75 or self.loops_left == 0:
            w.reduction()
            return
        self.loops_left -= 1
        i, p, label = w.new(32), w.new(1), w.label()
        w.emit(f"mov.u32 {i}, 0;")
        w.emit(f"{label}:")
        self.block(depth + 1)
        w.emit(f"add.u32 {i}, {i}, 1;")
        wanted = w.reduction(predicate=True)
        w.emit(f"setp.lt.and.u32 {p}, {i}, {chooser.choice((2, 3, 9, w.some(32)))}, {wanted};")
        w.emit(f"@{p} bra {label};")

    def settle(self, predicate: str | None) -> None:
        """Writes a predicate that both sides write."""
        if predicate is None or predicate in self.writer.locked:
            return
        w, chooser = self.writer, self.random
        bits = 32
        form = f"setp.{chooser.choice(('lt', 'gt', 'ne', 'eq', 'ge'))}.{chooser.choice('us')}{bits}"
        w.emit(f"{w.guard()}{form} {predicate}, {w.some(bits)}, {chooser.randrange(9)};")

    def guarded_loop(self, predicate: str) -> None:
        """A loop over a number that some predicate may speak of."""
        w, chooser = self.writer, self.random
        self.loops_left -= 1
        end, label, i, p = w.label(), w.label(), w.new(32), w.new(1)
        w.emit(f"@{chooser.choice(('', '!'))}{predicate} bra {end};")
        w.emit(f"mov.u32 {i}, 0;")
        w.emit(f"{label}:")
        self.block(3)
        w.emit(f"add.u32 {i}, {i}, 1;")
        w.emit(f"setp.lt.{chooser.choice('us')}32 {p}, {i}, {w.some(32)};")
        w.emit(f"@{p} bra {label};")
        w.emit(f"{end}:")

    def _text(self) -> str:
        w = self.writer
        declared = "".join(
            f".reg .{kind} %{name}<{w.count[bits] + 1}>;\n"
            for bits, kind, name in (
                (1, "pred", "p"),
                (16, "b16", "h"),
                (32, "b32", "r"),
                (64, "b64", "d"),
            )
        )
        aborts = self.kind == "aborts"
        functions = _FUNCTIONS if aborts else ""
        return (
            f".version 8.3\n.target sm_90\n.address_size 64\n{functions}"
            ".visible .entry k(.param .u64 data, .param .u32 n, .param .u64 nn)\n{\n"
            f"{declared}.reg .f32 %f<4>;\n.reg .b64 %base, %own;\n.reg .b32 %t;\n"
            f"{'.param .b32 a;' if aborts else ''}\n"
            "ld.param.u64 %base, [data];\nmov.u32 %t, %tid.x;\n"
            "mad.wide.u32 %own, %t, 2048, %base;\n"
            "mov.f32 %f1, 0f3F800001;\nmov.f32 %f2, 0f3F800003;\n"
            + "\n".join(w.lines)
            + "\nDONE:\nret;\n"
            + ("FAIL: mov.u32 %t, 1;\ntrap;\n" if aborts else "")
            + "}\n"
        )


def random_kernel(seed: int, kind: str) -> RandomKernel:
    """The kernel of a seed and kind."""
    if kind == APART:
        return RandomKernel(seed, kind, Apart(seed).text(), apart_launch(seed), STEPS)
    return Program(seed, kind).kernel()
