"""Random kernels whose warps are walked apart: what one does is known, what another does is open.

Blocks of several warps that branch on their number, on the index of the block, on iterations and on
loads of one address; that wait in sides of branches and in inner loops, some at one barrier while
others wait at another; that come to a branch for the first time in different iterations, and of
which some end early. Sides differ by chains of divisions, so that sections of warps that are paired
wrongly show as a run above the bound. A kernel follows from its seed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from ptxwcet.flow.launch import Launch
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.model import Machine, OpTiming

KIND = "apart"
STEPS = 900
_LENGTHS = (1, 2, 12, 25, 40)
_HEAD = """.version 8.3
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


class Apart:
    """One kernel as it is written."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"{KIND} {seed}")
        self.lines: list[str] = []
        self.predicates = self.words = self.labels = 0
        self.left = self.random.choice((4, 6, 8, 11))  # statements
        self.loops_left = 3
        self.counters: list[str] = []  # of the loops around
        self.breaks: list[str] = []  # behind the loops around
        self.shared: list[str] = []  # words that all threads of the block have loaded alike

    def text(self) -> str:
        """The kernel in PTX."""
        for _ in range(self.random.choice((1, 2))):
            self.shared.append(self.load("%base"))
        while self.left > 0:
            self.statement(0, waits=True)
        if self.random.random() < 0.5:
            self.emit("bar.sync 0;")
        if self.random.random() < 0.5:  # where the lanes that end early wait
            self.emit("st.global.f32 [%own], %f1;")
        head = _HEAD.replace("PREDICATES", str(self.predicates + 1))
        head = head.replace("WORDS", str(self.words + 1))
        return head + "\n".join(self.lines) + "\nEND:\nret;\n}\n"

    # --- words and predicates ---------------------------------------------------------------------

    def emit(self, *lines: str) -> None:
        self.lines += lines

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
        self.emit(f"xor.b32 {word}, {i}, %warp;", f"and.b32 {word}, {word}, 1;")
        self.emit(f"setp.eq.u32 {p}, {word}, 1;")
        return p

    def alike(self) -> str:
        """A predicate on what the whole block has loaded, or finds at a barrier."""
        chooser = self.random
        kind = chooser.random()
        if kind < 0.1:
            p, lanes = self.predicate(), self.of_lanes()
            self.emit(f"bar.red.{chooser.choice(('or', 'and'))}.pred {p}, 0, {lanes};")
            return p
        if kind < 0.55:
            return self.compare(chooser.choice(self.shared))
        word = self.load(chooser.choice(("%base", "%next", "%next")))
        if chooser.random() < 0.5:
            self.shared.append(word)
        return self.compare(word)

    def mixed(self) -> str:
        """A predicate that some warps know and others load."""
        p, q, other, end = self.predicate(), self.known(), self.label(), self.label()
        self.emit(f"@{q} bra {other};")
        first, second = (self.known, self.alike)
        self.emit(f"mov.pred {p}, {first()};", f"bra {end};", f"{other}:")
        self.emit(f"mov.pred {p}, {second()};", f"{end}:")
        return p

    def of_lanes(self) -> str:
        """A predicate that parts the lanes of a warp, known or not, or is of each warp's data."""
        kind = self.random.random()
        if kind < 0.3:
            p = self.predicate()
            self.emit(f"setp.lt.u32 {p}, %t, {self.random.choice((5, 16, 32, 40, 64, 80))};")
            return p
        return self.compare(self.load("%own" if kind < 0.6 else "%mine"))

    # --- statements -------------------------------------------------------------------------------

    def statement(self, depth: int, *, waits: bool) -> None:
        """One statement; only with ``waits`` it may have barriers."""
        self.left -= 1
        rows: list[tuple[Callable[[], None], float]] = [
            (self.work, 2),
            (lambda: self.branch(depth, waits=waits), 2 if depth < 3 else 0),
            (lambda: self.loop(depth, waits=waits), 3 if self.loops_left > 0 else 0),
            (lambda: self.leave(waits=waits), 0.9),
            (lambda: self.emit("bar.sync 0;"), 1.5 * waits),
            (self.turns, 2.5 * waits),
            (lambda: self.shifted(depth), 0.8 * waits),
            (self.totals, 0.4 * (depth == 0)),
        ]
        self.random.choices([row[0] for row in rows], [row[1] for row in rows])[0]()

    def work(self) -> None:
        """Divisions that wait for each other, few or many."""
        self.emit(*self.random.choice(_LENGTHS) * ("div.rn.f32 %f1, %f1, %f2;",))

    def block(self, depth: int, *, waits: bool) -> None:
        for _ in range(self.random.choice((1, 1, 2, 3))):
            if self.left > 0:
                self.statement(depth, waits=waits)

    def choice(self, *, waits: bool) -> str:
        """What a branch is on: lanes are not parted where there are barriers, but seldom."""
        kind = self.random.random()
        if kind < (0.03 if waits else 0.4):
            return self.of_lanes()
        if kind < 0.45:
            return self.known()
        return self.mixed() if kind < 0.55 else self.alike()

    def branch(self, depth: int, *, waits: bool) -> None:
        p, other, end = self.choice(waits=waits), self.label(), self.label()
        self.emit(f"@{self.random.choice(('', '!'))}{p} bra {other};")
        self.block(depth + 1, waits=waits)
        if self.random.random() < 0.6:
            self.emit(f"bra {end};", f"{other}:")
            self.block(depth + 1, waits=waits)
            self.emit(f"{end}:")
        else:
            self.emit(f"{other}:")

    def turns(self) -> None:
        """Sides that wait as often, and work between different barriers."""
        chooser, end = self.random, self.label()
        barriers = chooser.choice((1, 2, 2, 3))
        sides = chooser.choice((2, 2, 3))
        for side in range(sides):
            other = self.label()
            if side < sides - 1:
                self.emit(f"@{self.choice(waits=True)} bra {other};")
            place = chooser.randrange(barriers + 1)
            for i in range(barriers + 1):
                if i == place:
                    self.emit(*chooser.choice(_LENGTHS[2:]) * ("div.rn.f32 %f1, %f1, %f2;",))
                if i < barriers:
                    self.emit("bar.sync 0;")
            self.emit(f"bra {end};", f"{other}:")
        self.emit(f"{end}:")

    def shifted(self, depth: int) -> None:
        """Some warps wait once more before the statements inside, the others behind them."""
        p, before, behind = self.known(), self.label(), self.label()
        self.emit(f"@{p} bra {before};", "bar.sync 0;", f"{before}:")
        self.block(depth + 1, waits=True)
        self.emit(f"@!{p} bra {behind};", "bar.sync 0;", f"{behind}:")

    def leave(self, *, waits: bool) -> None:
        """Some warps or lanes leave the loop around, or the kernel."""
        p = self.of_lanes() if self.random.random() < 0.25 else self.choice(waits=waits)
        places = ["bra END", "ret", *3 * [f"bra {name}" for name in self.breaks]]
        self.emit(f"@{p} {self.random.choice(places)};")

    def limit(self) -> str:
        """How often a loop goes round: a number, or one that follows from warp or block."""
        chooser, word = self.random, self.word()
        source = chooser.choice(("", "", "%warp", "%cta", "-%cta", "both"))
        first = chooser.choice((2, 3, 4))
        if source == "":
            self.emit(f"mov.u32 {word}, {first};")
        elif source == "-%cta":
            self.emit(f"sub.u32 {word}, {first + 9}, %cta;")
        elif source == "both":
            p, other = self.compare("%warp", 3), self.word()
            self.emit(f"add.u32 {word}, %cta, {first};", f"sub.u32 {other}, {first + 9}, %cta;")
            self.emit(f"selp.b32 {word}, {word}, {other}, {p};")
        else:
            self.emit(f"add.u32 {word}, {source}, {first};")
        return word

    def loop(self, depth: int, *, waits: bool) -> None:
        """A counted loop; some warps miss the rest of an iteration, or leave it in between."""
        self.loops_left -= 1
        i, p, top, last, behind = self.word(), self.predicate(), *(self.label() for _ in range(3))
        limit = self.limit()
        self.emit(f"mov.u32 {i}, 0;", f"{top}:")
        self.counters.append(i)
        self.breaks.append(behind)
        if self.random.random() < 0.7:
            self.shared.append(self.load("%next"))
        if self.random.random() < 0.3:
            self.leave(waits=waits)
        if self.random.random() < 0.35:
            self.emit(f"@{self.choice(waits=waits)} bra {last};")
        self.left += 1
        self.block(depth + 1, waits=waits)
        self.emit(f"{last}:", "add.s64 %next, %next, 4;", f"add.u32 {i}, {i}, 1;")
        self.emit(f"setp.lt.u32 {p}, {i}, {limit};", f"@{p} bra {top};")
        self.counters.pop()
        self.breaks.pop()
        if self.random.random() < 0.4:  # of lanes that end the loop by its own test
            self.work()
        self.emit(f"{behind}:")

    def totals(self) -> None:
        """Lanes of limits of their own count what they load, and go round as often as that."""
        chooser, p, q = self.random, self.predicate(), self.predicate()
        limit, found, i, word = (self.word() for _ in range(4))
        top, again, behind = (self.label() for _ in range(3))
        self.emit(f"mov.u32 {limit}, {chooser.choice((2, 5))};")
        for least in sorted(chooser.sample((7, 15, 23, 31, 40), 2)):
            other = self.limit()
            self.emit(f"setp.gt.u32 {p}, %t, {least};")
            self.emit(f"selp.b32 {limit}, {other}, {limit}, {p};")
        self.emit(f"mov.u32 {i}, 0;", f"mov.u32 {found}, 0;", f"{top}:")
        self.emit(f"ld.global.u32 {word}, [%own];", "add.s64 %own, %own, 4;")
        self.emit(f"setp.gt.s32 {p}, {word}, 0;", f"@{p} add.u32 {found}, {found}, 1;")
        self.emit(f"add.u32 {i}, {i}, 1;", f"setp.lt.u32 {q}, {i}, {limit};", f"@{q} bra {top};")
        self.emit(f"mov.u32 {i}, 0;", f"{again}:", f"setp.ge.u32 {q}, {i}, {found};")
        self.emit(f"@{q} bra {behind};", "div.rn.f32 %f1, %f1, %f2;")
        self.emit(f"add.u32 {i}, {i}, 1;", f"bra {again};", f"{behind}:")


def apart_launch(seed: int) -> Launch:
    """Two or three warps, of which the last is not always full; some blocks, which differ."""
    chooser = Random(f"launch {seed}")
    block = (chooser.choice((64, 64, 70, 96)), 1, 1)
    return Launch(block, chooser.choice(((1, 1, 1), (3, 1, 1), (9, 1, 1))))


def other_machine(machine: Machine, number: int) -> Machine:
    """The machine with other returns and barriers: of every six numbers, three are as it is."""
    changes = {
        3: (OpClass.RETURN, 1, 300),
        4: (OpClass.RETURN, 60, 60),
        5: (OpClass.BARRIER, 9, 90),
    }
    if number % 6 not in changes:
        return machine
    kind, initiation, latency = changes[number % 6]
    row = machine.timings[kind]
    assert isinstance(row, OpTiming)
    slow = replace(row, initiation_cycles=initiation, latency_cycles=latency)
    return replace(machine, timings={**machine.timings, kind: slow})
